"""Slow files are read concurrently, and fast files one after another. In both cases, the batches are the same."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.converter.readers.reader_contract import batches, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base import files_ahead
from dataprep_converter.readers.whole_file import WholeFileReader
from dataprep_converter.sampling.units import Files, Unit
from dataprep_converter.stores.files import FileStore

_FILES = 100
_TOGETHER = 3


@pytest.fixture
def source(tmp_path: Path) -> Source:
    for number in range(_FILES):
        (tmp_path / f"{number:03}.dat").write_bytes(bytes([number]) * (number % 7))
    return Source.model_validate({"wholeFile": {"uris": [str(tmp_path)]}})


def one_by_one(_store: FileStore, uris: Sequence[str], *_: object) -> list[None]:
    return [None] * len(uris)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the threads that have read a file."""
    monkeypatch.setattr(FileStore, "read_files", one_by_one)
    seen: set[str] = set()
    whole = files_ahead.read_whole_file

    def watched(*args: object) -> bytes:
        seen.add(threading.current_thread().name)
        return whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(files_ahead, "read_whole_file", watched)
    return seen


def test_files_at_hand_are_read_without_threads(source: Source, readers: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_ahead, "_SLOW_SECONDS", 1e9)
    assert [row["_sample"] for row in rows(batches(WholeFileReader, source, size=30))] == list(range(_FILES))
    assert readers == {threading.current_thread().name}


def test_files_that_come_slowly_are_read_several_at_once(source: Source, readers: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rows(batches(WholeFileReader, source, size=30))
    readers.clear()
    monkeypatch.setattr(files_ahead, "_SLOW_SECONDS", -1.0)
    whole, together = files_ahead.read_whole_file, threading.Barrier(_TOGETHER)
    begun: set[str] = set()

    def waiting(store: object, file: files_ahead.File) -> bytes:
        name = threading.current_thread().name
        if name.startswith("files") and name not in begun and len(begun) < _TOGETHER:
            begun.add(name)
            # Block until _TOGETHER threads read at the same time.
            together.wait(timeout=30)
        return whole(store, file)  # type: ignore[arg-type]

    monkeypatch.setattr(files_ahead, "read_whole_file", waiting)
    found = rows(batches(WholeFileReader, source, size=30))
    assert found == expected
    assert len({name for name in readers if name.startswith("files")}) >= _TOGETHER


def test_a_batch_may_be_empty_and_any_size(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_ahead, "_FILES_OF_A_TASK", 4)
    for limit in (-1.0, 1e9):
        monkeypatch.setattr(files_ahead, "_SLOW_SECONDS", limit)
        order = np.array([7, 3, 99, 0, 50], np.int64)
        found = batches(WholeFileReader, source, size=2, order=order)
        assert [batch.records.num_rows for batch in found] == [2, 2, 1]
        assert [row["_sample"] for row in rows(found)] == order.tolist()
        assert batches(WholeFileReader, source, order=np.array([], np.int64)) == []


def test_a_file_that_is_gone_is_named_however_it_is_read(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after_the_plan(monkeypatch, (tmp_path / "060.dat").unlink)
    monkeypatch.setattr(files_ahead, "_SLOW_SECONDS", -1.0)
    with pytest.raises(InputChanged, match=r"060\.dat was in the plan, but no longer exists"):
        batches(WholeFileReader, source, size=30)


@pytest.mark.parametrize("content", [b"other", b"of another size"])
def test_a_file_that_has_changed_is_named_among_many_in_one_call(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    changed = tmp_path / "061.dat"
    assert changed.stat().st_size == len(b"other")
    after_the_plan(monkeypatch, lambda: changed.write_bytes(content))
    with pytest.raises(InputChanged, match=r"061\.dat has changed since it was planned"):
        batches(WholeFileReader, source, size=30)


def test_many_files_in_one_call_are_what_they_are_one_by_one(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    together = rows(batches(WholeFileReader, source, size=30))
    monkeypatch.setattr(FileStore, "read_files", one_by_one)
    assert rows(batches(WholeFileReader, source, size=30)) == together


def after_the_plan(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    listed = WholeFileReader.discover

    def then_happens(*args: object) -> object:
        discovery = listed(*args)  # type: ignore[arg-type]

        def listing() -> Listing[Unit] | Listing[Files]:
            state = yield from discovery.listing
            happens()
            return state

        return Discovery(listing())

    monkeypatch.setattr(WholeFileReader, "discover", then_happens)
