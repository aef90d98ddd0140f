"""Finds values that records can't store exactly: integers that are too large for a float, long decimals, and times that become numbers.

Each value is checked while its shard is made, and the shard's report contains the counts. So the counts don't depend on the number of
workers. If a format stores float64 as float32, the plan reports this loss once for the type, and individual values aren't counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.report import Lossy
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.records.digits import significant

_TOLD: Final = 5
_SHOWN: Final = 80
_UNITS: Final[Mapping[str, str]] = {
    "day": "days",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
SAFE_DIGITS: Final = 15
"""The number of decimal digits that every float64 keeps."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class InexactIntegers:
    """The integers of a column that the feature's type can't store exactly."""

    column: str
    rows: Rows
    """The rows in which integers can't be stored exactly, ascending and without duplicates."""
    values: npt.NDArray[Any]
    """For each of these rows, the first integer that can't be stored exactly."""


def inexact(values: npt.NDArray[Any], dtype: str, column: str) -> InexactIntegers | None:
    """Returns the integers that change when they are stored as `dtype`, or None if none do. Each entry of the first dimension is a row."""
    target = np.dtype(dtype)
    if target.kind != "f" or values.dtype.kind not in "iu" or not values.size:
        return None
    bound = 1 << (np.finfo(target).nmant + 1)
    if np.iinfo(values.dtype).max <= bound or (int(values.max()) <= bound and int(values.min()) >= -bound):
        return None
    flat = values.reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        converted = flat.astype(target)
        differs = converted.astype(values.dtype) != flat
        # A float can't represent the type's largest integer. A value that was rounded up beyond this integer can't be converted back.
        limit = float(np.iinfo(values.dtype).max)
        if converted.max() >= limit:
            differs |= converted >= limit
        if np.isneginf(converted.min()):
            # Minus infinity converts back to the type's smallest integer. If this was the original value, the comparison above finds no
            # difference.
            differs |= np.isneginf(converted)
    places = np.flatnonzero(differs)
    if not len(places):
        return None
    if values.ndim == 1:
        return InexactIntegers(column, places, flat[places])
    rows, first = np.unique(places // (len(flat) // len(values)), return_index=True)
    return InexactIntegers(column, rows, flat[places[first]])


def lost_digits(original: Any, read: Any) -> "Array | None":
    """Returns, as text, the decimals that lose digits when they are read as float64. All other values are null.

    Returns None if numbers of the original type have too few digits to lose any.
    """
    kind = original.type
    if pa.types.is_decimal(kind):
        if kind.precision <= SAFE_DIGITS:
            return None
        original = original.cast(pa.string())
    differs = pc.and_(pc.is_finite(read), pc.not_equal(significant(original), significant(read.cast(pa.string()))))
    return pc.if_else(pc.fill_null(differs, False), original, pa.scalar(None, pa.string()))  # type: ignore[no-any-return]


def merge_entries(entries: Iterable[Lossy]) -> list[Lossy]:
    """Combines the entries for the same feature, column and kind: adds up their records, and keeps the first example."""
    by_key: dict[tuple[str, str, str], Lossy] = {}
    for entry in entries:
        key = (entry.feature, entry.column, entry.kind)
        previous = by_key.get(key)
        by_key[key] = entry if previous is None else previous.model_copy(update={"records": previous.records + entry.records})
    return [by_key[key] for key in sorted(by_key)]


def warnings(entries: Sequence[Lossy]) -> list[str]:
    """Returns the warnings for users, one sentence each."""
    sentences = [_sentence(entry) for entry in entries[:_TOLD]]
    if len(entries) > _TOLD:
        sentences.append(f"{len(entries) - _TOLD:,} more columns have values that records hold only in part: see lossy in the manifest")
    return sentences


def _sentence(entry: Lossy) -> str:
    records = f"{entry.records:,} record{'s' * (entry.records != 1)}"
    if entry.kind == "Integer":
        return f"column {entry.column!r}: whole numbers of {records} are not exact as {entry.type}, such as {entry.value}, stored as {entry.stored}"
    if entry.kind == "Decimal":
        return f"column {entry.column!r}: decimals of {records} have more digits than {entry.type} holds, such as {entry.value}, read as {entry.stored}"
    return (
        f"column {entry.column!r}: times of {records} are stored as numbers of {_counted(entry.type)} ({entry.type}), such as {entry.value}, "
        f"read as {entry.stored}"
    )


def _counted(kind: str) -> str:
    """Returns what a time type counts, such as `seconds since midnight`.

    `kind` is the type's name in Arrow, such as `timestamp[us, tz=UTC]`.
    """
    name, _, details = kind.partition("[")
    unit, _, zone = details.rstrip("]").partition(", tz=")
    units = _UNITS.get(unit, unit)
    if name.startswith("time") and name != "timestamp":
        return f"{units} since midnight"
    if name == "duration":
        return units
    return f"{units} since 1970{' in UTC' if zone else ''}"


def format_example(value: Any) -> str:
    """Returns an example's value as text, shortened if it is long."""
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
