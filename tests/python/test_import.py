"""What `import dataprep_io` loads, and which names are public."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dataprep_io

HEAVY = ("pyarrow", "pydantic", "numpy", "kubernetes", "aiohttp", "yaml", "asyncio")


def test_the_import_loads_no_library() -> None:
    code = f"import sys, dataprep_io; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"


def test_every_public_name_can_be_imported() -> None:
    for name in dataprep_io.__all__:
        assert getattr(dataprep_io, name) is not None
    assert dir(dataprep_io) == sorted(dataprep_io.__all__)


def test_other_names_are_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'dataprep_io' has no attribute 'save'"):
        dataprep_io.save  # noqa: B018 - the access raises the error


@pytest.mark.parametrize("package", ["dataprep_io", "dataprep_reader", "dataprep_converter", "dataprep_api"])
def test_the_packages_of_public_types_say_that_they_are_typed(package: str) -> None:
    assert (Path(str(import_module(package).__file__)).parent / "py.typed").is_file()


def test_docs_python_lists_every_public_name() -> None:
    page = (Path(__file__).parents[2] / "docs/python.md").read_text()
    missing = [name for name in dataprep_io.__all__ if f"`{name}`" not in page and f"`{name}(" not in page]
    assert missing == []
