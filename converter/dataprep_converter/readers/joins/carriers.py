"""Carries columns through an engine that lacks many of Arrow's types, such as Spark.

Each value is passed to the engine as a signed number of the same width, as bytes, as a boolean, or as a list of these. Afterwards, the
original value is restored bit for bit. Columns that are compared become int64 or bytes in the same order. Numbers are ordered by value,
text and bytes by their unsigned bytes, and false comes before true.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_text_or_bytes
from dataprep_converter.core.lists import Lists, flatten_lists, is_list
from dataprep_converter.core.tensors import Array, to_arrow

_SIGNED: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_SIGN: Final = np.int64(-(1 << 63))
_ALL_BUT_SIGN: Final = np.int64((1 << 63) - 1)

_arrow: Any = pa  # the type stubs lack some functions
_types: Any = pa.types  # the stubs know only some of the types that each function accepts


def carrier(kind: Any) -> pa.DataType | None:
    """The carrier type, in which a column of type `kind` is passed to the engine, or None if there is none."""
    if kind == pa.bool_():
        return kind  # type: ignore[no-any-return]  # kind is Any
    if _is_number(kind):
        return _SIGNED[kind.bit_width]
    if is_text_or_bytes(kind):
        return pa.binary()
    if is_list(kind) and (items := carrier(kind.value_type)) is not None:
        lists: pa.DataType = _arrow.list_(pa.field("element", items))
        return lists
    return None


def carried(column: Any) -> Array:
    """The column, converted to its carrier type."""
    kind = carrier(column.type)
    if kind is None:
        raise TypeError(f"{column.type} has no carrier")
    result: Array
    if column.type == kind:
        result = column
    elif is_list(column.type):
        lists = flatten_lists(column)
        result = _lists(carried(lists.items), lists, kind)
    elif is_text_or_bytes(column.type):
        result = _as_bytes(column)
    else:
        result = column.view(kind)
    return result


def returned(column: Any, kind: Any) -> Array:
    """The column, converted from its carrier type back to its original type `kind`."""
    result: Array
    if column.type == kind:
        result = column
    elif is_list(kind):
        lists = flatten_lists(column)
        items = returned(lists.items, kind.value_type)
        result = _fixed_lists(items, lists, kind) if _types.is_fixed_size_list(kind) else _lists(items, lists, kind)
    elif is_text_or_bytes(kind):
        result = _from_bytes(column, kind)
    else:
        result = column.view(kind)
    return result


def ordered_type(kind: Any) -> pa.DataType | None:
    """The type in which columns of type `kind` are compared, or None if they can't be compared."""
    if is_text_or_bytes(kind):
        return pa.binary()
    return pa.int64() if _is_number(kind) or kind == pa.bool_() else None


def ordered(column: Any) -> Array:
    """The column as int64 or bytes with the same order. A column of floats must have no nulls, and can't be converted back."""
    kind = column.type
    result: Array
    if is_text_or_bytes(kind):
        result = _as_bytes(column)
    elif kind == pa.uint64():
        result = _flipped(column.view(pa.int64()))
    elif _types.is_floating(kind):
        result = _ordered_floats(column)
    elif _types.is_temporal(kind):
        result = column.view(_SIGNED[kind.bit_width]).cast(pa.int64())
    else:
        result = column.cast(pa.int64())
    return result


def unordered(column: Any, kind: Any) -> Array:
    """The column that `ordered` converted, restored to its original type `kind`."""
    result: Array
    if is_text_or_bytes(kind):
        result = _from_bytes(column, kind)
    elif kind == pa.uint64():
        result = _flipped(column).view(kind)
    elif _types.is_temporal(kind):
        result = column.cast(_SIGNED[kind.bit_width]).view(kind)
    else:
        result = column.cast(kind)
    return result


def _is_number(kind: Any) -> bool:
    """Whether values have a fixed width of whole bytes, like numbers and times."""
    return bool(_types.is_primitive(kind) and not _types.is_interval(kind) and kind.bit_width in _SIGNED)


def _as_bytes(column: Any) -> Array:
    """Text or bytes as bytes. Raises ArrowInvalid for more than 2 GiB."""
    is_large = _types.is_large_string(column.type) or _types.is_large_binary(column.type)
    result: Array = column.view(pa.large_binary()).cast(pa.binary()) if is_large else column.view(pa.binary())
    return result


def _from_bytes(column: Any, kind: Any) -> Array:
    is_large = _types.is_large_string(kind) or _types.is_large_binary(kind)
    result: Array = (column.cast(pa.large_binary()) if is_large else column).view(kind)
    return result


def _lists(items: Array, lists: Lists, kind: Any) -> Array:
    """Builds a list column from the flat `items`. `lists` contains the lengths and nulls, and `kind` is the column's type."""
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.counts, dtype=np.int64)))
    is_large = _types.is_large_list(kind)
    if not is_large and ends[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid(f"lists of {ends[-1]:,} values don't fit into {kind}")
    offsets = to_arrow(ends if is_large else ends.astype(np.int32))
    mask = None if lists.missing is None else pa.array(lists.missing)
    column: Array = (_arrow.LargeListArray if is_large else _arrow.ListArray).from_arrays(offsets, items, type=kind, mask=mask)
    return column


def _fixed_lists(items: Array, lists: Lists, kind: Any) -> Array:
    valid: Any = _arrow.FixedSizeListArray.from_arrays(items, type=kind)
    if lists.missing is None:
        result: Array = valid
        return result
    places = np.cumsum(~lists.missing) - 1
    with_nulls: Array = valid.take(pa.array(places, pa.int64(), mask=lists.missing))
    return with_nulls


def _flipped(column: Any) -> Array:
    """Signed numbers with the highest bit flipped, which keeps the order of unsigned numbers."""
    values = column.fill_null(0).to_numpy() ^ _SIGN
    flipped: Array = pa.array(values, pa.int64(), mask=column.is_null().to_numpy(zero_copy_only=False))
    return flipped


def _ordered_floats(column: Any) -> Array:
    """Converts floats to whole numbers that have the same order. NaN becomes the largest number, and -0.0 equals 0.0."""
    values = column.cast(pa.float64()).to_numpy() + 0.0
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int64)
    return to_arrow(np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits))
