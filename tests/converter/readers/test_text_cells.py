"""A large text file is scanned in cells, which are ranges of bytes.

The scan of a cell doesn't know the text before the cell, but the merge still finds the right records.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.archives import a_tar
from tests.builders.examples import examples
from tests.converter.readers.reader_contract import batches, faults, opened, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec, InputChanged
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import HasLines, reader_class
from dataprep_converter.readers.text import csv_rows, delimited, lines, stretches
from dataprep_converter.readers.text.stretches import RecordScan
from dataprep_converter.readers.text.text import TextReader
from dataprep_converter.readers.text_scan import cells, files
from dataprep_converter.readers.text_scan.cell_merge import CellMerge, TextCell
from dataprep_converter.readers.text_scan.cells import CellUnits, scan_cell
from dataprep_converter.readers.text_scan.line_rule import LineRule

PIECES = {
    "csv": ["a", '"', '""', ",", "\n", "\r\n", "\r", '"x\ny",', "1", '"",'],
    "text": ["a", "\n", "\r\n", " ", "\t\n", "ü", "\r", "\n\n"],
    "libsvm": ["1 1:2\n", "\n", "# no\n", "2 2:1 #x", "\v\n", "1", " 3:1\r\n"],
    "jsonl": ['{"a":1}\n', '{"a":22}', "\n", "  \n", "\r\n", '{"b', '":[1,\n', "]}\n"],
}
OPTIONS: dict[str, dict[str, Any]] = {
    "csv": {"columns": [{"name": "x", "type": "String"}, {"name": "y", "type": "String"}]},
    "text": {},
    "libsvm": {"numFeatures": 9},
    "jsonl": {"columns": [{"name": "a", "type": "Int64"}]},
}


def of_text(kind: str, folder: Path, content: bytes, **options: Any) -> Source:
    (folder / "a").write_bytes(content)
    return Source.model_validate({kind: {"uris": [str(folder)], **OPTIONS[kind], **options}})


@contextmanager
def sizes(*, unit: int, cell: int, longest: int = 1 << 20) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "UNIT_BYTES", unit)
        patch.setattr(stretches, "LONGEST_RECORD", longest)
        patch.setattr(files, "CELL_BYTES", cell)
        yield


def read(source: Source) -> tuple[Any, Any, list[int]]:
    """The good records, the reasons why the others are bad, and the line of each record."""
    reader = reader_class(source.kind)
    found = batches(reader, source)
    units, state = plan(reader, source)
    with opened(reader, source, state) as opened_reader:
        assert isinstance(opened_reader, HasLines)
        lines: list[int] = opened_reader.lines(units, np.arange(units.samples)).tolist() if units.samples else []
    return rows(found), faults(found), lines


def drawn(kind: str, data: st.DataObject) -> tuple[bytes, int, int]:
    """A text, the size of a unit in bytes, and the size of a cell in units."""
    content = "".join(data.draw(st.lists(st.sampled_from(PIECES[kind]), max_size=40))).encode()
    return content, data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5))


def result_of(source: Source) -> Any:
    try:
        return read(source)
    except BadData as exc:
        return str(exc)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PIECES)
@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_records_and_lines_are_those_of_a_file_without_cells(
    kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content, unit, units_of_cell = drawn(kind, data)
    source = of_text(kind, tmp_path_factory.mktemp(kind), content)
    expected = result_of(source)
    with sizes(unit=unit, cell=unit * units_of_cell):
        assert result_of(source) == expected


@pytest.mark.parametrize("kind", PIECES)
@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_units_begin_at_the_first_record_after_each_multiple(
    kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content, unit, units_of_cell = drawn(kind, data)
    source = of_text(kind, tmp_path_factory.mktemp(kind), content)
    reader = reader_class(kind)
    with opened(reader, source, state_of(source)) as opened_reader:
        scanner: Any = getattr(opened_reader, "_sparse", opened_reader)
        records: RecordScan = scanner.scan(content, True)
    if records.unclosed_quote() is not None:
        return
    multiples = records.starts // unit
    expected = [
        (int(records.starts[of][0]), int(records.ends[of][-1]), int(of.sum()), 1 + records.lines_before(int(records.starts[of][0])))
        for of in (multiples == number for number in np.unique(multiples))
    ]
    with sizes(unit=unit, cell=unit * units_of_cell):
        if len(content) <= files.CELL_BYTES:
            return
        units, _ = plan(reader, source)
    found = [units.unit(number) for number in range(len(units))]
    assert [(each.offset, each.offset + each.size, each.records, each.row) for each in found] == [
        (begin, end, count, row)
        for (begin, end, count, _), row in zip(expected, np.cumsum([0, *(each[2] for each in expected)]).tolist(), strict=False)
    ]
    assert [f'{{"line": {line}}}' for _, _, _, line in expected] == [each.extra for each in found]


def state_of(source: Source) -> dict[str, Any]:
    return {"columns": OPTIONS[source.kind].get("columns", [])} if source.kind == "csv" else {}


# --- CSV ----------------------------------------------------------------------------------------------------------


def csv_units(folder: Path, text: str, **options: Any) -> list[tuple[int, int, str]]:
    """The offset, the number of rows and the field `extra` of each unit."""
    source = of_text("csv", folder, text.encode(), **options)
    units, _ = plan(reader_class("csv"), source)
    return [(unit.offset, unit.records, unit.extra) for unit in map(units.unit, range(len(units)))]


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        pytest.param('1,"a\nb"\n22,c\n3,d\n', [0, 8, 13], id="a cell begins inside quotes"),
        pytest.param('1,"abcd""b\nc"\n2,c\n', [0, 14], id="a cell begins between doubled quotes"),
        pytest.param('1,abcd"\n"2\n",c\n', [0, 8], id="a quote that is text is before a cell"),
        pytest.param('1,aaaaa"\n2,c\n3,d\n', [0, 9, 13], id="a quote that is text ends a cell"),
        pytest.param('12,3456\n"2\n",c\n3,d\n', [0, 8, 15], id="a cell begins with a row that begins with a quote"),
        pytest.param("12,3456\r\n2,c\r\n3,d\r\n", [0, 9, 14], id="a line end is divided"),
        pytest.param("12,3456\r2,c\r3,d\r4,e\r", [0, 8, 12, 16], id="a cell begins after a lone CR"),
        pytest.param('"1\r\r\r\r\r\r\r\r\r\r",a\r2,b\r', [0, 16], id="lone CRs in quotes"),
    ],
)
def test_rows_are_found_whatever_state_a_cell_begins_in(tmp_path: Path, text: str, begins: list[int]) -> None:
    with sizes(unit=4, cell=8):
        units = csv_units(tmp_path, text)
        found = {offset: extra for offset, _, extra in units}
    assert [*found] == begins
    lines = text.replace("\r\n", " \n").replace("\r", "\n")
    assert found == {offset: f'{{"line": {1 + lines[:offset].count(chr(10))}}}' for offset in found}


def test_the_header_of_each_file_is_compared(tmp_path: Path) -> None:
    text = "x,y\n" + "1,2\n" * 20
    (tmp_path / "b").write_text(text)
    (tmp_path / "c").write_text(text.replace("y", "z"))
    with sizes(unit=8, cell=16), pytest.raises(BadSpec, match=r"c: its header has the columns x, z; source\.csv\.columns has x, y\."):
        csv_units(tmp_path, text, header=True)


def test_a_file_whose_header_is_longer_than_a_cell_has_no_cells(tmp_path: Path) -> None:
    text = "comment " * 9 + "\nx,y\n" + "1,2\n" * 20
    options = {"header": True, "skipLines": 1}
    with sizes(unit=16, cell=1 << 20):
        expected = csv_units(tmp_path, text, **options)
    with sizes(unit=16, cell=32):
        assert csv_units(tmp_path, text, **options) == expected


# --- faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", [16, 64, 256])
def test_a_quote_that_is_never_closed_is_told_with_its_line(tmp_path: Path, cell: int) -> None:
    text = "1,a\n" * 70 + '2,"b\n' + "3,c\n" * 70
    with sizes(unit=16, cell=cell), pytest.raises(BadData, match=r"a, line 71: a quote is never closed\.$"):
        csv_units(tmp_path, text)
    with (
        sizes(unit=16, cell=cell, longest=128),
        pytest.raises(BadData, match=r"a, line 71: a row of more than 0 MiB; is a quote never closed"),
    ):
        csv_units(tmp_path, text)


@pytest.mark.parametrize("cell", [16, 64, 256])
def test_a_line_beyond_all_bounds_is_told_with_its_number(tmp_path: Path, cell: int) -> None:
    source = of_text("text", tmp_path, b"12\n" * 100 + b"x" * 129 + b"\n" + b"3\n" * 100)
    with (
        sizes(unit=16, cell=cell, longest=128),
        pytest.raises(BadData, match=r"a, line 101: a line of more than 0 MiB; is the file not text\?"),
    ):
        plan(reader_class("text"), source)
    with sizes(unit=16, cell=cell, longest=130):
        assert plan(reader_class("text"), source)[0].samples == 201


# --- which files have cells ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("text", gzip.compress(b"line\n" * 40, mtime=0)),
        ("text", ("line\n" * 40).encode("utf-16")),
        ("jsonl", json.dumps([{"a": number} for number in range(40)], indent=1).encode()),
        ("jsonl", b'[{"a": 1}, {"a": 2}]\n' + b'{"a": 3}\n' * 40),
    ],
    ids=["gzip", "UTF-16", "an array", "an array in the first line"],
)
def test_other_files_are_examined_as_a_whole(tmp_path: Path, kind: str, content: bytes) -> None:
    source = of_text(kind, tmp_path, content)
    with sizes(unit=16, cell=1 << 20):
        expected, _ = plan(reader_class(kind), source)
    with sizes(unit=16, cell=16):
        access = Access()
        found, _ = reader_class(kind).discover(source.member, access).collect()
    assert [vars(found.unit(number)) for number in range(len(found))] == [vars(expected.unit(number)) for number in range(len(expected))]
    assert not access.has_text_cells


def test_members_of_an_archive_have_no_cells(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_tar({"b.txt": b"line\n" * 40}))
    source = Source.model_validate({"text": {"uris": [f"{tmp_path}/a.tar!/b.txt"]}})
    access = Access()
    with sizes(unit=16, cell=16):
        TextReader.discover(source.member, access).collect()
    assert not access.has_text_cells


def test_an_earlier_rule_has_no_cells(tmp_path: Path) -> None:
    source = of_text("text", tmp_path, b"0123456789\n" * 9)
    access = Access()
    access.parts = {}
    with sizes(unit=16, cell=16):
        units, _ = TextReader.discover(source.member, access).collect()
    assert not access.has_text_cells
    assert [units.unit(number).offset for number in range(len(units))] == [0, 11, 22, 33, 44, 55, 66, 77, 88]


# --- the scan of a cell -------------------------------------------------------------------------------------------


def test_a_cell_needs_no_bytes_before_it_but_one(tmp_path: Path) -> None:
    text = b"".join(b'%d,"a\n%d"\n' % (row, row) for row in range(200))
    (tmp_path / "a").write_bytes(text)
    rule = a_csv_rule()
    expected = scanned(tmp_path / "a", rule, begin=512, end=1024)
    (tmp_path / "a").write_bytes(b"?" * 511 + text[511:])
    assert scanned(tmp_path / "a", rule, begin=512, end=1024) == expected
    assert len(expected) == len(rule.prefixes(text[511:512]))


def test_scans_for_different_prefixes_soon_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of a cell depends on the text before it.

    So the cell's first records are scanned once for each possible state at the cell's beginning. These scans soon agree, and then only one
    of them continues.
    """
    text = b"".join(b'%d,"a, %d"\n' % (row, row) for row in range(4000))
    (tmp_path / "a").write_bytes(text)
    monkeypatch.setattr(cells, "_FIRST_BYTES", 64)
    rule = a_csv_rule()
    scans: list[int] = []
    really: Callable[[bytes, bool], csv_rows.Rows] = rule.scan

    def counted(data: bytes, at_end: bool) -> csv_rows.Rows:
        scans.append(len(data))
        return really(data, at_end)

    monkeypatch.setattr(rule, "scan", counted)
    with sizes(unit=4096, cell=32768):
        found = scanned(tmp_path / "a", rule, begin=4096, end=32768)
    assert sum(scans) < 32768 + 10 * 64
    inside, outside = found[b'"'], found[next(prefix for prefix in found if prefix != b'"')]
    assert inside.offsets[1:] == outside.offsets[1:]


@pytest.mark.parametrize("after", [0, 900], ids=["the cell ends in the record", "the record ends in the cell"])
@pytest.mark.parametrize("length", [90, 1_000, 4_095, 16_001])
def test_the_bytes_of_a_long_record_are_scanned_twice(tmp_path: Path, length: int, after: int) -> None:
    (tmp_path / "a").write_bytes(b"row\n" * 16 + b"x" * length + b"\n" + b"row\n" * 300)
    scanned_bytes: list[int] = []

    def counted(data: bytes, at_end: bool) -> lines.Lines:
        scanned_bytes.append(len(data))
        return lines.scan(data, at_end, skip_blank=False)

    with sizes(unit=64, cell=length):
        found = scanned(tmp_path / "a", LineRule(counted, "Utf8", ""), begin=32, end=64 + length + after)
    assert sum(found[b"\n"].records) == 8 + 1 + after // 4
    assert sum(scanned_bytes) <= 2 * length + after + 16 * 64


def test_a_cell_that_cannot_follow_the_one_before_it_has_changed() -> None:
    merge = CellMerge("a.csv", TextCell("Utf8", {}), limit="")
    units = CellUnits([0], [4], [1], [0], line_ends=1, prefix=b'"')
    assert len(merge.take(TextCell("Utf8", {b"": units})).stretches) == 1
    with pytest.raises(InputChanged, match=r"^a\.csv changed while it was being read\. Plan again\.$"):
        merge.take(TextCell("Utf8", {b"\n": units}))


def a_csv_rule() -> Any:
    source: Any = Source.model_validate({"csv": {"uris": ["a"], **OPTIONS["csv"]}}).member
    return delimited._Planner(source, Access())


def scanned(file: Path, rule: Any, *, begin: int, end: int) -> Mapping[bytes, CellUnits]:
    store = Access().store(str(file))
    (entry,) = store.list(str(file.parent))
    with store.open(str(file)) as source:
        return scan_cell(source, entry, rule, begin=begin, end=end, is_start=False, ahead=False)
