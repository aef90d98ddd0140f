"""The interfaces that both methods of joining implement."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.tensors import Array
from dataprep_converter.readers.joins.tables import Count

Places = npt.NDArray[np.int64]


class KeyCounts(Protocol):
    """Counts the duplicate and the missing keys among the matched keys of some tables."""

    def duplicates(self, table: int) -> Count:
        """Counts the keys that occur in several rows of a table."""
        ...

    def missing(self, table: int) -> Count:
        """Counts the keys that are missing from a table but exist in another table. The `Count` includes the smallest such key as an
        example, with its rows in the first table that contains it."""
        ...

    def keys_in_all(self) -> int:
        """The number of keys that exist in all tables."""
        ...

    def keys_in_any(self) -> int:
        """The number of distinct keys in all tables together."""
        ...


class Keys(KeyCounts, Protocol):
    """The matched keys of some tables."""

    def chosen_rows(self) -> Sequence[Places]:
        """Returns an array for each table: the `row` of each key that exists in all tables, in the order of the keys. If several rows have
        the same key, `Columns.last` determines which one is used."""
        ...

    def close(self) -> None:
        """Frees disk and memory."""
        ...


class Rows(Protocol):
    """A stream of rows in the order of the keys. The stream contains only rows whose keys exist in all tables."""

    def take(self, rows: int) -> list[Array]:
        """The columns of the next `rows` rows, or of fewer rows at the end. Columns are copied, because the size in bytes of an Arrow slice
        depends on the slice's offset."""
        ...


class Matching(Protocol):
    """A method of joining: rows are added to tables, and their keys are then matched."""

    def add(self, table: int, rows: pa.RecordBatch) -> None:
        """Adds rows of a table. The rows have the columns of the table's `plain()`, and are in ascending order of `row`."""
        ...

    def match(self) -> Keys:
        """Matches the keys after all rows have been added."""
        ...

    def row_streams(self) -> tuple[Rows, Sequence[Rows]]:
        """The stream of the keys that exist in all tables, and for each table the stream of its other columns. In the first stream, the key
        columns are followed by a column for each table of sequences. This column contains the number of rows that each key has in the
        table."""
        ...

    def close(self) -> None:
        """Frees disk and memory."""
        ...


def first_of(counts: Sequence[Count], keys: int) -> Count:
    """Combines the counts of missing keys into a `Count` of `keys` keys. The example is the smallest in `counts`, with its rows in the
    first table that has the key."""
    examples: list[Any] = [(count.example, count.table, count.rows) for count in counts if count.keys]
    return Count(keys, *min(examples))
