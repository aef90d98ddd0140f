"""Values that records hold only in part: whole numbers beyond what a float holds, decimals of many digits, and times, which become numbers.

They are judged one by one while a shard is made, and counted in its report: so the counts are the same whatever the workers. A float64 that a
format stores as float32 is reported once, by its type, in the plan.
"""

from collections.abc import Iterable, Sequence
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
SAFE_DIGITS: Final = 15
"""Decimal digits that every float64 keeps."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class InexactIntegers:
    """Whole numbers of a column that the feature's type can't hold."""

    column: str
    rows: Rows
    """Each once, ascending."""
    values: npt.NDArray[Any]
    """The first in each of these rows."""


def inexact(values: npt.NDArray[Any], dtype: str, column: str) -> InexactIntegers | None:
    """What of whole numbers, a row for each entry of the first dimension, changes when it is stored as `dtype`."""
    target = np.dtype(dtype)
    if target.kind != "f" or values.dtype.kind not in "iu" or not values.size:
        return None
    bound = 1 << (np.finfo(target).nmant + 1)
    if np.iinfo(values.dtype).max <= bound or (int(values.max()) <= bound and int(values.min()) >= -bound):
        return None
    flat = values.reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        stored = flat.astype(target)
        changed = stored.astype(values.dtype) != flat
        # The largest number of the type is never a float: what is rounded up to beyond it can't come back.
        limit = float(np.iinfo(values.dtype).max)
        if stored.max() >= limit:
            changed |= stored >= limit
        if np.isneginf(stored.min()):
            # That comes back as the smallest number, which may be the one that it was.
            changed |= np.isneginf(stored)
    places = np.flatnonzero(changed)
    if not len(places):
        return None
    if values.ndim == 1:
        return InexactIntegers(column, places, flat[places])
    rows, first = np.unique(places // (len(flat) // len(values)), return_index=True)
    return InexactIntegers(column, rows, flat[places[first]])


def lost_digits(original: Any, read: Any) -> "Array | None":
    """Decimals as text where the float64 beside them doesn't have all their digits, null elsewhere. None if none can be lost."""
    kind = original.type
    if pa.types.is_decimal(kind):
        if kind.precision <= SAFE_DIGITS:
            return None
        original = original.cast(pa.string())
    differs = pc.and_(pc.is_finite(read), pc.not_equal(significant(original), significant(read.cast(pa.string()))))
    return pc.if_else(pc.fill_null(differs, False), original, pa.scalar(None, pa.string()))  # type: ignore[no-any-return]


def merged(found: Iterable[Lossy]) -> list[Lossy]:
    """One for each column and kind, with the example that came first."""
    whole: dict[tuple[str, str, str], Lossy] = {}
    for each in found:
        key = (each.feature, each.column, each.kind)
        before = whole.get(key)
        whole[key] = each if before is None else before.model_copy(update={"records": before.records + each.records})
    return [whole[key] for key in sorted(whole)]


def warnings(found: Sequence[Lossy]) -> list[str]:
    """The warnings for the user, as sentences."""
    told = [_sentence(each) for each in found[:_TOLD]]
    if len(found) > _TOLD:
        told.append(f"{len(found) - _TOLD:,} more columns have values that records hold only in part: see lossy in the manifest")
    return told


def _sentence(each: Lossy) -> str:
    of = f"{each.records:,} record{'s' * (each.records != 1)}"
    if each.kind == "Integer":
        return f"column {each.column!r}: whole numbers of {of} are not exact as {each.type}, such as {each.value}, stored as {each.stored}"
    if each.kind == "Decimal":
        return (
            f"column {each.column!r}: decimals of {of} have more digits than {each.type} holds, such as {each.value}, read as {each.stored}"
        )
    return f"column {each.column!r}: times of {of} are stored as numbers ({each.type}), such as {each.value}, read as {each.stored}"


def shown(value: Any) -> str:
    """A value of an example."""
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
