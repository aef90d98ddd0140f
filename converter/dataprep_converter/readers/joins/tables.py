"""Describes the tables of a join: their columns, how types and nulls are represented while columns are joined, and the results of key
checks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_text_or_bytes
from dataprep_converter.core.lists import is_ragged
from dataprep_converter.core.tensors import Array, is_tensor, null_mask, to_arrow
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.columns import without

_arrow: Any = pa  # the type stubs lack some functions


@dataclass(frozen=True)
class Columns:
    """The columns of a table in a join, and the settings for its rows."""

    keys: pa.Schema
    others: pa.Schema
    """All columns that are not keys."""
    order_by: Sequence[int] | None = None
    """For a table of sequences, the positions in `others` of the columns by which steps are ordered."""
    last: bool = False
    """Whether to use the last of several rows with the same key, rather than the first."""

    def plain(self) -> pa.Schema:
        """The schema of the table's rows while they are joined: `row | k0, k1, … | c0, c1, …`."""
        names = ["row", *(f"k{place}" for place in range(len(self.keys))), *(f"c{place}" for place in range(len(self.others)))]
        types = [pa.int64(), *(plain_type(kind) for kind in (*self.keys.types, *self.others.types))]
        return pa.schema(list(zip(names, types, strict=True)))


@dataclass(frozen=True)
class Count:
    """The number of keys that a check has found, with the smallest of them as an example."""

    keys: int
    example: tuple[Any, ...] = ()
    table: int = -1
    """The number of the table in which the example occurs."""
    rows: tuple[int, int] = (-1, -1)
    """The example's first and last row in the table whose number is `table`."""


def without_null_keys(batch: Batch, keys: Sequence[str]) -> Batch:
    """The batch without the rows that have a null in a key. These rows are moved to `bad`."""
    faults: dict[int, str] = {}
    for name in keys:
        column = batch.records.column(name)
        if column.null_count:
            rows: list[int] = np.flatnonzero(null_mask(column)).tolist()
            faults |= {row: f"{name} has no value, and a null is no key of a join" for row in rows if row not in faults}
    if not faults:
        return batch
    rest = without(batch, faults, batch.records.column(SAMPLE))
    return replace(rest, bad=sorted(rest.bad, key=lambda each: each.sample))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column of type `kind` is joined. DuckDB supports this type."""
    if isinstance(kind, pa.DictionaryType):
        return plain_type(kind.value_type)
    if is_tensor(kind):
        tensor: Any = kind
        return plain_type(tensor.storage_type)
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind


def plain(column: Array, kind: pa.DataType) -> Array:
    """A column, converted to its type `kind` in `Columns.plain()`."""
    storage: Any = column.storage if is_tensor(column.type) else column  # type: ignore[attr-defined]
    converted: Array = storage if storage.type == kind else storage.cast(plain_type(column.type)).cast(kind)
    return converted


def restore(column: Array, kind: pa.DataType) -> Array:
    """A joined column, converted back to its original type. Equal columns have equal bytes, because the bytes under nulls are always the
    same."""
    column = with_equal_nulls(column) if column.null_count else column
    if isinstance(kind, pa.FixedShapeTensorType):
        tensors: Array = _arrow.ExtensionArray.from_storage(kind, column.cast(kind.storage_type))
        return tensors
    value_type = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return column if column.type.equals(value_type, check_metadata=True) else column.cast(value_type)


def with_equal_nulls(column: Array) -> Array:
    """The column, with the bytes of zero, an empty string or an empty list stored under each null.

    Without this step, a join in memory and DuckDB would store different bytes under the nulls.
    """
    kind: Any = column.type
    missing = null_mask(column)
    places = np.where(missing, len(column) - int(missing.sum()), np.cumsum(~missing) - 1)
    filled: Any = _arrow.concat_arrays([column.drop_null(), _nothing(kind)]).take(to_arrow(places))
    validity = _arrow.py_buffer(np.packbits(~missing, bitorder="little"))
    if pa.types.is_fixed_size_list(kind):
        lists: Array = _arrow.Array.from_buffers(kind, len(column), [validity], children=[filled.values])
        return lists
    children = [filled.values] if is_ragged(kind) else None
    buffers = filled.buffers()[1:2] if is_ragged(kind) else filled.buffers()[1:]
    values: Array = _arrow.Array.from_buffers(kind, len(column), [validity, *buffers], children=children)
    return values


def _nothing(kind: Any) -> Array:
    """A column with a single value: zero, an empty string or an empty list."""
    if pa.types.is_fixed_size_list(kind):
        values: Array = _arrow.FixedSizeListArray.from_arrays(_arrow.concat_arrays([_nothing(kind.value_type)] * kind.list_size), type=kind)
        return values
    if is_ragged(kind):
        empty: Array = pa.array([[]], kind)
        return empty
    if is_text_or_bytes(kind):
        return pa.array([b""], pa.binary()).cast(kind)
    zero = pa.array([0], pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64())
    nothing: Array = zero.cast(kind)
    return nothing
