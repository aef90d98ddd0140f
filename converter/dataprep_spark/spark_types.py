"""Converts Arrow columns to the types that Spark accepts.

Spark has neither unsigned numbers nor tensors, counts times in microseconds, and accepts lists, text and bytes only with 32-bit offsets.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_any_bytes, is_any_text
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.lists import is_list
from dataprep_converter.core.tensors import is_tensor, null_mask, pc, to_arrow
from dataprep_converter.dataset.frame_rows import SPARK
from dataprep_frames.reading import Types

_MOST_DIGITS: Final = 38
_WIDER: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}
"""Maps each type of numbers or dates that Spark lacks to a type that Spark has and that can hold all values."""
_SAME: Final = frozenset(
    (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(), pa.string(), pa.binary())
)

_types: Any = pa.types  # the stubs know only some of the types that each function accepts
_arrow: Any = pa


def spark_type(kind: Any, column: str) -> pa.DataType:
    """Returns the Arrow type in which Spark accepts values of type `kind`. If there is none, raises BadSpec, which names the column."""
    if is_tensor(kind):
        inner = spark_type(kind.value_type, column)
        for _ in kind.shape:
            inner = _list_of(inner)
        return inner
    if isinstance(kind, pa.BaseExtensionType):
        return spark_type(kind.storage_type, column)
    if _types.is_dictionary(kind):
        return spark_type(kind.value_type, column)
    if kind in _SAME:
        return kind  # type: ignore[no-any-return]  # kind is Any
    if kind in _WIDER:
        return _WIDER[kind]
    if is_any_text(kind):
        return pa.string()
    if is_any_bytes(kind):
        return pa.binary()
    if _types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if _types.is_duration(kind):
        return pa.duration("us")
    if _types.is_time(kind):
        # Spark refuses its own type for times of day, unless a setting allows it.
        return pa.int32() if _types.is_time32(kind) else pa.int64()
    if _types.is_decimal(kind) and kind.precision <= _MOST_DIGITS and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    if is_list(kind):
        return _list_of(spark_type(kind.value_type, column))
    if _types.is_map(kind):
        key = pa.field("key", spark_type(kind.key_type, column), nullable=False)
        maps: pa.DataType = _arrow.map_(key, pa.field("value", spark_type(kind.item_type, column)))
        return maps
    if _types.is_struct(kind):
        return pa.struct([pa.field(field.name, spark_type(field.type, column)) for field in kind])
    raise BadSpec(
        f"The column {column!r} is {kind}, which Spark can't read. Leave the column out: set the option columns to the other columns."
    )


def _list_of(kind: pa.DataType) -> pa.DataType:
    lists: pa.DataType = _arrow.list_(pa.field("element", kind))
    return lists


def as_spark_type(column: Any, kind: Any) -> Any:
    """Returns the column, converted to a type that `spark_type` has returned.

    Times are rounded down to microseconds, as in Spark, so that times before 1970 keep their order. Raises ArrowInvalid for times that
    Spark can't hold.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if is_tensor(column.type):
        return _lists_of_tensors(column).cast(kind)
    if isinstance(column.type, pa.BaseExtensionType):
        return as_spark_type(column.storage, kind)
    if column.type.equals(kind):
        return column
    options = _arrow.compute.CastOptions(kind, allow_time_truncate=True)
    return _arrow.compute.cast(_in_microseconds(column), options=options)


def _in_microseconds(column: Any) -> Any:
    """Rounds a column's nanosecond times down to microseconds, and its date64 values to whole days, even in nested values."""
    kind = column.type
    if _types.is_timestamp(kind) and kind.unit == "ns":
        return _floored(column.view(pa.int64()), 1000).view(pa.timestamp("us", kind.tz))
    if kind == pa.date64():
        return _floored(column.view(pa.int64()), 86_400_000).cast(pa.int32()).view(pa.date32())
    if _types.is_struct(kind):
        fields = [_in_microseconds(column.field(place)) for place in range(kind.num_fields)]
        names = [field.name for field in kind]
        return _arrow.StructArray.from_arrays(fields, names=names, mask=column.is_null()) if fields else column
    if _types.is_map(kind):
        offsets = _arrow.concat_arrays([column.offsets])
        return _arrow.MapArray.from_arrays(offsets, _in_microseconds(column.keys), _in_microseconds(column.items), mask=column.is_null())
    if _types.is_list(kind) or _types.is_large_list(kind):
        lists = _arrow.ListArray if _types.is_list(kind) else _arrow.LargeListArray
        return lists.from_arrays(_arrow.concat_arrays([column.offsets]), _in_microseconds(column.values), mask=column.is_null())
    return column


def _floored(numbers: Any, by: int) -> Any:
    """Divides whole numbers, rounding down."""
    quotients = pc.divide(numbers, by)  # rounds to 0
    return pc.subtract(quotients, pc.less(numbers, pc.multiply(quotients, by)).cast(pa.int64()))


def _lists_of_tensors(tensors: Any) -> Any:
    """Returns tensors as lists. Tensors with several dimensions become nested lists."""
    outer, *inner = tensors.type.shape
    values = tensors.storage.flatten()  # flatten leaves out the values of nulls
    rows = len(tensors) - tensors.null_count
    for place in range(len(inner) - 1, -1, -1):
        count = rows * outer * math.prod(inner[:place])
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(inner[place])
        values = _arrow.ListArray.from_arrays(to_arrow(offsets), values)
    is_missing = null_mask(tensors)
    ends = np.concatenate((np.zeros(1, np.int32), np.cumsum(np.where(is_missing, 0, outer), dtype=np.int32)))
    return _arrow.ListArray.from_arrays(to_arrow(ends), values, mask=to_arrow(is_missing) if is_missing.any() else None)


TYPES: Final = Types(SPARK, spark_type, as_spark_type)
