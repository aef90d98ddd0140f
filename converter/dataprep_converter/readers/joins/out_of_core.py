"""Joins tables out of core: rows are inserted into DuckDB, and returned in the order of the keys.

The rows are passed to DuckDB in memory, in tables and columns whose names contain numbers instead of the user's names. DuckDB can access
only its temporary folder, to which it moves data that exceeds its share of the memory. Every query has a complete ORDER BY, so the result
depends neither on the number of threads nor on the size of the memory.

    t0, t1, …   the tables:   row | k0, k1, … | c0, c1, …
    places      the keys:     k0, k1, … | n0, first0, last0 | n1, first1, last1 | …
                              n, first and last are the count, the first and the last row of each table with this key
"""

# ruff: noqa: S608 - names of tables and columns are numbers, and statements contain no values.

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dataprep_converter.core.errors import BadSpec, ConvertError, StoreFull
from dataprep_converter.core.tensors import Array
from dataprep_converter.readers.joins.keys import Places, first_of
from dataprep_converter.readers.joins.tables import Columns, Count
from dataprep_converter.runtime import limits

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BATCH_RECORDS: Final = 2048
"""The number of rows in DuckDB's own batches."""
_INCOMING_ROWS: Final = 65_536
_INCOMING_BYTES: Final = 16 << 20
"""The number of bytes that are passed to DuckDB in one call. Calls should be few, because each call takes as long as inserting thousands of
rows."""
_LEAST: Final = 96 << 20
_EACH_THREAD: Final = 96 << 20

_arrow: Any = pa  # the type stubs lack some functions


def require() -> None:
    """Raises BadSpec if DuckDB isn't installed."""
    if find_spec("duckdb") is None:
        raise BadSpec("source.join needs DuckDB: pip install 'dataprep-operator[join]'.")


class OutOfCore:
    """Joins tables with DuckDB; see the module's docstring. Implements both `Matching` and `Keys`."""

    def __init__(self, tables: Sequence[Columns], share: int) -> None:
        self._tables = tables
        self._keys = [f"k{number}" for number in range(len(tables[0].keys))]
        self._incoming: list[list[pa.RecordBatch]] = [[] for _ in tables]
        self._folder = tempfile.mkdtemp(prefix="dataprep-join-")
        try:
            with _translate_errors():
                self._database = _connect(self._folder, max(_LEAST, share))
                for number, table in enumerate(tables):
                    self._execute(f"CREATE TABLE t{number} AS SELECT * FROM incoming", table.plain().empty_table())
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def close(self) -> None:
        """Frees the disk space and memory."""
        self._database.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, table: int, rows: pa.RecordBatch) -> None:
        """Adds rows of a table."""
        batches = self._incoming[table]
        batches.append(rows)
        if sum(batch.num_rows for batch in batches) >= _INCOMING_ROWS or sum(batch.nbytes for batch in batches) >= _INCOMING_BYTES:
            self._insert(table)

    def _insert(self, table: int) -> None:
        """Inserts the waiting rows into the table."""
        batches, self._incoming[table] = self._incoming[table], []
        if batches:
            with _translate_errors():
                self._execute(f"INSERT INTO t{table} SELECT * FROM incoming", pa.Table.from_batches(batches))

    def match(self) -> "OutOfCore":
        """Finds the rows of each key after all rows have been added."""
        for table in range(len(self._tables)):
            self._insert(table)
        keys = ", ".join(self._keys)
        each = ", ".join(
            f"count(*) FILTER (t = {t}) AS n{t}, min(row) FILTER (t = {t}) AS first{t}, max(row) FILTER (t = {t}) AS last{t}"
            for t in range(len(self._tables))
        )
        union = " UNION ALL ".join(f"SELECT {keys}, row, {t} AS t FROM t{t}" for t in range(len(self._tables)))
        with _translate_errors():
            self._database.execute(f"CREATE TABLE places AS SELECT {keys}, {each} FROM ({union}) GROUP BY {keys}")
        return self

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
        return self._count(self._in_all_tables(), 0).keys

    def keys_in_any(self) -> int:
        """The number of distinct keys in all tables together."""
        return self._count("true", 0).keys

    def chosen_rows(self) -> list[Places]:
        """For each table, the rows of the keys that exist in all tables."""
        rows = ", ".join(f"{_row_of(table)}{number}" for number, table in enumerate(self._tables))
        query = f"SELECT {rows} FROM places WHERE {self._in_all_tables()} ORDER BY {', '.join(self._keys)}"
        with _translate_errors():
            table: Any = self._database.cursor().sql(query).to_arrow_table()
        return [column.to_numpy() for column in table.columns]

    def row_streams(self) -> "tuple[_Stream, list[_Stream]]":
        """The keys and the other columns in order; see `Matching`."""
        order = ", ".join(self._keys)
        counts = "".join(f", n{number}" for number, table in enumerate(self._tables) if table.order_by is not None)
        with _translate_errors():
            # Use a separate statement for each table. A single statement that joins and orders all tables would need memory for all tables
            # at once.
            keys = self._stream(f"SELECT {order}{counts} FROM places WHERE {self._in_all_tables()} ORDER BY {order}")
            return keys, [self._stream(self._rows_of(number, table)) for number, table in enumerate(self._tables)]

    def _rows_of(self, number: int, table: Columns) -> str:
        """The statement that selects the rows of a table whose keys exist in all tables, and sorts them by key."""
        columns = ", ".join(f"t.c{place}" for place in range(len(table.others))) or "NULL"
        order = ", ".join(f"p.{key}" for key in self._keys)
        if table.order_by is None:
            on = f"t.row = p.{_row_of(table)}{number}"
        else:
            on = " AND ".join(f"t.{key} = p.{key}" for key in self._keys)
            order += "".join(f", t.c{place}" for place in table.order_by) + ", t.row"
        return f"SELECT {columns} FROM t{number} AS t JOIN places AS p ON {on} WHERE {self._in_all_tables()} ORDER BY {order}"

    def _in_all_tables(self) -> str:
        return " AND ".join(f"n{number} > 0" for number in range(len(self._tables)))

    def _count(self, where: str, table: int) -> Count:
        keys = ", ".join(self._keys)
        with _translate_errors():
            total = self._database.execute(f"SELECT count(*) FROM places WHERE {where}").fetchone()
            if total is None or not total[0]:
                return Count(0)
            example = self._database.execute(
                f"SELECT {keys}, first{table}, last{table} FROM places WHERE {where} ORDER BY {keys} LIMIT 1"
            ).fetchone()
        row = tuple(example or ())
        return Count(total[0], row[:-2], table, (row[-2], row[-1]))

    def _stream(self, query: str) -> "_Stream":
        # Use a separate cursor, because another statement on the same cursor would end the stream.
        return _Stream(self._database.cursor().sql(query).to_arrow_reader(_BATCH_RECORDS))

    def _execute(self, statement: str, incoming: pa.Table | pa.RecordBatch) -> None:
        self._database.register("incoming", incoming)
        self._database.execute(statement)
        self._database.unregister("incoming")


def _row_of(table: Columns) -> str:
    return "last" if table.last else "first"


class _Stream:
    """Returns the rows of a query in pieces of any requested length."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self._rest: pa.Table = reader.schema.empty_table()

    def take(self, rows: int) -> list[Array]:
        """The columns of the next rows; see `Rows`."""
        parts = [self._rest]
        missing = rows - self._rest.num_rows
        with _translate_errors():
            while missing > 0:
                batch = next(self._reader, None)
                if batch is None:
                    break
                parts.append(pa.Table.from_batches([batch]))
                missing -= batch.num_rows
        combined = _arrow.concat_tables(parts)
        self._rest = combined.slice(rows)
        return [_as_array(column) for column in combined.slice(0, rows).columns]


def _as_array(column: Any) -> Array:
    """A table's column as one array."""
    array: Array = _arrow.concat_arrays(column.chunks) if column.num_chunks else _arrow.array([], column.type)
    return array


def _connect(folder: str, memory: int) -> "DuckDBPyConnection":
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    # The order of these settings matters, because the last two forbid further changes.
    for name, value in {
        "memory_limit": f"{memory >> 20}MiB",
        "threads": str(max(1, min(limits.processors(), memory // _EACH_THREAD))),
        "temp_directory": folder.replace("'", "''"),
        "max_temp_directory_size": f"{shutil.disk_usage(folder).free * 9 // 10 >> 20}MiB",
        "preserve_insertion_order": "false",
        "allow_persistent_secrets": "false",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }.items():
        connection.execute(f"SET {name} = '{value}'")
    return connection


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Converts DuckDB's errors to this project's errors."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException) as exc:
        message = str(exc).partition("\n")[0]
        if "max_temp_directory_size" in str(exc) or "No space left" in str(exc):
            raise StoreFull(f"The join needs more room for temporary files than {tempfile.gettempdir()} has: {message}") from exc
        if isinstance(exc, duckdb.OutOfMemoryException):
            raise ConvertError(f"The join needs more memory; raise planning.resources.limits.memory: {message}") from exc
        raise ConvertError(f"The join failed: {message}") from exc
