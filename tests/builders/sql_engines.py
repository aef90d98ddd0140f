"""A stand-in for Spark: an SQL engine that runs statements in DuckDB, and pickles the functions that Spark would send to its machines."""

# ruff: noqa: S608 - statements of tests

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dataprep_converter.inputs.access import Access


class DuckDBEngine:
    """Implements `SqlEngine`. Wherever Spark guarantees no order, rows are shuffled."""

    def __init__(self, *, is_remote: bool = False) -> None:
        import duckdb

        self.is_remote = is_remote

        self._database = duckdb.connect(":memory:")
        self._database.execute("SET threads = 1")
        self.parts_read = 0
        self.ranges_written = 0

    def helps(self, size: int) -> bool:
        """Return True for tables of any size."""
        return size >= 0

    def views(self) -> list[str]:
        """Returns the names of the existing views."""
        return [row[0] for row in self._database.execute("SELECT table_name FROM duckdb_tables()").fetchall()]

    def read(self, view: str, schema: pa.Schema, parts: int, rows: Callable[[Access, int], Iterator[pa.RecordBatch]]) -> None:
        """Reads the parts in reverse order, because Spark guarantees no order."""
        batches = [batch for part in reversed(range(parts)) for batch in _sent(rows)(Access(), part)]
        self.parts_read += parts
        self._database.register("incoming", pa.Table.from_batches(batches[::-1], schema))
        self._database.execute(f"CREATE TABLE {view} AS SELECT * FROM incoming")
        self._database.unregister("incoming")

    def keep(self, view: str, query: str) -> None:
        """Stores the query's rows in a table."""
        self._database.execute(f"CREATE TABLE {view} AS {query}")

    def number(self, view: str, query: str, order: Sequence[str], rows: int) -> None:
        """Numbers the rows with a window function."""
        self.keep(view, f"SELECT *, row_number() OVER (ORDER BY {', '.join(order)}) - 1 AS n FROM ({query}) ORDER BY random()")
        assert self.rows(f"SELECT count(*) FROM {view}") == [(rows,)]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a query."""
        return self._database.execute(query).fetchall()

    def lay_down(
        self,
        query: str,
        order: Sequence[str],
        ranges: int,
        range_of: str,
        write: Callable[[Access, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ) -> list[tuple[Any, ...]]:
        """Sorts the rows of each range of record numbers, and writes the rows in batches of 100. Writes the ranges in reverse order."""
        said: list[tuple[Any, ...]] = []
        for number in reversed(range(ranges)):
            statement = f"SELECT * FROM ({query}) WHERE {range_of} = {number} ORDER BY {', '.join(order)}"
            sorted_rows = self._database.sql(statement).to_arrow_table()
            batches = list(_sent(write)(Access(), iter(sorted_rows.to_batches(max_chunksize=100))))
            self.ranges_written += len(batches)
            said += [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        return said

    def forget(self, views: Sequence[str]) -> None:
        """Drops the tables."""
        for view in views:
            self._database.execute(f"DROP TABLE IF EXISTS {view}")


def _sent(function: Any) -> Any:
    """Returns the function as a task would receive it, after a round trip through pickle."""
    return pickle.loads(pickle.dumps(function))  # noqa: S301 - it was pickled just now
