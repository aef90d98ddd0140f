"""Rows that are sorted by their number, in ranges."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dataprep_converter.readers.joins.numbered_rows import NumberedRows

ROWS = 1000


def batches_of(order: list[int], size: int) -> list[pa.RecordBatch]:
    """Batches of rows with these numbers. Every third value is null."""
    values = [None if number % 3 == 0 else [str(number)] * (number % 4) for number in order]
    columns = {"n": pa.array(order, pa.int64()), "texts": pa.array(values, pa.list_(pa.string()))}
    return pa.table(columns).to_batches(max_chunksize=size)


@pytest.mark.parametrize(("row_bytes", "range_bytes"), [(10, 20), (10, 300), (300, 10), (10, 1 << 20), (0, 7)])
@pytest.mark.parametrize("size", [1, 13, ROWS])
def test_rows_added_in_any_order_come_in_the_order_of_their_numbers(tmp_path: Path, row_bytes: int, range_bytes: int, size: int) -> None:
    given = batches_of(np.random.default_rng(2).permutation(ROWS).tolist(), size)
    with NumberedRows(str(tmp_path), given[0].schema, ROWS, row_bytes=row_bytes, range_bytes=range_bytes) as rows:
        for batch in given:
            rows.add(batch)
        found = list(rows.sorted_rows())
    [expected] = batches_of(list(range(ROWS)), ROWS)
    assert pa.Table.from_batches(found).combine_chunks().to_batches() == [expected.drop_columns("n")]
    assert max(batch.num_rows for batch in found) == min(ROWS, max(1, range_bytes // max(1, row_bytes)))


def test_no_rows_have_no_batches(tmp_path: Path) -> None:
    [batch] = batches_of([0], 1)
    with NumberedRows(str(tmp_path), batch.schema, 0, row_bytes=1, range_bytes=1) as rows:
        assert list(rows.sorted_rows()) == []
