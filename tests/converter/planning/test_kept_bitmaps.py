"""Bitmaps of the kept samples, which tasks write and the planner reads."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.kept_bitmaps import BitmapWriter, left_out
from dataprep_converter.readers.joins.ranges import paths_by_range


@given(samples=st.integers(1, 60), size=st.integers(1, 30), batch=st.integers(1, 20), data=st.data())
def test_all_samples_that_are_not_kept_are_left_out(
    samples: int, size: int, batch: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = sorted(data.draw(st.sets(st.integers(0, samples - 1))))
    folder = tmp_path_factory.mktemp("bits")
    batches = pa.table({"n": pa.array(kept, pa.int64())}).to_batches(max_chunksize=batch)
    rows = [tuple(row.values()) for each in BitmapWriter(str(folder), size)(Access(), iter(batches)) for row in each.to_pylist()]
    paths = paths_by_range(rows, rows=len(kept))
    assert set(paths) == {sample // size for sample in kept}
    ranges = [found.tolist() for found in left_out(paths, Access(), samples=samples, range_samples=size)]
    assert len(ranges) == -(-samples // size)
    assert sorted([*kept, *(sample for found in ranges for sample in found)]) == list(range(samples))


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"\xff")
    found = left_out({1: str(tmp_path / "kept")}, Access(), samples=25, range_samples=10)
    assert next(found).tolist() == list(range(10))
    with pytest.raises(ConvertError, match=r"kept has 1 bytes, expected one bit for each of 10 records\. Run the job again\."):
        next(found)
