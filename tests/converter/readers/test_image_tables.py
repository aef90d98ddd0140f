"""Tests tables that list images and have other columns besides a label: types, names, keys, missing images, and errors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.files import put
from tests.builders.images import an_image
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec, NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader
from dataprep_converter.readers.images.images import ImagesReader

_arrow: Any = pa  # the type stubs require that all fields of a schema have one type
FILES = {"a/007.jpg": an_image(), "a/2.jpg": an_image(seed=1), "b/x.png": an_image("PNG")}
RECORDS: list[dict[str, Any]] = [
    {"file": "b/x.png", "caption": "a, b", "score": 0.5, "count": 3, "box": {"x": 0.5, "y": 2}, "tags": ["u", "v"]},
    {"file": "a/007.jpg", "caption": None, "score": None, "count": None, "box": {"x": 1.5, "y": None}, "tags": None},
    {"file": "a/2.jpg", "caption": "é", "score": 1e-300, "count": -(2**60), "box": {"x": None, "y": 4}, "tags": []},
]
TYPES: pa.Schema = _arrow.schema(
    [
        ("file", pa.string()),
        ("caption", pa.string()),
        ("score", pa.float64()),
        ("count", pa.int64()),
        ("box", pa.struct([("x", pa.float64()), ("y", pa.int64())])),
        ("tags", pa.list_(pa.string())),
    ]
)


def a_table(folder: Path, name: str, content: bytes, *, columns: list[str] | None = None, **options: Any) -> Source:
    """Writes `content` to a table next to the images in FILES."""
    put(folder, FILES | {name: content})
    images = {key: options.pop(key) for key in ("labelFrom", "subsetFrom", "classes") if key in options}
    listed = {"uri": str(folder / name), **({} if columns is None else {"columns": columns}), **options}
    return Source.model_validate({"images": {"labelFrom": "None", **images, "list": listed}})


def parquet(records: list[dict[str, Any]], schema: pa.Schema = TYPES) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(records, schema=schema), out)
    return out.getvalue().to_pybytes()


def json_lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


class TestImagesWithATable(ReaderContract):
    reader: ClassVar[type[Reader]] = ImagesReader

    def a_source(self, folder: Path) -> Source:
        count = 24
        put(folder, {f"{n:04}.jpg": an_image(width=20, height=20) + bytes([n % 251]) for n in range(count)})
        lines = "".join(f"{n:04}.jpg,caption {n},{n / 4}\n" for n in reversed(range(count)))
        (folder / "list.csv").write_text("path,caption,score\n" + lines)
        listed = {"uri": str(folder / "list.csv"), "columns": ["caption", "score"]}
        return Source.model_validate({"images": {"list": listed, "labelFrom": "None"}})

    def an_empty_source(self, folder: Path) -> Source:
        return a_table(folder, "list.parquet", parquet([]), columns=["score"])

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        listed = {"uri": str(folder / "absent.csv"), "columns": ["caption"]}
        return Source.model_validate({"images": {"list": listed, "labelFrom": "None"}}), str(folder / "absent.csv")

    def change(self, folder: Path) -> Path:
        put(folder, {"0006.jpg": b"another image"})
        return folder / "0006.jpg"


@pytest.mark.parametrize(("name", "write"), [("t.parquet", parquet), ("t.jsonl", json_lines)], ids=["parquet", "jsonl"])
def test_every_column_stands_beside_its_image(tmp_path: Path, name: str, write: Callable[[list[dict[str, Any]]], bytes]) -> None:
    columns = ["caption", "score", "count", "tags"]
    found = rows(batches(ImagesReader, a_table(tmp_path, name, write(RECORDS), columns=[*columns, "box"], pathColumn="file")))
    assert [row["image/encoded"] for row in found] == [FILES[record["file"]] for record in RECORDS]
    assert [{name: row[name] for name in columns} for row in found] == [{name: record[name] for name in columns} for record in RECORDS]
    assert [{"x": row["box/x"], "y": row["box/y"]} for row in found] == [record["box"] for record in RECORDS]


def test_one_field_of_a_struct_may_be_named(tmp_path: Path) -> None:
    source = a_table(tmp_path, "t.parquet", parquet(RECORDS), columns=["box/y", "3"], pathColumn="0")
    assert [(row["box/y"], row["count"]) for row in rows(batches(ImagesReader, source))] == [(2, 3), (None, None), (4, -(2**60))]


def test_a_csv_has_numbers_and_texts(tmp_path: Path) -> None:
    content = b'path,caption,score,n\nb/x.png,"a, b",0.5,3\na/2.jpg,,NA,\n'
    source = a_table(tmp_path, "t.csv", content, columns=["n", "score", "caption"])
    _, state = plan(ImagesReader, source)
    with opened(ImagesReader, source, state) as reader:
        assert reader.schema().names == [
            "image/encoded",
            "image/format",
            "image/height",
            "image/width",
            "n",
            "score",
            "caption",
            "image/filename",
        ]
        assert [reader.schema().field(name).type for name in ("n", "score", "caption")] == [pa.int64(), pa.float32(), pa.string()]
    found = rows(batches(ImagesReader, source))
    assert [(row["n"], row["score"], row["caption"]) for row in found] == [(3, 0.5, "a, b"), (None, None, "")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b"path,n,other\n" + b"a/2.jpg,1,1\n" * 40 + b"b/x.png,2,many\n"),
        (
            "t.jsonl",
            b'{"path": "a/2.jpg", "n": 1, "other": 1, "text": "%s"}\n' % (b"x" * 65536) * 20
            + b'{"path": "b/x.png", "n": 2, "other": "many", "more": 3}\n',
        ),
    ],
    ids=["csv", "jsonl"],
)
def test_a_value_of_a_column_that_is_not_added_may_be_anything(tmp_path: Path, name: str, content: bytes) -> None:
    found = batches(ImagesReader, a_table(tmp_path, name, content, columns=["n"]))
    assert faults(found) == {}
    assert [row["n"] for row in rows(found)][-2:] == [1, 2]


def test_a_label_stays_text_if_it_is_also_a_column(tmp_path: Path) -> None:
    content = b"path,breed\nb/x.png,007\na/2.jpg,8\n"
    source = a_table(tmp_path, "t.csv", content, columns=["breed"], labelColumn="breed", labelFrom="List")
    assert [(row["image/class/text"], row["breed"]) for row in rows(batches(ImagesReader, source))] == [("007", "007"), ("8", "8")]


def test_defaults_replace_nulls(tmp_path: Path) -> None:
    source = a_table(tmp_path, "t.csv", b"path,n\nb/x.png,\na/2.jpg,3\n", columns=["n"], defaults={"n": "-1"})
    assert [row["n"] for row in rows(batches(ImagesReader, source))] == [-1, 3]


@pytest.mark.parametrize(("match", "keys"), [("Key", ("x", "007")), ("FileName", ("x.png", "007.jpg"))])
def test_images_are_found_by_their_names_in_any_folder(tmp_path: Path, match: str, keys: tuple[str, str]) -> None:
    content = f"id,score,breed\n{keys[0]},1,dog\n{keys[1]},2,cat\n".encode()
    source = a_table(tmp_path, "t.csv", content, columns=["score"], labelColumn="breed", labelFrom="List", match=match)
    _, state = plan(ImagesReader, source)
    assert state["ignored"] == 1
    found = rows(batches(ImagesReader, source))
    assert [(row["image/filename"], row["score"], row["image/class/text"]) for row in found] == [
        ("b/x.png", 1, "dog"),
        ("a/007.jpg", 2, "cat"),
    ]


def test_a_key_may_be_a_number_in_the_table(tmp_path: Path) -> None:
    source = a_table(tmp_path, "t.jsonl", b'{"id": 2, "score": 0.5}\n', columns=["score"], pathColumn="id", match="Key")
    (row,) = rows(batches(ImagesReader, source))
    assert (row["image/filename"], row["score"]) == ("a/2.jpg", 0.5)


def test_two_images_with_the_key_are_both_named(tmp_path: Path) -> None:
    put(tmp_path, {"b/2.png": an_image("PNG")})
    with pytest.raises(BadSpec) as caught:
        plan(ImagesReader, a_table(tmp_path, "t.csv", b"id,n\n2,1\n", columns=["n"], match="Key"))
    assert str(caught.value) == (
        f"{tmp_path}/t.csv, row 1: both {tmp_path}/a/2.jpg and {tmp_path}/b/2.png have the name '2'; "
        "list paths, and set source.images.list.match: Path."
    )


def test_a_row_that_does_not_fit_is_a_bad_record(tmp_path: Path) -> None:
    content = b"path,n\n" + b"a/2.jpg,1\n" * 40 + b"b/x.png,many\na/9.jpg,2\n,3\na/2.jpg,4\n"
    source = a_table(tmp_path, "t.csv", content, columns=["n"])
    found = batches(ImagesReader, source)
    assert faults(found) == {
        40: f"{tmp_path}/t.csv, row 41: line 42: 'many' is not a Int64 (column 'n')",
        41: f"{tmp_path}/t.csv, row 42: {tmp_path}/a/9.jpg does not exist",
        42: f"{tmp_path}/t.csv, row 43: 'path' is empty",
    }
    assert [row["n"] for row in rows(found)] == [*[1] * 40, 4]


def test_a_class_that_looks_like_the_mark_of_a_bad_image_is_a_class(tmp_path: Path) -> None:
    put(tmp_path, {"\nbad: x/1.jpg": an_image(), "y/1.jpg": an_image(seed=1)})
    found = batches(ImagesReader, Source.model_validate({"images": {"uris": [str(tmp_path)]}}))
    assert [row["image/class/text"] for row in rows(found)] == ["\nbad: x", "y"]


def test_a_key_without_an_image_is_a_bad_record(tmp_path: Path) -> None:
    found = batches(ImagesReader, a_table(tmp_path, "t.csv", b"id,n\nx,1\ny,2\n", columns=["n"], match="Key"))
    assert faults(found) == {1: f"{tmp_path}/t.csv, row 2: no image below {tmp_path} has the key 'y'"}


def test_a_row_without_an_image_belongs_to_the_subset_of_the_row_before_it(tmp_path: Path) -> None:
    content = b"id,n\ny,0\nx,1\nz,2\n007,3\n"
    units, _ = plan(ImagesReader, a_table(tmp_path, "t.csv", content, columns=["n"], match="Key", subsetFrom="FirstFolder"))
    assert units.table["subset"].to_pylist() == ["b", "b", "b", "a"]


def test_a_split_by_a_column_reads_no_image(tmp_path: Path) -> None:
    source = a_table(tmp_path, "t.csv", b"path,n\nb/x.png,5\na/9.jpg,6\na/2.jpg,7\n", columns=["n"])
    units, state = plan(ImagesReader, source)
    for file in tmp_path.glob("*/*"):
        file.unlink()
    with ImagesReader(source.member, state, Access()) as reader:
        (batch,) = reader.read_columns(units, iter([np.array([2, 1, 0])]), ["n"])
    assert rows([batch]) == [{"n": 7, "_sample": 2}, {"n": 5, "_sample": 0}]
    assert [bad.sample for bad in batch.bad] == [1]


def test_a_changed_value_gives_other_units(tmp_path: Path) -> None:
    first, _ = plan(ImagesReader, a_table(tmp_path, "t.csv", b"path,n\nb/x.png,5\n", columns=["n"]))
    other, _ = plan(ImagesReader, a_table(tmp_path, "t.csv", b"path,n\nb/x.png,6\n", columns=["n"]))
    assert first.table["extra"].to_pylist() == ['["",5]']
    assert other.table["extra"].to_pylist() == ['["",6]']


WRONG: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "no such column": (
        "t.csv",
        b"path,caption\nb/x.png,c\n",
        {"columns": ["captoin"]},
        "source.images.list: {folder}/t.csv has no column 'captoin'; it has path, caption. Did you mean 'caption'?",
    ),
    "bytes": (
        "t.parquet",
        parquet([{"file": "b/x.png", "b": b"1"}], _arrow.schema([("file", pa.string()), ("b", pa.binary())])),
        {"columns": ["b"]},
        "{folder}/t.parquet: the column 'b' is binary; the columns of a list must contain text, numbers, booleans, or lists or structs of these.",
    ),
    "the name of an image's column": (
        "t.csv",
        b"path,image/format\nb/x.png,c\n",
        {"columns": ["image/format"]},
        "{folder}/t.csv: every image already has a column named 'image/format'; rename the list's column.",
    ),
    "plain paths": ("t.txt", b"b/x.png\n", {"columns": ["1"]}, "{folder}/t.txt: a list of format Text has no columns; write it as Csv"),
    "a path that is a list": (
        "t.jsonl",
        b'{"path": [1], "n": 1}\n',
        {"columns": ["n"]},
        "{folder}/t.jsonl, row 1: 'path' is neither text nor a whole number: [1].",
    ),
}


@pytest.mark.parametrize(("name", "content", "options", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_with_a_table_is_told(tmp_path: Path, name: str, content: bytes, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        plan(ImagesReader, a_table(tmp_path, name, content, **options))
    assert message.format(folder=tmp_path) in str(caught.value)


def test_a_table_without_any_image_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"No image of .*/t\.csv can be read; the first: .*/t\.csv, row 1: .*/b/y\.png does not exist\."):
        plan(ImagesReader, a_table(tmp_path, "t.csv", b"path,n\nb/y.png,1\n", columns=["n"]))
