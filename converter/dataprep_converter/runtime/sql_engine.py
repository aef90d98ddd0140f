"""The interface of an engine that runs SQL statements on several machines, such as Spark (`steps/spark_sql.py`)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class SqlEngine(Protocol):
    """Runs SQL statements, which can refer to the engine's views. Views exist until `forget` is called.

    Functions that are passed to an engine are pickled and run on the engine's machines. The engine may run a function several times, even
    at the same time.
    """

    @property
    def is_remote(self) -> bool:
        """Whether the engine runs on other machines, which share only stores with this process."""
        ...

    def helps(self, size: int) -> bool:
        """Whether the engine should join tables of this size in bytes, or find duplicates among records of this size. Must not start the
        engine."""
        ...

    def read(self, view: str, schema: pa.Schema, parts: int, rows: Callable[[Any, int], Iterator[pa.RecordBatch]]) -> None:
        """Makes a view of the rows that `rows` yields for the parts. `rows` is called with the Access of the machine, and the number of a
        part. The rows are read once, and kept."""
        ...

    def keep(self, view: str, query: str) -> None:
        """Makes a view of the rows of a query. The rows are computed once, and kept."""
        ...

    def number(self, view: str, query: str, order: Sequence[str], rows: int) -> None:
        """Like `keep`, but numbers the rows.

        Sorts the rows by the columns in `order`. The view's additional column `n` contains each row's position in this order, counted from
        0. No two rows may have the same values in all of these columns. `rows` is the number of rows, or an estimate.
        """
        ...

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a query whose result is small. Binary values are returned as `bytes`."""
        ...

    def lay_down(
        self,
        query: str,
        order: Sequence[str],
        ranges: int,
        range_of: str,
        write: Callable[[Any, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ) -> list[tuple[Any, ...]]:
        """Divides the rows of a query into ranges, and passes the sorted rows to `write`. Returns the rows that `write` yields.

        The SQL expression `range_of` computes the number of a row's range, which is less than `ranges`. All rows of a range are passed to
        the same call of `write`, together with the Access of the machine. The rows are sorted by the columns in `order`.
        """
        ...

    def forget(self, views: Sequence[str]) -> None:
        """Removes views and their rows. Unknown views are ignored."""
        ...
