"""Rows that are sorted by their number, in as many buckets as the memory requires."""

import errno
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dataprep_converter.readers.joins import numbered_rows
from dataprep_converter.readers.joins.numbered_rows import NumberedRows

ROWS = 1000


def batches_of(order: list[int], size: int) -> list[pa.RecordBatch]:
    """Batches of rows with these numbers. Every third value is null."""
    values = [None if number % 3 == 0 else [str(number)] * (number % 4) for number in order]
    columns = {"n": pa.array(order, pa.int64()), "texts": pa.array(values, pa.list_(pa.string()))}
    return pa.table(columns).to_batches(max_chunksize=size)


@pytest.mark.parametrize("most_bytes", [1, 300, 5000, 1 << 20])
@pytest.mark.parametrize("size", [1, 13, ROWS])
def test_rows_added_in_any_order_come_in_the_order_of_their_numbers(tmp_path: Path, most_bytes: int, size: int) -> None:
    given = batches_of(np.random.default_rng(2).permutation(ROWS).tolist(), size)
    with NumberedRows(str(tmp_path), given[0].schema, range(ROWS), most_bytes=most_bytes) as rows:
        for batch in given:
            rows.add(batch)
        found = list(rows.sorted_rows())
    [expected] = batches_of(list(range(ROWS)), ROWS)
    assert pa.Table.from_batches(found).combine_chunks().to_batches() == [expected.drop_columns("n")]


@pytest.mark.parametrize("wide", [range(0), range(100, 140), range(ROWS)], ids=["no row", "neighbours", "each row"])
def test_batches_are_small_wherever_the_wide_rows_are(tmp_path: Path, wide: range) -> None:
    """A batch has the rows of one bucket. A bucket that doesn't fit is divided again, except for one with a single row."""
    order = np.random.default_rng(3).permutation(ROWS)
    values = [b"x" * (10_000 if number in wide else 10) for number in order.tolist()]
    given = pa.table({"n": order, "value": pa.array(values)}).to_batches(max_chunksize=50)
    with NumberedRows(str(tmp_path), given[0].schema, range(ROWS), most_bytes=30_000) as rows:
        for batch in given:
            rows.add(batch)
        found = list(rows.sorted_rows())

    assert sum(batch.num_rows for batch in found) == ROWS
    assert [len(value or b"") for batch in found for value in batch.column(0).to_pylist()] == [
        10_000 if n in wide else 10 for n in range(ROWS)
    ]
    assert max(batch.nbytes for batch in found) < 40_000


def test_the_parts_of_a_table_need_little_memory(tmp_path: Path) -> None:
    """Each time rows are divided, each bucket gets at most one part."""
    given = batches_of(np.random.default_rng(4).permutation(ROWS).tolist(), 1)
    with NumberedRows(str(tmp_path), given[0].schema, range(ROWS), most_bytes=1) as rows:
        for batch in given:
            rows.add(batch)
        assert len(rows._parts) <= numbered_rows._FAN_OUT
        assert sum(len(parts) for parts in rows._parts) == 2 * ROWS


def test_no_rows_have_no_batches(tmp_path: Path) -> None:
    [batch] = batches_of([0], 1)
    with NumberedRows(str(tmp_path), batch.schema, range(0), most_bytes=1) as rows:
        assert list(rows.sorted_rows()) == []
    with NumberedRows(str(tmp_path), batch.schema, range(1), most_bytes=1) as rows:
        rows.add(batch.slice(0, 0))
        assert [found.num_rows for found in rows.sorted_rows()] == [0]


def test_a_full_disk_fails_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`close` doesn't fail again, so the other files of the join are removed."""

    def full_file(**_: object) -> object:
        return Path("/dev/full").open("r+b")

    monkeypatch.setattr(tempfile, "TemporaryFile", full_file)
    [batch] = batches_of(list(range(ROWS)), ROWS)
    rows = NumberedRows(str(tmp_path), batch.schema, range(ROWS), most_bytes=1)
    with pytest.raises(OSError, match="No space left") as failed:
        rows.add(batch)
    assert failed.value.errno == errno.ENOSPC
    rows.close()
