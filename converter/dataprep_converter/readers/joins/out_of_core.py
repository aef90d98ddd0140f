"""Joins tables out of core: rows are inserted into DuckDB, and returned in the order of the keys.

The rows are passed to DuckDB in memory, in tables and columns whose names contain numbers instead of the user's names. DuckDB can access
only its temporary folder, to which it moves data that exceeds its share of the memory. The ORDER BY of every query determines the order
completely. So the result depends neither on the number of threads nor on the memory's size.

    t0, t1, …   the tables:   row | k0, k1, … | c0, c1, …
    places      the keys and their rows; see `places.py`
    matched     the keys in all tables: row0, row1, … | n    the rows to use and the number of the record; only if a table's rows are wide
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
from dataprep_converter.readers.joins.keys import Places
from dataprep_converter.readers.joins.numbered_rows import NumberedRows
from dataprep_converter.readers.joins.places import CountsBySql, in_all_tables, key_columns, places_of, row_of
from dataprep_converter.readers.joins.row_stream import RowStream
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
_SORTED_AT_ONCE: Final = 122_880
"""The number of rows that each thread holds while DuckDB merges sorted rows, whatever their size is."""
_LEAST_SORTED_BYTES: Final = 1 << 20
_MOST_SORTED_BYTES: Final = 64 << 20


def require() -> None:
    """Raises BadSpec if DuckDB isn't installed."""
    if find_spec("duckdb") is None:
        raise BadSpec("source.join needs DuckDB: pip install 'dataprep-operator[join]'.")


class OutOfCore:
    """Joins tables with DuckDB; see the module's docstring. Implements both `Matching` and `Keys`."""

    def __init__(self, tables: Sequence[Columns], share: int) -> None:
        self._tables = tables
        self._memory = max(_LEAST, share)
        self._rows, self._bytes = [0] * len(tables), [0] * len(tables)
        self._keys = key_columns(tables)
        self._counts = CountsBySql(tables, self._fetch)
        self._incoming: list[list[pa.RecordBatch]] = [[] for _ in tables]
        self._sorted: list[NumberedRows] = []
        self._folder = tempfile.mkdtemp(prefix="dataprep-join-")
        try:
            with _translate_errors():
                self._database = _connect(self._folder, self._memory)
                for number, table in enumerate(tables):
                    self._execute(f"CREATE TABLE t{number} AS SELECT * FROM incoming", table.plain().empty_table())
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def close(self) -> None:
        """Frees the disk space and memory."""
        for rows in self._sorted:
            rows.close()
        self._database.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, table: int, rows: pa.RecordBatch) -> None:
        """Adds rows of a table."""
        batches = self._incoming[table]
        batches.append(rows)
        self._rows[table] += rows.num_rows
        self._bytes[table] += rows.nbytes
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
        with _translate_errors():
            self._database.execute(f"CREATE TABLE places AS {places_of(self._tables)}")
        return self

    def duplicates(self, table: int) -> Count:
        """Counts the keys that occur in several rows of a table."""
        return self._counts.duplicates(table)

    def missing(self, table: int) -> Count:
        """Counts the keys that are missing from a table but exist in another table. The `Count` includes the smallest such key as an
        example, with its rows in the first table that contains it."""
        return self._counts.missing(table)

    def keys_in_all(self) -> int:
        """The number of keys that exist in all tables."""
        return self._counts.keys_in_all()

    def keys_in_any(self) -> int:
        """The number of distinct keys in all tables together."""
        return self._counts.keys_in_any()

    def chosen_rows(self) -> list[Places]:
        """For each table, the rows of the keys that exist in all tables."""
        rows = ", ".join(f"{row_of(table)}{number}" for number, table in enumerate(self._tables))
        query = f"SELECT {rows} FROM places WHERE {in_all_tables(self._tables)} ORDER BY {', '.join(self._keys)}"
        with _translate_errors():
            table: Any = self._database.cursor().sql(query).to_arrow_table()
        return [column.to_numpy() for column in table.columns]

    def row_streams(self) -> tuple[RowStream, list[RowStream]]:
        """The keys and the other columns in order; see `Matching`."""
        order = ", ".join(self._keys)
        counts = "".join(f", n{number}" for number, table in enumerate(self._tables) if table.order_by is not None)
        with _translate_errors():
            keys = f"SELECT {order}{counts} FROM places WHERE {in_all_tables(self._tables)} ORDER BY {order}"
            # Use a separate statement for each table. A single statement that joins and orders all tables would need memory for all tables
            # at once.
            wide = {number: self._wide_rows(number, table) for number, table in enumerate(self._tables) if self._is_wide(number)}
            tables = [wide.get(number) or self._stream(self._rows_of(number, table)) for number, table in enumerate(self._tables)]
            return self._stream(keys), tables

    def _is_wide(self, number: int) -> bool:
        """Whether DuckDB can't sort the rows of a table within its memory, while it also sorts those of all others."""
        if self._tables[number].order_by is not None or not self._tables[number].others.names:
            return False
        row_bytes = self._bytes[number] // max(1, self._rows[number])
        return row_bytes * _SORTED_AT_ONCE * _threads(self._memory) * len(self._tables) > self._memory // 2

    def _wide_rows(self, number: int, table: Columns) -> RowStream:
        """The rows of a table whose keys exist in all tables, sorted by key. They are in a file, so DuckDB is ready for the next table."""
        self._number()
        [records] = self._fetch("SELECT count(*) FROM matched")[0]
        columns = ", ".join(f"t.c{place}" for place in range(len(table.others)))
        query = f"SELECT m.n, {columns} FROM t{number} AS t JOIN matched AS m ON t.row = m.row{number}"
        reader = self._database.cursor().sql(query).to_arrow_reader(_BATCH_RECORDS)
        most_bytes = max(_LEAST_SORTED_BYTES, min(_MOST_SORTED_BYTES, self._memory // (8 * len(self._tables))))
        rows = NumberedRows(self._folder, reader.schema, range(records), most_bytes=most_bytes)
        self._sorted.append(rows)
        for batch in reader:
            rows.add(batch)
        self._database.execute(f"DROP TABLE t{number}")
        return RowStream(pa.schema(list(reader.schema)[1:]), _batches(rows.sorted_rows()))

    def _number(self) -> None:
        """Makes the table `matched`, once."""
        each = ", ".join(f"{row_of(table)}{number} AS row{number}" for number, table in enumerate(self._tables))
        order = f"row_number() OVER (ORDER BY {', '.join(self._keys)}) - 1 AS n"
        self._database.execute(
            f"CREATE TABLE IF NOT EXISTS matched AS SELECT {each}, {order} FROM places WHERE {in_all_tables(self._tables)}"
        )

    def _rows_of(self, number: int, table: Columns) -> str:
        """The statement that selects the rows of a table whose keys exist in all tables, and sorts them by key."""
        columns = ", ".join(f"t.c{place}" for place in range(len(table.others))) or "NULL"
        order = ", ".join(f"p.{key}" for key in self._keys)
        if table.order_by is None:
            on = f"t.row = p.{row_of(table)}{number}"
        else:
            on = " AND ".join(f"t.{key} = p.{key}" for key in self._keys)
            order += "".join(f", t.c{place}" for place in table.order_by) + ", t.row"
        return f"SELECT {columns} FROM t{number} AS t JOIN places AS p ON {on} WHERE {in_all_tables(self._tables)} ORDER BY {order}"

    def _fetch(self, query: str) -> list[tuple[Any, ...]]:
        with _translate_errors():
            return self._database.execute(query).fetchall()

    def _stream(self, query: str) -> RowStream:
        # Use a separate cursor, because another statement on the same cursor would end the stream.
        reader = self._database.cursor().sql(query).to_arrow_reader(_BATCH_RECORDS)
        return RowStream(reader.schema, _batches(reader))

    def _execute(self, statement: str, incoming: pa.Table | pa.RecordBatch) -> None:
        self._database.register("incoming", incoming)
        self._database.execute(statement)
        self._database.unregister("incoming")


def _batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while True:
        with _translate_errors():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _threads(memory: int) -> int:
    return max(1, min(limits.processors(), memory // _EACH_THREAD))


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
        "threads": str(_threads(memory)),
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
    except (duckdb.Error, pa.ArrowException, OSError) as exc:
        message = str(exc).partition("\n")[0]
        if "max_temp_directory_size" in str(exc) or "No space left" in str(exc):
            raise StoreFull(f"The join needs more space for temporary files than {tempfile.gettempdir()} has: {message}") from exc
        if isinstance(exc, duckdb.OutOfMemoryException):
            raise ConvertError(f"The join needs more memory; raise planning.resources.limits.memory: {message}") from exc
        raise ConvertError(f"The join failed: {message}") from exc
