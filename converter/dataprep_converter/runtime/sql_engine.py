"""The interface of an engine that runs SQL statements on several machines, such as Spark (`steps/spark_sql.py`)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class SqlEngine(Protocol):
    """Runs SQL statements. Views exist until `forget` is called.

    Functions that are passed to an engine are pickled and run on its machines. The engine may run a function several times, even at the
    same time.
    """

    @property
    def is_remote(self) -> bool:
        """Whether the engine runs on other machines, which share only stores with this process."""
        ...

    def helps(self, size: int) -> bool:
        """Whether the engine should join tables, or find duplicates among records, of this size in bytes. Must not start anything."""
        ...

    def read(self, view: str, schema: pa.Schema, parts: int, rows: Callable[[Any, int], Iterator[pa.RecordBatch]]) -> None:
        """Makes a view of the rows that `rows` returns for each part. `rows` gets the Access of the machine, and the number of the part.
        The rows are read once, and kept."""
        ...

    def keep(self, view: str, query: str) -> None:
        """Makes a view of the rows of a query. The rows are computed once, and kept."""
        ...

    def number(self, view: str, query: str, order: Sequence[str], rows: int) -> None:
        """Like `keep`.

        The view has one more column, `n`: the number of the row, counted from 0, when the rows are sorted by the columns in `order`. No two
        rows may have the same values in all of these columns. `rows` is the number of rows, or an estimate.
        """
        ...

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query whose result is small. Binary values are returned as `bytes`."""
        ...

    def lay_down(
        self,
        query: str,
        order: Sequence[str],
        ranges: int,
        range_of: str,
        write: Callable[[Any, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ) -> list[tuple[Any, ...]]:
        """Sorts the rows of a query by the columns in `order`, and calls `write` with the Access of the machine and the sorted rows. All
        rows with the same value of the expression `range_of`, a number below `ranges`, are passed to the same call. Returns the rows that
        `write` returns."""
        ...

    def forget(self, views: Sequence[str]) -> None:
        """Removes views and their rows. Unknown views are ignored."""
        ...
