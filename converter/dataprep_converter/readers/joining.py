"""Joining tables by key, out of core: rows go into DuckDB, come back in the order of the keys, and are put side by side here.

DuckDB gets numbered tables and columns only, from memory, and may reach nothing but its temporary folder. What needs more than its share of
the memory goes there. Every order is written out, so that threads and spilling change nothing.

    t0, t1, …   the tables:   row | k0, k1, … | c0, c1, …
    places      the keys:     k0, k1, … | n0, first0, last0 | n1, first1, last1 | …     rows of each table with this key
"""

# ruff: noqa: S608 - tables and columns have numbers for names, and no value is written into a statement.

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter import limits
from dataprep_converter.errors import BadSpec, ConvertError, StoreFull
from dataprep_converter.tensors import Array, is_tensor

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PIECE_RECORDS: Final = 2048
"""Joined records that are put together at once, at most: as many as DuckDB gives. Of large ones fewer, about _PIECE_BYTES."""
_FIRST_RECORDS: Final = 256
_PIECE_BYTES: Final = 1 << 20
_PIECE_ROWS: Final = 65_536
_INCOMING_ROWS: Final = 65_536
_INCOMING_BYTES: Final = 16 << 20
"""Rows are given to DuckDB when there are so many: each time costs it as much as thousands of rows."""
_KEPT_FREE: Final = 256 << 20
"""Memory for all but DuckDB: the interpreter, the readers of the tables, the rows that are written."""
_LEAST: Final = 96 << 20
_MOST: Final = 8 << 30
_EACH_THREAD: Final = 96 << 20

_arrow: Any = pa  # the stubs don't know all functions


@dataclass(frozen=True)
class Columns:
    """One table as DuckDB sees it."""

    keys: pa.Schema
    others: pa.Schema
    """All columns that are no key."""
    order_by: Sequence[int] | None = None
    """Of a table of sequences: places in `others`."""
    last: bool = False
    """Whether the last of several rows with one key is taken, instead of the first."""


@dataclass(frozen=True)
class Count:
    """Keys of which something is said, and one of them: the first in their order."""

    keys: int
    example: tuple[Any, ...] = ()
    table: int = -1
    """Where the example is."""
    rows: tuple[int, int] = (-1, -1)
    """First and last row of the example in that table."""


class Join:
    """Fill each table, ask what is doubled and what is missing, then take the joined rows. A context: its end frees disk and memory."""

    def __init__(self, tables: Sequence[Columns]) -> None:
        self._tables = tables
        self._keys = [f"k{number}" for number in range(len(tables[0].keys))]
        self._incoming: list[list[pa.RecordBatch]] = [[] for _ in tables]
        self._folder = tempfile.mkdtemp(prefix="dataprep-join-")
        try:
            with _translated():
                self._database = _connected(self._folder)
                for number, table in enumerate(tables):
                    self._create(number, table)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._database.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, table: int, rows: Array, keys: Sequence[Array], others: Sequence[Array]) -> None:
        """Some rows of a table; `rows` numbers them in the order of the source."""
        columns = [rows, *(plain(column) for column in (*keys, *others))]
        waiting = self._incoming[table]
        waiting.append(pa.RecordBatch.from_arrays(columns, names=self._names(self._tables[table])))
        if sum(batch.num_rows for batch in waiting) >= _INCOMING_ROWS or sum(batch.nbytes for batch in waiting) >= _INCOMING_BYTES:
            self._insert(table)

    def _insert(self, table: int) -> None:
        """What waits to become rows of the table."""
        waiting, self._incoming[table] = self._incoming[table], []
        if waiting:
            with _translated():
                self._execute(f"INSERT INTO t{table} SELECT * FROM incoming", pa.Table.from_batches(waiting))

    def match(self) -> None:
        """Finds the places of each key, once all tables are full."""
        for table in range(len(self._tables)):
            self._insert(table)
        keys = ", ".join(self._keys)
        each = ", ".join(
            f"count(*) FILTER (t = {t}) AS n{t}, min(row) FILTER (t = {t}) AS first{t}, max(row) FILTER (t = {t}) AS last{t}"
            for t in range(len(self._tables))
        )
        union = " UNION ALL ".join(f"SELECT {keys}, row, {t} AS t FROM t{t}" for t in range(len(self._tables)))
        with _translated():
            self._database.execute(f"CREATE TABLE places AS SELECT {keys}, {each} FROM ({union}) GROUP BY {keys}")

    def doubled(self, table: int) -> Count:
        """Keys that several rows of a table have."""
        return self._count(f"n{table} > 1", table)

    def missing(self, table: int) -> Count:
        """Keys that a table lacks and another one has; the example is in the first that has it."""
        found = self._count(f"n{table} = 0", table)
        if not found.keys:
            return found
        others = [self._count(f"n{table} = 0 AND n{other} > 0", other) for other in range(len(self._tables)) if other != table]
        return Count(found.keys, *min((o.example, o.table, o.rows) for o in others if o.keys))

    def kept(self) -> int:
        """Keys that all tables have."""
        return self._count(self._everywhere(), 0).keys

    def keys_in_any(self) -> int:
        """Keys of all tables together."""
        return self._count("true", 0).keys

    def joined(self) -> Iterator[pa.RecordBatch]:
        """The records in the order of the keys: columns `keys`, then those of each table, lists where it has sequences. In small pieces."""
        order = ", ".join(self._keys)
        sequences = [number for number, table in enumerate(self._tables) if table.order_by is not None]
        counts = "".join(f", n{number}" for number in sequences)
        with _translated():
            # A statement for each table, one after another: a single one that joins and orders all of them needs the memory of all at once.
            keys = self._stream(f"SELECT {order}{counts} FROM places WHERE {self._everywhere()} ORDER BY {order}")
            tables = [self._stream(self._rows_of(number, table)) for number, table in enumerate(self._tables)]
            wanted = min(PIECE_RECORDS, _FIRST_RECORDS)
            while (found := keys.upto(wanted)).num_rows:
                size = 0
                for piece in self._pieces(found, sequences, tables):
                    size += piece.nbytes
                    yield piece
                wanted = max(1, min(PIECE_RECORDS, _PIECE_BYTES * found.num_rows // max(1, size)))

    def _pieces(self, found: pa.Table, sequences: Sequence[int], tables: "Sequence[_Stream]") -> Iterator[pa.RecordBatch]:
        """The records of some keys, cut so that no piece has very many steps."""
        width = len(self._keys)
        lengths = {number: found.column(width + place).to_numpy() for place, number in enumerate(sequences)}
        steps = np.cumsum(sum(lengths.values(), np.zeros(found.num_rows, np.int64)))
        first = 0
        while first < found.num_rows:
            before = int(steps[first - 1]) if first else 0
            stop = max(first + 1, int(np.searchsorted(steps, before + _PIECE_ROWS, side="right")))
            columns = [one(found.column(place).slice(first, stop - first)) for place in range(width)]
            columns = [restored(column, kind) for column, kind in zip(columns, self._tables[0].keys.types, strict=True)]
            for number, (table, stream) in enumerate(zip(self._tables, tables, strict=True)):
                sizes = lengths[number][first:stop] if number in lengths else None
                rows = stream.upto(int(sizes.sum()) if sizes is not None else stop - first)
                columns += [_grouped(restored(one(rows.column(place)), kind), sizes) for place, kind in enumerate(table.others.types)]
            yield pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])
            first = stop

    def _rows_of(self, number: int, table: Columns) -> str:
        """The rows of the kept keys, in order."""
        columns = ", ".join(f"t.c{place}" for place in range(len(table.others))) or "NULL"
        order = ", ".join(f"p.{key}" for key in self._keys)
        if table.order_by is None:
            on = f"t.row = p.{'last' if table.last else 'first'}{number}"
        else:
            on = " AND ".join(f"t.{key} = p.{key}" for key in self._keys)
            order += "".join(f", t.c{place}" for place in table.order_by) + ", t.row"
        return f"SELECT {columns} FROM t{number} AS t JOIN places AS p ON {on} WHERE {self._everywhere()} ORDER BY {order}"

    def _everywhere(self) -> str:
        return " AND ".join(f"n{number} > 0" for number in range(len(self._tables)))

    def _count(self, where: str, table: int) -> Count:
        keys = ", ".join(self._keys)
        with _translated():
            counted = self._database.execute(f"SELECT count(*) FROM places WHERE {where}").fetchone()
            if counted is None or not counted[0]:
                return Count(0)
            found = self._database.execute(
                f"SELECT {keys}, first{table}, last{table} FROM places WHERE {where} ORDER BY {keys} LIMIT 1"
            ).fetchone()
        row = tuple(found or ())
        return Count(counted[0], row[:-2], table, (row[-2], row[-1]))

    def _stream(self, query: str) -> "_Stream":
        # A cursor of its own: another statement on a connection ends the stream before.
        return _Stream(self._database.cursor().sql(query).to_arrow_reader(PIECE_RECORDS))

    def _create(self, number: int, table: Columns) -> None:
        types = [pa.int64(), *(plain_type(kind) for kind in (*table.keys.types, *table.others.types))]
        empty = pa.RecordBatch.from_arrays([_arrow.array([], kind) for kind in types], names=self._names(table))
        self._execute(f"CREATE TABLE t{number} AS SELECT * FROM incoming", empty)

    def _execute(self, statement: str, incoming: pa.Table | pa.RecordBatch) -> None:
        self._database.register("incoming", incoming)
        self._database.execute(statement)
        self._database.unregister("incoming")

    def _names(self, table: Columns) -> list[str]:
        return ["row", *self._keys, *(f"c{place}" for place in range(len(table.others)))]


class _Stream:
    """Rows that come in batches of any size, in the lengths that are asked for."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self._rest: pa.Table = reader.schema.empty_table()

    def upto(self, rows: int) -> pa.Table:
        """The next rows, fewer only at the end."""
        parts = [self._rest]
        missing = rows - self._rest.num_rows
        while missing > 0:
            batch = next(self._reader, None)
            if batch is None:
                break
            parts.append(pa.Table.from_batches([batch]))
            missing -= batch.num_rows
        found = _arrow.concat_tables(parts)
        self._rest = found.slice(rows)
        taken: pa.Table = found.slice(0, rows)
        return taken


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which DuckDB gets a column. Raises BadSpec for one that it has not."""
    if isinstance(kind, pa.DictionaryType):
        return plain_type(kind.value_type)
    if is_tensor(kind):
        tensor: Any = kind
        return plain_type(tensor.storage_type)
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind


def plain(column: Array) -> Array:
    """A column in its `plain_type`."""
    storage: Any = column.storage if is_tensor(column.type) else column  # type: ignore[attr-defined]
    found: Array = storage.cast(plain_type(column.type))
    return found


def restored(column: Array, kind: pa.DataType) -> Array:
    """A column of DuckDB's in the type that it had. Readers give no nulls, so that equal values have equal bytes."""
    if isinstance(kind, pa.FixedShapeTensorType):
        found: Array = _arrow.ExtensionArray.from_storage(kind, column.cast(kind.storage_type))
        return found
    return column.cast(kind.value_type if isinstance(kind, pa.DictionaryType) else kind)


def one(column: Any) -> Array:
    """A column of a table in one piece."""
    found: Array = _arrow.concat_arrays(column.chunks) if column.num_chunks else _arrow.array([], column.type)
    return found


def _grouped(column: Array, sizes: npt.NDArray[np.int64] | None) -> Array:
    """The values as lists of these lengths; as they are without lengths."""
    if sizes is None:
        return column
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    lists: Array = _arrow.LargeListArray.from_arrays(_arrow.array(offsets), column)
    return lists


def _connected(folder: str) -> "DuckDBPyConnection":
    try:
        import duckdb
    except ModuleNotFoundError as exc:
        raise BadSpec("source.join needs DuckDB: pip install 'dataprep-operator[join]'.") from exc
    memory = max(_LEAST, min(_MOST, (limits.memory_bytes() - _KEPT_FREE) // 2))
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    # In this order: the last two forbid what comes before.
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
def _translated() -> Iterator[None]:
    """DuckDB's errors as ours."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException) as exc:
        said = str(exc).partition("\n")[0]
        if "max_temp_directory_size" in str(exc) or "No space left" in str(exc):
            raise StoreFull(f"The join needs more room for temporary files than {tempfile.gettempdir()} has: {said}") from exc
        if isinstance(exc, duckdb.OutOfMemoryException):
            raise ConvertError(f"The join needs more memory; raise workers.resources.limits.memory: {said}") from exc
        raise ConvertError(f"The join failed: {said}") from exc
