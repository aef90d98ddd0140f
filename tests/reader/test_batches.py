"""The content of batches: types and shapes, lists, text, bytes, missing values. All formats give the same content."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.data_sets import data_set, expected, lines
from tests.builders.jobs import run_spec
from tests.converter.cli.commandline import EXAMPLES, code_of, settings
from tests.converter.formats.cases import CASES, OF_ROWS
from tests.converter.readers.reader_contract import batches as source_batches
from tests.converter.readers.reader_contract import rows as source_rows
from tests.reader.sets import SCORES, WORDS, flat, lists, numbers, opened, plain, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData
from dataprep_converter.dataset.listing import load_manifest
from dataprep_converter.formats.registry import FORMATS
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.dataset import DatasetReader
from dataprep_reader import Feature, Ragged, shards
from dataprep_reader.arrays import as_numpy
from dataprep_reader.shards import ArrowShard, IndexedShard, ParquetShard, ShardLayout
from workbench.example_inputs import INPUTS

TABLES = [*OF_ROWS, "recordioProtobuf"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a data set of 30 rows in a format. Each data set is made only once."""
    return cache(lambda format_: data_set(tmp_path_factory.mktemp(format_), lines(30), format=format_))


def one(source: Any, **options: Any) -> dict[str, Any]:
    """Returns the only batch."""
    (batch,) = opened(source, batch_size=1_000, **options)
    found: dict[str, Any] = batch
    return found


@pytest.mark.parametrize("format_", TABLES)
def test_arrays_have_the_types_and_shapes_of_the_features(format_: str, table: Callable[[str], Path]) -> None:
    reader = opened(table(format_), batch_size=12)
    number = "float32" if format_ == "recordioProtobuf" else "int64"
    found = list(reader)
    assert [len(batch["n"]) for batch in found] == [12, 12, 6]
    for batch in found:
        assert batch["v"].dtype == np.float32
        assert batch["v"].shape == (len(batch["n"]), 2)
        assert batch["word"].dtype == np.object_
        assert all(array.flags.writeable for array in batch.values())
    if format_ != "recordioProtobuf":
        assert reader.features == {
            "label": Feature("int64", ()), "n": Feature(number, ()), "v": Feature("float32", (2,)), "word": Feature("text", ()),
        }  # fmt: skip
    together = {name: [value for batch in found for value in batch[name].tolist()] for name in found[0]}
    assert [dict(zip(together, row, strict=True)) for row in zip(*together.values(), strict=True)] == expected(30)


def test_wide_formats_are_read_without_a_step_for_each_record(tmp_path: Path) -> None:
    for format_, kind in (("tfrecord", IndexedShard), ("parquet", ParquetShard), ("arrow", ArrowShard)):
        reader = opened(data_set(tmp_path / format_, lines(5), format=format_))
        assert {type(shard) for shard in reader._passes._shards} == {kind}


def test_examples_are_parsed_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, output in (("index", {}), ("gzip", {"tfrecord": {"compression": "Gzip"}}), ("plain", {"index": False})):
        folder = data_set(tmp_path / name, lines(30), **output)
        with monkeypatch.context() as patched:
            patched.delattr(ShardLayout, "built")
            assert rows(opened(folder, as_="arrow")) == expected(30)


EXAMPLES_IN = [case.example for case in CASES.values() if case.example is not None]


def test_every_format_is_among_the_examples_or_the_tables() -> None:
    assert {name for name, case in CASES.items() if case.example is not None} | set(TABLES) == set(FORMATS)


@pytest.mark.parametrize("example", [*EXAMPLES_IN, "jsonl", "masks"])
def test_examples_of_every_format_are_what_the_source_dataset_reads(example: str, tmp_path: Path) -> None:
    make, count = INPUTS[f"{example}-local.yaml"]
    output = tmp_path / "out"
    assert code_of("run", EXAMPLES / f"{example}-local.yaml", *settings({"params.input": make(tmp_path), "output.uri": output})) == 0
    whole = source_rows(source_batches(DatasetReader, Source.model_validate({"dataset": {"uri": str(output)}})))
    names = [split.name for split in _manifest(output).splits]
    found = rows(opened(output, split=names, as_="arrow", batch_size=7))
    assert found == [{name: value for name, value in row.items() if name != "_sample"} for row in whole]
    assert len(found) == count
    # DL4J's zip files don't contain labels, although the records have labels.
    columns = ["image/encoded", "image/filename"] if example == "file-batch" else None
    arrays = list(opened(output, split=names, batch_size=7, columns=columns))
    assert sum(len(next(iter(batch.values()))) for batch in arrays) == count


def _manifest(folder: Path) -> Any:
    return load_manifest(str(folder), Access())


# --- lists ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["tfrecord", "parquet", "arrow", "jsonl"])
@pytest.mark.parametrize("sequence", [False, True])
def test_lists_of_any_length_are_ragged(format_: str, sequence: bool, tmp_path: Path) -> None:
    reader = opened(lists(tmp_path, sequence=sequence, format=format_), batch_size=1_000)
    assert reader.features["scores"] == Feature("float32", (-1,))
    (batch,) = reader
    assert (batch["scores"].values.dtype, batch["scores"].offsets.dtype) == (np.float32, np.int64)
    assert plain(batch["scores"]) == SCORES
    assert batch["scores"].offsets.tolist() == [0, 2, 2, 3, 6, 6]
    assert plain(batch["words"]) == WORDS
    assert [len(batch["scores"]), batch["scores"][-2].tolist()] == [5, [3.5, 4.5, 5.5]]
    with pytest.raises(IndexError, match="there are 5 lists, so there is no list 5"):
        batch["scores"][5]
    mixed = one(tmp_path / "set", shuffle=3)
    order = mixed["id"].tolist()
    assert plain(mixed["words"]) == [WORDS[number] for number in order]
    assert order != list(range(5))


def test_lists_of_lists_are_ragged_of_ragged() -> None:
    inner = Ragged(np.arange(6), np.array([0, 1, 3, 3, 6]))
    lists_ = Ragged(inner, np.array([0, 2, 2, 4]))
    assert [[each.tolist() for each in row] for row in lists_] == [[[0], [1, 2]], [], [[], [3, 4, 5]]]


@pytest.mark.parametrize("format_", ["tfrecord", "parquet", "arrow", "jsonl"])
def test_sequences_of_vectors_have_a_dimension_more(format_: str, tmp_path: Path) -> None:
    (tmp_path / "walks").mkdir()
    for number in range(4):
        steps = [f"{step / 2},{number},{number % 2}" for step in range(2 + number)]
        (tmp_path / "walks" / f"{number}.csv").write_text("\n".join(steps) + "\n")
    source = {"csvSequences": {"uris": [str(tmp_path / "walks")], "perSequence": ["2"]}}
    features = {"features": [{"name": "walk", "columns": ["0..1"]}], "labels": [{"name": "label", "columns": ["2"]}]}
    run_spec({"source": source, **features, "output": {"uri": str(tmp_path / "set"), "format": format_}})
    walk = one(tmp_path / "set")["walk"]
    assert walk.values.shape == (2 + 3 + 4 + 5, 2)
    assert [each.tolist() for each in walk] == [[[step / 2, number] for step in range(2 + number)] for number in range(4)]
    assert one(tmp_path / "set", columns=["label"])["label"].shape == (4,)


# --- columns, missing values, labels -------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", TABLES)
def test_only_the_wanted_features_in_the_wanted_order(format_: str, table: Callable[[str], Path]) -> None:
    reader = opened(table(format_), columns=["word", "n"], as_="arrow")
    assert reader.schema.names == ["word", "n"]
    assert rows(reader) == [{"word": row["word"], "n": row["n"]} for row in expected(30)]


def test_a_missing_float_is_nan_and_a_missing_text_none() -> None:
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [2]), pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))
    )
    found = as_numpy(
        pa.record_batch({
            "x": pa.array([0.5, None, 1.5], pa.float32()), "t": ["a", None, "b"], "v": tensors, "l": pa.array([[1], None, []], pa.large_list(pa.int64())),
        })
    )  # fmt: skip
    assert isinstance(found["x"], np.ndarray)
    assert found["x"].dtype == np.float32
    assert np.array_equal(found["x"], np.array([0.5, np.nan, 1.5]), equal_nan=True)
    assert plain(found["t"]) == ["a", None, "b"]
    assert isinstance(found["v"], np.ndarray)
    assert np.array_equal(found["v"], np.array([[1, 2], [np.nan, np.nan], [3, 4]]), equal_nan=True)
    assert plain(found["l"]) == [[1], [], []]


@pytest.mark.parametrize("first", [0, 3, 9])
def test_numbers_with_nulls_are_masked_in_any_slice_of_a_column(first: int) -> None:
    columns: dict[str, Any] = {
        "n": pa.array([1, None, 3] * 5), "b": pa.array([True, None, False] * 5), "t": pa.array([["a"], None, ["b"]] * 5, pa.list_(pa.large_string(), 1)),
    }  # fmt: skip
    found: Any = as_numpy(pa.record_batch(columns).slice(first, 6))
    assert found["n"].tolist() == ([1, None, 3] * 5)[first : first + 6]
    assert found["b"].tolist() == ([True, None, False] * 5)[first : first + 6]
    assert (found["n"].dtype, found["b"].dtype, type(found["n"])) == (np.int64, np.bool_, np.ma.MaskedArray)
    assert plain(found["t"]) == ([["a"], [None], ["b"]] * 5)[first : first + 6]


def test_a_batch_without_nulls_is_not_masked() -> None:
    found: Any = as_numpy(pa.record_batch({"n": pa.array([None, 2, 3]).slice(1)}))
    assert type(found["n"]) is np.ndarray


@pytest.mark.parametrize("format_", ["jsonl", "tfrecord"])
def test_what_a_format_does_not_hold_is_missing(format_: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("nan\n1.5\n")
    source = {"csv": {"uris": [str(tmp_path / "rows.csv")], "columns": [{"name": "x", "type": "Float64"}]}}
    options = {"jsonl": {"nonFinite": "Null"}} if format_ == "jsonl" else {}
    run_spec({"source": source, "output": {"uri": str(tmp_path / "set"), "format": format_} | options})
    assert np.array_equal(one(tmp_path / "set")["x"], [np.nan, 1.5], equal_nan=True)
    found = rows(opened(tmp_path / "set", as_="arrow"))
    assert found[1] == {"x": 1.5}
    assert (found[0]["x"] is None) == (format_ == "jsonl")


def test_labels_have_the_names_of_their_classes(tmp_path: Path) -> None:
    make, _ = INPUTS["images-local.yaml"]
    output = tmp_path / "out"
    assert code_of("run", EXAMPLES / "images-local.yaml", *settings({"params.input": make(tmp_path), "output.uri": output})) == 0
    reader = opened(output, split=[split.name for split in _manifest(output).splits])
    assert reader.classes["image/class/label"] == ["admiral", "flower", "temple"]
    (batch,) = opened(output, split=[split.name for split in _manifest(output).splits], batch_size=100)
    names = [reader.classes["image/class/label"][number] for number in batch["image/class/label"]]
    assert names == batch["image/class/text"].tolist()
    assert all(isinstance(each, bytes) and each[:2] == b"\xff\xd8" for each in batch["image/encoded"])


def test_tensors_keep_type_and_shape(tmp_path: Path) -> None:
    values = np.arange(20 * 6, dtype=np.uint16).reshape(20, 2, 3)
    np.save(tmp_path / "x.npy", values)
    for format_ in ("tfrecord", "parquet", "arrow", "npz"):
        folder = tmp_path / format_
        run_spec({"source": {"numpy": {"uris": [str(tmp_path / "x.npy")]}}, "output": {"uri": str(folder), "format": format_}})
        batch = one(folder)
        assert batch["values"].dtype == np.uint16
        assert np.array_equal(batch["values"], values), format_
        schema = opened(folder, as_="arrow").schema
        assert isinstance(schema.field("values").type, pa.FixedShapeTensorType)
        assert next(iter(opened(folder, as_="arrow", batch_size=3))).schema.equals(schema)


def test_whole_records_come_as_bytes(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "first", count=9)
    run_spec({"source": {"tfrecord": {"uris": [str(folder)], "raw": True}}, "output": {"uri": str(tmp_path / "set")}})
    (name,) = opened(tmp_path / "set").features
    assert len(one(tmp_path / "set")[name]) == 9
    assert all(isinstance(record, bytes) for record in one(tmp_path / "set")[name])
    assert flat(opened(folder)) == list(range(9))


def test_arrays_of_npz_are_sliced_and_not_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep_converter.formats.archives.npz_decoder.NpzDecoder.read", None)
    np.save(tmp_path / "x.npy", np.arange(60, dtype=np.uint8).reshape(10, 2, 3))
    run_spec({"source": {"numpy": {"uris": [str(tmp_path / "x.npy")]}}, "output": {"uri": str(tmp_path / "set"), "format": "npz"}})
    found = [batch["values"] for batch in opened(tmp_path / "set", batch_size=4)]
    assert [(each.dtype.name, each.shape) for each in found] == [("uint8", (4, 2, 3)), ("uint8", (4, 2, 3)), ("uint8", (2, 2, 3))]
    assert np.concatenate(found).ravel().tolist() == list(range(60))


def test_a_broken_file_of_npz_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(10))
    run_spec({"source": {"numpy": {"uris": [str(tmp_path / "x.npy")]}}, "output": {"uri": str(tmp_path / "set"), "format": "npz"}})
    data = bytearray((tmp_path / "set" / "train.npz").read_bytes())
    data[200] ^= 1
    (tmp_path / "set" / "train.npz").write_bytes(data)
    with pytest.raises(BadData, match=r"set/train\.npz: .* at offset"):
        list(opened(tmp_path / "set"))


# --- text, many records in one call ---------------------------------------------------------------------------------

ODD: dict[str, tuple[str, list[Any]]] = {
    "numbers": ("Float32", [0.1, -1e30, 16777217, 3]),
    "not a number": ("Float32", [1.5, "NaN", "Infinity", 2]),
    "whole numbers": ("Int64", [0, -(2**63), 2**63 - 1, 7]),
    "truth": ("Bool", [True, False, True, True]),
    "text": ("String", ["", "é\n\"'", "0x10", "null"]),
}


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
@pytest.mark.parametrize(("kind", "values"), ODD.values(), ids=ODD.keys())
def test_text_is_read_as_record_by_record(
    format_: str, kind: str, values: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [f"{value}" if isinstance(value, str) and kind != "String" else json.dumps(value) for value in values]
    (tmp_path / "in.jsonl").write_text("".join(f'{{"x": {value}, "n": {number}}}\n' for number, value in enumerate(written)))
    columns = [{"name": "x", "type": kind}, {"name": "n", "type": "Int64"}]
    source = {"jsonl": {"uris": [str(tmp_path / "in.jsonl")], "columns": columns}}
    features = [{"name": "x"}, {"name": "n", "dtype": "uint8"}]
    run_spec(
        {
            "source": source,
            "features": features,
            "output": {"uri": str(tmp_path / "out"), "format": format_, "jsonl": {"nonFinite": "Text"}},
        }
    )
    together = rows(opened(tmp_path / "out", as_="arrow"))
    assert len(together) == len(values)
    monkeypatch.setattr(shards, "MakesColumns", _Nothing)
    # The values are compared as text, because NaN isn't equal to itself.
    assert repr(together) == repr(rows(opened(tmp_path / "out", as_="arrow")))


class _Nothing:
    """A class of which no decoder is an instance."""


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_text_takes_no_step_for_each_record(format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = data_set(tmp_path, lines(30), format=format_)
    monkeypatch.setattr(shards, "by_feature", None)
    assert rows(opened(folder, as_="arrow")) == expected(30)


@pytest.mark.parametrize(
    ("format_", "value", "wrong", "message"),
    [
        ("jsonl", b'"n":129,', b'"n":1.5,', "the feature 'n' holds float, expected int64"),
        ("csv", b"129,", b"xyz,", "the feature 'n' is b'xyz', which isn't a valid int64"),
        ("csv", b"129,", b"0x1,", "the feature 'n' is b'0x1', which isn't a valid int64"),
        ("csv", b"129,", b"1,9,", "expected 5 cells, got 7"),
    ],
    ids=["jsonl", "csv", "hexadecimal", "a cell more"],
)
def test_a_wrong_value_of_text_is_named(format_: str, value: bytes, wrong: bytes, message: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"csv": {"labelsFirst": False}} if format_ == "csv" else {}  # Any: fields of the output
    folder = data_set(tmp_path, lines(200), format=format_, **options)
    (file,) = [file for file in folder.glob("*." + format_) if value in file.read_bytes()]
    file.write_bytes(file.read_bytes().replace(value, wrong))
    with pytest.raises(BadData) as caught:
        rows(opened(folder, as_="arrow"))
    assert f"{file}: " in str(caught.value)
    assert message in str(caught.value)
