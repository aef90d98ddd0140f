"""Joins tables with an SQL engine that runs on several machines; see *Joins on Spark* in docs/design.md.

t0, t1, …   the tables, as `PartReader` reads them
places      the keys and their rows; see `places.py`
matched     the keys in all tables: k0, k1, … | row0, n0 | row1, n1 | … | n
            row is the row to use, n0 the number of rows with this key, and n the number of the joined record
"""

# ruff: noqa: S608 - names of tables and columns are numbers, and statements contain no values from the user.

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.tensors import Array
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.joins import open_table, part_reader, ranges
from dataprep_converter.readers.joins.carriers import carrier, ordered_type, returned, unordered
from dataprep_converter.readers.joins.join_folder import JoinFolder, uri_for
from dataprep_converter.readers.joins.joined_tables import records_of
from dataprep_converter.readers.joins.keys import KeyCounts, Rows
from dataprep_converter.readers.joins.open_table import Findings, OpenTable
from dataprep_converter.readers.joins.part_reader import PartReader
from dataprep_converter.readers.joins.places import CountsBySql, in_all_tables, key_columns, places_of, row_of
from dataprep_converter.readers.joins.row_stream import RowStream
from dataprep_converter.readers.joins.tables import Columns
from dataprep_converter.runtime.sql_engine import SqlEngine

_PLACES: Final = "places"
_MATCHED: Final = "matched"


def fault(tables: Sequence[OpenTable]) -> str | None:
    """The reason why an engine can't join these tables, or None if it can."""
    for table in tables:
        for name, kind in zip(table.others, table.columns.plain().types[1 + len(table.columns.keys) :], strict=True):
            if carrier(kind) is None:
                return f"the column {name!r} of the table {table.name} is {kind}"
        for place in table.columns.order_by or ():
            if ordered_type(table.columns.plain().field(f"c{place}").type) is None:
                return f"the table {table.name} is ordered by {table.others[place]!r}, a list"
    return None


class JoinBySql(Closeable):
    """Joins tables with an SQL engine; see `Joining`."""

    def __init__(self, tables: Sequence[OpenTable], engine: SqlEngine, access: Access) -> None:
        self._tables = tables
        self._engine = engine
        self._access = access
        self._columns = [table.columns for table in tables]
        self._keys = key_columns(self._columns)
        self._counts = CountsBySql(self._columns, self._rows, self._values)
        self._folder = JoinFolder(uri_for(tables, access.output if engine.is_remote else None), access)
        self._has_places = self._has_numbers = False

    def close(self) -> None:
        """Removes the views, and the files that haven't been read."""
        self._engine.forget([*(f"t{table.number}" for table in self._tables), _PLACES, _MATCHED])
        self._folder.remove()

    def read(self) -> Generator[Findings, None, None]:
        """Reads the tables on the engine's machines, unless an earlier driver has done so."""
        if not self._folder.is_known:
            self._read_tables()
        for table in self._tables:
            if not self._folder.is_known:
                self._check(table)
            yield self._findings(table)
        self._folder.save()

    def _read_tables(self) -> None:
        for table in self._tables:
            rows = PartReader.of(table)
            self._engine.read(f"t{table.number}", rows.schema, rows.parts, rows)

    def _check(self, table: OpenTable) -> None:
        """If any part of the table failed, raises the error of the first such part."""
        for (text,) in self._engine.rows(f"SELECT said FROM t{table.number} WHERE what = '{part_reader.ERROR}' ORDER BY row LIMIT 1"):
            raise part_reader.error_of(text)

    def _findings(self, table: OpenTable) -> Findings:
        """What the tasks found in a table."""
        found = Findings()
        said = f"SELECT row, said FROM t{table.number} WHERE what"
        for _, text in self._rows(f"{said} = '{part_reader.LOST}' ORDER BY row"):
            found.add_lost(*json.loads(text))
        found.bad = self._rows(f"{said} = '{part_reader.BAD}' ORDER BY row LIMIT {open_table.MOST_BAD + 1}")
        return found

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query about the tables or `places`. The engine runs the query only if no driver has stored the answer."""
        rows = self._folder.answer(query)
        if rows is None:
            self._make_places()
            rows = self._engine.rows(query)
            self._folder.remember(query, rows)
        return rows

    def _make_places(self) -> None:
        """Makes the view `places`, if it doesn't exist yet.

        The view needs the tables. If only an earlier driver has read the tables, this driver first reads them again.
        """
        if self._has_places:
            return
        if self._folder.is_known:
            self._read_tables()
            for table in self._tables:
                self._check(table)
        self._engine.keep(_PLACES, places_of(self._columns))
        self._has_places = True

    def _number(self) -> None:
        """Makes the view `matched`, if it doesn't exist yet."""
        if self._has_numbers:
            return
        self._make_places()
        each = ", ".join(f"{row_of(table)}{number} AS row{number}, n{number}" for number, table in enumerate(self._columns))
        query = f"SELECT {', '.join(self._keys)}, {each} FROM {_PLACES} WHERE {in_all_tables(self._columns)}"
        self._engine.number(_MATCHED, query, self._keys, self._counts.keys_in_all())
        self._has_numbers = True

    def match(self) -> KeyCounts:
        """The counts of the keys. The keys are matched when the first count is requested."""
        return self._counts

    def records(self) -> Iterator[pa.RecordBatch]:
        """Writes the rows to temporary storage, and returns an iterator over the joined records."""
        records = self._counts.keys_in_all()
        tables = [self._rows_of(number, table, records) for number, table in enumerate(self._columns)]
        return records_of(self._columns, self._key_rows(records), tables)

    def _key_rows(self, records: int) -> Rows:
        """The stream of keys, with the lengths of sequences; see `Matching.row_streams`."""
        lengths = [f"n{number}" for number, table in enumerate(self._columns) if table.order_by is not None]
        names = [*self._keys, *lengths]
        kinds = [*self._columns[0].keys.types, *[pa.int64()] * len(lengths)]
        paths = self._lay_down("keys", f"SELECT n, {', '.join(names)} FROM {_MATCHED}", ["n"], names, records, rows=records)
        return self._stream(paths, pa.schema(list(zip(names, kinds, strict=True))), unordered)

    def _rows_of(self, number: int, table: Columns, records: int) -> Rows:
        """The stream of a table's other columns."""
        names = [f"c{place}" for place in range(len(table.others))]
        if not names:
            return _NoColumns()
        order = ["n"]
        rows = records
        on = f"t.row = m.row{number} AND t.what IS NULL"
        if table.order_by is not None:
            order += [*(f"o{place}" for place in range(len(table.order_by))), "row"]
            rows = int(self._rows(f"SELECT sum(n{number}) FROM {_PLACES} WHERE {in_all_tables(self._columns)}")[0][0] or 0)
            on = " AND ".join(f"t.{key} = m.{key}" for key in self._keys)
        columns = ", ".join(f"t.{name} AS {name}" for name in (*order[1:], *names))
        query = f"SELECT m.n AS n, {columns} FROM t{number} AS t JOIN {_MATCHED} AS m ON {on}"
        paths = self._lay_down(f"t{number}", query, order, names, records, rows=rows)
        plain = table.plain()
        return self._stream(paths, pa.schema([plain.field(name) for name in names]), returned)

    def _lay_down(self, stream: str, query: str, order: Sequence[str], columns: Sequence[str], records: int, *, rows: int) -> list[str]:
        """Writes the rows of a query to files, unless an earlier driver has done so. Returns the paths in order."""
        files = self._folder.stream(stream)
        if files is not None:
            return ranges.paths_in_order(files, rows=rows)
        self._number()
        write = ranges.RangeWriter(self._folder.uri, stream, tuple(columns), ranges.RANGE_RECORDS)
        number = f"n / {ranges.RANGE_RECORDS}"
        files = self._engine.lay_down(query, order, records // ranges.RANGE_RECORDS + 1, f"cast(floor({number}) AS int)", write)
        ranges.check(files)
        paths = ranges.paths_in_order(files, rows=rows)
        self._folder.complete(stream, files)
        return paths

    def _stream(self, paths: Sequence[str], schema: pa.Schema, back: Any) -> RowStream:
        """The rows of the files. `back` converts a column back to its type in `schema`."""
        batches = (
            pa.RecordBatch.from_arrays(
                [back(column, kind) for column, kind in zip(batch.columns, schema.types, strict=True)], schema=schema
            )
            for batch in ranges.rows_in_files(paths, self._access, keeps=self._engine.is_remote)
        )
        return RowStream(schema, batches)

    def _values(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values of a key, for messages and comparisons."""
        columns = (pa.array([value], ordered_type(kind)) for value, kind in zip(key, self._columns[0].keys.types, strict=True))
        return tuple(unordered(column, kind)[0].as_py() for column, kind in zip(columns, self._columns[0].keys.types, strict=True))


class _NoColumns:
    """The stream of a table that has only keys."""

    def take(self, rows: int) -> list[Array]:
        """No columns."""
        del rows
        return []
