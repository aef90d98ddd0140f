"""Text files in encodings other than UTF-8.

The tests cover byte order marks, every text source, and the units into which files are divided.
"""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.builders.jobs import run_job
from tests.converter.readers.reader_contract import batches, faults, plan, rows

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs.encodings import BrokenText, from_utf16, in_utf8
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.text import stretches

CODECS = {"Utf8": "utf-8", "Utf16Le": "utf-16-le", "Utf16Be": "utf-16-be", "Latin1": "latin-1", "Windows1252": "cp1252"}
"""Python's codec for each encoding in the spec."""
MARKED = {"Utf8": "utf-8-sig", "Utf16Le": "utf-16"}
"""The Python codecs that write a byte order mark."""
SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "csv": ("größe,z\n" + "".join(f'{n},"naïve\n{n}"\n' for n in range(60)), {"header": True}),
    "jsonl": ("".join(json.dumps({"größe": n, "z": "naïve"}, ensure_ascii=False) + "\n" for n in range(60)), {}),
    "text": ("".join(f"naïve {n}\r\n" for n in range(60)), {}),
    "csvSequences": ("größe,z\n" + "".join(f"{n},naïve\n" for n in range(60)), {"header": True}),
}


def a_source(kind: str, folder: Path, content: bytes, **options: Any) -> Source:
    folder.mkdir(exist_ok=True)
    (folder / "a").write_bytes(content)
    return Source.model_validate({kind: {"uris": [str(folder)]} | SOURCES[kind][1] | options})


def read(source: Source, **options: Any) -> list[dict[str, Any]]:
    found = batches(reader_class(source.kind), source, **options)
    assert faults(found) == {}
    return rows(found)


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 256)


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", CODECS)
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_of_text_reads_every_encoding(kind: str, encoding: str, is_packed: bool, tmp_path: Path) -> None:
    text = SOURCES[kind][0]
    expected = read(a_source(kind, tmp_path / "plain", text.encode()))
    content = text.encode(CODECS[encoding])
    source = a_source(kind, tmp_path / "other", gzip.compress(content) if is_packed else content, encoding=encoding)
    assert any("naïve" in str(row) for row in expected)
    assert read(source) == expected
    assert read(source, size=7) == expected


@pytest.mark.parametrize("declared", ["Utf8", "Latin1", "Utf16Be"])
@pytest.mark.parametrize("marked", MARKED)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_mark_takes_precedence_over_the_spec(kind: str, marked: str, declared: str, tmp_path: Path) -> None:
    text = SOURCES[kind][0]
    expected = read(a_source(kind, tmp_path / "plain", text.encode()))
    assert read(a_source(kind, tmp_path / "other", text.encode(MARKED[marked]), encoding=declared)) == expected


def test_libsvm_obeys_a_mark(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("1 1:2 # größe\n-1 3:4\n".encode("utf-16"))
    assert [row["values"] for row in read(Source.model_validate({"libsvm": {"uris": [str(tmp_path)]}}))] == [[2], [4]]


@pytest.mark.parametrize(
    ("encoding", "are_several"), [("Utf8", True), ("Latin1", True), ("Windows1252", True), ("Utf16Le", False), ("Utf16Be", False)]
)
def test_only_utf16_files_are_one_unit(encoding: str, are_several: bool, tmp_path: Path) -> None:
    source = a_source("csv", tmp_path / "in", SOURCES["csv"][0].encode(CODECS[encoding]), encoding=encoding)
    units, _ = plan(reader_class("csv"), source)
    assert (len(units) > 1) is are_several
    assert units.samples == 60


def test_the_units_of_utf8_files_are_those_of_earlier_releases(tmp_path: Path) -> None:
    units, _ = plan(reader_class("csv"), a_source("csv", tmp_path / "in", b"x,z\n1,a\n"))
    assert units.table.column("extra").to_pylist() == ['{"line": 2}']
    units, _ = plan(reader_class("csv"), a_source("csv", tmp_path / "in", gzip.compress(b"x,z\n1,a\n")))
    assert units.table.column("extra").to_pylist() == ['{"gzip": true, "start": 4, "line": 2}']


def test_every_byte_of_windows_1252_is_a_character() -> None:
    text = in_utf8(bytes(range(256)), "Windows1252").decode()
    assert text[0x80] == "€"
    assert text[0x9C] == "œ"
    assert text[0xE9] == "é"
    # Microsoft's table leaves these bytes out; the WHATWG's encoding standard maps them to these characters.
    assert [text[byte] for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)] == ["\x81", "\x8d", "\x8f", "\x90", "\x9d"]
    assert in_utf8(bytes(range(256)), "Latin1").decode() == bytes(range(256)).decode("latin-1")


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_utf16_may_be_cut_anywhere(size: int) -> None:
    text = "aé日\U0001f600\r\n" * 9
    data = text.encode("utf-16-le")
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert b"".join(from_utf16(pieces, "Utf16Le")).decode() == text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\0\0\xd8b\0", "not UTF-16 at byte 2: illegal UTF-16 surrogate"),
        (b"a\0b", "the UTF-16 text ends within a character"),
        (b"a\0\0\xd8", "the UTF-16 text ends within a character"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 64])
def test_what_is_not_utf16_is_said(data: bytes, said: str, size: int) -> None:
    with pytest.raises(BrokenText, match=rf"^{said}"):
        list(from_utf16([data[start : start + size] for start in range(0, len(data), size)], "Utf16Le"))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "text"])
def test_a_broken_utf16_file_is_named(kind: str, tmp_path: Path) -> None:
    source = a_source(kind, tmp_path / "in", SOURCES[kind][0].encode("utf-16")[:-1])
    with pytest.raises(BadData, match=rf"^{re.escape(str(tmp_path))}/in/a: the UTF-16 text ends within a character\.$"):
        plan(reader_class(kind), source)


def test_a_utf32_file_is_refused(tmp_path: Path) -> None:
    source = a_source("csv", tmp_path / "in", "a,b\n".encode("utf-32"))
    with pytest.raises(BadData, match=rf"^{re.escape(str(tmp_path))}/in/a: the file is UTF-32, which isn't supported\.$"):
        plan(reader_class("csv"), source)


def test_a_bad_row_is_quarantined_as_it_was(tmp_path: Path) -> None:
    source = a_source(
        "csv",
        tmp_path / "in",
        b"n,z\n1,a\n\xe9,\xe8\n",
        encoding="Latin1",
        columns=[{"name": "n", "type": "Int64"}, {"name": "z", "type": "String"}],
    )
    (bad,) = [each for batch in batches(reader_class("csv"), source) for each in batch.bad]
    assert bad.reason == "line 3: 'é' is not a Int64 (column 'n')"
    assert bad.raw is not None
    assert bad.raw.content == b"\xe9,\xe8"


def test_a_sequence_in_utf16_needs_the_encoding(tmp_path: Path) -> None:
    source = a_source("csvSequences", tmp_path / "in", "1,2\n".encode("utf-16"), header=False, columns=[{"name": "a", "type": "Int64"}])
    found = faults(batches(reader_class("csv_sequences"), source))
    assert found == {0: "the file is UTF-16; set source.csvSequences.encoding to Utf16Le or Utf16Be"}


def test_bytes_have_no_encoding(tmp_path: Path) -> None:
    marked = "é\n".encode("utf-16")
    assert [row["text"] for row in read(a_source("text", tmp_path / "in", marked, type="Bytes"))] == [marked[:-2], b"\0"]
    with pytest.raises(ValidationError, match="encoding applies to type: String; Bytes are kept unchanged"):
        Source.model_validate({"text": {"uris": ["a"], "type": "Bytes", "encoding": "Latin1"}})


def test_a_job_writes_the_same_bytes_for_every_encoding(tmp_path: Path) -> None:
    made = []
    for encoding in CODECS:
        source = a_source("csv", tmp_path / "in", SOURCES["csv"][0].encode(CODECS[encoding]), encoding=encoding)
        out = tmp_path / encoding
        spec = {"source": source.model_dump(by_alias=True, exclude_unset=True), "output": {"uri": str(out)}}
        run_job(DataPrepJob.parse({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "a"}, "spec": spec}))
        made.append((out / "train.tfrecords").read_bytes())
    assert len(set(made)) == 1
