"""Tests data sets of MosaicML Streaming: every encoding, folders, compressions, and indexes and shards that don't match.

`written_by_mds_writer.tar.xz` was written by `MDSWriter` of mosaicml-streaming 0.13.0: `train` (plain), `val` (zstd:7) and `test` (gz),
with shards of at most 2,400 bytes, and the values of `expected`. The reader's own tests use shards from our encoder, whose bytes equal
MDSWriter's (`tests/interop/heavy/test_mds.py`).
"""

import json
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.data_sets import data_set, lines
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_converter.images import image_headers
from dataprep_converter.readers import Reader
from dataprep_converter.readers.foreign.mds import MdsReader

THEIRS = Path(__file__).with_name("written_by_mds_writer.tar.xz")


def a_source(*uris: Path, **options: Any) -> Source:
    return Source.model_validate({"mds": {"uris": [str(uri) for uri in uris], **options}})


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    with tarfile.open(THEIRS) as archive:
        archive.extractall(tmp_path / "set", filter="data")
    return tmp_path / "set"


def found(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(MdsReader, source))]


def expected(n: int) -> dict[str, Any]:
    return {
        "any": [n * value for value in range(4)],
        "b": bytes([n, 0, 255]),
        "f32": float(np.float32(n / 3)),
        "f64": n / 7,
        "fixed": [n + value for value in range(6)],
        "i": n - 2**60,
        "ragged": list(range(n % 3 + 1)),
        "s": f"text é {n}",
        "sd": str(Decimal(f"{n}.10")),
        "sf": n / 9,
        "shaped": [float(n)] * 4,
        "si": -n,
        "u8": n,
    }


class Contract(ReaderContract):
    reader: ClassVar[type[Reader]] = MdsReader
    options: ClassVar[dict[str, Any]] = {}

    def a_source(self, folder: Path) -> Source:
        made = data_set(folder, lines(30), format="mds", **self.options)
        (folder / "rows.csv").unlink()
        return a_source(made)

    def an_empty_source(self, folder: Path) -> Source:
        (folder / "set").mkdir()
        (folder / "set/index.json").write_text('{"version": 2, "shards": []}')
        return a_source(folder / "set")

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        return a_source(folder / "absent"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        (file, *_) = sorted((folder / "set").rglob("*.mds*"))
        file.write_bytes(file.read_bytes()[::-1])
        return file


class TestMds(Contract):
    pass


class TestCompressedMds(Contract):
    options: ClassVar[dict[str, Any]] = {"mds": {"compression": "Zstd"}}


def test_the_values_are_those_of_the_writer(theirs: Path) -> None:
    ours = found(a_source(theirs))
    numbers = [*range(100, 103), *range(12), *range(100, 105)]
    assert [{name: row[name] for name in expected(0)} for row in ours] == [expected(n) for n in numbers]
    assert [json.loads(row["j"]) for row in ours] == [{"n": n, "x": [1, None]} for n in numbers]
    for row in ours:
        header = image_headers.parse(row["pic"])
        assert (header.format, header.height, header.width) == ("jpeg", 6, 8)


def test_the_columns_have_the_types_of_the_encodings(theirs: Path) -> None:
    _, state = plan(MdsReader, a_source(theirs))
    schema = opened(MdsReader, a_source(theirs), state).schema()
    assert {field.name: field.type for field in schema} == {
        "any": pa.fixed_shape_tensor(pa.int64(), (4,)),
        "b": pa.large_binary(),
        "f32": pa.float32(),
        "f64": pa.float64(),
        "fixed": pa.fixed_shape_tensor(pa.int16(), (2, 3)),
        "i": pa.int64(),
        "j": pa.string(),
        "pic": pa.large_binary(),
        "ragged": pa.large_list(pa.int32()),
        "s": pa.string(),
        "sd": pa.string(),
        "sf": pa.float64(),
        "shaped": pa.fixed_shape_tensor(pa.float32(), (2, 2)),
        "si": pa.int64(),
        "u8": pa.uint8(),
    }


def test_the_folder_of_an_index_is_the_subset(theirs: Path) -> None:
    units, _ = plan(MdsReader, a_source(theirs))
    subsets = dict.fromkeys(units.table["subset"].to_pylist())
    assert list(subsets) == ["test", "train", "val"]
    units, _ = plan(MdsReader, a_source(theirs / "train", theirs / "val/index.json"))
    assert set(units.table["subset"].to_pylist()) == {""}
    assert units.samples == 17


def test_an_index_of_all_folders_reads_no_shard_twice(theirs: Path) -> None:
    # streaming's merge_index writes such an index above the folders, and leaves the folders' own indexes in place.
    shards = []
    for name in ("test", "train", "val"):
        for shard in json.loads((theirs / name / "index.json").read_text())["shards"]:
            for data in ("raw_data", "zip_data"):
                if shard[data]:
                    shard[data]["basename"] = f"{name}/{shard[data]['basename']}"
            shards.append(shard)
    (theirs / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))
    units, _ = plan(MdsReader, a_source(theirs))
    assert units.samples == 20
    assert list(dict.fromkeys(units.table["subset"].to_pylist())) == ["test", "train", "val"]


def test_only_the_columns_that_are_named_are_read(theirs: Path) -> None:
    assert [list(row) for row in found(a_source(theirs / "val", columns=["s", "i"]))] == [["s", "i"]] * 5
    with pytest.raises(
        BadSpec, match=r"^source\.mds\.columns: .*/val/index\.json has no column 'pics'\. Did you mean 'pic'\? It has any, b, f32"
    ):
        plan(MdsReader, a_source(theirs / "val", columns=["pics"]))


def edited(folder: Path, **shard: Any) -> Path:
    """Changes the first shard in an index."""
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0] |= shard
    (folder / "index.json").write_text(json.dumps(index))
    return folder


def with_encoding(folder: Path, name: str, encoding: str) -> Path:
    index = json.loads((folder / "index.json").read_text())
    for shard in index["shards"]:
        shard["column_encodings"][shard["column_names"].index(name)] = encoding
    (folder / "index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [
        ("pkl", "a pickle could run any code when it is read"),
        ("pil", "its pixels have no image format"),
        ("list[jpeg]", "no such encoding is known"),
        ("uint64", "records can't hold it"),
        ("ndarray:foo", "expected a type of numbers that records can hold, and sizes of at least 1"),
        ("ndarray:uint64:2", "expected a type of numbers that records can hold, and sizes of at least 1"),
        ("ndarray:int8:2,x", "expected a type of numbers that records can hold, and sizes of at least 1"),
        ("ndarray:int8:-1", "expected a type of numbers that records can hold, and sizes of at least 1"),
        ("ndarray::3", "expected a type of numbers that records can hold, and sizes of at least 1"),
    ],
)
def test_an_encoding_that_can_not_be_read_is_refused_unless_it_is_left_out(theirs: Path, encoding: str, reason: str) -> None:
    folder = with_encoding(theirs / "train", "b", encoding)
    with pytest.raises(BadSpec) as caught:
        plan(MdsReader, a_source(folder))
    assert str(caught.value) == (
        f"{folder}/index.json: the column 'b' has the encoding {encoding}, which source.mds can't read ({reason}); "
        "list the other columns in source.mds.columns."
    )
    assert len(found(a_source(folder, columns=["s"]))) == 12


def test_contents_that_do_not_fit_are_bad_records(theirs: Path) -> None:
    folder = with_encoding(theirs / "train", "s", "str_int")
    assert faults(batches(MdsReader, a_source(folder, columns=["s"])))[0] == "the column 's': 'text é 0' is not a whole number"


@pytest.mark.parametrize(
    ("encoding", "expected"), [("int", "8"), ("float16", "2"), ("ndarray:float32:3,4", "48")], ids=["int", "float16", "ndarray"]
)
def test_numbers_of_another_size_are_bad_records(theirs: Path, encoding: str, expected: str) -> None:
    folder = with_encoding(theirs / "train", "b", encoding)
    assert faults(batches(MdsReader, a_source(folder, columns=["b"])))[0] == f"the column 'b': it has 3 bytes, expected {expected}"


def test_arrays_without_a_common_shape_are_refused(theirs: Path) -> None:
    folder = with_encoding(theirs / "train", "ragged", "ndarray")
    with pytest.raises(BadData, match=r"in its first 2 records, it is not an array in the encoding ndarray: "):
        plan(MdsReader, a_source(folder, columns=["ragged"]))


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "too many records": ({"samples": 3}, BadData, "shard.00000.mds: its index gives 3 records, but the shard gives 2."),
    "another format": ({"format": "jsonl"}, BadSpec, "index.json: its shards have the format 'jsonl'; source.mds reads mds."),
    "a column twice": (
        {"column_names": ["a", "a"], "column_encodings": ["int", "int"], "column_sizes": [8, 8]},
        BadSpec,
        "index.json: the column 'a' occurs twice.",
    ),
    "the column of sample numbers": (
        {"column_names": ["_sample"], "column_encodings": ["int"], "column_sizes": [8]},
        BadSpec,
        "index.json: the column '_sample' has a reserved name.",
    ),
    "the size of a column": (
        {"column_names": ["a"], "column_encodings": ["int"], "column_sizes": ["8"]},
        BadSpec,
        "index.json: the size of a column is '8', expected a number or null.",
    ),
    "no number": ({"samples": "2"}, BadSpec, "index.json: samples of a shard is '2', expected a number."),
    "another size": (
        {"raw_data": {"basename": "shard.00000.mds", "bytes": 5}},
        BadData,
        "shard.00000.mds has 2,226 bytes, but {folder}/index.json says 5.",
    ),
    "a shard that is gone": (
        {"raw_data": {"basename": "x.mds", "bytes": 5}},
        BadData,
        "index.json lists the shard x.mds, which doesn't exist.",
    ),
    "other columns": (
        {"column_names": ["a"], "column_encodings": ["str"], "column_sizes": [None]},
        BadSpec,
        "missing in {folder}/index.json; every index needs the same columns. Write the shards again with the same columns, or convert each kind of shard",
    ),
    "no columns": (
        {"column_names": None},
        BadSpec,
        "index.json: the index doesn't list the columns of a shard; was it written by MDSWriter?",
    ),
}


@pytest.mark.parametrize(("shard", "kind", "message"), WRONG.values(), ids=WRONG.keys())
def test_an_index_that_does_not_fit_is_named(theirs: Path, shard: dict[str, Any], kind: type[Exception], message: str) -> None:
    folder = edited(theirs / "train", **shard)
    with pytest.raises(kind) as caught:
        batches(MdsReader, a_source(folder))
    assert message.format(folder=folder) in str(caught.value)


def test_a_compression_that_can_not_be_read_is_named(theirs: Path) -> None:
    folder = edited(theirs / "val", compression="br:11")
    with pytest.raises(
        BadSpec, match=r"val/index\.json: its shards are compressed with br, which source\.mds can't read; known: bz2, gz, zstd\."
    ):
        plan(MdsReader, a_source(folder))


def test_a_folder_without_an_index_is_not_found(theirs: Path) -> None:
    (theirs / "train/index.json").unlink()
    with pytest.raises(NotFound, match=r"train contains no index\.json, either directly or in a subfolder; MDSWriter writes such a file\."):
        plan(MdsReader, a_source(theirs / "train"))


def test_an_index_of_another_program_is_refused(theirs: Path) -> None:
    (theirs / "train/index.json").write_text("[1]")
    with pytest.raises(BadSpec, match=r"train/index\.json is not an index written by MDSWriter: "):
        plan(MdsReader, a_source(theirs / "train"))
