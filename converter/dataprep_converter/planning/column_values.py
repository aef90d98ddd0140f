"""Functions that convert complete columns to text, hashes, numbers or points in time, for the split rules."""

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_bytes, is_text_or_bytes, without_dictionary
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import Array, is_tensor, null_mask, pc
from dataprep_converter.sampling.selection import mix

_PRIME: Final = 0x100000001B3
_INVERSE: Final = pow(_PRIME, -1, 2**64)
_MOMENT: Final = (
    r"^\s*(?P<date>\d{4}-\d{2}-\d{2})(?:[T ](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>Z|z|[+-]\d{2}:?\d{2})?)?\s*$"
)
_MISSING: Final = np.uint64(0x9AE16A3B2F90404F)
_MICROSECONDS: Final = 1_000_000
_arrow: Any = pa  # the stubs lack the methods of arrays whose type is only known at run time


def check_type(kind: pa.DataType, *, of: str) -> None:
    """Raises BadSpec for a column whose values can't be compared as text or numbers. `of` names the field in the message."""
    types = pa.types
    plain = without_dictionary(kind)
    if is_tensor(kind) or not (
        types.is_integer(plain) or types.is_floating(plain) or types.is_boolean(plain) or is_text_or_bytes(plain) or is_moment(plain)
    ):
        raise BadSpec(f"{of} is of the type {kind}; use a column of text, whole numbers, numbers, booleans or times.")


def is_moment(kind: pa.DataType) -> bool:
    """Whether the values are Arrow dates or times."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def as_text(column: Array) -> Array:
    """Returns the values as a large_string column.

    Whole numbers become decimal text, and booleans become `true` and `false`. Missing values, and bytes that are not UTF-8, become
    null.
    """
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    if is_bytes(column.type):
        valid: Any = column.cast(pa.large_binary())
        try:
            text: Array = valid.cast(pa.large_string())
            return text
        except pa.ArrowInvalid:
            return pa.array([_decode(value) for value in column.to_pylist()], pa.large_string())
    return column.cast(pa.large_string())


def _decode(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def hashes(column: Array) -> npt.NDArray[np.uint64]:
    """Returns a 64-bit hash of each value: of its text or bytes, or of the bits of a float. Missing values have a hash, too.

    The hash is a polynomial over the bytes modulo 2^64, mixed with the length. If two values happen to have the same hash, the only
    consequence is that both are assigned to the same split.
    """
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    missing = null_mask(column)
    if pa.types.is_floating(column.type):
        numbers = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0  # + 0.0 turns negative zero into zero
        hashed = mix(numbers.view(np.uint64))
    else:
        text: Any = column if is_text_or_bytes(without_dictionary(column.type)) else as_text(column)
        hashed = _of_bytes(pc.fill_null(text.cast(pa.large_binary()), b""))
    return np.where(missing, _MISSING, hashed)


def _of_bytes(column: Any) -> npt.NDArray[np.uint64]:
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(offsets).astype(np.uint64)
    start, stop = (int(offsets[0]), int(offsets[-1])) if len(column) else (0, 0)
    if start == stop:
        return mix(mix(lengths))
    data = np.frombuffer(column.buffers()[2], np.uint8)[start:stop].astype(np.uint64) + np.uint64(1)
    # Each byte is multiplied by a power of the prime, and the products of each value are added. Each sum is divided by the power at the
    # value's first byte. So the hash doesn't depend on the value's position in the column.
    powers = np.multiply.accumulate(np.full(stop - start + 1, _PRIME, np.uint64)) * np.uint64(_INVERSE)
    inverses = np.multiply.accumulate(np.full(stop - start + 1, _INVERSE, np.uint64)) * np.uint64(_PRIME)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(data * powers[:-1], dtype=np.uint64)])
    begins = offsets - start
    return mix((sums[begins[1:]] - sums[begins[:-1]]) * inverses[begins[:-1]] ^ mix(lengths))


def moments(column: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """For each value, returns (microseconds since 1970 in UTC, whether the value is a valid time). The column consists of ISO 8601 text or
    Arrow times.
    """
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    if is_moment(column.type):
        microseconds = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        return _fill(microseconds, 0), ~null_mask(column)
    parts = pc.extract_regex(as_text(column), pattern=_MOMENT)
    date = pc.struct_field(parts, "date")
    day = pc.strptime(date, format="%Y-%m-%d", unit="s", error_is_null=True)
    # Arrow would read February 30 as March 1.
    is_day = _fill(pc.day(day), 0) == _number(pc.utf8_slice_codeunits(date, 8, 10))
    seconds = _fill(day.cast(pa.int64()), 0)
    for name, worth in (("hour", 3600), ("minute", 60), ("second", 1)):
        seconds = seconds + worth * _number(pc.struct_field(parts, name))
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(_or_zero(pc.struct_field(parts, "fraction")), 6, "0"), 0, 6)
    zone = pc.replace_substring(pc.struct_field(parts, "zone"), ":", "")
    offset = _number(pc.utf8_slice_codeunits(zone, 1, 3)) * 3600 + _number(pc.utf8_slice_codeunits(zone, 3, 5)) * 60
    offset = np.where(_fill(pc.starts_with(zone, "-"), False), -offset, offset)
    return (seconds - offset) * _MICROSECONDS + _number(fraction), is_day & ~null_mask(day)


def _or_zero(text: Any) -> Any:
    return pc.if_else(pc.equal(pc.fill_null(text, ""), ""), "0", text)


def _number(text: Any) -> npt.NDArray[np.int64]:
    return _fill(_or_zero(text).cast(pa.int64()), 0)


def _fill(column: Any, value: Any) -> npt.NDArray[Any]:
    filled: npt.NDArray[Any] = pc.fill_null(column, value).to_numpy(zero_copy_only=False)
    return filled


def moment_of(text: str, *, of: str) -> int:
    """Parses a bound of a time range and returns it in microseconds since 1970. Raises BadSpec."""
    values, valid = moments(_arrow.array([text]))
    if not valid[0]:
        raise BadSpec(f"{of} must be a date or time such as 2024-01-31 or 2024-01-31T12:00:00Z, got {text!r}.")
    return int(values[0])


def number_of(text: str, *, of: str) -> int | float:
    """Parses a bound of a numeric range. Raises BadSpec."""
    try:
        return int(text) if re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text) else float(text)
    except ValueError:
        raise BadSpec(f"{of} must be a number, because the column has numbers, got {text!r}.") from None


def in_range(column: Array, *, since: str | None, before: str | None, of: str) -> npt.NDArray[np.bool_]:
    """Returns which values are in [since, before). Missing values, and text that is neither a time nor a number, count as outside.

    Raises BadSpec for an invalid bound.
    """
    plain = without_dictionary(column.type)
    if is_text_or_bytes(plain) or is_moment(plain):
        values, inside = moments(column)
        bounds: list[int | float | None] = [None if text is None else moment_of(text, of=of) for text in (since, before)]
    else:
        numbers: Any = column.cast(pa.int8()) if pa.types.is_boolean(plain) else column
        values = _fill(numbers, 0)
        inside = ~(null_mask(column) | np.isnan(values.astype(np.float64)))
        bounds = [None if text is None else number_of(text, of=of) for text in (since, before)]
    low, high = bounds
    if low is not None:
        inside = inside & (values >= low)
    if high is not None:
        inside = inside & (values < high)
    return inside


def check_bounds(kind: pa.DataType, *, since: str | None, before: str | None, of: str) -> None:
    """Raises BadSpec for a range that can't contain any value of the type."""
    in_range(pa.array([], kind), since=since, before=before, of=of)
    parse = moment_of if is_text_or_bytes(without_dictionary(kind)) or is_moment(kind) else number_of
    if since is not None and before is not None and parse(since, of=of) >= parse(before, of=of):
        raise BadSpec(f"{of}: since {since} is not earlier than before {before}.")
