"""Tests CSV files with thousands of bad cells.

Finding the faulty rows by repeated halving would take a dozen calls to Arrow for each faulty row.
"""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_api.spec import CsvColumn
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.text import csv_cells
from dataprep_converter.readers.text.csv_cells import Dialect, Parser

TYPES = ("Int64", "Float32", "Float64", "Bool", "String")
WORDS = (
    "1", "-7", "+5", " 2 ", "\t3", "1.5", ".5", "5.", "1e3", "1e400", "0x1F", "99999999999999999999", "nan", "-inf", "true", "FALSE", "0",
    "", "NA", "oops", "1,5", "1_000", "é", '"', "a\nb", "1 2", "--1", "\N{NO-BREAK SPACE}4",
)  # fmt: skip


def a_parser(*types: str, **dialect: Any) -> Parser:
    columns = [CsvColumn.model_validate({"name": str(place), "type": kind}) for place, kind in enumerate(types)]
    return Parser(columns, Dialect(",", '"', **dialect), of="source.csv")


def said(parser: Parser, data: bytes) -> tuple[list[Any], dict[int, str]]:
    block: Block = parser.parse(data, records=len(Dialect(",", '"').rows(data)), line=1, uri="x.csv")
    return block.records.to_pylist(), dict(block.reasons)


def row(cells: list[str]) -> bytes:
    return (",".join('"' + cell.replace('"', '""') + '"' if set(cell) & set(',"\n') else cell for cell in cells) or '""').encode() + b"\n"


@pytest.mark.slow
@given(
    types=st.lists(st.sampled_from(TYPES), min_size=1, max_size=4),
    rows=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), max_size=24),
    dialect=st.sampled_from([{}, {"nulls": ("NA",)}, {"missing": ("NA",)}]),
)
def test_the_rows_at_fault_are_those_that_halving_finds(types: list[str], rows: list[list[str]], dialect: dict[str, Any]) -> None:
    data, parser = b"".join(map(row, rows)), a_parser(*types, **dialect)
    found = said(parser, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parser, "_misfits", lambda *_: {})
        halved = said(parser, data)
    assert str(found[0]) == str(halved[0])  # nan doesn't equal itself
    assert found[1].keys() == halved[1].keys()


def test_arrow_is_asked_once_for_each_text_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    parsed = csv_cells.parse_rows

    def counted(*given: Any, **named: Any) -> pa.Table:
        nonlocal calls
        calls += 1
        return parsed(*given, **named)

    monkeypatch.setattr(csv_cells, "parse_rows", counted)
    cells = [["oops" if number % 7 == 0 else str(number), ("-", "?")[number % 2] if number % 11 == 0 else "1.5"] for number in range(5000)]
    records, bad = said(a_parser("Int64", "Float32"), b"".join(map(row, cells)))
    assert bad.keys() == {number for number in range(5000) if number % 7 == 0 or number % 11 == 0}
    assert bad[7] == "line 8: 'oops' is not a Int64 (column '0')"
    assert bad[11] == "line 12: '?' is not a Float32 (column '1')"
    assert [record["0"] for record in records[:9]] == [1, 2, 3, 4, 5, 6, 8, 9, 10]
    assert calls <= 8
