"""Compares decimals by all their digits, although their columns are float64.

Arrow compares the float64 values. If two numbers are almost equal and at least one of them lost digits, their exact values are compared
instead. Exact values are compared one by one.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.tensors import Array, null_mask, pc
from dataprep_converter.records.exact_decimals import digits_name

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge,
}  # fmt: skip
_NEAR: Final = 16 * float(np.finfo(np.float64).eps)
"""If two float64 values differ by at most this share of the larger value, the decimals might have a different order."""


@dataclass(frozen=True)
class Column:
    """A column of numbers in a comparison."""

    name: str

    def number(self, records: pa.RecordBatch) -> Array:
        """Returns the values as float64."""
        return records.column(self.name).cast(pa.float64(), safe=False)

    def lost(self, records: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Returns a mask of the values that lost digits."""
        name = digits_name(self.name)
        return ~null_mask(records.column(name)) if name in records.schema.names else np.zeros(records.num_rows, np.bool_)

    def exact(self, records: pa.RecordBatch, row: int) -> Decimal:
        """Returns the exact value in a row."""
        name = digits_name(self.name)
        text = records.column(name)[row].as_py() if name in records.schema.names else None
        return Decimal(str(records.column(self.name)[row].as_py()) if text is None else text)


@dataclass(frozen=True)
class Literal:
    """A number that is written in an expression."""

    value: Decimal

    def number(self, records: pa.RecordBatch) -> Any:
        """Returns the number as a float64."""
        del records
        return pa.scalar(float(self.value), pa.float64())

    def lost(self, records: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Returns, for each row, whether the number loses digits as a float64."""
        return np.full(records.num_rows, Decimal(repr(float(self.value))) != self.value)

    def exact(self, records: pa.RecordBatch, row: int) -> Decimal:
        """Returns the number."""
        del records, row
        return self.value


Side = Column | Literal


def compared(kernel: str, left: Side, right: Side, records: pa.RecordBatch) -> Array:
    """Compares the two sides in each record. Works like Arrow's `kernel`, but compares all digits of decimals.

    The result is null if a value is missing.
    """
    result: Array = getattr(pc, kernel)(left.number(records), right.number(records))
    lost = left.lost(records) | right.lost(records)
    if not lost.any():
        return result
    mask = lost & _are_near(left, right, records)
    holds = [_OPERATORS[kernel](left.exact(records, row), right.exact(records, row)) for row in np.flatnonzero(mask).tolist()]
    exact: Array = pc.replace_with_mask(result, pa.array(mask), pa.array(holds, pa.bool_()))
    return exact


def _are_near(left: Side, right: Side, records: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Returns a mask of the rows whose float64 values are too close to show which number is greater."""
    one, other = (_as_floats(side.number(records)) for side in (left, right))
    with np.errstate(invalid="ignore", over="ignore"):
        near: npt.NDArray[np.bool_] = np.abs(one - other) <= _NEAR * np.maximum(np.abs(one), np.abs(other))
    return near


def _as_floats(numbers: Any) -> Any:
    """Returns the numbers as float64. A missing value becomes NaN, which isn't near any number."""
    if isinstance(numbers, pa.Scalar):
        return np.float64(numbers.as_py())
    return pc.fill_null(numbers, np.nan).to_numpy(zero_copy_only=False)
