"""Converts a batch's columns to numpy arrays, each column in one call. This module also decides how an array represents nulls."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import BadData
from dataprep_converter.core.lists import flatten_lists, is_ragged, item_type, row_shape
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, to_numpy

Values = TypeVar("Values")

_DTYPES: Final[Mapping[pa.DataType, np.dtype[Any]]] = {kind: np.dtype(name) for kind, name in NUMPY_NAMES.items()}
_NOTHING: Final[Mapping[str, Any]] = {"f": np.nan, "O": None}
"""The value that replaces a null, keyed by the kind of the numpy type. For kinds that aren't listed, 0 or False replaces a null."""


@dataclass(frozen=True)
class Ragged(Generic[Values]):
    """Lists of any length, one for each record. `ragged[i]` is a view of the values of record i, without a copy."""

    values: "Values"
    """All lists' values, concatenated: an array whose first dimension has one entry per value, or a Ragged if the lists contain lists."""
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

MASK: Final = "_missing"
"""The name of a mask is its feature's name, followed by this suffix."""


def as_numpy(batch: pa.RecordBatch, masks: Collection[str] = ()) -> dict[str, Column]:
    """Returns a column for each feature, in writable memory that is not shared.

    In a column of floats, a null is NaN; in a column of text or bytes, it is None. Whole numbers and booleans with nulls are a MaskedArray.
    If `masks` contains such a feature, the feature is a plain array instead, with 0 or False in place of nulls. After each feature in
    `masks`, the next column is the feature's mask.
    """
    named = list(zip(batch.schema.names, batch.columns, strict=True))
    missing = _missing({name: column for name, column in named if column.null_count})
    columns: dict[str, Column] = {}
    for name, column in named:
        columns[name] = _with_nulls(column, missing[name], is_masked=name not in masks) if name in missing else _without_nulls(column)
        if name in masks:
            columns[mask_name(name)] = missing[name] if name in missing else np.zeros(len(column), np.bool_)
    return columns


def rows_of(batch: Mapping[str, Column]) -> Iterator[dict[str, Any]]:
    """Yields each record of a batch as a dictionary, in which a masked value is None."""
    return (dict(zip(batch, row, strict=True)) for row in zip(*map(_values, batch.values()), strict=True))


def _values(column: Column) -> Iterable[Any]:
    """Returns the value of each record."""
    if not isinstance(column, np.ma.MaskedArray):
        return column
    missing: npt.NDArray[np.bool_] = np.ma.getmaskarray(column).reshape(len(column), -1).max(axis=1, initial=False)
    return [None if is_missing else value for value, is_missing in zip(column.data, missing, strict=True)]


def mask_name(feature: str) -> str:
    """Returns the name of a feature's mask in a batch."""
    return f"{feature}{MASK}"


def check_for_tensors(batch: Mapping[str, Column], *, masks: Collection[str], holds_none: bool) -> None:
    """Raises BadData for a column whose nulls a framework can't hold. `holds_none` says whether the framework can hold None in place of
    text."""
    for name, column in batch.items():
        lacks_texts = not (holds_none or isinstance(column, Ragged)) and column.dtype == object and None in column
        if isinstance(column, np.ma.MaskedArray) or (lacks_texts and name not in masks):
            raise BadData(
                f"The feature {name!r} has records without a value, which a tensor can't hold; open the reader with masks=[{name!r}], or"
                " leave the feature out (columns=)."
            )


def _with_nulls(column: Array, missing: npt.NDArray[np.bool_], *, is_masked: bool) -> Column:
    dtype = _DTYPES.get(column.type)
    if dtype is None and is_ragged(column.type):
        return _without_nulls(column)  # a null list becomes an empty list
    values = _filled(column, missing) if dtype is None else _stored(column, dtype)
    if dtype is not None:
        np.putmask(values, missing, np.nan if dtype.kind == "f" else 0)
    if not is_masked or values.dtype.kind in "fO":
        return values
    return np.ma.MaskedArray(values, missing if values.ndim == 1 else np.repeat(missing, math.prod(values.shape[1:])).reshape(values.shape))


def _without_nulls(column: Array) -> Column:
    kind = column.type
    if is_ragged(kind):
        lists = flatten_lists(column)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.counts, dtype=np.int64)))
        return Ragged(_without_nulls(lists.items), offsets)
    shape = (len(column), *row_shape(kind))
    if item_type(kind) not in NUMPY_NAMES:
        return _objects(column, shape)
    if is_tensor(kind) or not shape[1:]:
        return to_numpy(column).copy()
    inner: Any = column
    while pa.types.is_fixed_size_list(inner.type):
        inner = inner.flatten()
    return to_numpy(inner).copy().reshape(shape)


def _filled(column: Array, missing: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Returns the tensors, text or bytes, with NaN, 0, False or None in place of nulls."""
    present: Any = _without_nulls(column.drop_null())
    values = np.full((len(column), *present.shape[1:]), _NOTHING.get(present.dtype.kind, 0), present.dtype)
    values[~missing] = present
    return values


def _stored(column: Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns a copy of the numbers that a column stores. The numbers in place of nulls are arbitrary."""
    data: Any = column.buffers()[1]
    if dtype.kind == "b":
        return _bits(data, column.offset, len(column))
    numbers: npt.NDArray[Any] = np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize)
    return numbers.copy()


def _missing(columns: Mapping[str, Array]) -> dict[str, npt.NDArray[np.bool_]]:
    """Returns the masks of columns that have nulls. One call unpacks all masks, because a call costs more than unpacking a mask."""
    if not columns:
        return {}
    octets = [_octets(column.buffers()[0], column.offset, len(column)) for column in columns.values()]
    bits = np.unpackbits(~np.concatenate(octets), bitorder="little").view(np.bool_)
    masks: dict[str, npt.NDArray[np.bool_]] = {}
    start = 0
    for (name, column), part in zip(columns.items(), octets, strict=True):
        first = start + column.offset % 8
        masks[name] = bits[first : first + len(column)]
        start += 8 * len(part)
    return masks


def _bits(buffer: Any, first: int, count: int) -> npt.NDArray[np.bool_]:
    octets, skipped = _octets(buffer, first, count), first % 8
    return np.unpackbits(octets, count=skipped + count, bitorder="little")[skipped:].view(np.bool_)


def _octets(buffer: Any, first: int, count: int) -> npt.NDArray[np.uint8]:
    """Returns the part of the buffer that contains `count` bits, starting with bit number `first`."""
    return np.frombuffer(buffer, np.uint8, (first % 8 + count + 7) // 8, first // 8)


def _objects(column: Array, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    inner: Any = column
    for _ in shape[1:]:
        inner = inner.flatten()
    values = np.empty(len(inner), np.object_)
    values[:] = inner.to_pylist()
    return values.reshape(shape)
