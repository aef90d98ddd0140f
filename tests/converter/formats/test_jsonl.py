"""jsonl: Python's json, Arrow and DuckDB read the written values, and damage is reported with its offset."""

import base64
import gzip
import io
import json
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import json as arrow_json
from tests.builders.examples import examples
from tests.converter.formats.columns import all_same, any_columns, expected, plain, same, tensors, written
from tests.fuzz.damage import damaged

from dataprep_converter.core.errors import BadData, BrokenRecord

WIDE = {"float16", "float32", "matrix", "vectors"}
"""Columns whose floats are narrower than Python's."""


def objects(data: bytes) -> list[dict[str, Any]]:
    """Return the objects that Python's own reader reads."""
    return [json.loads(line) for line in data.decode().split("\n")[:-1]]


# --- literal bytes ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("native_and_python")
def test_an_object_a_line_with_the_keys_in_the_order_of_the_spec() -> None:
    columns = {
        "id": pa.array([7, -(2**63)], pa.int64()),
        "score": pa.array([0.5, 1.0], pa.float32()),
        'na"me': pa.array(['a "b"\n', "ü\x00\u2028"]),
        "tags": pa.array([["x", "y"], []]),
        "image": tensors([[0, 255], [3, 4]], [[1, 2], [3, 4]], dtype="uint8"),
        "file": pa.array([b"\xff\xd8", b""]),
        "walk": pa.array([[[1.0, 2.0]], []], pa.list_(pa.list_(pa.float64(), 2))),
        "label": pa.array([True, None]),
    }
    made = written("jsonl", columns, labels=["label"], sequences=["walk"])
    assert made.data.decode() == (
        '{"id":7,"score":0.5,"na\\"me":"a \\"b\\"\\n","tags":["x","y"],"image":[[0,255],[3,4]],"file":"/9g=","walk":[[1.0,2.0]],"label":true}\n'
        '{"id":-9223372036854775808,"score":1.0,"na\\"me":"ü\\u0000\u2028","tags":[],"image":[[1,2],[3,4]],"file":"","walk":[],"label":null}\n'
    )


@settings(max_examples=examples(50))
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), min_size=1))
def test_texts_are_escaped_as_python_escapes_them(words: list[str]) -> None:
    lines = written("jsonl", {"t": pa.array(words)}).data.decode().split("\n")[:-1]
    # Neither Python nor this format escapes DEL.
    assert lines == [json.dumps({"t": word}, ensure_ascii=False, separators=(",", ":")) for word in words]


@pytest.mark.usefixtures("native_and_python")
@settings(max_examples=examples(50))
@given(st.lists(st.none() | st.binary(max_size=20), min_size=1))
def test_bytes_are_base64(values: list[bytes | None]) -> None:
    found = objects(written("jsonl", {"b": pa.array(values, pa.binary())}).data)
    assert [row["b"] for row in found] == [None if value is None else base64.b64encode(value).decode() for value in values]


# --- all values ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("native_and_python")
@pytest.mark.slow
@settings(max_examples=examples(15))
@given(any_columns())
def test_every_value_comes_back_and_the_cuts_change_no_byte(drawn: tuple[dict[str, Any], list[str], list[int]]) -> None:
    columns, sequences, cuts = drawn
    made = written("jsonl", columns, sequences=sequences, cuts=cuts, options={"nonFinite": "Literal"})
    assert made.data == written("jsonl", columns, sequences=sequences, options={"nonFinite": "Literal"}).data
    found = objects(made.data)
    for name, column in columns.items():
        values = [_typed(row[name], name) for row in found]
        wanted = [base64.b64encode(value).decode() if isinstance(value, bytes) else value for value in plain(column)]
        assert same(values, wanted), name
    assert all_same(made.records(size=13), expected(columns, sequences))


def _typed(value: Any, name: str) -> Any:
    """Round floats to the column's narrower type."""
    if isinstance(value, list):
        return [_typed(each, name) for each in value]
    if isinstance(value, float) and name in WIDE:
        return float(np.float16(value) if name == "float16" else np.float32(value))
    return value


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_any_float32_is_read_back_through_a_double(bits: list[int]) -> None:
    floats = np.array(bits, np.uint32).view(np.float32)
    floats = floats[np.isfinite(floats)]
    found = np.array([row["x"] for row in objects(written("jsonl", {"x": pa.array(floats)}).data)], np.float64).astype(np.float32)
    assert found.view(np.uint32).tolist() == floats.view(np.uint32).tolist()


def test_a_large_tensor_is_written_in_parts() -> None:
    images = (np.arange(3 * 700_000) % 251).astype(np.uint8).reshape(3, 1000, 700)
    found = objects(written("jsonl", {"x": tensors(*images, dtype="uint8")}).data)
    assert [row["x"] for row in found] == images.tolist()


# --- options ------------------------------------------------------------------------------------------------------

ODD = {"x": pa.array([1.0, np.nan]), "l": pa.array([[1.0], [np.inf, -np.inf]])}


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ("Null", '{"x":null,"l":[null,null]}'),
        ("Text", '{"x":"NaN","l":["Infinity","-Infinity"]}'),
        ("Literal", '{"x":NaN,"l":[Infinity,-Infinity]}'),
    ],
)
def test_what_json_has_not_becomes_what_the_spec_says(policy: str, line: str) -> None:
    made = written("jsonl", ODD, options={"nonFinite": policy})
    assert made.data.decode().split("\n")[1] == line
    values = made.records()[1]
    assert repr(values["l"]) == ("[nan, nan]" if policy == "Null" else "[inf, -inf]")
    assert repr(values["x"]) == ("[]" if policy == "Null" else "[nan]")


@pytest.mark.parametrize(
    ("columns", "value", "record"),
    [
        ({"x": pa.array([1.0, np.nan])}, "nan", 1),
        ({"x": pa.array([[1.0], None, [2.0, -np.inf]])}, "-inf", 2),
        ({"x": pa.array([np.float16(np.inf)], pa.float16())}, "inf", 0),
        ({"x": tensors([1, 2], [np.nan, 3])}, "nan", 1),
    ],
)
def test_what_json_has_not_fails_the_job_unless_the_spec_says_what_becomes_of_it(columns: Any, value: str, record: int) -> None:
    with pytest.raises(BadData) as caught:
        written("jsonl", columns, cuts=[1])
    assert str(caught.value) == (
        f"The feature 'x' is {value} in record {record} of a shard."
        " JSON can't represent this value; set output.jsonl.nonFinite to Null, Text or Literal to say how it is written."
    )


def test_bytes_that_are_text_can_be_written_so() -> None:
    made = written("jsonl", {"b": pa.array([b"a\xc3\xbc", None])}, options={"bytes": "Text"})
    assert objects(made.data) == [{"b": "aü"}, {"b": None}]
    assert made.records() == [{"b": ["aü".encode()]}, {"b": []}]
    with pytest.raises(BadData, match="The feature 'b' has a value that isn't UTF-8."):
        written("jsonl", {"b": pa.array([b"\xff"])}, options={"bytes": "Text"})


def test_gzip_holds_the_same_lines() -> None:
    column = {"x": pa.array(range(1000))}
    made = written("jsonl", column, cuts=[10], options={"compression": "Gzip"})
    assert gzip.decompress(made.data) == written("jsonl", column).data
    assert made.records(size=5) == [{"x": [number]} for number in range(1000)]
    assert gzip.decompress(written("jsonl", {"x": pa.array([], pa.int64())}, options={"compression": "Gzip"}).data) == b""


# --- other readers ------------------------------------------------------------------------------------------------


def test_arrow_and_duckdb_read_every_field(tmp_path: Any) -> None:
    columns = {
        "n": pa.array([2**63 - 1, None, -(2**63)], pa.int64()),
        "f": pa.array([0.1, 1e300, None], pa.float64()),
        "t": pa.array(['a "b"\n', "", None]),
        "v": tensors([1, 2], [3, 4], [5, 6]),
        "l": pa.array([["x"], [], None]),
        "s": pa.array([[[1.0, 2.0]], [], [[3.0, 4.0]]], pa.list_(pa.list_(pa.float64(), 2))),
        "label": pa.array([True, False, None]),
    }
    made = written("jsonl", columns, labels=["label"], sequences=["s"])
    wanted = {name: plain(column) for name, column in columns.items()}
    assert arrow_json.read_json(io.BytesIO(made.data)).to_pydict() == wanted
    (tmp_path / "x.jsonl").write_bytes(made.data)
    found: Any = duckdb.sql(f"SELECT * FROM '{tmp_path}/x.jsonl'")  # noqa: S608 - the path is the test's own
    assert {name: list(values) for name, values in zip(found.columns, zip(*found.fetchall(), strict=True), strict=True)} == wanted


# --- broken files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b'{"x":1}\n{"x":', "truncated record (5 bytes) at offset 8"),
        (b'{"x":1}\n{"x":}\n', "not JSON: Expecting value: line 1 column 6 (char 5) at offset 8"),
        (b'{"x":1}\n{"y":1}\n', "expected the keys 'x', got 'y' at offset 8"),
        (b"[1]\n", "expected the keys 'x', got no object at offset 0"),
        (b'{"x":"\xff"}\n', "not JSON: 'utf-8' codec can't decode byte 0xff in position 6: invalid start byte at offset 0"),
        (b"[" * 100_000 + b"\n", None),
    ],
)
def test_what_is_broken_is_named_with_its_offset(data: bytes, fault: str | None) -> None:
    made = written("jsonl", {"x": pa.array([1])})
    for size in (3, 1 << 20):
        with pytest.raises(BrokenRecord) as caught:
            made.records(data=data, size=size)
        assert str(caught.value) == fault or fault is None


def test_broken_gzip_is_named() -> None:
    made = written("jsonl", {"x": pa.array([1])}, options={"compression": "Gzip"})
    with pytest.raises(BrokenRecord, match="the gzip stream ends early, after 4 bytes of records, at offset 4"):
        made.records(data=made.data[:15])


@pytest.mark.usefixtures("native_and_python")
@pytest.mark.parametrize("compression", ["None", "Gzip"])
def test_damage_is_named_or_reads_as_records(compression: str) -> None:
    columns = {"x": pa.array(range(60)), "t": pa.array(["abc", None] * 30), "l": pa.array([[1.5], []] * 30), "b": pa.array([b"a"] * 60)}
    made = written("jsonl", columns, options={"compression": compression})
    rng = np.random.default_rng(7)
    named = 0
    for _ in range(150):
        try:
            made.records(data=damaged(made.data, rng))
        except BrokenRecord:
            named += 1
    assert named > 75
