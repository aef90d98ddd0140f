"""Finished data sets are read as partitions, whose batches have Spark's types."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.data_sets import data_set, expected, lines
from tests.builders.dataframes import begin, numbers, write_frame
from tests.builders.jobs import run_spec

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_frames import reading
from dataprep_spark.options import read_options
from dataprep_spark.spark_types import TYPES

FORMATS = [
    "tfrecord",
    "recordioProtobuf",
    "sequenceFile",
    "mapFile",
    "parquet",
    "arrow",
    "jsonl",
    "csv",
    "webdataset",
    "mds",
    "arrayRecord",
]


def opened(folder: Path, **options: str) -> tuple[reading.Source, Manifest]:
    """Open a data set as the driver does, and pass it to the tasks as a pickle, as Spark does."""
    source, manifest = reading.open_source(read_options({"path": str(folder), **options}), TYPES)
    return pickle.loads(pickle.dumps(source)), manifest  # noqa: S301 - it was pickled just now


def read(folder: Path, **options: str) -> list[dict[str, Any]]:
    """Return all rows, after comparing each batch's types with the schema."""
    source, manifest = opened(folder, **options)
    partitions: list[reading.Partition] = pickle.loads(pickle.dumps(source.partitions(manifest)))  # noqa: S301 - see above
    batches = [batch for partition in partitions for batch in source.batches(partition)]
    assert all(batch.schema.equals(source.schema) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["n"]))


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_is_read_with_the_split_as_a_column(tmp_path: Path, format_: str) -> None:
    features: list[dict[str, Any]] = [
        {"name": "n"},
        {"name": "v", "columns": ["a", "b"]},
        *([] if format_ == "recordioProtobuf" else [{"name": "word"}]),
    ]
    folder = data_set(tmp_path, lines(50), features, format=format_)
    names = {"label", *(feature["name"] for feature in features)}
    rows = [{name: value for name, value in row.items() if name in names} | {"split": "train"} for row in expected(50)]
    assert in_order(read(folder)) == rows


@pytest.mark.parametrize("format_", ["tfrecord", "parquet", "jsonl"])
def test_only_the_requested_columns_are_read(tmp_path: Path, format_: str) -> None:
    folder = data_set(tmp_path, lines(5), format=format_)
    assert in_order(read(folder, columns="word,n")) == [{"word": f"word {n}", "n": n, "split": "train"} for n in range(5)]
    source, manifest = opened(folder)
    fields: list[Any] = [pa.field("split", pa.string()), pa.field("n", pa.int64())]
    only = source.with_columns(pa.schema(fields))
    assert next(list(batch.schema.names) for part in only.partitions(manifest) for batch in only.batches(part)) == ["split", "n"]
    splits = source.with_columns(pa.schema([("split", pa.string())]))
    assert sum(batch.num_rows for part in splits.partitions(manifest) for batch in splits.batches(part)) == 5


def test_each_partition_has_shards_of_one_split_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split, first in (("train", 0), ("test", 90)):
        write_frame(tmp_path / "out", [[numbers(first + 10 * part, 10)] for part in range(3)], split=split)
    source, manifest = opened(tmp_path / "out")
    assert [(part.split, len(part.files)) for part in source.partitions(manifest)] == [("train", 3), ("test", 3)]
    monkeypatch.setattr(reading, "PARTITION_BYTES", 2 * max(file.size for file in manifest.files))
    assert [(part.split, len(part.files)) for part in source.partitions(manifest)] == [("train", 2), ("train", 1), ("test", 2), ("test", 1)]
    monkeypatch.setattr(reading, "PARTITION_BYTES", 1)
    assert [len(part.files) for part in source.partitions(manifest)] == [1] * 6
    assert len(read(tmp_path / "out")) == 60


def test_splits_can_be_chosen_and_their_column_renamed(tmp_path: Path) -> None:
    for split, first in (("train", 0), ("test", 90)):
        write_frame(tmp_path / "out", [[numbers(first, 2)]], split=split)
    assert read(tmp_path / "out", split="test", splitColumn="part", columns="n") == [{"n": 90, "part": "test"}, {"n": 91, "part": "test"}]
    with pytest.raises(BadSpec, match=r"has no split 'tset'. Did you mean 'test'\? It has train, test."):
        opened(tmp_path / "out", split="tset")


def test_a_feature_with_the_name_of_the_splits_column_needs_another_name(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2, split=["x", "y"])]])
    with pytest.raises(
        BadSpec, match="has a column 'split', which is also the name of the column with the splits. Set the option splitColumn"
    ):
        opened(tmp_path / "out")
    assert [row["split"] for row in read(tmp_path / "out", splitColumn="part")] == ["x", "y"]
    assert [row["split"] for row in read(tmp_path / "out", columns="n")] == ["train", "train"]


def test_names_of_columns_may_have_any_case_as_in_spark(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2, Split=["x", "y"])]], splitColumn="SPLIT")
    assert read(tmp_path / "out", split="x", columns="N,WORD") == [{"n": 0, "word": "word 0", "split": "x"}]
    with pytest.raises(BadSpec, match="The option columns contains 'n' twice."):
        opened(tmp_path / "out", columns="n,N")
    write_frame(tmp_path / "set", [[numbers(0, 2, Split=["x", "y"])]])
    with pytest.raises(BadSpec, match="has a column 'Split', which is also the name of the column with the splits"):
        opened(tmp_path / "set")


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_what_spark_has_written_is_read_with_its_types(tmp_path: Path, format_: str) -> None:
    rows: Any = pa.RecordBatch.from_arrays(
        [
            pa.array([12345678901234567890123456, None], pa.decimal128(38, 3)),
            pa.array([1, None], pa.timestamp("us", "UTC")),
            pa.array([-1, None], pa.timestamp("us")),
            pa.array([20_000, None], pa.date32()),
            pa.array([[{"x": 1, "y": ["a", None]}], None], pa.list_(pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]))),
            pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
            pa.array([b"\0\xff", None], pa.binary()),
            pa.array([True, None], pa.bool_()),
        ],
        names=["a", "b", "c", "d", "e", "f", "g", "h"],
    )
    write_frame(tmp_path / "out", [[rows]], format=format_)
    found = read(tmp_path / "out")
    assert [{name: value for name, value in row.items() if name != "split"} for row in found] == rows.to_pylist()
    source, _ = opened(tmp_path / "out")
    assert [field.type for field in source.schema][:4] == [field.type for field in rows.schema][:4]


def test_images_are_lists_of_rows(tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "pixels.npy", np.arange(24, dtype=np.uint8).reshape(4, 2, 3))
    run_spec({"source": {"numpy": {"uris": [str(tmp_path / "pixels.npy")]}}, "output": {"uri": str(tmp_path / "out")}})
    (name,) = [name for name in opened(tmp_path / "out")[0].schema.names if name != "split"]
    assert read(tmp_path / "out")[1] == {name: [[6, 7, 8], [9, 10, 11]], "split": "train"}


# --- what is refused ----------------------------------------------------------------------------------------------


def test_an_unfinished_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="doesn't exist"):
        opened(tmp_path / "nothing")
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    (tmp_path / "out/_SUCCESS").unlink()
    with pytest.raises(NotFound, match="has no _SUCCESS: there is no finished data set"):
        opened(tmp_path / "out")
    begin(tmp_path / "out", numbers(0, 1).schema, overwrite=True)


@pytest.mark.parametrize("options", [{"columns": "wrod"}, {"columns": "n,wrod"}])
def test_an_unknown_column_is_named(tmp_path: Path, options: dict[str, str]) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    with pytest.raises(BadSpec, match=r"has no column 'wrod'. Did you mean 'word'\? It has n, word."):
        opened(tmp_path / "out", **options)


def test_a_schema_with_other_types_or_columns_is_refused(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    source, _ = opened(tmp_path / "out")
    with pytest.raises(BadSpec, match="The schema gives the column 'n' the type int32, but in .* it is int64"):
        source.with_columns(pa.schema([("n", pa.int32())]))
    with pytest.raises(BadSpec, match=r"has no column 'm'. It has n, word, split."):
        source.with_columns(pa.schema([("m", pa.int64())]))


def test_a_column_that_spark_lacks_is_refused_unless_it_is_left_out(tmp_path: Path) -> None:
    rows: Any = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array([1, 2], pa.decimal256(50, 0))], names=["n", "x"])
    write_frame(tmp_path / "out", [[rows]], format="parquet")
    with pytest.raises(BadSpec, match=r"The column 'x' is decimal256\(50, 0\), which Spark can't read"):
        opened(tmp_path / "out")
    assert [row["n"] for row in read(tmp_path / "out", columns="n")] == [1, 2]


def test_a_time_that_spark_can_not_hold_names_its_column(tmp_path: Path) -> None:
    rows: Any = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array([2**62, 0], pa.timestamp("s"))], names=["n", "at"])
    write_frame(tmp_path / "out", [[rows]], format="arrow")
    with pytest.raises(BadData, match="the column 'at' has a value that Spark can't hold .*: set the option columns to the other columns"):
        read(tmp_path / "out")
    assert [row["n"] for row in read(tmp_path / "out", columns="n")] == [1, 2]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    shard = tmp_path / "out/train-00000.tfrecords"
    content = bytearray(shard.read_bytes())
    content[20] ^= 1
    shard.write_bytes(content)
    with pytest.raises(BadData, match=r"train-00000.tfrecords"):
        read(tmp_path / "out")
