"""Other programs find our nulls: pandas in tables and text, TensorFlow in examples, and the webdataset library in samples."""

import math
import runpy
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # its stubs are not installed
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset  # type: ignore[import-untyped]  # it has no types
import webdataset.tariterators  # type: ignore[import-untyped]  # it has no types
from tests.builders.jobs import output_of
from tests.builders.specs import parse_job

pytestmark = pytest.mark.interop

_pq: Any = pq  # the module has no type stubs
ROWS: list[dict[str, Any]] = [
    {"i": None, "f": 0.5, "s": "x", "v": [1.0, 2.0]},
    {"i": 2, "f": None, "s": "", "v": [3.0, 4.0]},
    {"i": 3, "f": 2.5, "s": None, "v": None},
]
KINDS: dict[str, pa.DataType] = {"i": pa.int64(), "f": pa.float32(), "s": pa.string(), "v": pa.list_(pa.float32(), 2)}


def made(folder: Path, format_: str) -> str:
    """The only shard of a data set with nulls."""
    _pq.write_table(pa.Table.from_pylist(ROWS, schema=pa.schema(list(KINDS.items()))), folder / "rows.parquet")
    output = {"uri": str(folder / "out"), "format": format_, "shards": {"count": 1}}
    out = output_of(parse_job({"source": {"parquet": {"uris": [str(folder / "rows.parquet")]}}, "output": output}))
    (file,) = (file for file in out.iterdir() if file.is_file() and not file.name.startswith("_"))
    return str(file)


def plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows, with None for what pandas regards as missing."""
    return [
        {name: (list(value) if name == "v" and value is not None else None if _is_missing(value) else value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]  # fmt: skip


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_pandas_finds_every_null(tmp_path: Path, format_: str) -> None:
    file = made(tmp_path, format_)
    frame = pd.read_parquet(file) if format_ == "parquet" else pd.read_json(file, lines=True)
    assert plain(frame) == ROWS


def test_pandas_reads_an_empty_cell_as_missing(tmp_path: Path) -> None:
    frame = pd.read_csv(made(tmp_path, "csv"))
    expected = [{"i": row["i"], "f": row["f"], "s": row["s"] or None, "v_0": (row["v"] or [None])[0]} for row in ROWS]
    assert [{name: row[name] for name in ("i", "f", "s", "v_0")} for row in plain(frame)] == expected


def test_a_sample_of_the_webdataset_library_lacks_the_member(tmp_path: Path) -> None:
    file = made(tmp_path, "webdataset")
    with Path(file).open("rb") as stream:
        members = webdataset.tariterators.tar_file_expander([{"url": file, "stream": stream}])
        samples = list(webdataset.tariterators.group_by_keys(members))
    names = {"cls": "i", "json": "f", "txt": "s", "npy": "v"}
    found = [{names[key] for key in sample if not key.startswith("__")} for sample in samples]
    assert found == [{name for name, value in row.items() if value is not None} for row in ROWS]


def test_tensorflow_treats_a_null_as_an_absent_feature(tf: Any, tmp_path: Path) -> None:
    (*examples,) = tf.data.TFRecordDataset(made(tmp_path, "tfrecord"))
    described = {
        "i": tf.io.RaggedFeature(tf.int64),
        "f": tf.io.FixedLenFeature([], tf.float32, default_value=float("nan")),
        "s": tf.io.RaggedFeature(tf.string),
        "v": tf.io.FixedLenFeature([2], tf.float32, default_value=[0.0, 0.0]),
    }
    found = [{name: value.numpy().tolist() for name, value in tf.io.parse_single_example(each, described).items()} for each in examples]
    assert [row["i"] for row in found] == [[], [2], [3]]
    assert [row["s"] for row in found] == [[b"x"], [b""], []]
    assert [row["v"] for row in found] == [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]
    assert math.isnan(found[1]["f"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="required but could not be found"):
        tf.io.parse_single_example(examples[0], {"i": tf.io.FixedLenFeature([], tf.int64)})


def test_the_generated_loader_reads_nulls(tf: Any, tmp_path: Path) -> None:
    del tf
    folder = Path(made(tmp_path, "tfrecord")).parent
    loader = runpy.run_path(str(folder / "_dataprep/loaders/load_tensorflow.py"))
    found = [{name: value.numpy().tolist() for name, value in record.items()} for record in loader["load"]("train")]
    assert [(row["i"], row["s"]) for row in found] == [([], [b"x"]), ([2], [b""]), ([3], [])]
    assert [str(row["f"]) for row in found] == ["0.5", "nan", "2.5"]
    assert [str(row["v"]) for row in found] == ["[1.0, 2.0]", "[3.0, 4.0]", "[nan, nan]"]
