"""Times and decimals that keep their types.

Transforms see times as int64 and decimals as float64. A format that can store times or decimals also gets the values in their original
types, in an additional column. `kept_name` returns the name of this column.

Converting times to int64 loses nothing. A decimal with at most SAFE_DIGITS digits can be recovered from its float64, because no two such
decimals have the same float64. If a longer decimal lost digits, the reader reports the decimal's text (`Batch.lost`). A longer decimal that
lost no digits is the shortest decimal number that converts to its float64.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.good_runs import good_runs
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.records.lossy import SAFE_DIGITS

_KEPT: Final = "\0kept "
_SMALL: Final = 32
"""The bit width of the time types that Arrow casts only to int32."""
_ROUNDING: Final = 4 * float(np.finfo(np.float64).eps)
"""An upper bound on the relative error of a float64 that was read from a decimal."""
_MOST_DIGITS_OF_128: Final = 38
_arrow: Any = pa  # the type stubs lack some types and functions


def kept_name(feature: str) -> str:
    """Returns the name of the column that holds a feature's values in the kept type. `resolve` refuses a feature with this name."""
    return f"{_KEPT}{feature}"


def number_type(kind: Any) -> pa.DataType | None:
    """Returns the type in which transforms see times or decimals of type `kind`. Returns None for types that are never kept."""
    if pa.types.is_decimal(kind):
        return pa.float64() if 0 <= kind.scale <= kind.precision else None
    return pa.int64() if pa.types.is_temporal(kind) and not pa.types.is_interval(kind) else None


def as_numbers(values: Array) -> Array:
    """Returns times as int64 and decimals as float64."""
    if pa.types.is_decimal(values.type):
        return values.cast(pa.float64())
    kind: Any = values.type
    plain = values.cast(pa.int32()) if kind.bit_width == _SMALL else values
    return plain.cast(pa.int64())


def as_kept(numbers: Array, *, was: pa.DataType, kept: pa.DataType, texts: "Array | None") -> tuple[Array, list[int]]:
    """Converts numbers that were times or decimals of type `was` to a column of type `kept`.

    Also returns the rows that `kept` can't hold, which are null in the column. `texts` contains the text of each decimal that lost digits,
    and null in all other rows. `texts` is None if no decimal lost digits.
    """
    columns: list[Array] = []
    wrong: list[int] = []

    def read(low: int, high: int) -> Array:
        part = numbers.slice(low, high - low)
        if pa.types.is_temporal(was):
            return _times(part, was, kept)
        return _decimals(part, kept, None if texts is None else texts.slice(low, high - low))

    def refuse(row: int, _error: pa.ArrowInvalid) -> None:
        wrong.append(row)
        columns.append(_arrow.nulls(1, kept))

    for column in good_runs(0, len(numbers), read=read, refuse=refuse):
        columns.append(column)  # noqa: PERF402 - `refuse` adds columns between these
    return (columns[0] if len(columns) == 1 else _arrow.concat_arrays(columns or [_arrow.nulls(0, kept)])), wrong


def _times(numbers: Array, was: Any, kept: pa.DataType) -> Array:
    plain = numbers.cast(pa.int32()) if was.bit_width == _SMALL else numbers
    times: Array = plain.cast(was).cast(kept)
    times.validate(full=True)
    return times


def _decimals(numbers: Any, kept: Any, texts: "Array | None") -> Array:
    make = _arrow.decimal128 if kept.precision <= _MOST_DIGITS_OF_128 else _arrow.decimal256
    wide = make(kept.precision, kept.scale)
    if kept.precision <= SAFE_DIGITS:
        decimals: Any = numbers.cast(wide)
        differs = pc.greater(pc.abs(pc.subtract(decimals.cast(pa.float64()), numbers)), pc.multiply(pc.abs(numbers), _ROUNDING))
        if pc.any(differs).as_py():
            raise pa.ArrowInvalid(f"a number has more digits than {kept}")
    else:
        written = numbers.cast(pa.string())
        decimals = (written if texts is None else pc.coalesce(texts, written)).cast(wide)
    cast: Array = decimals.cast(kept)
    return cast


def time_text(number: int | None, kind: Any) -> str:
    """Returns a time as text. The time is given as a number in the unit of its type."""
    if number is None:
        return "none"
    plain: Any = pa.scalar(number, pa.int32() if kind.bit_width == _SMALL else pa.int64())
    try:
        return str(plain.cast(kind).cast(pa.string()).as_py())
    except pa.ArrowException:
        return str(number)
