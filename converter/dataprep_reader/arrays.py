"""Converts a batch's columns to numpy arrays, all values of a column in one call."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import BadData
from dataprep_converter.core.lists import flatten_lists, is_ragged, item_type, row_shape
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, to_numpy

Values = TypeVar("Values")


@dataclass(frozen=True)
class Ragged(Generic[Values]):
    """Lists of any length, one for each record. `ragged[i]` are the values of record i, as a view without a copy."""

    values: "Values"
    """All lists' values, concatenated: an array whose first dimension counts the values, or a Ragged if the lists contain lists."""
    offsets: Any
    """int64: the start of each list, followed by the end of the last list."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> Any:
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} lists, so there is no list {number}")
        number %= len(self)
        return self._between(int(self.offsets[number]), int(self.offsets[number + 1]))

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def _between(self, first: int, end: int) -> Any:
        inner: Any = self.values
        if isinstance(inner, Ragged):
            return Ragged(inner.values, inner.offsets[first : end + 1])
        return inner[first:end]


Column: TypeAlias = "npt.NDArray[Any] | Ragged[Any]"


def as_numpy(batch: pa.RecordBatch) -> dict[str, Column]:
    """Returns a column for each feature, in writable memory that is not shared. Raises BadData for a null that the array can't hold."""
    return {name: _column(batch.column(name), name) for name in batch.schema.names}


def _column(column: Array, name: str) -> Column:
    kind = column.type
    if is_ragged(kind):
        lists = flatten_lists(column)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.counts, dtype=np.int64)))
        return Ragged(_column(lists.items, name), offsets)
    leaf = item_type(kind)
    shape = (len(column), *row_shape(kind))
    if leaf not in NUMPY_NAMES:
        return _objects(column, shape, name)
    if is_tensor(kind) or not shape[1:]:
        return _numbers(column, shape, name)
    inner: Any = column
    while pa.types.is_fixed_size_list(inner.type):
        # `flatten` drops the values inside a null list, so with nulls the lengths differ.
        inner = inner.flatten()
    if len(inner) != math.prod(shape):
        raise _missing(name)
    return _numbers(inner, (len(inner),), name).reshape(shape)


def _numbers(column: Array, shape: tuple[int, ...], name: str) -> npt.NDArray[Any]:
    if not column.null_count:
        return to_numpy(column).copy()
    dtype = np.dtype(NUMPY_NAMES[item_type(column.type)])
    if dtype.kind != "f":
        raise _missing(name)
    is_there = column.is_valid().to_numpy(zero_copy_only=False)
    values = np.full(shape, np.nan, dtype)
    values[is_there] = to_numpy(column.drop_null())
    return values


def _objects(column: Array, shape: tuple[int, ...], name: str) -> npt.NDArray[Any]:
    inner: Any = column
    for _ in shape[1:]:
        inner = inner.flatten()
    if len(inner) != math.prod(shape):
        raise _missing(name)
    values = np.empty(len(inner), np.object_)
    values[:] = inner.to_pylist()
    return values.reshape(shape)


def _missing(name: str) -> BadData:
    return BadData(
        f"The feature {name!r} has records without a value, which an array of its type can't hold; leave it out (columns=) or read as_='arrow'."
    )
