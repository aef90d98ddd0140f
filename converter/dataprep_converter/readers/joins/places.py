"""The SQL statements that find the rows of each key. DuckDB and Spark SQL both understand them.

    t0, t1, …   the tables:   row | k0, k1, … | …
    places      the keys:     k0, k1, … | n0, first0, last0 | n1, first1, last1 | …
                              n, first and last are the count, the first and the last row of each table with this key

Names of tables and columns are numbers, so the statements contain no names or values from the user.
"""

# ruff: noqa: S608 - names of tables and columns are numbers, and statements contain no values.

from collections.abc import Callable, Sequence
from typing import Any

from dataprep_converter.readers.joins.keys import first_of
from dataprep_converter.readers.joins.tables import Columns, Count


def key_columns(tables: Sequence[Columns]) -> list[str]:
    """The names of the key columns."""
    return [f"k{number}" for number in range(len(tables[0].keys))]


def places_of(tables: Sequence[Columns]) -> str:
    """The statement that selects the rows of `places`. In a row without a key, all key columns must be null."""
    keys = ", ".join(key_columns(tables))
    each = ", ".join(
        f"count(*) FILTER (WHERE t = {t}) AS n{t}, min(row) FILTER (WHERE t = {t}) AS first{t}, max(row) FILTER (WHERE t = {t}) AS last{t}"
        for t in range(len(tables))
    )
    union = " UNION ALL ".join(f"SELECT {keys}, row, {t} AS t FROM t{t} WHERE k0 IS NOT NULL" for t in range(len(tables)))
    return f"SELECT {keys}, {each} FROM ({union}) GROUP BY {keys}"


def row_of(table: Columns) -> str:
    """The name of the column in `places` that contains the row to use, without the table's number at the end."""
    return "last" if table.last else "first"


def in_all_tables(tables: Sequence[Columns]) -> str:
    """The condition for keys that exist in all tables."""
    return " AND ".join(f"n{number} > 0" for number in range(len(tables)))


class CountsBySql:
    """Counts the keys in `places`. Implements `KeyCounts`."""

    def __init__(
        self,
        tables: Sequence[Columns],
        rows: Callable[[str], Sequence[tuple[Any, ...]]],
        values: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple,
    ) -> None:
        """`rows` returns the rows of a query. `values` returns the values of a key for messages and comparisons."""
        self._tables = tables
        self._rows = rows
        self._values = values

    def duplicates(self, table: int) -> Count:
        """Counts the keys that occur in several rows of a table."""
        return self._count(f"n{table} > 1", table)

    def missing(self, table: int) -> Count:
        """Counts the keys that are missing from a table but exist in another table. The `Count` includes the smallest such key as an
        example, with its rows in the first table that contains it."""
        count = self._count(f"n{table} = 0", table)
        if not count.keys:
            return count
        others = [self._count(f"n{table} = 0 AND n{other} > 0", other) for other in range(len(self._tables)) if other != table]
        return first_of(others, count.keys)

    def keys_in_all(self) -> int:
        """The number of keys that exist in all tables."""
        return self._total(in_all_tables(self._tables))

    def keys_in_any(self) -> int:
        """The number of distinct keys in all tables together."""
        return self._total("true")

    def _total(self, where: str) -> int:
        return int(self._rows(f"SELECT count(*) FROM places WHERE {where}")[0][0])

    def _count(self, where: str, table: int) -> Count:
        total = self._total(where)
        if not total:
            return Count(0)
        keys = ", ".join(key_columns(self._tables))
        row = self._rows(f"SELECT {keys}, first{table}, last{table} FROM places WHERE {where} ORDER BY {keys} LIMIT 1")[0]
        return Count(total, self._values(row[:-2]), table, (row[-2], row[-1]))
