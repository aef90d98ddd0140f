"""Tests files that list images, as CSV, JSON Lines and plain paths: the order of the images, their classes, and invalid lists."""

import gzip
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.builders.files import put
from tests.builders.images import an_image
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, NotFound
from dataprep_converter.readers import Reader
from dataprep_converter.readers.images.images import ImagesReader

FILES = {"a/1.jpg": an_image(), "a/2.jpg": an_image(seed=1), "b/3.png": an_image("PNG"), "unlisted.jpg": an_image()}


def a_list(folder: Path, name: str, content: bytes, **options: Any) -> Source:
    """Writes `content` to a list file next to the images in FILES."""
    put(folder, FILES | {name: content})
    label_from = "List" if "labelColumn" in options else options.pop("labelFrom", "None")
    return Source.model_validate({"images": {"list": {"uri": str(folder / name), **options}, "labelFrom": label_from}})


class TestListedImages(ReaderContract):
    reader: ClassVar[type[Reader]] = ImagesReader

    def a_source(self, folder: Path) -> Source:
        count = 24
        put(folder, {f"{n:04}.jpg": an_image(width=20, height=20) + bytes([n % 251]) for n in range(count)})
        lines = "".join(f"{n:04}.jpg,{('cat', 'dog')[n % 2]}\n" for n in reversed(range(count)))
        (folder / "list.csv").write_text("path,class\n" + lines)
        return Source.model_validate({"images": {"list": {"uri": str(folder / "list.csv"), "labelColumn": "class"}, "labelFrom": "List"}})

    def an_empty_source(self, folder: Path) -> Source:
        return a_list(folder, "list.csv", b"path\n")

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        return Source.model_validate({"images": {"list": {"uri": str(folder / "absent.csv")}, "labelFrom": "None"}}), str(
            folder / "absent.csv"
        )

    def change(self, folder: Path) -> Path:
        put(folder, {"0006.jpg": b"another image"})
        return folder / "0006.jpg"


LABELLED: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "csv": ("l.csv", b"path,x,class\nb/3.png,0,dog\na/1.jpg,0,cat\n", {"labelColumn": "class"}),
    "csv by position": ("l.csv", b"b/3.png,dog\r\n\r\n./a/1.jpg, cat", {"header": False, "labelColumn": "1"}),
    "csv with quotes and a mark": ("l.csv", b'\xef\xbb\xbf"path","class"\n"b/3.png","dog"\n"a/1.jpg","cat"\n', {"labelColumn": "class"}),
    "tsv": ("l.tsv", b"class\tpath\ndog\tb/3.png\ncat\ta/1.jpg\n", {"pathColumn": "path", "labelColumn": "class"}),
    "spaces": ("val", b"b/3.png dog\na/1.jpg cat\n", {"format": "Csv", "delimiter": " ", "header": False, "labelColumn": "1"}),
    "jsonl": ("l.jsonl", b'{"path": "b/3.png", "class": "dog"}\n\n{"class": "cat", "path": "a/1.jpg"}', {"labelColumn": "class"}),
    "gzip": ("l.csv.gz", gzip.compress(b"path,class\nb/3.png,dog\na/1.jpg,cat\n"), {"labelColumn": "class"}),
}


@pytest.mark.parametrize(("name", "content", "options"), LABELLED.values(), ids=LABELLED.keys())
def test_a_list_gives_the_images_in_its_order_and_their_classes(tmp_path: Path, name: str, content: bytes, options: dict[str, Any]) -> None:
    found = rows(batches(ImagesReader, a_list(tmp_path, name, content, **options)))
    assert [(row["image/filename"], row["image/class/text"], row["image/class/label"]) for row in found] == [
        ("b/3.png", "dog", 1),
        ("a/1.jpg", "cat", 0),
    ]
    assert found[0]["image/encoded"] == FILES["b/3.png"]


def test_plain_paths_may_have_the_class_of_their_folder(tmp_path: Path) -> None:
    source = a_list(tmp_path, "l.txt", b"b/3.png\n\n  a/1.jpg\n" + str(tmp_path / "a/2.jpg").encode(), labelFrom="ParentFolder")
    found = rows(batches(ImagesReader, source))
    assert [(row["image/filename"], row["image/class/text"]) for row in found] == [("b/3.png", "b"), ("a/1.jpg", "a"), ("a/2.jpg", "a")]


def test_an_absent_image_is_a_bad_record(tmp_path: Path) -> None:
    source = a_list(tmp_path, "l.csv", b"path,class\na/1.jpg,cat\na/9.jpg,ox\nb/3.png,dog\n", labelColumn="class")
    found = batches(ImagesReader, source)
    assert faults(found) == {1: f"{tmp_path}/l.csv, line 3: {tmp_path}/a/9.jpg does not exist"}
    assert [(row["image/filename"], row["image/class/label"]) for row in rows(found)] == [("a/1.jpg", 0), ("b/3.png", 1)]


def test_paths_are_relative_to_the_root_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    put(tmp_path / "data", FILES)
    (tmp_path / "lists/l.txt").write_text("3.png\n")
    source = {"list": {"uri": str(tmp_path / "lists/l.txt"), "root": str(tmp_path / "data/b")}, "labelFrom": "None"}
    (row,) = rows(batches(ImagesReader, Source.model_validate({"images": source})))
    assert row["image/filename"] == "3.png"


def test_a_list_of_many_images_keeps_its_order(tmp_path: Path) -> None:
    put(tmp_path, {f"{n}.jpg": an_image() for n in range(600)})
    order = sorted(range(600), key=lambda n: n * 7919 % 600)
    units, _ = plan(ImagesReader, a_list(tmp_path, "l.txt", "".join(f"{n}.jpg\n" for n in order).encode()))
    assert units.table["path"].to_pylist() == [f"{n}.jpg" for n in order]


WRONG: dict[str, tuple[str, bytes, dict[str, Any], type[ConvertError], str]] = {
    "only absent images": (
        "l.txt",
        b"a/9.jpg\n",
        {},
        NotFound,
        "No image of {folder}/l.txt can be read; the first: {folder}/l.txt, line 1: {folder}/a/9.jpg does not exist.",
    ),
    "a path that leads out": (
        "l.txt",
        b"../etc/passwd\n",
        {},
        BadSpec,
        "line 1: the path '../etc/passwd' must not lead out of the folder with '..'.",
    ),
    "an empty path": ("l.csv", b"path,b\n,1\n", {}, BadSpec, "l.csv, line 2: the path is empty."),
    "an empty label": ("l.csv", b"path,b\na/1.jpg, \n", {"labelColumn": "b"}, BadSpec, "l.csv, line 2: the label of 'a/1.jpg' is empty."),
    "no such column": ("l.csv", b"path,b\n", {"labelColumn": "c"}, BadSpec, "there is no column 'c'; its header has path, b."),
    "a name without a header": (
        "l.csv",
        b"a\n",
        {"header": False, "pathColumn": "path"},
        BadSpec,
        "there is no column 'path'; without a header, columns have only positions",
    ),
    "too few cells": ("l.csv", b"path,b\na/1.jpg\n", {"labelColumn": "b"}, BadSpec, "l.csv, line 2: 1 cells, at least 2 are needed."),
    "an open quote": ("l.csv", b'path\n"a/1.jpg\n', {}, BadSpec, "not CSV: unexpected end of data"),
    "no json": ("l.jsonl", b'{"path": "a/1.jpg"}\nx\n', {}, BadSpec, "l.jsonl, line 2: not JSON: "),
    "no path": ("l.jsonl", b'{"file": "a/1.jpg"}\n', {}, BadSpec, "l.jsonl, line 1: expected an object whose 'path' is a string."),
    "a label that is a list": (
        "l.jsonl",
        b'{"path": "a/1.jpg", "b": [1]}\n',
        {"labelColumn": "b"},
        BadSpec,
        "line 1: 'b' is neither text nor a whole number: [1].",
    ),
    "half a character": ("l.jsonl", b'{"path": "\\ud800.jpg"}\n', {}, BadSpec, "l.jsonl, line 1: not JSON: "),
    "deep json": ("l.jsonl", b"[" * 200_000 + b"\n", {}, BadSpec, "l.jsonl, line 1: not JSON: "),
    "no utf-8": ("l.txt", b"a/1.jpg\n\xff.jpg\n", {}, BadData, "l.txt, line 2: not UTF-8: invalid start byte at byte 0."),
    "no line": ("l.txt", b"x" * (5 << 20), {}, BadData, "line 1: a line of more than 1 MiB; this is not a list of images."),
    "no format": ("l", b"a/1.jpg\n", {}, BadSpec, "its format can't be determined from its extension; set source.images.list.format"),
    "a label in plain paths": ("l.txt", b"a/1.jpg\n", {"labelColumn": "1"}, BadSpec, "a list of format Text has no columns"),
    "a delimiter that is a quote": ("l.csv", b"a/1.jpg\n", {"delimiter": '"'}, BadSpec, "delimiter must be one ASCII character, got '\"'."),
}


@pytest.mark.parametrize(("name", "content", "options", "kind", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_with_a_list_is_told_with_the_line(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any], kind: type[ConvertError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        plan(ImagesReader, a_list(tmp_path, name, content, **options))
    assert message.format(folder=tmp_path) in str(caught.value)
    assert str(tmp_path) in str(caught.value) or "delimiter" in message
