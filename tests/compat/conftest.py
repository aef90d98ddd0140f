"""Files stored by earlier releases. They are unpacked again for each test, so that a test can change them."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.builders.in_memory import tmp_path
from tests.compat import making

__all__ = ["tmp_path"]

HERE = Path(__file__).parent
FIRST = HERE / "stored-8ab25d4.tar.xz"


@pytest.fixture(scope="session")
def unpacked(memory_folder: Path | None) -> Iterator[Path]:
    """The unpacked files, in memory if possible."""
    with tempfile.TemporaryDirectory(dir=memory_folder, prefix="dataprep-compat-") as folder:
        making.unpack(FIRST, Path(folder))
        yield Path(folder)


@pytest.fixture
def stored(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """A copy of a stored data set. The copy becomes the working directory, because the jobs' paths are relative."""
    monkeypatch.setenv("PEPPER", making.KEY)
    begun: list[Path] = []

    def copy_stored(name: str) -> Path:
        folder = Path(tempfile.mkdtemp(dir=unpacked.parent, prefix="dataprep-compat-")) / name
        begun.append(folder.parent)
        shutil.copytree(unpacked / name, folder)
        monkeypatch.chdir(folder)
        return folder

    yield copy_stored
    monkeypatch.undo()
    for folder in begun:
        shutil.rmtree(folder)
