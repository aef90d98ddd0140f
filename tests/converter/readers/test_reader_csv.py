"""Tests CSV files in every dialect, and the errors for faulty rows."""

import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, rows

from dataprep_api.spec import Feature, LabelFeature, Output, Source
from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.readers import Reader
from dataprep_converter.readers.base.examined import open_once
from dataprep_converter.readers.text import csv_starts, delimited, stretches
from dataprep_converter.readers.text.csv_rows import scan
from dataprep_converter.readers.text.delimited import CsvReader
from dataprep_converter.stores import Entry, Input, Store
from dataprep_converter.stores.files import FileInput

IRIS = "5.1,3.5,1.4,0.2,0\n7.0,3.2,4.7,1.4,1\n"


def put(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def a_source(*uris: Path | str, **options: Any) -> Source:
    return Source.model_validate({"csv": {"uris": [str(uri) for uri in uris], **options}})


def columns(**types: str) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in types.items()]


def values(source: Source) -> list[list[Any]]:
    """The cells of the good rows."""
    return [[cell for name, cell in row.items() if name != "_sample"] for row in rows(batches(CsvReader, source))]


def of_text(folder: Path, text: str | bytes, **options: Any) -> Source:
    put(folder, {"a.csv": text})
    return a_source(folder / "a.csv", **options)


class CsvContract(ReaderContract):
    reader: ClassVar[type[Reader]] = CsvReader
    zipped: ClassVar[bool]

    @pytest.fixture(autouse=True)
    def small_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stretches, "UNIT_BYTES", 256)

    def a_source(self, folder: Path) -> Source:
        for name, first in (("a", 0), ("b", 1_000)):
            text = "".join(f'{n},{n / 7},"x, {n}\n{n}"\n' for n in range(first, first + 30))
            put(folder, {f"{name}.csv": gzip.compress(text.encode(), mtime=0) if self.zipped else text})
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        put(folder, {"a.csv": "", "b.csv": "\n\r\n\n"})
        return a_source(folder)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        put(folder, {"a.csv": IRIS})
        return a_source(folder / "a.csv", folder / "absent.csv"), str(folder / "absent.csv")

    def change(self, folder: Path) -> Path:
        put(folder, {"b.csv": "1,2,3\n"})
        return folder / "b.csv"


class TestPlainFiles(CsvContract):
    zipped = False


class TestGzipFiles(CsvContract):
    zipped = True


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("last", [True, False], ids=["ended", "open"])
def test_line_ends_change_nothing(tmp_path: Path, end: str, last: bool) -> None:
    text = end.join(["1,a", "", '2,"x', 'y"', "3,c"]) + (end if last else "")
    assert values(of_text(tmp_path, text)) == [[1, "a"], [2, f"x{end}y"], [3, "c"]]


def test_a_byte_order_mark_is_taken_off(tmp_path: Path) -> None:
    assert rows(batches(CsvReader, of_text(tmp_path, b"\xef\xbb\xbfid,t\n1,a\n", header=True))) == [{"id": 1, "t": "a", "_sample": 0}]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
def test_the_delimiter_is_any_character(tmp_path: Path, delimiter: str) -> None:
    assert values(of_text(tmp_path, delimiter.join("12") + "\n", delimiter=delimiter)) == [[1, 2]]


def test_the_quote_is_any_character_and_doubled_inside(tmp_path: Path) -> None:
    assert values(of_text(tmp_path, "'x, y','it''s'\n", quote="'")) == [["x, y", "it's"]]


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
def test_a_quote_that_is_never_closed_is_bad_data_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 256)
    text = ("".join(f"{n},a\n" for n in range(200)) + '200,"open\n' + "".join(f"{n},b\n" for n in range(1_000))).encode()
    source = of_text(tmp_path, gzip.compress(text) if zipped else text)
    with pytest.raises(BadData, match=r"a\.csv, line 201: a quote is never closed\."):
        plan(CsvReader, source)


@pytest.mark.parametrize("last", ['"', '1,"', '1,"x""', '1,"x""\n'])
def test_an_open_quote_in_the_last_row_is_bad_data(tmp_path: Path, last: str) -> None:
    with pytest.raises(BadData, match=r"a\.csv, line 2: a quote is never closed\."):
        plan(CsvReader, of_text(tmp_path, "0,x\n" + last))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('x,"open\nq""q\nz\n', 1),
        ('x,"a""b"\ny,"open\nq""q""\n""', 2),
        ('"a\nb",x\n\ny,""""""",\n', 4),
        ('a"b,"open\nq""q\n', 1),
    ],
    ids=["one doubled quote", "several rows", "an empty cell before it", "quotes that are text"],
)
def test_doubled_quotes_after_an_open_quote_are_not_taken_for_it(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(BadData, match=rf"a\.csv, line {line}: a quote is never closed\."):
        plan(CsvReader, of_text(tmp_path, text))


def test_empty_files_are_not_opened_for_their_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, {"a.csv": "", "b.csv": "", "c.csv": "x,y\n1,2\n"})
    opened: list[str] = []

    def noted(store: Store, entry: Entry) -> Input:
        opened.append(entry.uri[-5:])
        return open_once(store, entry)

    monkeypatch.setattr(delimited, "open_once", noted)
    units, _ = plan(CsvReader, a_source(tmp_path, header=True))
    assert (units.samples, opened) == (1, ["c.csv"])


@settings(deadline=None)
@given(
    names=st.sampled_from(["", "x,y\n", "\n\nthe first,the second\n", '"x\nx",y\n']),
    texts=st.lists(st.sampled_from(["1,2\n", "a,2\n", '1,"3\n4"\r\n', "1.5,b\n", '"0123456789abcdefghi",1\n', "\n\n"]), max_size=20),
)
def test_the_columns_are_those_of_a_start_that_is_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, names: str, texts: list[str]
) -> None:
    source = of_text(tmp_path_factory.mktemp("csv"), names + "".join(texts), header=bool(names))

    def found(header_bytes: int) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stretches, "UNIT_BYTES", 64)
            patch.setattr(csv_starts, "INFERRED_BYTES", 16)
            patch.setattr(delimited, "_HEADER_BYTES", header_bytes)
            try:
                units, state = plan(CsvReader, source)
            except (BadData, BadSpec) as exc:
                return str(exc)
            return [vars(units.unit(number)) for number in range(len(units))], state

    assert found(4) == found(64)


def test_only_a_little_is_read_to_find_the_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x,y\n" + "1,2\n" * 400_000
    first = csv_starts.INFERRED_BYTES + delimited._HEADER_BYTES
    lengths, streams = list[int](), list[int]()
    read_at, stream = FileInput.read_at, FileInput.stream

    def noted(self: FileInput, offset: int, length: int) -> bytes:
        lengths.append(length)
        return read_at(self, offset, length)

    def noted_stream(self: FileInput, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        streams.append(offset)
        return stream(self, offset, length)

    monkeypatch.setattr(FileInput, "read_at", noted)
    monkeypatch.setattr(FileInput, "stream", noted_stream)
    assert plan(CsvReader, of_text(tmp_path, text, header=True))[0].samples == 400_000
    assert first in lengths
    assert streams == [0], "only the pass that finds the units reads on"


def test_an_open_quote_in_the_header_is_bad_data(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"a\.csv, line 2: a quote is never closed\."):
        plan(CsvReader, of_text(tmp_path, 'skipped\nid,"text\n1,a\n2,b\n', header=True, skipLines=1))


def test_a_quote_inside_a_cell_is_text(tmp_path: Path) -> None:
    text = '1,5" pipe\n2,"abc"de"f\n3," ""q"" "\n4,z\n'
    assert values(of_text(tmp_path, text)) == [[1, '5" pipe'], [2, 'abcde"f'], [3, ' "q" '], [4, "z"]]


def test_lines_are_skipped_and_the_header_read_in_every_file(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": '"comment\nx,y\n1,2\n', "b.csv": "comment\n\nx,y\n3,4\n", "c.csv": "comment\nx,y\n"})
    source = a_source(tmp_path, skipLines=1, header=True)
    assert rows(batches(CsvReader, source)) == [{"x": 1, "y": 2, "_sample": 0}, {"x": 3, "y": 4, "_sample": 1}]


def test_columns_without_a_header_are_numbered(tmp_path: Path) -> None:
    assert list(rows(batches(CsvReader, of_text(tmp_path, IRIS)))[0]) == ["0", "1", "2", "3", "4", "_sample"]


def test_a_column_without_a_name_has_its_number(tmp_path: Path) -> None:
    assert list(rows(batches(CsvReader, of_text(tmp_path, ",x\n1,2\n", header=True)))[0]) == ["0", "x", "_sample"]


def test_a_column_without_a_name_is_called_by_its_number_unless_another_column_is(tmp_path: Path) -> None:
    for header, names in (("x,,z", ["x", "1", "z"]), (",0,1", ["unnamed_0", "0", "1"])):
        source = of_text(tmp_path, f"{header}\n1,2,3\n", header=True)
        assert opened(CsvReader, source, plan(CsvReader, source)[1]).schema().names == names


def test_a_header_of_another_file_that_differs_is_refused(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": "x,y\n1,2\n", "b.csv": "y,x\n3,4\n"})
    with pytest.raises(BadSpec, match=r"b\.csv: its header has the columns y, x; .*a\.csv has x, y"):
        plan(CsvReader, a_source(tmp_path, header=True))


def test_a_header_that_differs_from_the_spec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"a\.csv: its header has the columns x, y; source\.csv\.columns has x, z"):
        plan(CsvReader, of_text(tmp_path, "x,y\n", header=True, columns=columns(x="Int64", z="Int64")))


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="the column 'x' occurs twice"):
        plan(CsvReader, of_text(tmp_path, "x,x\n1,2\n", header=True))


# --- which files --------------------------------------------------------------------------------------------------

TREE: dict[str, str | bytes] = {
    "b.csv": "2\n", "a.csv": "1\n", "deep/c.csv": "3\n", "deep/er/d.txt": "4\n", "_tmp/x.csv": "9\n", ".hidden": "9\n", "_x.csv": "9\n"
}  # fmt: skip


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        (["a.csv"], [1]), (["b.csv", "a.csv"], [2, 1]), ([""], [1, 2, 3, 4]), (["*.csv"], [1, 2]), (["**/*.csv"], [1, 2, 3]), (["deep"], [3, 4]),
        (["deep/*"], [3]), (["deep/**"], [3, 4]), (["[ab].csv"], [1, 2]), (["[!a].csv"], [2]), (["?.csv"], [1, 2]), (["*/*/*.txt"], [4]), (["deep", "a.csv"], [3, 4, 1]),
    ],
)  # fmt: skip
def test_files_folders_and_globs_are_read_in_the_order_of_their_names(tmp_path: Path, uris: list[str], expected: list[int]) -> None:
    put(tmp_path, TREE)
    assert values(a_source(*(f"{tmp_path}/{uri}" for uri in uris))) == [[value] for value in expected]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    put(tmp_path, {"a[1].csv": "1\n", "a1.csv": "2\n"})
    assert values(a_source(tmp_path / "a[1].csv")) == [[1]]


def test_a_glob_that_matches_nothing_is_named(tmp_path: Path) -> None:
    put(tmp_path, TREE)
    with pytest.raises(NotFound, match=r"\*\.parquet names no file"):
        plan(CsvReader, a_source(tmp_path / "*.parquet"))


def test_paths_are_relative_to_what_the_spec_names(tmp_path: Path) -> None:
    put(tmp_path, TREE)
    units, _ = plan(CsvReader, a_source(tmp_path / "a.csv", tmp_path / "deep", tmp_path / "deep/*"))
    assert list(zip(units.table["root"].to_pylist(), units.table["path"].to_pylist(), strict=True)) == [
        (0, "a.csv"),
        (1, "c.csv"),
        (1, "er/d.txt"),
        (2, "c.csv"),
    ]


# --- types --------------------------------------------------------------------------------------------------------


def test_types_are_inferred_from_the_first_file_and_frozen(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": "1,0.5,x,true,2020-01-01,\n2,1,5,false,y,\n", "b.csv": "1.5,1,2,true,z,\n"})
    _, state = plan(CsvReader, a_source(tmp_path))
    assert [column["type"] for column in state["columns"]] == ["Int64", "Float32", "String", "Bool", "String", "String"]
    assert faults(batches(CsvReader, a_source(tmp_path))) == {2: "line 1: '1.5' is not a Int64 (column '0')"}


def test_every_type_is_read(tmp_path: Path) -> None:
    text = "-9223372036854775808,0.1,0.1,é,True\n 7 ,1e-50,nan,,0\n"
    source = of_text(tmp_path, text, columns=columns(i="Int64", f="Float32", d="Float64", s="String", b="Bool"))
    first, second = values(source)
    assert first == [-(2**63), float(np.float32(0.1)), 0.1, "é", True]
    assert second[:2] == [7, 0.0]
    assert math.isnan(second[2])
    assert second[3:] == ["", False]


@pytest.mark.slow
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_numbers_are_those_of_python(tmp_path_factory: pytest.TempPathFactory, numbers: list[float]) -> None:
    folder = tmp_path_factory.mktemp("csv")
    text = "".join(f"{number!r},{number!r}\n" for number in numbers)
    source = of_text(folder, text, columns=columns(d="Float64", f="Float32"))
    with np.errstate(over="ignore"):
        expected = [[n, float(np.float32(n))] for n in numbers if math.isinf(n) or not np.isinf(np.float32(n))]
    assert values(source) == expected


def test_five_columns_with_empty_defaults_are_read_as_tensorflow_does(tmp_path: Path) -> None:
    text = 'a,b,c,d,e\na,,c,d,\n"x,y",b,c,d,e\na,b,c,d\na,b,c,d,e,f\n1,2,3,4,5\n'
    source = of_text(tmp_path, text, columns=columns(d1="String", d2="String", d3="String", d4="String", d5="String"))
    found = batches(CsvReader, source)
    assert [list(row.values())[:5] for row in rows(found)] == [
        ["a", "b", "c", "d", "e"],
        ["a", "", "c", "d", ""],
        ["x,y", "b", "c", "d", "e"],
        ["1", "2", "3", "4", "5"],
    ]
    assert faults(found) == {3: "line 4: expect 5 fields but have 4", 4: "line 5: expect 5 fields but have 6"}


DEFAULTS = [
    {"name": "i", "type": "Int64", "default": "-1"},
    {"name": "f", "type": "Float32", "default": "0.5"},
    {"name": "s", "type": "String", "default": "none, \"really\""},
    {"name": "b", "type": "Bool", "default": "true"},
    {"name": "t", "type": "String"},
]  # fmt: skip


def test_an_empty_cell_has_the_default(tmp_path: Path) -> None:
    assert values(of_text(tmp_path, ',,,,\n1,2,3,0,4\n"","","","",""\n', columns=DEFAULTS)) == [
        [-1, 0.5, 'none, "really"', True, ""],
        [1, 2.0, "3", False, "4"],
        [-1, 0.5, 'none, "really"', True, ""],
    ]


@pytest.mark.parametrize(
    ("kind", "default"), [("Int64", "x"), ("Float32", "1,5"), ("Bool", ""), ("Int64", "1.5"), ("Float32", "1e39"), ("Float64", "-1e400")]
)
def test_a_default_of_another_type_is_refused(tmp_path: Path, kind: str, default: str) -> None:
    with pytest.raises(BadSpec, match=rf"the default '{default}' of 'c' is not an? {kind}"):
        plan(CsvReader, of_text(tmp_path, "1\n", columns=[{"name": "c", "type": kind, "default": default}]))


@pytest.mark.parametrize(
    ("options", "message"), [({"delimiter": "é"}, "delimiter must be one ASCII character, got 'é'"), ({"quote": ","}, "are both ','"), ({"delimiter": "\n"}, "got '\\\\n'")]
)  # fmt: skip
def test_a_dialect_that_cannot_be_is_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(BadSpec, match=message):
        plan(CsvReader, of_text(tmp_path, IRIS, **options))


# --- bad rows -----------------------------------------------------------------------------------------------------

TYPED = columns(a="Int64", b="Float32", c="String", d="Bool", e="Float64")
GOOD = "1,2,x,true,3\n"
FAULTS: dict[str, tuple[str | bytes, str]] = {
    "too few cells": ("1,2,x,true", "expect 5 fields but have 4"),
    "too many cells": ("1,2,x,true,3,4", "expect 5 fields but have 6"),
    "one cell": ("  ", "expect 5 fields but have 1"),
    "no whole number": ("abc,2,x,true,3", "'abc' is not a Int64 (column 'a')"),
    "whole number too large": ("9223372036854775808,2,x,true,3", "'9223372036854775808' is not a Int64 (column 'a')"),
    "no number": ("1,abc,x,true,3", "'abc' is not a Float32 (column 'b')"),
    "number too large": ("1,1e39,x,true,3", "1e+39 is not a Float32 (column 'b')"),
    "number too large for any float": ("1,-1e400,x,true,3", "'-1e400' is not a Float32 (column 'b')"),
    "number too large for a float64": ('1,2,x,true,"1e400"', "'1e400' is not a Float64 (column 'e')"),
    "no truth": ("1,2,x,yes,3", "'yes' is not a Bool (column 'd')"),
    "empty": ("1,,x,true,3", "column 'b' is empty and has no default"),
    "not UTF-8": (b"1,2,\xff,true,3", "column 'c' is not UTF-8"),
    "the last cell": ("1,2,x,true,1.2.3", "'1.2.3' is not a Float64 (column 'e')"),
    "a long cell": (f"{'z' * 100},2,x,true,3", f"'{'z' * 64}…' is not a Int64 (column 'a')"),
}


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("row", "reason"), FAULTS.values(), ids=FAULTS.keys())
def test_a_row_that_does_not_fit_is_bad_with_its_line(tmp_path: Path, row: str | bytes, reason: str, zipped: bool) -> None:
    bad = row.encode() if isinstance(row, str) else row
    text = b"header\n\n" + GOOD.encode() * 3 + b'1,2,"x\n\ny",true,3\n\n' + bad + b"\n" + GOOD.encode() * 5
    source = of_text(tmp_path, gzip.compress(text) if zipped else text, skipLines=1, columns=TYPED)
    found = batches(CsvReader, source, nulls="Bad")
    assert faults(found) == {4: f"line 10: {reason}"}
    assert [row["_sample"] for row in rows(found)] == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_a_bad_row_with_a_cell_of_megabytes_is_told_as_any_other(tmp_path: Path) -> None:
    text = f"{GOOD}1,x,{'z' * (1 << 20)},true,3\n{GOOD}"
    found = batches(CsvReader, of_text(tmp_path, text, columns=TYPED))
    assert faults(found) == {1: "line 2: 'x' is not a Float32 (column 'b')"}


@pytest.mark.slow
def test_many_kinds_of_bad_rows_in_one_unit_are_each_found(tmp_path: Path) -> None:
    lines = [GOOD.encode().strip(), *(row.encode() if isinstance(row, str) else row for row, _ in FAULTS.values())] * 40
    source = of_text(tmp_path, b"\n".join(lines), columns=TYPED)
    expected = dict(enumerate([None, *(reason for _, reason in FAULTS.values())] * 40))
    order = np.random.default_rng(1).permutation(len(lines)).astype(np.int64)
    for found in (batches(CsvReader, source, size=97, nulls="Bad"), batches(CsvReader, source, size=97, order=order, nulls="Bad")):
        assert faults(found) == {row: f"line {row + 1}: {reason}" for row, reason in expected.items() if reason}
        assert sorted(row["_sample"] for row in rows(found)) == [row for row, reason in expected.items() if reason is None]


def test_a_row_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 64)
    monkeypatch.setattr(stretches, "LONGEST_RECORD", 512)
    with pytest.raises(BadData, match=r"a\.csv, line 3: a row of more than .*; is a quote never closed"):
        plan(CsvReader, of_text(tmp_path, '1,a\n2,b\n3,"c\n' + "4,d\n" * 500))


def test_a_broken_gzip_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"a\.csv: the gzip stream ends early"):
        plan(CsvReader, of_text(tmp_path, gzip.compress(IRIS.encode() * 99)[:-4]))


# --- units --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [16, 40, 1000])
def test_the_size_of_a_unit_changes_no_row_and_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = "".join(f'{n},"a{n}\n""{n}"""\n{"" if n % 3 else chr(10)}' if n != 37 else "37\n" for n in range(60))
    source = of_text(tmp_path, text)
    whole = batches(CsvReader, source)
    monkeypatch.setattr(stretches, "UNIT_BYTES", size)
    assert rows(batches(CsvReader, source)) == rows(whole)
    assert faults(batches(CsvReader, source)) == faults(whole)
    assert len(faults(whole)) == 1


def test_a_row_is_known_by_its_number_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = of_text(tmp_path, "".join(f"{n},{n}\n" for n in range(100)))
    whole, _ = plan(CsvReader, source)
    monkeypatch.setattr(stretches, "UNIT_BYTES", 32)
    cut, _ = plan(CsvReader, source)
    samples = np.arange(100)
    assert len(cut) > len(whole) == 1
    for one, other in zip(whole.hash_inputs(samples), cut.hash_inputs(samples), strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.text(st.sampled_from('a,"\n\r'), max_size=60), st.integers(1, 12))
def test_rows_are_counted_as_arrow_counts_them(text: str, size: int) -> None:
    data = text.encode()
    rows_found = scan(data, delimiter=",", quote='"', at_end=True)
    # Text with an open quote at its end has no rows to compare, because Arrow rejects it.
    if len(rows_found.quotes) % 2:
        return
    left_out: list[Any] = []

    def skip(row: Any) -> str:
        left_out.append(row)
        return "skip"

    count = 0
    if len(rows_found):
        options: Any = arrow_csv
        count = options.read_csv(
            pa.BufferReader(data),
            read_options=options.ReadOptions(column_names=["x"], use_threads=False),
            parse_options=options.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        ).num_rows
    assert len(rows_found) == count + len(left_out)
    # Scanning the text in pieces finds the same rows as scanning all of it.
    starts, at, piece = [], 0, b""
    for begin in range(0, len(data), size):
        piece += data[begin : begin + size]
        part = scan(piece, delimiter=",", quote='"', at_end=begin + size >= len(data))
        starts += [at + int(start) for start in part.starts]
        at += part.size
        piece = piece[part.size :]
    assert starts == rows_found.starts.tolist()


# --- end to end ---------------------------------------------------------------------------------------------------

CLASSIFICATION = "1.0,3.2,4.5,1.1,6.3,0\n1.6,2.4,5.9,0.2,2.2,1\n"


def encoded(source: Source, *, features: list[dict[str, Any]], labels: list[dict[str, Any]]) -> list[bytes]:

    units, state = plan(CsvReader, source)
    with opened(CsvReader, source, state) as reader:
        projector = resolve(
            [Feature.model_validate(feature) for feature in features],
            [LabelFeature.model_validate(label) for label in labels],
            schema=reader.schema(),
            default_label=CsvReader.default_label,
        )
        encoder = TfrecordEncoder(Output(uri="x"), projector.features)
        return [
            bytes(encoder.encode(projector.project(b).records))
            for b in reader.read(units, iter([np.array([n]) for n in range(units.samples)]))
        ]


def test_rows_for_classification_have_their_golden_bytes(tmp_path: Path) -> None:
    made = encoded(
        of_text(tmp_path, CLASSIFICATION),
        features=[{"name": "features", "columns": ["0..4"]}],
        labels=[{"name": "label", "columns": ["-1"], "numClasses": 10}],
    )
    # These bytes were checked with protobuf's code, and TensorFlow reads them.
    assert made[0].hex() == (
        "3800000000000000a3797d570a360a240a086665617475726573121812160a140000803fcdcc4c4000009040cdcc8c3f9a99c940"
        "0a0e0a056c6162656c12051a030a01009c52cbf5"
    )
    assert [len(record) for record in made] == [72, 72]
    assert made[1].hex().endswith("12051a030a010105a7e32e")


def test_a_row_for_regression_has_its_golden_bytes(tmp_path: Path) -> None:
    made = encoded(
        of_text(tmp_path, CLASSIFICATION),
        features=[{"name": "features", "columns": ["0..2"]}],
        labels=[{"name": "label", "columns": ["3..5"]}],
    )
    assert made[0].hex() == (
        "3b000000000000001a23ac5c0a390a1c0a0866656174757265731210120e0a0c0000803fcdcc4c40000090400a190a056c6162656c"
        "1210120e0a0ccdcc8c3f9a99c9400000000036efb213"
    )
