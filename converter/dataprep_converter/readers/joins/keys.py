"""The interfaces of both ways of joining: keys, and the rows that belong to them."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.tensors import Array
from dataprep_converter.readers.joins.tables import Count

Places = npt.NDArray[np.int64]


class Keys(Protocol):
    """The keys of some tables, matched."""

    def doubled(self, table: int) -> Count:
        """Keys that several rows of a table have."""
        ...

    def missing(self, table: int) -> Count:
        """Keys that a table lacks and another one has; the example is in the first that has it."""
        ...

    def kept(self) -> int:
        """Keys that all tables have."""
        ...

    def keys_in_any(self) -> int:
        """Keys of all tables together."""
        ...

    def chosen(self) -> Sequence[Places]:
        """For each table the `row` of each kept key, in the order of the keys: the first or the last one."""
        ...

    def close(self) -> None:
        """Frees disk and memory."""
        ...


class Rows(Protocol):
    """Rows in the order of the keys that all tables have, in the lengths that are asked for."""

    def upto(self, rows: int) -> list[Array]:
        """The columns of the next rows, fewer only at the end; each a copy of its own, since what a slice weighs depends on where it is cut."""
        ...


class Matching(Protocol):
    """Tables to fill, then match."""

    def add(self, table: int, rows: pa.RecordBatch) -> None:
        """Some rows of a table: columns of its `plain()`, in ascending order of `row`."""
        ...

    def match(self) -> Keys:
        """Matches the keys, once all tables are full."""
        ...

    def in_order(self) -> tuple[Rows, Sequence[Rows]]:
        """For the keys that all tables have: the keys, then how many rows of each table of sequences; and the other columns of each table."""
        ...

    def close(self) -> None:
        """Frees disk and memory."""
        ...


def first_of(counts: Sequence[Count], keys: int) -> Count:
    """A number of missing keys; the example is the smallest, in the first of the tables that have it."""
    found: list[Any] = [(count.example, count.table, count.rows) for count in counts if count.keys]
    return Count(keys, *min(found))
