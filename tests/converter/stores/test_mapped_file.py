"""Reads many small pieces of a local file in one call, even while the file changes."""

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest

from dataprep_converter.core.errors import InputChanged
from dataprep_converter.stores import read_each
from dataprep_converter.stores.files import FileInput

pytestmark = pytest.mark.disk

ROWS = np.random.default_rng(1).integers(0, 256, (20_000, 7), np.uint8)
ORDER = np.random.default_rng(2).permutation(20_000)[:3000]
"""Offsets of more pieces than the kernel accepts in one call."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    path.write_bytes(ROWS.tobytes())
    return path


def test_pieces_come_in_the_asked_order(file: Path) -> None:
    with FileInput(str(file)) as source:
        assert read_each(source, ORDER * 7, 7) == ROWS[ORDER].tobytes()
        assert read_each(source, ORDER[:5] * 7, 7) == ROWS[ORDER[:5]].tobytes()
        assert read_each(source, ORDER[:0], 7) == b""


def test_pieces_of_a_file_that_cannot_be_mapped_are_read_one_by_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr("mmap.mmap", refuse)
    with FileInput(str(file)) as source:
        assert read_each(source, ORDER * 7, 7) == ROWS[ORDER].tobytes()


@pytest.mark.parametrize("left", [0, 5, 70_000], ids=["nothing is left", "a piece is cut", "half is left"])
def test_a_file_that_became_shorter_is_named_and_ends_nothing(file: Path, left: int) -> None:
    with FileInput(str(file)) as source:
        assert read_each(source, ORDER * 7, 7) == ROWS[ORDER].tobytes()
        os.truncate(file, left)
        with pytest.raises(InputChanged, match=rf"{file} shrank while it was being read: from 140000 to "):
            read_each(source, ORDER * 7, 7)


def test_open_files_do_not_stay_behind(file: Path) -> None:
    with FileInput(str(file)) as source:
        read_each(source, ORDER * 7, 7)
    assert file not in open_files()


def open_files() -> list[Path]:
    """Return the files that this process has open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this listing itself
            found.append(descriptor.readlink())
    return found
