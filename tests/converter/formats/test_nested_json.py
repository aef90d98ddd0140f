"""Nested values become JSON, and the JSON is converted back to the same values."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.builders.examples import examples
from tests.builders.nested_values import nested_columns

from dataprep_api.spec import Output
from dataprep_converter.core.tensors import Array
from dataprep_converter.formats.columnar.arrow_encoder import ArrowEncoder
from dataprep_converter.formats.columnar.parquet_encoder import ParquetEncoder
from dataprep_converter.formats.nested import nested_arrays
from dataprep_converter.formats.nested.descriptions import description, nested_field, nested_type, parse_description, plain_type
from dataprep_converter.formats.nested.json_texts import json_column
from dataprep_converter.formats.nested.nested_arrays import nested_array
from dataprep_converter.formats.text.jsonl_encoder import JsonlEncoder
from dataprep_converter.records.feature import FeatureSpec

_arrow: Any = pa  # the type stubs lack some functions


def struct(**fields: Any) -> Any:
    return _arrow.struct(list(fields.items()))


KINDS: dict[str, tuple[Any, Any, str]] = {
    "numbers": (struct(a=pa.int8(), b=pa.uint64(), c=pa.bool_()), {"a": -1, "b": 2**64 - 1, "c": True}, '{"a":-1,"b":18446744073709551615,"c":true}'),
    "floats": (pa.list_(pa.float64()), [0.1, 1.0, 1e300, None], "[0.1,1.0,1e+300,null]"),
    "float32": (pa.list_(pa.float32()), [0.5, 1.5], "[0.5,1.5]"),
    "not finite": (pa.list_(pa.float32()), [float("nan"), float("inf"), float("-inf")], '["NaN","Infinity","-Infinity"]'),
    "text": (pa.list_(pa.string()), ['a"\\\n\x01', "é", "", None], '["a\\"\\\\\\n\\u0001","é","",null]'),
    "bytes": (struct(a=pa.binary()), {"a": b"\xff\x00"}, '{"a":"/wA="}'),
    "a name with quotes": (struct(**{'a"b': pa.int8()}), {'a"b': 1}, '{"a\\"b":1}'),
    "decimals": (pa.list_(pa.decimal128(38, 3)), [Decimal("-1.250"), None], '["-1.250",null]'),
    "dates": (pa.list_(pa.date32()), [dt.date(2026, 1, 31)], '["2026-01-31"]'),
    "times": (pa.list_(pa.time64("us")), [dt.time(1, 2, 3, 4)], '["01:02:03.000004"]'),
    "timestamps": (pa.list_(pa.timestamp("us")), [1_769_862_600_000_000], '["2026-01-31T12:30:00.000000"]'),
    "zoned": (pa.list_(pa.timestamp("ms", tz="Europe/Berlin")), [dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)], '["2026-01-31T12:00:00.000Z"]'),
    "durations": (pa.list_(pa.duration("ms")), [dt.timedelta(seconds=-1)], "[-1000]"),
    "a map of text": (pa.map_(pa.string(), pa.int64()), [("k", 1), ("l", None)], '{"k":1,"l":null}'),
    "a map of numbers": (pa.map_(pa.int64(), pa.string()), [(1, "x")], '[[1,"x"]]'),
    "vectors": (_arrow.list_(_arrow.list_(pa.int64(), 2), 2), [[1, None], None], "[[1,null],null]"),
    "nothing": (struct(a=pa.null()), {"a": None}, '{"a":null}'),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "text"), KINDS.values(), ids=KINDS.keys())
def test_a_value_has_this_json_and_comes_back(kind: Any, value: Any, text: str) -> None:
    column = _arrow.array([value, None, value], kind)
    for part in (column, column.slice(1)):
        texts = json_column(part)
        assert texts.to_pylist() == [text, None, text][3 - len(part) :]
        back = nested_array(texts, kind)
        back.validate(full=True)
        assert str(back.to_pylist()) == str(part.to_pylist())
        assert back.type == kind
    assert len(nested_array(json_column(column.slice(0, 0)), kind)) == 0


@pytest.mark.parametrize(("kind", "value", "text"), KINDS.values(), ids=KINDS.keys())
def test_a_type_has_a_description_that_is_json(kind: Any, value: Any, text: str) -> None:
    del value, text
    assert plain_type(kind) == kind
    assert parse_description(json.loads(json.dumps(description(kind), sort_keys=True))) == kind
    assert nested_type(nested_field("c", kind)) == kind
    assert nested_type(nested_field("c", kind).with_type(pa.string())) is None


PLAIN: dict[str, tuple[Any, Any]] = {
    "large": (pa.large_list(pa.large_string()), pa.list_(pa.string())),
    "views": (struct(a=_arrow.string_view(), b=_arrow.binary_view()), struct(a=pa.string(), b=pa.binary())),
    "a dictionary": (pa.list_(pa.dictionary(pa.int8(), pa.string())), pa.list_(pa.string())),
    "seconds": (struct(a=pa.timestamp("s", tz="UTC"), b=pa.time32("s"), c=pa.date64()), struct(a=pa.timestamp("ms", tz="UTC"), b=pa.time32("ms"), c=pa.date32())),
    "an interval": (pa.list_(pa.month_day_nano_interval()), None),
    "two fields of one name": (_arrow.struct([("a", pa.int8()), ("a", pa.int8())]), None),
    "no fields": (_arrow.struct([]), None),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "plain"), PLAIN.values(), ids=PLAIN.keys())
def test_a_type_is_written_as_a_plain_type_or_refused(kind: Any, plain: Any) -> None:
    assert plain_type(kind) == plain


def test_times_of_seconds_keep_their_moment() -> None:
    column = _arrow.array([{"a": 1, "b": 2}], struct(a=pa.timestamp("s"), b=pa.time32("s")))
    assert json_column(column).to_pylist() == ['{"a":"1970-01-01T00:00:01.000","b":"00:00:02.000"}']


def test_a_time_that_has_no_text_is_a_number() -> None:
    column = _arrow.array([[-(2**62), 0]], pa.list_(pa.timestamp("us")))
    texts = json_column(column)
    assert texts.to_pylist() == ['[-4611686018427387904,"1970-01-01T00:00:00.000000"]']
    assert nested_array(texts, column.type).equals(column)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.list_(pa.binary())], ids=["by Arrow", "by Python"])
def test_texts_are_parsed_a_few_at_a_time(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [[n] if pa.types.is_integer(kind.value_type) else [b"x" * n] for n in range(50)]
    column = _arrow.array([*values, None], kind)
    monkeypatch.setattr(nested_arrays, "_AT_ONCE", 16)
    assert nested_array(json_column(column), kind).equals(column)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("{", struct(a=pa.int64()), "Expecting property name"),
        ("1", struct(a=pa.int64()), "expected struct<a: int64>, got int"),
        ('{"b":1}', struct(a=pa.int64()), "there is a field 'b', which struct<a: int64> doesn't have"),
        ("[true]", pa.list_(pa.int64()), "expected int64, got bool"),
        ("[300]", pa.list_(pa.int8()), "a value is not int8"),
        ("[1.5]", pa.list_(pa.int64()), "expected int64, got float"),
        ('["x"]', pa.list_(pa.float64()), "expected double, got str"),
        ("[1]", _arrow.list_(pa.int64(), 2), r"a list has the length 1, but fixed_size_list<item: int64>\[2\] requires the length 2"),
        ('["never"]', pa.list_(pa.date32()), "a value is not date32"),
        ('["?"]', pa.list_(pa.binary()), "Only base64 data is allowed"),
    ],
)
def test_json_of_another_type_is_refused(text: str, kind: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nested_array(pa.array([text], pa.large_string()), kind)


@pytest.mark.parametrize("encoder", [ParquetEncoder, ArrowEncoder, JsonlEncoder])
def test_the_bytes_do_not_depend_on_the_batches(encoder: Any) -> None:
    kind = pa.list_(struct(a=pa.int64(), b=pa.string(), c=pa.float32()))
    rows = [[{"a": n, "b": "x" * n, "c": None if n % 3 else float(n)}] * (n % 4) if n % 5 else None for n in range(40)]
    texts = json_column(_arrow.array(rows, kind))
    feature = FeatureSpec("m", "bytes", "bytes", (), text=True, nested=kind)
    output = Output.model_validate({"uri": "out", "arrow": {"batchRecords": 16}, "parquet": {"rowGroupRecords": 16}})
    written = set()
    for size in (1, 7, 40):
        one = encoder(output, [feature])
        parts = [bytes(one.encode(pa.record_batch({"m": texts.slice(first, size)}))) for first in range(0, 40, size)]
        written.add(b"".join(parts) + one.close())
    assert len(written) == 1


# --- properties -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(nested_columns())
@settings(max_examples=examples(200), deadline=None)
def test_any_column_comes_back_from_its_json(column: Array) -> None:
    texts: Any = json_column(column)
    for text in texts.drop_null().to_pylist():
        json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    back = nested_array(texts, column.type)
    back.validate(full=True)
    assert back.type == column.type
    assert repr(back.to_pylist()) == repr(column.to_pylist())
