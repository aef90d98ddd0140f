"""The reader gives nulls back: as Arrow has them, and in arrays as NaN or None."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.jobs import output_of
from tests.builders.specs import parse_job

from dataprep_converter.core.errors import BadData
from dataprep_reader import open as open_data_set

_pq: Any = pq  # the module has no type stubs

COLUMNS: dict[str, Any] = {
    "i": pa.array([None, 2, 3], pa.int64()),
    "f": pa.array([0.5, None, 2.5], pa.float32()),
    "b": pa.array([True, False, None]),
    "s": pa.array(["x", "", None]),
    "v": pa.array([None, [1, 2], [3, 4]], pa.list_(pa.float32(), 2)),
}
FORMATS = ["parquet", "arrow", "jsonl", "csv", "tfrecord", "arrayRecord", "webdataset"]


def a_data_set(folder: Path, format_: str) -> str:
    if format_ == "arrayRecord":
        pytest.importorskip("array_record")
    _pq.write_table(pa.table(COLUMNS), folder / "rows.parquet")
    output = {"uri": str(folder / "out"), "format": format_}
    return str(output_of(parse_job({"source": {"parquet": {"uris": [str(folder / "rows.parquet")]}}, "output": output})))


@pytest.mark.parametrize("format_", FORMATS)
def test_arrow_has_every_null(tmp_path: Path, format_: str) -> None:
    found: Any = list(open_data_set(a_data_set(tmp_path, format_), split="train", as_="arrow"))
    rows = [{name: _as_list(value) for name, value in row.items()} for batch in found for row in batch.to_pylist()]
    assert [{name: row[name] for name in COLUMNS} for row in rows] == pa.table(COLUMNS).to_pylist()


def _as_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("format_", FORMATS)
def test_arrays_have_nan_and_none(tmp_path: Path, format_: str) -> None:
    folder = a_data_set(tmp_path, format_)
    (found,) = open_data_set(folder, split="train", columns=["f", "s", "v"])
    batch: Any = found
    assert np.array_equal(batch["f"], np.array([0.5, np.nan, 2.5], np.float32), equal_nan=True)
    assert batch["s"].tolist() == ["x", "", None]
    assert np.array_equal(batch["v"], np.array([[np.nan, np.nan], [1, 2], [3, 4]], np.float32), equal_nan=True)
    for name in ("i", "b"):
        with pytest.raises(BadData, match=f"The feature '{name}' has records without a value, which an array of its type can't hold"):
            list(open_data_set(folder, split="train", columns=[name]))
