"""Arrow columns in the types that Spark accepts."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataprep_converter.core.errors import BadSpec
from dataprep_spark.spark_types import as_spark_type, spark_type

_any: Any = pa
UTC = dt.UTC


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([255, None], pa.uint8()), pa.int16(), [255, None]),
        (pa.array([2**32 - 1], pa.uint32()), pa.int64(), [2**32 - 1]),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
        (pa.array([0.5], pa.float16()), pa.float32(), [0.5]),
        (pa.array(["a", None], pa.large_string()), pa.string(), ["a", None]),
        (pa.array([b"ab"], _any.binary(2)), pa.binary(), [b"ab"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
        (pa.array([86_400_000], _any.date64()), pa.date32(), [dt.date(1970, 1, 2)]),
        (pa.array([1, None], pa.time32("ms")), pa.int32(), [1, None]),
        (pa.array([[1]], pa.list_(pa.time32("s"))), pa.list_(pa.field("element", pa.int32())), [[1]]),
        (pa.array([[1]], pa.list_(pa.time64("us"))), pa.list_(pa.field("element", pa.int64())), [[1]]),
        (pa.array([1], pa.duration("ms")), pa.duration("us"), [dt.timedelta(milliseconds=1)]),
        (pa.array([-1], pa.timestamp("s", "UTC")), pa.timestamp("us", "UTC"), [dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)]),
        (
            pa.array([1_001], pa.timestamp("ns", "Asia/Tokyo")),
            pa.timestamp("us", "UTC"),
            [dt.datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)],
        ),
        (pa.array([Decimal("1.50")], _any.decimal256(38, 2)), pa.decimal128(38, 2), [Decimal("1.50")]),
        (pa.array([[1], None, []], pa.large_list(pa.uint8())), pa.list_(pa.field("element", pa.int16())), [[1], None, []]),
    ],
)
def test_a_column_keeps_its_values_in_a_type_of_spark(column: Any, kind: Any, values: list[Any]) -> None:
    assert spark_type(column.type, "x") == kind
    converted = as_spark_type(column, kind)
    assert (converted.type, converted.to_pylist()) == (kind, values)


def _times(*nanoseconds: int | None) -> Any:
    return pa.array(nanoseconds, pa.timestamp("ns"))


@pytest.mark.parametrize(
    ("column", "kind", "microseconds"),
    [
        (_times(-1, -999, -1000, -1001, 999, 1000, None), pa.timestamp("us"), [-1, -1, -1, -2, 0, 1, None]),
        (_times(5, -1, None).slice(1), pa.timestamp("us"), [-1, None]),
        (pa.array([-1, -86_400_000, -86_400_001], _any.date64()), pa.date32(), [-1, -1, -2]),
        (
            _any.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), _times(7, -1, None)).slice(1),
            pa.list_(pa.timestamp("us")),
            [[-1, None]],
        ),
        (pa.array([None, [-1]], pa.large_list(pa.timestamp("ns"))), pa.list_(pa.timestamp("us")), [None, [-1]]),
        (
            pa.array([{"x": 0}, {"x": -1}, None], pa.struct([("x", pa.timestamp("ns"))])).slice(1),
            pa.struct([("x", pa.timestamp("us"))]),
            [{"x": -1}, None],
        ),
        (
            pa.array([[("a", 0)], [("k", -1)], None], pa.map_(pa.string(), pa.timestamp("ns"))).slice(1),
            pa.map_(pa.string(), pa.timestamp("us")),
            [[("k", -1)], None],
        ),
    ],
)
def test_times_are_rounded_down_to_microseconds(column: Any, kind: Any, microseconds: list[Any]) -> None:
    converted = as_spark_type(column, kind)
    assert converted.type == kind
    counted = {
        pa.timestamp("us"): pa.int64(),
        pa.date32(): pa.int32(),
        pa.list_(pa.timestamp("us")): pa.list_(pa.int64()),
        pa.struct([("x", pa.timestamp("us"))]): pa.struct([("x", pa.int64())]),
        pa.map_(pa.string(), pa.timestamp("us")): pa.map_(pa.string(), pa.int64()),
    }
    assert converted.cast(counted[kind]).to_pylist() == microseconds


@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (0,), (3, 0, 2), (1, 1, 1)])
def test_tensors_without_values_keep_their_shape(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    storage = pa.array([[0] * size, None, [0] * size], _any.list_(pa.uint8(), size))
    tensors = _any.ExtensionArray.from_storage(_any.fixed_shape_tensor(pa.uint8(), shape), storage)
    converted = as_spark_type(tensors, spark_type(tensors.type, "x")).to_pylist()
    assert converted == [np.zeros(shape, np.uint8).tolist(), None, np.zeros(shape, np.uint8).tolist()]


def test_tensors_become_lists_of_lists() -> None:
    tensors = _any.ExtensionArray.from_storage(
        _any.fixed_shape_tensor(pa.uint8(), (2, 3)), pa.array([[1, 2, 3, 4, 5, 6], None, [7, 8, 9, 10, 11, 12]], _any.list_(pa.uint8(), 6))
    )
    kind = spark_type(tensors.type, "image")
    converted = as_spark_type(tensors, kind)
    assert converted.to_pylist() == [[[1, 2, 3], [4, 5, 6]], None, [[7, 8, 9], [10, 11, 12]]]
    assert as_spark_type(tensors.slice(2), kind).to_pylist() == [[[7, 8, 9], [10, 11, 12]]]
    assert converted.type == kind


def test_nested_values_keep_their_structure() -> None:
    column = pa.array(
        [[{"x": np.uint8(1), "y": [("k", 2)]}], None],
        pa.large_list(pa.struct([("x", pa.uint8()), ("y", pa.map_(pa.large_string(), pa.int8()))])),
    )
    kind = spark_type(column.type, "x")
    assert as_spark_type(column, kind).to_pylist() == [[{"x": 1, "y": [("k", 2)]}], None]


@pytest.mark.parametrize("kind", [_any.decimal256(39, 0), _any.decimal128(5, -2), _any.month_day_nano_interval(), pa.null()])
def test_a_type_that_spark_lacks_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(BadSpec, match=r"The column 'x' is .*, which Spark can't read. Leave the column out: set the option columns"):
        spark_type(_any.list_(kind), "x")
