"""csv: Python's csv, Arrow and DuckDB read the written values, unsupported values are refused, and damage is detected."""

import csv
import gzip
import io
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv
from tests.builders.examples import examples
from tests.converter.formats.columns import all_same, any_columns, expected, plain, tensors, written
from tests.fuzz.damage import damaged

from dataprep_converter.core.errors import BadData, BadSpec, BrokenRecord

_arrow_csv: Any = arrow_csv


def rows(data: bytes, *, delimiter: str = ",") -> list[list[str]]:
    """Return the rows that Python's own reader reads."""
    return list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter, strict=True))


# --- literal bytes ------------------------------------------------------------------------------------------------


def test_a_row_a_record_with_the_columns_in_the_order_of_the_spec() -> None:
    columns = {
        "id": pa.array([7, None], pa.int64()),
        "v,w": tensors([0.5, 1.0], [1e20, -0.0]),
        "name": pa.array(['a "b", c', ""]),
        "note": pa.array([None, "two\nlines\r"]),
        "words": pa.FixedSizeListArray.from_arrays(pa.array(["x", ",", '"', "y"]), 2),
        "label": pa.array([True, False]),
    }
    made = written("csv", columns, labels=["label"])
    assert made.data.decode() == (
        'id,"v,w_0","v,w_1",name,note,words_0,words_1,label\n'
        '7,0.5,1.0,"a ""b"", c",,x,",",true\n'
        ',1e+20,-0.0,"","two\nlines\r","""",y,false\n'
    )


def test_the_two_rows_of_the_csv_example_as_sagemaker_wants_them() -> None:
    columns = {"features": tensors([1.0, 3.2, 4.5, 1.1, 6.3], [1.6, 2.4, 5.9, 0.2, 2.2]), "label": pa.array([0, 1])}
    made = written("csv", columns, labels=["label"], options={"header": False, "labelsFirst": True})
    assert made.data == b"0,1.0,3.2,4.5,1.1,6.3\n1,1.6,2.4,5.9,0.2,2.2\n"
    assert made.records() == [
        {"features": pytest.approx([1.0, 3.2, 4.5, 1.1, 6.3]), "label": [0]},
        {"features": pytest.approx([1.6, 2.4, 5.9, 0.2, 2.2]), "label": [1]},
    ]


def test_a_row_is_never_an_empty_line() -> None:
    made = written("csv", {"t": pa.array(["", None, "a"])}, options={"header": False})
    assert made.data == b'""\n""\na\n'


# --- all values ---------------------------------------------------------------------------------------------------


@settings(max_examples=examples(15))
@given(any_columns(ragged=False, raw=False), st.booleans(), st.sampled_from([",", ";", "\t", "|", "^", "]", " "]))
def test_every_value_comes_back_and_the_cuts_change_no_byte(
    drawn: tuple[dict[str, Any], list[str], list[int]], header: bool, delimiter: str
) -> None:
    columns, _, cuts = drawn
    options: dict[str, Any] = {"header": header, "delimiter": delimiter}
    made = written("csv", columns, cuts=cuts, options=options)
    assert made.data == written("csv", columns, options=options).data
    assert all_same(made.records(size=13), expected(columns, []))
    values = {name: plain(column) for name, column in columns.items()}
    found = rows(made.data, delimiter=delimiter)[header:]
    assert len(found) == len(values["text"])
    for number, cells in enumerate(found):
        assert cells[list(columns).index("text")] == (values["text"][number] or "")
        assert cells[-1] == values["class"][number]


@settings(max_examples=examples(50))
@given(st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=2, max_size=2), min_size=1))
def test_python_reads_any_text(words: list[list[str]]) -> None:
    columns = {"a": pa.array([row[0] for row in words]), "b": pa.array([row[1] for row in words])}
    assert rows(written("csv", columns).data) == [["a", "b"], *words]


# --- options ------------------------------------------------------------------------------------------------------


def test_a_shard_without_records_has_a_header() -> None:
    column = {"x": pa.array([], pa.int64())}
    assert written("csv", column).data == b"x\n"
    assert written("csv", column).records() == []
    assert written("csv", column, options={"header": False}).data == b""


def test_gzip_holds_the_same_rows() -> None:
    column = {"x": pa.array(range(1000))}
    made = written("csv", column, cuts=[10], options={"compression": "Gzip"})
    assert gzip.decompress(made.data) == written("csv", column).data
    assert made.records(size=5) == [{"x": [number]} for number in range(1000)]


def test_bytes_that_are_text_can_be_written() -> None:
    assert (
        written("csv", {"b": pa.array([b"a\xc3\xbc", None]), "n": pa.array([1, 2])}, options={"bytes": "Text"}).data.decode()
        == "b,n\naü,1\n,2\n"
    )
    with pytest.raises(BadData, match="The feature 'b' has a value that isn't UTF-8."):
        written("csv", {"b": pa.array([b"\xff"])}, options={"bytes": "Text"})


@pytest.mark.parametrize(
    ("columns", "sequences", "options", "message"),
    [
        (
            {"x": pa.array([[1]])},
            [],
            {},
            "The feature 'x' is a list of any length, which csv can't store; jsonl, parquet and tfrecord can.",
        ),
        ({"x": pa.array([[1]])}, ["x"], {}, "The feature 'x' is a sequence, which csv can't store; jsonl, parquet and tfrecord can."),
        (
            {"x": pa.array([b"1"])},
            [],
            {},
            "The feature 'x' has bytes, which csv can't store; leave it out, set output.csv.bytes: Text if they are UTF-8, or use another format.",
        ),
        (
            {"x": tensors([1, 2]), "x_1": pa.array([1])},
            [],
            {},
            "csv: two features would have the column 'x_1'; give one of them another name.",
        ),
        (
            {"x": pa.array([1])},
            [],
            {"delimiter": "1"},
            "output.csv.delimiter must be an ASCII character that can't be part of a number or a line end, got '1'.",
        ),
    ],
    ids=["list", "sequence", "bytes", "names", "delimiter"],
)
def test_what_csv_can_not_hold_is_refused(columns: Any, sequences: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        written("csv", columns, sequences=sequences, options=options)
    assert str(caught.value) == message


@pytest.mark.parametrize("delimiter", ['"', "-", "+", ".", "\n", "\r", "e", "ü"])
def test_a_delimiter_that_can_be_in_a_number_is_refused(delimiter: str) -> None:
    with pytest.raises(BadSpec, match="output.csv.delimiter must be"):
        written("csv", {"x": pa.array([1])}, options={"delimiter": delimiter})


# --- other readers ------------------------------------------------------------------------------------------------


def test_arrow_and_duckdb_read_every_field(tmp_path: Any) -> None:
    columns = {
        "n": pa.array([2**63 - 1, None, -(2**63)], pa.int64()),
        "f": pa.array([0.1, 1e300, None], pa.float64()),
        "t": pa.array(['a "b"\n', "", "c,d"]),
        "v": tensors([1, 2.5], [3, 4], [5, 6]),
        "label": pa.array([True, False, True]),
    }
    made = written("csv", columns, labels=["label"])
    wanted = {
        "n": [2**63 - 1, None, -(2**63)],
        "f": [0.1, 1e300, None],
        "t": ['a "b"\n', "", "c,d"],
        "v_0": [1.0, 3.0, 5.0],
        "v_1": [2.5, 4.0, 6.0],
        "label": [True, False, True],
    }
    options = _arrow_csv.ParseOptions(newlines_in_values=True)
    assert _arrow_csv.read_csv(io.BytesIO(made.data), parse_options=options).to_pydict() == wanted
    (tmp_path / "x.csv").write_bytes(made.data)
    # By default, DuckDB reads an empty string as null.
    found: Any = duckdb.sql(f"SELECT * FROM read_csv('{tmp_path}/x.csv', allow_quoted_nulls=false)")  # noqa: S608 - the path is the test's own
    assert {name: list(values) for name, values in zip(found.columns, zip(*found.fetchall(), strict=True), strict=True)} == wanted


# --- broken files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"x,t\n1,a\n2", "truncated record (1 bytes) at offset 8"),
        (b"x,t\n1,a\n2\n", "expected 2 cells, got 1 at offset 8"),
        (b"x,t\n1,a,b\n", "expected 2 cells, got 3 at offset 4"),
        (b"x,y\n1,a\n", "expected the header 'x, t', got 'x, y' at offset 0"),
        (b"", "there is no header at offset 0"),
        (b'x,t\n1,"a\n2,b\n', "a quoted cell without a closing quote at offset 4"),
        (b'x,t\n1,a"b"\n', "a quote where quotes aren't allowed at offset 6"),
        (b'x,t\n1,"a"b\n', "a quote where quotes aren't allowed at offset 6"),
    ],
)
def test_what_is_broken_is_named_with_its_offset(data: bytes, fault: str) -> None:
    made = written("csv", {"x": pa.array([1]), "t": pa.array(["a"])})
    for size in (1, 1 << 20):
        with pytest.raises(BrokenRecord) as caught:
            made.records(data=data, size=size)
        assert str(caught.value) == fault


def test_a_cell_that_is_no_number_is_named() -> None:
    made = written("csv", {"x": pa.array([1]), "b": pa.array([True])})
    with pytest.raises(BrokenRecord, match="the feature 'x' is b'a', which isn't a valid int64"):
        made.records(data=b"x,b\na,true\n")
    with pytest.raises(BrokenRecord, match="the feature 'b' is b'1', which isn't a valid bool"):
        made.records(data=b"x,b\n1,1\n")


@pytest.mark.parametrize("compression", ["None", "Gzip"])
def test_damage_is_named_or_reads_as_records(compression: str) -> None:
    columns = {"x": pa.array(range(60)), "t": pa.array(['a"bc', None] * 30), "v": tensors(*[[1, 2, 3]] * 60)}
    made = written("csv", columns, options={"compression": compression})
    rng = np.random.default_rng(7)
    named = 0
    for _ in range(150):
        try:
            made.records(data=damaged(made.data, rng))
        except BrokenRecord:
            named += 1
    assert named > 75
