"""What `dataprep infer` says about files that no source reads, and about likely mistakes in tables."""

import contextlib
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from tests.builders.archives import a_tar, a_zip
from tests.builders.packed import PACKERS
from tests.converter.cli.commandline import code_of
from tests.converter.cli.inference import inferred, text

_arrow: Any = pa
_feather: Any = pyarrow.feather
_parquet: Any = pyarrow.parquet


def a_workbook() -> bytes:
    return a_zip({"[Content_Types].xml": b"<Types/>", "_rels/.rels": b"<R/>", "xl/workbook.xml": b"<workbook/>"})


def a_database(folder: Path) -> bytes:
    with contextlib.closing(sqlite3.connect(folder / "made.db")) as database:
        database.execute("create table a (b)")
    return (folder / "made.db").read_bytes()


def a_picture_of_torch() -> bytes:
    return a_zip({"archive/data.pkl": b"\x80\2."})


UNKNOWN: dict[str, tuple[str, Callable[[Path], bytes], str]] = {
    "Excel": ("a.xlsx", lambda _: a_workbook(), "is an Excel workbook, so infer can't choose a source for it: save each sheet as CSV"),
    "old Excel": ("a.xls", lambda _: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "is an old Excel or Office file, so infer"),
    "PDF": ("a.pdf", lambda _: b"%PDF-1.4\n1 0 obj\n<< >>\nendobj\n", "is a PDF document, so infer can't choose a source for it: extract its text"),
    "7z": ("a.7z", lambda _: b"7z\xbc\xaf\x27\x1c\0\4" + bytes(24), "is a 7z archive, so infer can't choose a source for it: unpack it"),
    "zip": ("a.zip", lambda _: a_zip({"a.csv": b"x\n"}), "is a zip archive, so infer can't choose a source for it: end its URI with !/ to read"),
    "tar": ("a.tar.bz2", lambda _: PACKERS["bz2"](a_tar({"a.csv": b"x\n"})), "is a tar archive, so infer can't choose a source for it: end its URI with !/"),
    "SQLite": ("a.db", a_database, "is a SQLite database, so infer can't choose a source for it: read it by source.sql"),
    "PyTorch": ("a.pt", lambda _: a_picture_of_torch(), "is a PyTorch file, so infer can't choose a source for it: save its tensors as .npy files"),
    "pickle": ("a.pkl", lambda _: pickle.dumps([1]), "is a Python pickle, so infer can't choose a source for it"),
    "a JSON array of arrays": ("a.json", lambda _: b'[[1, 2],\n [3, 4]]\n', "is a JSON document, so infer can't choose a source for it: source.jsonl reads one object per line, or an array of objects"),
    "a JSON object with records": ("a.json", lambda _: b'{"n": 2, "rows": [{"x": 1}, {"x": 2}]}\n', "is a JSON document, so infer can't choose a source for it: source.jsonl reads one object per line, or an array of objects; extract the objects in 'rows', for example with jq -c '.rows[]'"),
    "a JSON object": ("a.json", lambda _: b'{\n  "x": 1\n}\n', "is a JSON document, so infer"),
    "HTML": ("a.html", lambda _: b"<!DOCTYPE html>\n<p>Text\n", "is an HTML page, so infer"),
    "other text": ("a.md2", lambda _: b"Call me Ishmael.\n", "is text, but neither its name nor its content shows what its records are, so infer can't choose a source for it: source.text"),
    "anything": ("a.bin", lambda _: bytes([0, 1, 2, 255]), "is of a type that infer doesn't know (its first bytes are 00 01 02 ff), so infer can't choose a source for it"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "said"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_no_source_reads_is_named(
    name: str, content: Callable[[Path], bytes], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content(tmp_path))
    assert code_of("infer", tmp_path / "in", "--output", tmp_path / "job.yaml") == 2
    assert f"{tmp_path}/in/{name} {said}" in capsys.readouterr().err
    assert not (tmp_path / "job.yaml").exists()


MISTAKES: dict[str, tuple[str, str]] = {
    "a constant": (
        "x,z\n" + "".join(f"{n % 3},a\n" for n in range(30)),
        "column z has the same value in the first 30 records, so it carries no information",
    ),
    "an index": (
        ",x\n" + "".join(f"{n},{n % 3}\n" for n in range(30)),
        "column 0 has a different value in each of the first 30 records, like a row number or a key: drop it if it isn't a feature",
    ),
    "a key": (
        "user_id,x\n" + "".join(f"u{n * 7 % 31},{n % 3}\n" for n in range(30)),
        "column user_id has a different value in each of the first 30 records, like a row number or a key: drop it if it isn't a feature",
    ),
    "a label with many classes": (
        "x,label\n" + "".join(f"{n % 3},c{n}\n" for n in range(200)),
        "the label label has 200 different values in the first 200 records: is it a class?",
    ),
    "a copy of the label": (
        "x,code,label\n" + "".join(f"{n % 7},{'ab'[n % 2]},{n % 2}\n" for n in range(30)),
        "column code and the label label determine each other in the first 30 records: drop the column if it is made from the label",
    ),
}


@pytest.mark.parametrize(("content", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_likely_mistakes_are_told(content: str, said: str, tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", content), tmp_path)
    assert [line for line in written.splitlines() if line.startswith("# check: ")] == [f"# check: {said}"]


def test_an_ordinary_table_has_no_likely_mistake(tmp_path: Path) -> None:
    content = "length,solid,kind\n" + "".join(f"{n / 7:.3f},{n % 5},{'abc'[n * n % 3]}\n" for n in range(60))
    written, _ = inferred(text(tmp_path / "a.csv", content), tmp_path)
    assert "check:" not in written
    assert "# column kind: string, 2 different values, such as a, b\n" in written


def test_records_that_do_not_fit_are_told(tmp_path: Path) -> None:
    source = text(tmp_path / "a.csv", "x,z\n" + "1,2\n" * 5 + "1,2,3\n")
    written, _ = inferred(source, tmp_path)
    assert "# 1 of the first 6 records don't fit, the first: line 7: expect 2 fields but have 3; see onBadRecord\n" in written


def test_a_uri_without_anything_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("infer", tmp_path / "absent") == 5
    assert f"{tmp_path}/absent names no file" in capsys.readouterr().err
    (tmp_path / "empty.csv").touch()
    assert code_of("infer", tmp_path / "empty.csv") == 5
    assert "has only empty files" in capsys.readouterr().err
