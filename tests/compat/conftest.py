"""Stored things of earlier releases, unpacked for each test: it may change them."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.compat import making

HERE = Path(__file__).parent
FIRST = HERE / "stored-8ab25d4.tar.xz"


@pytest.fixture(scope="session")
def unpacked() -> Iterator[Path]:
    """In memory where that is possible, because every small file is synced."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="dataprep-compat-") as folder:
        making.unpack(FIRST, Path(folder))
        yield Path(folder)


@pytest.fixture
def stored(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """A copy of what is stored by this name, which becomes the working folder: the jobs' paths are relative."""
    monkeypatch.setenv("PEPPER", making.KEY)
    begun: list[Path] = []

    def copied(name: str) -> Path:
        folder = Path(tempfile.mkdtemp(dir=unpacked.parent, prefix="dataprep-compat-")) / name
        begun.append(folder.parent)
        shutil.copytree(unpacked / name, folder)
        monkeypatch.chdir(folder)
        return folder

    yield copied
    monkeypatch.undo()
    for folder in begun:
        shutil.rmtree(folder)
