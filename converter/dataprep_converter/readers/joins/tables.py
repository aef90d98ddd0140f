"""Describes the tables of a join: their columns, the types in which columns are joined, and the results of checks of the keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dataprep_converter.core.tensors import Array, is_tensor

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
    """The number of keys with some property, and the smallest of them as an example."""

    keys: int
    example: tuple[Any, ...] = ()
    table: int = -1
    """The number of the table that has the example."""
    rows: tuple[int, int] = (-1, -1)
    """The example's first and last row in the table whose number is `table`."""


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column of type `kind` is joined. DuckDB has this type."""
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
    """A joined column, converted back to its original type. Readers return no nulls, so equal values have equal bytes."""
    if isinstance(kind, pa.FixedShapeTensorType):
        tensors: Array = _arrow.ExtensionArray.from_storage(kind, column.cast(kind.storage_type))
        return tensors
    value_type = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return column if column.type.equals(value_type, check_metadata=True) else column.cast(value_type)
