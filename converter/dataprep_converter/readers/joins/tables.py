"""What a join knows of its tables: their columns, in which types they are held, and what is said of keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dataprep_converter.core.tensors import Array, is_tensor

_arrow: Any = pa  # the stubs don't know all functions


@dataclass(frozen=True)
class Columns:
    """One table as it is joined."""

    keys: pa.Schema
    others: pa.Schema
    """All columns that are no key."""
    order_by: Sequence[int] | None = None
    """Of a table of sequences: places in `others`."""
    last: bool = False
    """Whether the last of several rows with one key is taken, instead of the first."""

    def plain(self) -> pa.Schema:
        """The columns of its rows while they are joined: `row | k0, k1, … | c0, c1, …`."""
        names = ["row", *(f"k{place}" for place in range(len(self.keys))), *(f"c{place}" for place in range(len(self.others)))]
        types = [pa.int64(), *(plain_type(kind) for kind in (*self.keys.types, *self.others.types))]
        return pa.schema(list(zip(names, types, strict=True)))


@dataclass(frozen=True)
class Count:
    """Keys of which something is said, and one of them: the first in their order."""

    keys: int
    example: tuple[Any, ...] = ()
    table: int = -1
    """Where the example is."""
    rows: tuple[int, int] = (-1, -1)
    """First and last row of the example in that table."""


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column is joined: one that DuckDB has."""
    if isinstance(kind, pa.DictionaryType):
        return plain_type(kind.value_type)
    if is_tensor(kind):
        tensor: Any = kind
        return plain_type(tensor.storage_type)
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind


def plain(column: Array, kind: pa.DataType) -> Array:
    """A column in its type of `Columns.plain()`."""
    storage: Any = column.storage if is_tensor(column.type) else column  # type: ignore[attr-defined]
    found: Array = storage if storage.type == kind else storage.cast(plain_type(column.type)).cast(kind)
    return found


def restored(column: Array, kind: pa.DataType) -> Array:
    """A joined column in the type that it had. Readers give no nulls, so that equal values have equal bytes."""
    if isinstance(kind, pa.FixedShapeTensorType):
        found: Array = _arrow.ExtensionArray.from_storage(kind, column.cast(kind.storage_type))
        return found
    wanted = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return column if column.type.equals(wanted, check_metadata=True) else column.cast(wanted)
