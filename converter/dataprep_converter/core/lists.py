"""Flatten a column of lists to a column of the lists' items, and rebuild lists from items. The functions here have no side effects."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.tensors import Array, is_tensor, null_mask, pc, shape_of, to_arrow, to_numpy, value_type

_arrow: Any = pa  # in the stubs, the classes of list arrays can't be used as values


@dataclass(frozen=True)
class Lists:
    """The parts of a column of lists."""

    items: Array
    """The items of all rows, concatenated."""
    counts: npt.NDArray[np.int64]
    """The number of items in each row, which is 0 for a null."""
    missing: npt.NDArray[np.bool_] | None
    """A mask of the rows that are null, or None if no row is null."""

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the row number of each item."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def is_list(kind: pa.DataType) -> bool:
    """Return whether the type is a list, of variable or fixed size."""
    return is_ragged(kind) or pa.types.is_fixed_size_list(kind)


def is_ragged(kind: pa.DataType) -> bool:
    """Return whether the type is a list of variable size."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def item_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the innermost values, below all lists and tensors."""
    inner: Any = kind
    if is_tensor(kind):
        return value_type(kind)
    return item_type(inner.value_type) if is_list(kind) or isinstance(kind, pa.DictionaryType) else kind


def row_shape(kind: pa.DataType) -> tuple[int, ...]:
    """Return the shape of a row, with -1 for a list of variable size."""
    inner: Any = kind
    if is_ragged(kind):
        return (-1, *row_shape(inner.value_type))
    if pa.types.is_fixed_size_list(kind):
        return (inner.list_size, *row_shape(inner.value_type))
    return shape_of(kind)


def flatten_lists(column: Array) -> Lists:
    """Flatten a column of lists, or of tensors, which are treated as lists along their first dimension."""
    rows: Any = column
    missing = null_mask(column) if column.null_count else None
    if is_tensor(column.type):
        size, *rest = shape_of(column.type)
        valid = to_numpy(column.drop_null() if column.null_count else column)
        items = storage(to_arrow(valid.reshape(len(valid) * size, math.prod(rest)) if rest else valid.reshape(-1)))
        counts = np.full(len(column), size, np.int64)
        return Lists(items=items, counts=counts if missing is None else np.where(missing, 0, counts), missing=missing)
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return Lists(items=rows.flatten(), counts=counts, missing=missing)


def put_together(items: Array, lists: Lists) -> Array:
    """Return a column of lists with the structure of `lists` and these items."""
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.counts, dtype=np.int64)))
    is_large = ends[-1] > np.iinfo(np.int32).max
    column: Array = (_arrow.LargeListArray if is_large else _arrow.ListArray).from_arrays(
        to_arrow(ends if is_large else ends.astype(np.int32)),
        storage(items),
        mask=None if lists.missing is None else pa.array(lists.missing),
    )
    return column


def storage(column: Array) -> Array:
    """Return the storage of a tensor column, which is a column of lists. Any other column is returned unchanged."""
    tensors: Any = column
    lists: Array = tensors.storage if is_tensor(column.type) else column
    return lists
