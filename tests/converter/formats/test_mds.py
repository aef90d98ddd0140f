"""mds: bytes equal those of MosaicML Streaming's writer, all values are read back, index.json is correct, and damage is detected."""

import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.builders.examples import examples
from tests.builders.jobs import run_job
from tests.converter.formats.columns import Written, all_same, any_columns, expected, plain, tensors, written

import dataprep_reader
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec, BrokenRecord, NotWhole
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats import values
from dataprep_converter.formats.mds import mds_encoder
from dataprep_converter.formats.registry import by_feature, decoder
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

pytestmark = pytest.mark.usefixtures("native_and_python")

# --- bytes ----------------------------------------------------------------------------------------------------------


def golden() -> Written:
    """Encode two records with a column for every supported encoding."""
    columns = {
        "a": pa.array([1, -(2**63)]),
        "b": pa.array(["x☃", ""]),
        "c": pa.array([b"\xff\0", b""]),
        "d": pa.array([1.5, -0.0], pa.float32()),
        "e": to_arrow(np.array([np.arange(6).reshape(2, 3), np.full((2, 3), 255)], np.uint8)),
        "f": pa.array([[7, -8], list(range(300))]),
        "g": pa.array([['q"'], []], pa.list_(pa.string())),
        "h": pa.array([True, False]),
        "i": pa.array([[[0.0, 1.0], [2.0, 3.0]], [[1.0, 1.0]]], pa.list_(pa.list_(pa.float32(), 2))),
        "j": pa.array([b"\xff\xd8\xff", b""]),
    }
    return written("mds", columns, sequences=["i"], cuts=[1], options={"encodings": {"j": "jpeg"}})


def test_bytes_are_those_of_the_librarys_writer() -> None:
    # MDSWriter(columns={"a": "int", "b": "str", "c": "bytes", "d": "float32", "e": "ndarray:uint8:2,3", "f": "ndarray:int64", "g": "json",
    # "h": "uint8", "i": "ndarray:float32", "j": "jpeg"}, hashes=["sha256"], size_limit=None) of mosaicml-streaming 0.13.0.
    made = golden()
    assert hashlib.sha256(made.data).hexdigest() == "bee34456563a9dd05d1d7ebe35fbfd0b8fd9c6eb18324caf6261348b20eed03c"
    shard = mds_encoder.shard_of_index(
        mds_encoder.columns(made.features, made.output.mds),
        raw=mds_encoder.MdsFile("shard.00000.mds", len(made.data), hashlib.sha256(made.data).hexdigest()),
        records=2,
    )
    assert hashlib.sha256(mds_encoder.index([shard])).hexdigest() == "824231b1e0347ba03fc294694037301c48cdd14995baeff698e3ff66f019e4ff"


def test_a_file_without_records_has_its_columns() -> None:
    made = written("mds", {"a": pa.array([], pa.int64())})
    head = json.dumps(mds_encoder.config(mds_encoder.columns(made.features, made.output.mds)), sort_keys=True).encode()
    assert made.data == bytes(4) + (8 + len(head)).to_bytes(4, "little") + head
    assert made.records() == []


@pytest.mark.parametrize(
    ("column", "options", "encoding"),
    [
        (pa.array([1], pa.int8()), {}, "int8"),
        (pa.array([1]), {}, "int"),
        (pa.array([1.0]), {}, "float64"),
        (pa.array([True]), {}, "uint8"),
        (pa.array(["x"]), {}, "str"),
        (pa.array([b"x"]), {}, "bytes"),
        (pa.array([b"x"]), {"encodings": {"x": "png"}}, "png"),
        (pa.array(["{}"]), {"encodings": {"x": "json"}}, "json"),
        (tensors([1.0, 2.0]), {}, "ndarray:float32:2"),
        (pa.array([[1]], pa.list_(pa.int16())), {}, "ndarray:int16"),
        (pa.array([[True]]), {}, "ndarray:uint8"),
        (pa.array([["a"]]), {}, "json"),
    ],
)
def test_encodings_follow_from_types(column: Any, options: dict[str, Any], encoding: str) -> None:
    made = written("mds", {"x": column}, options=options)
    assert f'"column_encodings": ["{encoding}"]'.encode() in made.data
    assert all_same(made.records(), expected({"x": column}, []))


def test_an_image_is_read_as_one() -> None:
    made = written("mds", {"image/encoded": pa.array([b"x"])})
    assert b'"column_encodings": ["jpeg"]' in made.data


@pytest.mark.parametrize(
    ("encodings", "message"),
    [
        ({"z": "str"}, "output.mds.encodings: 'z' isn't a feature of text or bytes; those features are b, l."),
        ({"a": "str"}, "output.mds.encodings: 'a' isn't a feature of text or bytes; those features are b, l."),
        ({"l": "str"}, "output.mds.encodings: 'l' has several values, so its encoding must be json, not str."),
    ],
)
def test_options_that_do_not_fit_are_refused(encodings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        written("mds", {"a": pa.array([1]), "b": pa.array(["x"]), "l": pa.array([["x"]])}, options={"encodings": encodings})
    assert str(caught.value) == message


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(
        BadData, match="The feature 'b' has no value in some records, and mds can't store missing values; give it a default"
    ):
        written("mds", {"b": pa.array(["x", None])}, nulls="Dropped")


def test_a_shard_beyond_its_offsets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mds_encoder, "LARGEST", 1000)
    with pytest.raises(
        BadSpec, match="An mds shard would have 1,[0-9]{3} bytes, but its offsets can be at most 1,000: set output.shards.targetSize"
    ):
        written("mds", {"b": pa.array([b"x" * 900])})


# --- values -----------------------------------------------------------------------------------------------------------


def without_nulls(column: Any) -> Any:
    """Replace a column's nulls with other values."""
    if not column.null_count:
        return column
    there = [value for value in plain(column) if value is not None]
    instead: Any = there[0] if there else _nothing(column.type)
    return pa.array([instead if value is None else value for value in column.to_pylist()], column.type)


def _nothing(kind: Any) -> Any:
    if pa.types.is_fixed_size_list(kind):
        return [0] * kind.list_size
    if pa.types.is_list(kind):
        return []
    return (
        ""
        if pa.types.is_string(kind)
        else b""
        if pa.types.is_large_binary(kind)
        else np.float16(0)
        if kind == pa.float16()
        else False
        if kind == pa.bool_()
        else 0
    )


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(any_columns())
def test_every_value_comes_back_and_bytes_are_the_same_however_batches_are_cut(made: tuple[dict[str, Any], list[str], list[int]]) -> None:
    columns, sequences, cuts = made
    columns = {name: without_nulls(column) for name, column in columns.items()}
    shard = written("mds", columns, sequences=sequences, cuts=cuts)
    assert shard.data == written("mds", columns, sequences=sequences).data
    found = shard.records(size=1000)
    assert all_same(found, expected({name: columns[name] for name in sorted(columns)}, sequences))
    reader = decoder(shard.manifest())
    assert [values.fault(shard.manifest().features, by_feature(reader, each, [])) for _, each in reader.read([shard.data])] == [None] * len(
        found
    )


# --- a data set ---------------------------------------------------------------------------------------------------------


def convert(folder: Path, **output: Any) -> None:
    (folder / "rows.csv").write_text("".join(f"{row},word {row}\n" for row in range(30)))
    spec = {
        "source": {
            "csv": {"uris": [str(folder / "rows.csv")], "columns": [{"name": "n", "type": "Int64"}, {"name": "w", "type": "String"}]}
        },
        "splits": {"into": [{"name": "train", "first": 20}, {"name": "test"}]},
        "output": {"uri": str(folder / "out"), "overwrite": "Always", **output},
    }
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "j"}, "spec": spec}
    run_job(DataPrepJob.parse(job))


def visible(folder: Path) -> list[str]:
    paths = [file.relative_to(folder / "out") for file in (folder / "out").rglob("*") if file.is_file()]
    return sorted(str(path) for path in paths if not any(part.startswith(("_", ".")) for part in path.parts))


def test_each_split_has_an_index_which_verify_knows_and_another_run_replaces(tmp_path: Path) -> None:
    convert(tmp_path, format="mds", shards={"records": 12})
    assert visible(tmp_path) == [
        "test/index.json", "test/shard.00000.mds", "train/index.json", "train/shard.00000.mds", "train/shard.00001.mds",
    ]  # fmt: skip
    index = json.loads((tmp_path / "out/train/index.json").read_text())
    files = [tmp_path / "out/train" / shard["raw_data"]["basename"] for shard in index["shards"]]
    assert [file.name for file in files] == ["shard.00000.mds", "shard.00001.mds"]
    assert [shard["samples"] for shard in index["shards"]] == [10, 10]
    assert [shard["raw_data"]["bytes"] for shard in index["shards"]] == [file.stat().st_size for file in files]
    assert [shard["raw_data"]["hashes"]["sha256"] for shard in index["shards"]] == [
        hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    ]
    verify(str(tmp_path / "out"), Access())

    before = (tmp_path / "out/test/index.json").read_bytes()
    (tmp_path / "out/test/index.json").write_bytes(before.replace(b"10", b"11"))
    with pytest.raises(NotWhole, match="test/index.json has SHA-256 .* instead of"):
        verify(str(tmp_path / "out"), Access())
    (tmp_path / "out/test/index.json").unlink()
    with pytest.raises(NotWhole, match="test/index.json is missing"):
        verify(str(tmp_path / "out"), Access())

    convert(tmp_path, format="mds", shards={"records": 12})
    assert (tmp_path / "out/test/index.json").read_bytes() == before
    convert(tmp_path, format="tfrecord")
    assert visible(tmp_path) == ["test.tfrecords", "train.tfrecords"]
    verify(str(tmp_path / "out"), Access())


@pytest.mark.parametrize("template", ["{split}-{shard}.mds", "{split}/{shard}/x.mds"])
def test_each_split_needs_a_folder(tmp_path: Path, template: str) -> None:
    with pytest.raises(BadSpec, match="mds needs one folder per split, and all shards of the split in that folder"):
        convert(tmp_path, format="mds", shards={"records": 12}, fileName=template)


# --- damaged files ------------------------------------------------------------------------------------------------------

WHOLE = written("mds", {"a": pa.array([1, 22]), "b": pa.array(["x", "yz"])})
HEAD = len(WHOLE.data) - 2 * 12 - 3


def damaged(place: int, new: bytes) -> bytes:
    return WHOLE.data[:place] + new + WHOLE.data[place + len(new) :]


def number(value: int) -> bytes:
    return value.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "the file ends within the number of records: 0 of 4 bytes at offset 0"),
        (WHOLE.data[:9], "the file ends within the offsets of 2 records: 5 of 12 bytes at offset 4"),
        (
            damaged(0, number(10**9)),
            f"the file ends within the offsets of 1,000,000,000 records: {len(WHOLE.data) - 4:,} of 4,000,000,004 bytes at offset 4",
        ),
        (WHOLE.data[:-1], f"the file ends within a record: 13 of 14 bytes at offset {HEAD + 13}"),
        (WHOLE.data + b"x", f"bytes after the last record at offset {len(WHOLE.data)}"),
        (damaged(20, b"x"), "the columns are not those of the manifest at offset 16"),
        (damaged(4, number(7)), "the first offset in the offset table is wrong: 7 at offset 4"),
        (damaged(8, number(7)), "according to the offset table, record 0 ends before it begins at offset 8"),
        (damaged(HEAD, number(2)), f"the columns' sizes don't add up to the record's 13 bytes at offset {HEAD}"),
    ],
)
def test_what_is_broken_is_named_with_its_offset(data: bytes, fault: str) -> None:
    with pytest.raises(BrokenRecord) as caught:
        WHOLE.records(data=data, size=100)
    assert str(caught.value) == fault


@pytest.mark.parametrize("content", [b"", b"\x04", b"\x04\x02\0\0\0\0", b"\x08\xff\xff" + bytes(8), b"\xff"])
def test_an_array_that_does_not_have_its_shape_is_named(content: bytes) -> None:
    reader = decoder(written("mds", {"a": pa.array([[1]], pa.list_(pa.float32()))}).manifest())
    with pytest.raises(BrokenRecord, match="the content of 'a' isn't valid ndarray:float32: "):
        reader.parse(number(len(content)) + content)


# --- compressed shards --------------------------------------------------------------------------------------------------


def uncompressed(data: bytes, ending: str) -> bytes:
    """Decompress a shard with libraries other than ours."""
    if ending == "gz":
        return gzip.decompress(data)
    with pa.input_stream(io.BytesIO(data), compression="zstd") as stream:
        whole: bytes = stream.read()
    return whole


@pytest.mark.parametrize(("option", "ending", "named"), [("Zstd", "zstd", "zstd:3"), ("Gzip", "gz", "gz:6")])
def test_compressed_shards_are_told_by_the_index_both_ways(tmp_path: Path, option: str, ending: str, named: str) -> None:
    convert(tmp_path, format="mds", shards={"records": 12}, mds={"compression": option})
    assert visible(tmp_path) == [
        "test/index.json", f"test/shard.00000.mds.{ending}", "train/index.json", f"train/shard.00000.mds.{ending}", f"train/shard.00001.mds.{ending}",
    ]  # fmt: skip
    index = json.loads((tmp_path / "out/train/index.json").read_text())
    for number, shard in enumerate(index["shards"]):
        data = (tmp_path / f"out/train/shard.0000{number}.mds.{ending}").read_bytes()
        raw = uncompressed(data, ending)
        assert shard["compression"] == named
        assert f'"compression": "{named}"'.encode() in raw
        assert shard["zip_data"] == {
            "basename": f"shard.0000{number}.mds.{ending}", "bytes": len(data), "hashes": {"sha256": hashlib.sha256(data).hexdigest()},
        }  # fmt: skip
        assert shard["raw_data"] == {
            "basename": f"shard.0000{number}.mds", "bytes": len(raw), "hashes": {"sha256": hashlib.sha256(raw).hexdigest()},
        }  # fmt: skip
    verify(str(tmp_path / "out"), Access(), every_record=True)
    read = dataprep_reader.open(str(tmp_path / "out"), split="train")
    assert [n for batch in read for n in batch["n"].tolist()] == list(range(20))


@pytest.mark.parametrize("option", ["Zstd", "Gzip"])
def test_compressed_bytes_are_the_same_however_batches_are_cut(option: str) -> None:
    columns = {"a": pa.array(range(500)), "b": pa.array([f"word {n}" for n in range(500)])}
    made = written("mds", columns, options={"compression": option})
    assert made.data == written("mds", columns, cuts=[3, 77], options={"compression": option}).data
    assert made.records(size=100) == [{"a": [n], "b": [f"word {n}".encode()]} for n in range(500)]
    for cut in (0, 10, len(made.data) - 1):
        with pytest.raises(BrokenRecord):
            made.records(data=made.data[:cut])
