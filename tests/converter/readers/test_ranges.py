"""Rows are written in ranges of record numbers, and read back in order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataprep_converter.core.errors import ConvertError, StoreFull
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.joins import ranges
from dataprep_converter.readers.joins.ranges import FILES, RangeWriter, paths_in_order, rows_in_files
from dataprep_converter.stores.files import FileStore


def some_batches(*sizes: int) -> list[pa.RecordBatch]:
    """Rows that are numbered from 0 in the column `c0`. The column `n` has half of this number, rounded down."""
    batches, first = [], 0
    for size in sizes:
        rows = list(range(first, first + size))
        batches.append(pa.RecordBatch.from_pydict({"n": pa.array([row // 2 for row in rows], pa.int64()), "c0": pa.array(rows)}))
        first += size
    return batches


def written(folder: Path, *sizes: int, range_records: int = 5) -> list[tuple[int, int, str]]:
    write = RangeWriter(str(folder), "t0", ("c0",), range_records)
    said = list(write(Access(), iter(some_batches(*sizes))))
    assert all(batch.schema == FILES for batch in said)
    return [tuple(row.values()) for batch in said for row in batch.to_pylist()]


def test_each_range_is_a_file_whatever_the_batches_are(tmp_path: Path) -> None:
    for sizes in ((23,), (9, 1, 13), (1,) * 23, (0, 10, 0, 10, 3)):
        files = written(tmp_path, *sizes)
        assert [(number, rows) for number, rows, _ in files] == [(0, 10), (1, 10), (2, 3)]
        rows = [
            row["c0"] for batch in rows_in_files(paths_in_order(files[::-1], rows=23), Access(), keeps=False) for row in batch.to_pylist()
        ]
        assert rows == list(range(23))
    assert not list(tmp_path.iterdir()), "files are removed when they have been read"


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path, 0) == []
    assert not list(rows_in_files(paths_in_order([], rows=0), Access(), keeps=False))


def test_two_attempts_write_files_of_their_own(tmp_path: Path) -> None:
    assert not {path for _, _, path in written(tmp_path, 12)} & {path for _, _, path in written(tmp_path, 12)}


def test_a_task_that_fails_removes_the_file_that_it_has_begun(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from some_batches(23)
        raise OSError("the shuffle was lost")

    attempt = RangeWriter(str(tmp_path), "t0", ("c0",), 5)(Access(), failing())
    assert [next(attempt).num_rows, next(attempt).num_rows] == [1, 1]
    with pytest.raises(OSError, match="lost"):
        next(attempt)
    assert len(list(tmp_path.iterdir())) == 2


def test_the_error_of_a_store_is_told_by_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise StoreFull(f"{tmp_path} is full.")

    monkeypatch.setattr(FileStore, "create", full)
    files = written(tmp_path, 23)
    assert len(files) == 1
    with pytest.raises(StoreFull, match="is full"):
        ranges.check(files)


@pytest.mark.parametrize("files", [[(0, 10, "a")], [(0, 10, "a"), (1, 10, "b"), (1, 3, "c")]], ids=["lost", "twice"])
def test_lost_and_repeated_ranges_are_refused(files: list[tuple[int, int, str]]) -> None:
    with pytest.raises(
        ConvertError, match=r"^The engine lost rows of the join: .* of 23 rows are in . files of . ranges\. Run the job again\.$"
    ):
        paths_in_order(files, rows=23)
