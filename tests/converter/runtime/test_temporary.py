"""Temporary files: their contents, the error for a full disk, and their removal."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dataprep_converter.core.errors import StoreFull
from dataprep_converter.runtime.temporary import TemporaryFile

MODES = pytest.mark.parametrize("in_memory", [0, 4, 100], ids=["on disk", "larger than what stays in memory", "in memory"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@MODES
def test_what_was_written_is_read_in_any_order(in_memory: int) -> None:
    with TemporaryFile("numbers", in_memory=in_memory) as file:
        file.write(b"012")
        file.write(memoryview(b"345"))
        assert file.size == 6
        assert b"".join(file.pieces()) == b"012345"
        file.write(b"678")
        assert [file.read_at(4, 3), file.read_at(0, 2), file.read_at(8, 5), file.read_at(9, 1)] == [b"456", b"01", b"8", b""]
        mapped = file.map()
    assert bytes(mapped) == b"012345678"
    mapped.close()


@MODES
def test_nothing_stays_of_a_closed_file(in_memory: int, folder: Path) -> None:
    before = descriptors()
    with TemporaryFile.of("numbers", [b"01", b"23", b"45"], in_memory=in_memory) as file:
        assert list(folder.iterdir()) == []
    file.close()
    assert descriptors() == before
    with pytest.raises(ValueError, match="closed"):
        file.read_at(0, 1)


def test_nothing_stays_when_the_pieces_end_with_an_error() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"01"
        raise ZeroDivisionError

    before = descriptors()
    with pytest.raises(ZeroDivisionError):
        TemporaryFile.of("numbers", pieces())
    assert descriptors() == before


def test_space_is_reserved_as_zeros() -> None:
    with TemporaryFile("zeros") as file:
        file.reserve(10_000)
        assert file.read_at(0, 20_000) == bytes(10_000)


@pytest.fixture
def no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the disk of temporary files appear full."""

    def full(**_: object) -> Any:
        return os.fdopen(os.open("/dev/full", os.O_RDWR), "r+b")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)


@pytest.mark.usefixtures("no_space")
def test_a_full_disk_is_named(folder: Path) -> None:
    before = descriptors()
    with TemporaryFile("numbers") as file, pytest.raises(StoreFull, match=f"^{folder} has no room for numbers: No space left on device.$"):
        file.write(bytes(1 << 20))
    with TemporaryFile("numbers") as file:
        file.write(b"0")  # these bytes stay in the buffer and aren't written to the disk
        with pytest.raises(StoreFull, match=f"^{folder} has no room for numbers: No space left on device.$"):
            file.read_at(0, 1)
        with pytest.raises(StoreFull, match=f"^{folder} has no room for numbers: No space left on device.$"):
            list(file.pieces())
    assert descriptors() == before


@pytest.mark.usefixtures("no_space")
def test_a_full_disk_is_named_when_the_last_pieces_are_still_buffered(folder: Path) -> None:
    before = descriptors()
    with pytest.raises(StoreFull, match=f"^{folder} has no room for numbers: No space left on device.$"):
        TemporaryFile.of("numbers", [b"0"])
    assert descriptors() == before
