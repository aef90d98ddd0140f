"""The reader returns nulls: as nulls in Arrow, and in arrays as NaN, None or a masked value, or with a separate mask."""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.jobs import output_of
from tests.builders.specs import parse_job

from dataprep_reader import open as open_data_set
from dataprep_reader.shards import ShardLayout

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


@pytest.mark.parametrize("format_", FORMATS)
def test_whole_numbers_and_booleans_are_masked(tmp_path: Path, format_: str) -> None:
    (found,) = open_data_set(a_data_set(tmp_path, format_), split="train", columns=["i", "b"])
    batch: Any = found
    assert {name: (batch[name].dtype, batch[name].tolist()) for name in ("i", "b")} == {
        "i": (np.int64, [None, 2, 3]), "b": (np.bool_, [True, False, None]),
    }  # fmt: skip
    assert np.ma.getmaskarray(batch["i"]).tolist() == [True, False, False]


@pytest.mark.parametrize("format_", FORMATS)
def test_every_feature_has_a_mask_if_it_is_asked_for(tmp_path: Path, format_: str) -> None:
    reader = open_data_set(a_data_set(tmp_path, format_), split="train", columns=list(COLUMNS), masks=list(COLUMNS))
    (found,) = reader
    batch: Any = found
    assert list(batch) == list(reader.features) == [each for name in COLUMNS for each in (name, f"{name}_missing")]
    assert (type(batch["i"]), batch["i"].tolist(), batch["b"].tolist()) == (np.ndarray, [0, 2, 3], [True, False, False])
    for name, column in COLUMNS.items():
        assert batch[f"{name}_missing"].tolist() == column.is_null().to_pylist()


def test_a_mask_is_there_without_any_null(tmp_path: Path) -> None:
    (found,) = open_data_set(a_data_set(tmp_path, "tfrecord"), split="train", columns=["s"], masks=["s"], batch_size=2, drop_remainder=True)
    assert found["s_missing"].tolist() == [False, False]


@pytest.mark.parametrize(("as_", "masks", "reason"), [
    ("numpy", ["x"], "masks: the batches have no feature 'x'. Their features are i, i_missing, l"),
    ("numpy", ["l"], "masks: 'l' can't have a mask, because it contains lists of any length, whose nulls are read as empty lists"),
    ("numpy", ["i"], "masks: the mask of 'i' would be named 'i_missing', but there is a feature with this name"),
    ("arrow", ["i"], "masks need numpy batches, because Arrow batches contain the nulls themselves: leave out masks or as_='arrow'"),
])  # fmt: skip
def test_a_mask_that_no_batch_can_have_is_refused(tmp_path: Path, as_: Any, masks: list[str], reason: str) -> None:
    (tmp_path / "rows.jsonl").write_text('{"i": 1, "i_missing": 2, "l": [1]}\n')
    out = output_of(parse_job({"source": {"jsonl": {"uris": [str(tmp_path / "rows.jsonl")]}}, "output": {"uri": str(tmp_path / "out")}}))
    with pytest.raises(ValueError, match=re.escape(reason)):
        open_data_set(str(out), as_=as_, masks=masks)


def test_many_patterns_of_nulls_are_read_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    kinds: dict[str, Any] = {
        "i": rng.integers(-(2**40), 2**40, 500), "f": rng.random(500, np.float32), "s": np.arange(500).astype(str),
    }  # fmt: skip
    columns: dict[str, Any] = {
        f"{kind}{place}": pa.array(values, mask=rng.random(500) < 0.5) for place in range(6) for kind, values in kinds.items()
    }
    _pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    out = output_of(
        parse_job({"source": {"parquet": {"uris": [str(tmp_path / "rows.parquet")]}}, "output": {"uri": str(tmp_path / "out")}})
    )
    monkeypatch.setattr(ShardLayout, "built", None)  # makes the reader parse the records one by one
    found: Any = list(open_data_set(str(out), split="train", as_="arrow"))
    assert [{name: row[name] for name in columns} for batch in found for row in batch.to_pylist()] == pa.table(columns).to_pylist()


@pytest.mark.parametrize("as_", ["numpy", "arrow"])
def test_rows_have_none_and_nan(tmp_path: Path, as_: Literal["numpy", "arrow"]) -> None:
    columns = COLUMNS | {"w": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)), "l": pa.array([[1], None, [2, 3]])}
    _pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    output = {"uri": str(tmp_path / "out"), "format": "parquet"}
    folder = output_of(parse_job({"source": {"parquet": {"uris": [str(tmp_path / "rows.parquet")]}}, "output": output}))
    rows = list(open_data_set(str(folder), split="train", as_=as_, batch_size=2).rows())
    assert [{name: _as_list(value) for name, value in row.items()} for row in rows] == [
        {"i": None, "f": 0.5, "b": True, "s": "x", "v": [_NAN, _NAN], "w": [1, 2], "l": [1]},
        {"i": 2, "f": _NAN, "b": False, "s": "", "v": [1, 2], "w": None, "l": []},
        {"i": 3, "f": 2.5, "b": None, "s": None, "v": [3, 4], "w": [3, 4], "l": [2, 3]},
    ]
    assert [type(rows[1][name]) for name in ("i", "f", "b", "s")] == [np.int64, np.float32, np.bool_, str]


_NAN = pytest.approx(float("nan"), nan_ok=True)
