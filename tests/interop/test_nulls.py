"""Other programs read our nulls: pandas reads tables and text, TensorFlow reads examples, and the webdataset library reads samples."""

import json
import math
import runpy
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # its stubs are not installed
import pytest
import webdataset  # type: ignore[import-untyped]  # it has no types
import webdataset.tariterators  # type: ignore[import-untyped]  # it has no types
from tests.interop import loader_sets
from tests.interop.loader_sets import NULL_TYPES, NULLS
from tests.reader.fake_torch import FakeTorch

import environments

READER = Path(__file__).parent / "readers" / "loaded_by.py"

pytestmark = pytest.mark.interop


def made(folder: Path, format_: str, **options: Any) -> str:
    """The only shard of a data set with nulls."""
    out = loader_sets.nulls(folder, format=format_, **options)
    (file,) = (file for file in out.iterdir() if file.is_file() and not file.name.startswith("_"))
    return str(file)


def plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows, with None for each value that pandas regards as missing."""
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
    assert plain(frame) == NULLS


def test_pandas_reads_an_empty_cell_as_missing(tmp_path: Path) -> None:
    frame = pd.read_csv(made(tmp_path, "csv"))
    expected = [{"i": row["i"], "f": row["f"], "s": row["s"] or None, "v_0": (row["v"] or [None])[0]} for row in NULLS]
    assert [{name: row[name] for name in ("i", "f", "s", "v_0")} for row in plain(frame)] == expected


def test_a_sample_of_the_webdataset_library_lacks_the_member(tmp_path: Path) -> None:
    file = made(tmp_path, "webdataset")
    with Path(file).open("rb") as stream:
        members = webdataset.tariterators.tar_file_expander([{"url": file, "stream": stream}])
        samples = list(webdataset.tariterators.group_by_keys(members))
    names = {"i.cls": "i", "b.cls": "b", "json": "f", "txt": "s", "npy": "v"}
    found = [{names[key] for key in sample if not key.startswith("__")} for sample in samples]
    assert found == [{name for name, value in row.items() if value is not None} for row in NULLS]


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


def test_tensorflow_datasets_returns_the_lowest_number_or_an_empty_text(tfds: Any, tmp_path: Path) -> None:
    folder = Path(made(tmp_path, "tfrecord")).parent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = tfds.builder_from_directory(folder / "_tfds/dataset/1.0.0")
        found = list(builder.as_dataset("train").as_numpy_iterator())
    lowest = float(np.finfo(np.float32).min)
    assert [{name: value.tolist() if hasattr(value, "tolist") else value for name, value in record.items()} for record in found] == [
        {"i": int(np.iinfo(np.int64).min), "f": 0.5, "s": b"x", "v": [1.0, 2.0], "b": 1},
        {"i": 2, "f": lowest, "s": b"", "v": [3.0, 4.0], "b": int(np.iinfo(np.int64).min)},
        {"i": 3, "f": 2.5, "s": b"", "v": [lowest, lowest], "b": 0},
    ]
    assert {name: feature.get_tensor_info().optional for name, feature in builder.info.features.items()} == dict.fromkeys("ifsvb", True)


def dali(folder: Path) -> dict[str, Any]:
    (said,) = json.loads(environments.run("dali", READER, ["dali", "-", loader_sets.loader(folder, "dali")]))
    found: dict[str, Any] = said["loaded"]["train"]
    return found


def test_dali_reads_a_null_number_as_an_empty_tensor_and_leaves_texts_with_nulls_out(tmp_path: Path) -> None:
    folder = Path(made(tmp_path, "tfrecord")).parent
    assert dali(folder) == {"i": [[], [2], [3]], "f": [[0.5], [], [2.5]], "v": [[1.0, 2.0], [3.0, 4.0], []], "b": [[1], [], [0]]}
    assert "so these are left out: s." in loader_sets.loader(folder, "dali").read_text()


def test_dali_finds_an_empty_member_in_samples(tmp_path: Path) -> None:
    found = dali(Path(made(tmp_path, "webdataset")).parent)
    texts = {name: ["".join(map(chr, octets)) for octets in found[name]] for name in "ifsb"}
    assert texts == {"i": ["", "2", "3"], "f": ["0.5", "", "2.5"], "s": ["x", "", ""], "b": ["1", "", "0"]}
    assert [len(octets) > 0 for octets in found["v"]] == [True, True, False]


def torch_records(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The records that `load_torch.py` returns. heavy/test_loaders.py loads such records with PyTorch itself."""
    FakeTorch().install_torch(monkeypatch)
    (*records,) = runpy.run_path(str(loader_sets.loader(folder, "torch")))["Records"]("train")
    return [{name: value.tolist() if hasattr(value, "tolist") else value for name, value in record.items()} for record in records]


@pytest.mark.parametrize("index", [True, False])
def test_the_torch_loader_of_examples_has_nan_and_none(tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: bool) -> None:
    monkeypatch.setitem(sys.modules, "tfrecord", types.SimpleNamespace(example_pb2=tf.train))
    records = torch_records(Path(made(tmp_path, "tfrecord", index=index)).parent, monkeypatch)
    assert [str(record.pop("f")) for record in records] == ["0.5", "nan", "2.5"]
    assert [str(record.pop("v")) for record in records] == ["[1.0, 2.0]", "[3.0, 4.0]", "[nan, nan]"]
    assert records == [{"i": None, "s": b"x", "b": 1}, {"i": 2, "s": b"", "b": None}, {"i": 3, "s": None, "b": 0}]


@pytest.mark.parametrize("format_", ["parquet", "arrow", "jsonl"])
def test_the_torch_loader_of_tables_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    assert torch_records(Path(made(tmp_path, format_)).parent, monkeypatch) == NULLS


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")  # webdataset leaves the file open
def test_the_torch_loader_of_samples_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = torch_records(Path(made(tmp_path, "webdataset")).parent, monkeypatch)
    assert [{name: record[name] for name in NULL_TYPES} for record in records] == NULLS


def test_the_torch_loader_of_lines_reads_a_column_that_begins_with_many_nulls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"i": None, "f": None, "s": "x" * 1000, "v": None, "b": None}] * 2000 + NULLS
    assert torch_records(Path(made(tmp_path, "jsonl", rows=rows)).parent, monkeypatch) == rows
