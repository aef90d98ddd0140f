"""The layout of the folders: each has few modules, and the tests' folders mirror the packages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_MODULES = 20
ONE_FILE_PER_UNION_MEMBER = {"api/dataprep_api/spec/sources"}
MIRRORED = {"converter/dataprep_converter": "tests/converter", "operator/dataprep_operator": "tests/operator"}
_IMPORT = re.compile(r"^\s*(?:from|import) (?:tests\.[\w.]*\btest_\w+|tests[\w.]* import .*\btest_\w+)", re.MULTILINE)


@pytest.mark.parametrize("top", ["api", "converter", "operator"])
def test_no_folder_has_many_modules(top: str) -> None:
    folders = {path.parent for path in (ROOT / top).rglob("*.py")}
    sizes = {str(folder.relative_to(ROOT)): len([*folder.glob("*.py")]) for folder in folders}
    assert sizes
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {
        folder: sizes[folder] for folder in ONE_FILE_PER_UNION_MEMBER & sizes.keys()
    }


def test_the_converter_has_no_module_outside_a_package() -> None:
    modules = {path.name for path in (ROOT / "converter/dataprep_converter").glob("*.py")}
    assert modules == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize(("package", "tests"), MIRRORED.items())
def test_each_folder_of_tests_is_named_after_a_package(package: str, tests: str) -> None:
    packages = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    folders = {path.parent.name for path in (ROOT / tests).glob("*/test_*.py")}
    assert folders
    assert folders <= packages


def test_no_test_module_is_imported() -> None:
    """If several test modules need the same code, the code is in tests/builders or in a helper module beside them."""
    found = {
        str(path.relative_to(ROOT)): _IMPORT.findall(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.relative_to(ROOT / "tests").parts[0] != "cluster"
    }
    assert {path: imports for path, imports in found.items() if imports} == {}
