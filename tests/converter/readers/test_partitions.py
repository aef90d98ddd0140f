"""Tests columns from folder names, in every source that supports them.

The values equal those that pyarrow's datasets read. Folders whose names don't match are tested too.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader, reader_class
from dataprep_converter.readers.columnar.parquet import ParquetReader
from dataprep_converter.readers.text.delimited import CsvReader
from dataprep_converter.tools.verification import verify

_pads: Any = pads  # these modules have no type stubs
_pq: Any = pq
_feather: Any = feather


def put(file: Path, values: list[int]) -> Path:
    """Writes a file with a column `x`, in the format that its extension names."""
    file.parent.mkdir(parents=True, exist_ok=True)
    match file.suffix:
        case ".parquet":
            _pq.write_table(pa.table({"x": pa.array(values, pa.int64())}), file, row_group_size=250)
        case ".arrow":
            _feather.write_feather(pa.table({"x": values}), str(file), compression="uncompressed")
        case ".csv":
            file.write_text("x\n" + "".join(f"{value}\n" for value in values))
        case ".jsonl":
            file.write_text("".join(json.dumps({"x": value}) + "\n" for value in values))
        case _:
            file.write_text("".join(f"{value}\n" for value in values))
    return file


def tree(folder: Path, *names: str, ending: str = "parquet") -> Path:
    """Writes a file with two rows to each of these folders."""
    for number, name in enumerate(names):
        put(folder / name / f"part-0.{ending}", [number, number + 100])
    return folder


def a_source(*uris: Path | str, kind: str = "parquet", partitions: str = "Infer", **options: Any) -> Source:
    header = {"header": True} if kind == "csv" and "columns" not in options else {}
    return Source.model_validate({kind: {"uris": [str(uri) for uri in uris], "hivePartitions": partitions, **header, **options}})


def read(source: Source) -> list[dict[str, Any]]:
    found = rows(batches(reader_class(source.kind), source))
    return [{name: value for name, value in row.items() if name != "_sample"} for row in found]


class TestParquetInFolders(ReaderContract):
    reader: ClassVar[type[Reader]] = ParquetReader

    def a_source(self, folder: Path) -> Source:
        for name in ("country=at/day=2024-01-02", "country=de/day=2024-01-01"):
            put(folder / name / "part-0.parquet", list(range(300)))
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        put(folder / "a=1/part-0.parquet", [])
        return a_source(folder)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        tree(folder, "a=1")
        return a_source(folder, folder / "absent"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        return put(folder / "country=de/day=2024-01-01/part-0.parquet", [1])


class TestCsvInFolders(ReaderContract):
    reader: ClassVar[type[Reader]] = CsvReader

    def a_source(self, folder: Path) -> Source:
        for name in ("country=at/day=2024-01-02", "country=de/day=2024-01-01"):
            put(folder / name / "part-0.csv", list(range(1000, 1100)))
        return a_source(folder, kind="csv")

    def an_empty_source(self, folder: Path) -> Source:
        put(folder / "a=1/part-0.csv", [])
        return a_source(folder, kind="csv")

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        tree(folder, "a=1", ending="csv")
        return a_source(folder, folder / "absent", kind="csv"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        return put(folder / "country=de/day=2024-01-01/part-0.csv", [1])


FOLDERS = {
    "text": ["country=at/day=2024-01-02", "country=de/day=2024-01-01"],
    "whole numbers": ["year=2024/month=01", "year=2024/month=12"],
    "negative": ["n=-5", "n=03"],
    "with a sign": ["n=+3", "n=-5"],
    "with a point": ["f=1.5", "f=2"],
    "truth": ["f=true"],
    "escaped": ["c=%zz", "c=1+1", "c=S%C3%A3o%20Paulo", "c=a%2Fb"],
    "an escaped key": ["a%20b=4"],
    "beyond ASCII": ["c=é"],
    "two signs": ["c=a=b"],
    "empty": ["c=", "c=4"],
    "folders without keys": ["c=1/sub/d=2"],
    "another order": ["a=1/b=2", "b=3/a=4"],
}


@pytest.mark.parametrize("folders", FOLDERS.values(), ids=FOLDERS.keys())
def test_they_are_what_a_dataset_of_pyarrow_has(folders: list[str], tmp_path: Path) -> None:
    tree(tmp_path, *folders)
    expected = _pads.dataset(str(tmp_path), partitioning="hive").to_table().to_pylist()
    assert read(a_source(tmp_path)) == expected
    assert len(expected) == 2 * len(folders)


@pytest.mark.parametrize(("kind", "ending", "foreign"), [("csv", "csv", "csv"), ("jsonl", "jsonl", "json"), ("arrow", "arrow", "ipc")])
def test_every_source_has_them(kind: str, ending: str, foreign: str, tmp_path: Path) -> None:
    tree(tmp_path, "country=at/n=7", "country=de/n=8", ending=ending)
    expected = _pads.dataset(str(tmp_path), partitioning="hive", format=foreign).to_table().to_pylist()
    assert read(a_source(tmp_path, kind=kind)) == expected
    assert expected[0] == {"x": 0, "country": "at", "n": 7}


def test_lines_of_text_have_them(tmp_path: Path) -> None:
    tree(tmp_path, "class=cat", "class=dog", ending="txt")
    assert read(a_source(tmp_path, kind="text")) == [
        {"text": "0", "class": "cat"},
        {"text": "100", "class": "cat"},
        {"text": "1", "class": "dog"},
        {"text": "101", "class": "dog"},
    ]


def test_they_are_columns_only_when_asked_for(tmp_path: Path) -> None:
    tree(tmp_path, "a=1")
    source = Source.model_validate({"parquet": {"uris": [str(tmp_path)]}})
    assert read(source) == [{"x": 0}, {"x": 100}]


def test_whole_numbers_may_stay_text(tmp_path: Path) -> None:
    tree(tmp_path, "zip=01067", "zip=80331")
    assert [row["zip"] for row in read(a_source(tmp_path))] == [1067, 1067, 80331, 80331]
    assert [row["zip"] for row in read(a_source(tmp_path, partitions="String"))] == ["01067", "01067", "80331", "80331"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["0x10", "1"], ["0x10", "1"]),
        (["1_0", "1"], ["1_0", "1"]),
    ],
    ids=["64 bits", "more than 64 bits", "hexadecimal", "underscore"],
)
def test_whole_numbers_are_those_of_64_bits_in_digits(values: list[str], expected: list[Any], tmp_path: Path) -> None:
    tree(tmp_path, *(f"n={value}" for value in values))
    assert {row["x"]: row["n"] for row in read(a_source(tmp_path)) if row["x"] < 100} == dict(enumerate(expected))


def test_a_glob_has_the_folders_that_it_spans(tmp_path: Path) -> None:
    tree(tmp_path, "env=prod/a=1", "env=prod/a=2", "env=test/a=3")
    assert read(a_source(f"{tmp_path}/env=prod/*/*.parquet")) == [
        {"x": 0, "a": 1},
        {"x": 100, "a": 1},
        {"x": 1, "a": 2},
        {"x": 101, "a": 2},
    ]
    assert {(row["env"], row["a"]) for row in read(a_source(f"{tmp_path}/env=*/*/*.parquet"))} == {("prod", 1), ("prod", 2), ("test", 3)}


def test_a_file_that_is_named_has_all_its_folders_like_pyarrow_s(tmp_path: Path) -> None:
    files = [tree(tmp_path, "a=1", "a=2") / name / "part-0.parquet" for name in ("a=2", "a=1")]
    expected = _pads.dataset([str(file) for file in files], partitioning="hive").to_table().to_pylist()
    assert read(a_source(*files)) == expected == [{"x": 1, "a": 2}, {"x": 101, "a": 2}, {"x": 0, "a": 1}, {"x": 100, "a": 1}]


def test_a_null_has_the_default_of_its_column(tmp_path: Path) -> None:
    tree(tmp_path / "p", "c=__HIVE_DEFAULT_PARTITION__", "c=de")
    assert [row["c"] for row in read(a_source(tmp_path / "p", defaults={"c": "??"}))] == ["??", "??", "de", "de"]
    tree(tmp_path / "j", "c=__HIVE_DEFAULT_PARTITION__", "c=4", ending="jsonl")
    columns = [{"name": "x", "type": "Int64"}, {"name": "c", "type": "Float32", "default": "-1"}]
    assert [row["c"] for row in read(a_source(tmp_path / "j", kind="jsonl", columns=columns))] == [4.0, 4.0, -1.0, -1.0]
    tree(tmp_path / "c", "c=__HIVE_DEFAULT_PARTITION__", "c=4", ending="csv")
    assert [row["c"] for row in read(a_source(tmp_path / "c", kind="csv", header=True, columns=columns))] == [4.0, 4.0, -1.0, -1.0]


def test_records_with_a_null_and_no_default_are_bad(tmp_path: Path) -> None:
    source = a_source(tree(tmp_path, "c=__HIVE_DEFAULT_PARTITION__", "c=4"))
    found = batches(ParquetReader, source, size=3, nulls="Bad")
    assert [(row["x"], row["c"]) for row in rows(found)] == [(1, 4), (101, 4)]
    reason = "column 'c' has no value and no default: the folder is c=__HIVE_DEFAULT_PARTITION__"
    assert sorted(faults(found).values()) == [reason, reason]


def test_columns_of_the_spec_give_types(tmp_path: Path) -> None:
    tree(tmp_path, "ok=true/zip=01067/w=1.5", "ok=false/zip=80331/w=2", ending="csv")
    columns = [
        {"name": "x", "type": "Float32"},
        {"name": "zip", "type": "String"},
        {"name": "ok", "type": "Bool"},
        {"name": "w", "type": "Float64"},
    ]
    assert read(a_source(tmp_path, kind="csv", header=True, columns=columns, select=["x", "zip"]))[::2] == [
        {"x": 1.0, "ok": False, "zip": "80331", "w": 2.0},
        {"x": 0.0, "ok": True, "zip": "01067", "w": 1.5},
    ]


def test_columns_of_the_files_are_still_chosen(tmp_path: Path) -> None:
    (tmp_path / "c=7").mkdir()
    _pq.write_table(pa.table({"x": [1], "y": [2]}), tmp_path / "c=7" / "a.parquet")
    assert read(a_source(tmp_path, columns=["y", "c"])) == [{"y": 2, "c": 7}]


REFUSED: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "no keys": (
        ["plain"],
        {},
        "source.parquet.hivePartitions: {0}/plain/part-0.parquet is in no folder below {0} that is named KEY=VALUE.",
    ),
    "other keys": (
        ["a=1", "b=2/a=3"],
        {},
        "{0}/b=2/a=3/part-0.parquet is in folders with the keys b, a, but {0}/a=1/part-0.parquet is in folders with a; every file needs the same keys.",
    ),
    "a file beside the folders": (
        ["a=1", "plain"],
        {},
        "{0}/plain/part-0.parquet is in folders with the keys none, but {0}/a=1/part-0.parquet is in folders with a; every file needs the same keys.",
    ),
    "a key twice": (["a=1/a=2"], {}, "{0}/a=1/a=2/part-0.parquet: the key 'a' is in the names of two of its folders."),
    "not UTF-8": (["c=%FF"], {}, "{0}/c=%FF/part-0.parquet: the name of its folder 'c=%FF' is not UTF-8."),
    "in the files too": (
        ["x=1"],
        {},
        (
            "source.parquet.hivePartitions: the column 'x' is in the files and in the names of their folders; "
            "leave the column out of either the files or the folder names."
        ),
    ),
    "no column of the files": (
        ["a=1"],
        {"columns": ["a"]},
        "source.parquet.columns names only columns that come from folder names; name at least one column of the files.",
    ),
    "a default of another type": (["a=1"], {"defaults": {"a": "x"}}, "source.parquet: the default 'x' of 'a' is not an Int64."),
}


@pytest.mark.parametrize(("folders", "options", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_folders_that_make_no_columns_are_refused(folders: list[str], options: dict[str, Any], text: str, tmp_path: Path) -> None:
    tree(tmp_path, *folders)
    with pytest.raises(BadSpec) as caught:
        read(a_source(tmp_path, **options))
    assert str(caught.value) == text.format(tmp_path)


def test_a_value_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    tree(tmp_path, "n=1", "n=two", ending="jsonl")
    columns = [{"name": "x", "type": "Int64"}, {"name": "n", "type": "Int64"}]
    with pytest.raises(BadSpec) as caught:
        read(a_source(tmp_path, kind="jsonl", columns=columns))
    assert str(caught.value) == f"{tmp_path}/n=two/part-0.jsonl: 'two' in the name of its folder is not an Int64 (column 'n')."
    with pytest.raises(BadSpec) as caught:
        read(a_source(tmp_path, kind="jsonl", columns=[columns[0], {"name": "n", "type": "Int64", "list": True}]))
    assert str(caught.value) == "source.jsonl.columns: 'n' comes from the names of folders, so it can't be a list."


def test_splits_shuffles_filters_and_features_take_them(tmp_path: Path) -> None:
    for day in range(1, 5):
        for country in ("at", "de", "fr"):
            put(tmp_path / "in" / f"country={country}" / f"day=2024-01-0{day}" / "part-0.csv", list(range(day * 100, day * 100 + 25)))
    spec = {
        "source": {"csv": {"uris": [str(tmp_path / "in")], "header": True, "hivePartitions": "Infer"}},
        "transforms": [{"filter": {"where": "country != 'fr' and x != 105"}}],
        "splits": {"column": "day", "into": [{"name": "train", "before": "2024-01-04"}, {"name": "test"}]},
        "shuffle": {"seed": 5},
        "features": [{"name": "x"}, {"name": "country"}],
        "output": {"uri": str(tmp_path / "out")},
    }
    job = parse_job(spec)
    run_job(job)
    found: dict[str, list[tuple[int, str]]] = {}
    for file in verify(str(tmp_path / "out"), Access()).files:
        parsed = [records.parse_example(payload) for _, payload in records.read([(tmp_path / "out" / file.file).read_bytes()])]
        found[file.file] = [(int(record["x"][0]), bytes(record["country"][0]).decode()) for record in parsed]
    expected = {
        split: [(x, country) for country in ("at", "de") for day in days for x in range(day * 100, day * 100 + 25) if x != 105]
        for split, days in (("train", (1, 2, 3)), ("test", (4,)))
    }
    assert {name: sorted(pairs) for name, pairs in found.items()} == {
        f"{split}.tfrecords": sorted(pairs) for split, pairs in expected.items()
    }
    assert found["train.tfrecords"] != sorted(found["train.tfrecords"])


def test_a_join_has_them_as_keys(tmp_path: Path) -> None:
    tree(tmp_path / "left", "id=1", "id=2", ending="jsonl")
    for file in (tmp_path / "left").rglob("*.jsonl"):
        file.write_text(file.read_text().splitlines()[0])
    (tmp_path / "right.csv").write_text("id,y\n1,10\n2,20\n")
    tables = [
        {"name": "left", "source": {"jsonl": {"uris": [str(tmp_path / "left")], "hivePartitions": "Infer"}}},
        {"name": "right", "source": {"csv": {"uris": [str(tmp_path / "right.csv")], "header": True}}},
    ]
    spec = {
        "source": {"join": {"keys": ["id"], "tables": tables}},
        "features": [{"name": "id"}, {"name": "x"}, {"name": "y"}],
        "output": {"uri": str(tmp_path / "out"), "format": "jsonl"},
    }
    job = parse_job(spec)
    run_job(job)
    (made,) = (tmp_path / "out").glob("*.jsonl")
    assert [json.loads(line) for line in made.read_text().splitlines()] == [{"id": 1, "x": 0, "y": 10}, {"id": 2, "x": 1, "y": 20}]
