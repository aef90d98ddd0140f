"""The interface of an engine that runs statements of SQL on several machines, as Spark does (`steps/spark_sql.py`)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class SqlEngine(Protocol):
    """Runs statements of SQL. Views exist until `forget` is called.

    Functions that are passed to an engine are pickled and run on its machines, maybe several times, even at the same time.
    """

    @property
    def is_remote(self) -> bool:
        """Whether its machines are others than this one, so that they and this process share only stores."""
        ...

    def helps(self, size: int) -> bool:
        """Whether the engine should join tables of this size in bytes. Must not start anything."""
        ...

    def read(self, view: str, schema: pa.Schema, parts: int, rows: Callable[[Any, int], Iterator[pa.RecordBatch]]) -> None:
        """Makes a view of the rows that `rows` returns for each part. `rows` gets the Access of the machine, and the number of the part.
        The rows are read once, and kept."""
        ...

    def keep(self, view: str, query: str) -> None:
        """Makes a view of the rows of a query. The rows are computed once, and kept."""
        ...

    def number(self, view: str, query: str, order: Sequence[str], rows: int) -> None:
        """Like `keep`. The view has one more column, `n`: the number of the row in this order, from 0. The columns in `order` must be
        unique together. `rows` is the number of rows, or an estimate."""
        ...

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query whose result is small. Bytes are `bytes`."""
        ...

    def lay_down(
        self,
        query: str,
        order: Sequence[str],
        ranges: int,
        range_of: str,
        write: Callable[[Any, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ) -> list[tuple[Any, ...]]:
        """Sorts the rows of a query by the columns in `order`, and passes them to `write`, after the Access of the machine. All rows with the
        same value of the expression `range_of`, a number below `ranges`, are passed to the same call. Returns the rows that `write` returns."""
        ...

    def forget(self, views: Sequence[str]) -> None:
        """Removes views and their rows. Unknown views are ignored."""
        ...
