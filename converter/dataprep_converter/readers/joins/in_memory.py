"""Joins tables in memory. The rows are kept as they were read, their keys are matched, and Arrow copies the rows in the order of the keys.

Keys that are whole numbers are matched by sorting (`sorted_keys.py`). Keys of any other type are matched by DuckDB, which is given only the
key columns.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_text_or_bytes
from dataprep_converter.core.tensors import Array, to_arrow
from dataprep_converter.readers.joins.keys import Keys, Places
from dataprep_converter.readers.joins.out_of_core import OutOfCore
from dataprep_converter.readers.joins.sorted_keys import SortedKeys, are_numbers
from dataprep_converter.readers.joins.tables import Columns
from dataprep_converter.runtime import limits

_MATCHING_BYTES: Final = 48
"""The memory needed to sort a table, in bytes per row. For each row, memory holds four values: the key, the position, a word that combines
both, and the position of a kept key."""
_MOST_OF_A_COLUMN: Final = (1 << 31) - 1
"""The maximum size of a column in bytes. The size is limited because Arrow's offsets into lists and text have 32 bits."""
_SPAN_ROWS: Final = 65_536
_SPAN_BYTES: Final = 4 << 20
"""The approximate number of bytes that are copied in one call."""

_arrow: Any = pa  # the type stubs lack some functions


def is_for_memory(tables: Sequence[Columns]) -> bool:
    """Whether tables can be joined in memory with the same result as in DuckDB. Tables of sequences can't be joined in memory, because only
    DuckDB orders their rows."""
    keys = tables[0].keys.types
    return all(table.order_by is None and table.keys.types == keys and all(map(_is_supported, table.plain().types)) for table in tables)


def _is_supported(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        nested: Any = kind
        # Lists of booleans are excluded, because Arrow stores eight booleans in a byte.
        return not types.is_boolean(nested.value_type) and _is_supported(nested.value_type)
    return (
        types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_boolean(kind)
        or is_text_or_bytes(kind)
        or types.is_date32(kind)
        or (types.is_timestamp(kind) and kind.tz is None)
    )


class InMemory:
    """Joins tables in memory; see the module's docstring and `Matching`."""

    def __init__(self, tables: Sequence[Columns], share: int, *, drops_bitmaps: bool) -> None:
        """`drops_bitmaps` says whether to leave out the bitmap of a column that has no nulls in a piece, as DuckDB does."""
        self._tables = tables
        self._share = share
        self._drops_bitmaps = drops_bitmaps
        self._batches: list[deque[pa.RecordBatch]] = [deque() for _ in tables]
        self._bytes = [[0] * len(table.plain()) for table in tables]
        self._row_count = 0
        self._rows: list[list[Array]] = []
        self._keys: Keys | None = None
        self._pool = ThreadPoolExecutor(limits.processors(), "join")

    def close(self) -> None:
        """Frees the memory."""
        self._pool.shutdown(cancel_futures=True)
        if self._keys is not None:
            self._keys.close()
        self._batches, self._rows, self._keys = [], [], None
        _arrow.default_memory_pool().release_unused()

    def add(self, table: int, rows: pa.RecordBatch) -> None:
        """Adds rows of a table."""
        self._batches[table].append(rows)
        self._row_count += rows.num_rows
        for place, column in enumerate(rows.columns):
            self._bytes[table][place] += column.nbytes

    def fits(self) -> bool:
        """Whether the rows added so far can be joined within the join's share of the memory."""
        needed = sum(map(sum, self._bytes)) + self._row_count * _MATCHING_BYTES
        return needed <= self._share and max(map(max, self._bytes)) <= _MOST_OF_A_COLUMN

    def remove_rows(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Removes all rows, and yields them with the numbers of their tables."""
        for table, batches in enumerate(self._batches):
            while batches:
                yield table, batches.popleft()
        self.close()

    def match(self) -> Keys:
        """Matches the keys."""
        self._rows = list(self._pool.map(_concatenate_columns, self._tables, self._batches))
        # Return the memory of the copied batches to the system, because DuckDB needs memory too.
        _arrow.default_memory_pool().release_unused()
        if are_numbers(self._tables[0].keys):
            self._keys = SortedKeys(self._tables, [rows[0] for rows in self._rows], [rows[1] for rows in self._rows], self._pool)
        else:
            self._keys = self._by_database()
        return self._keys

    def _by_database(self) -> Keys:
        """Matches the keys with DuckDB."""
        tables = [replace(table, others=pa.schema([])) for table in self._tables]
        # DuckDB gets only half of the share, because the rows are in memory too.
        database = OutOfCore(tables, self._share // 2)
        try:
            for number, (table, rows) in enumerate(zip(tables, self._rows, strict=True)):
                schema = table.plain()
                for batch in pa.Table.from_arrays(rows[: len(schema)], schema=schema).to_batches(max_chunksize=_SPAN_ROWS):
                    database.add(number, batch)
            return database.match()
        except BaseException:
            database.close()
            raise

    def row_streams(self) -> "tuple[_RowStream, list[_RowStream]]":
        """The keys and the other columns in order; see `Matching`."""
        if self._keys is None:
            raise RuntimeError("The keys have not been matched.")
        chosen = [_places(rows[0], row_numbers) for rows, row_numbers in zip(self._rows, self._keys.chosen_rows(), strict=True)]
        self._keys.close()
        others = 1 + len(self._tables[0].keys)
        tables = [self._stream(rows[others:], places) for rows, places in zip(self._rows, chosen, strict=True)]
        return self._stream(self._rows[0][1:others], chosen[0]), tables

    def _stream(self, columns: Sequence[Array], places: Places) -> "_RowStream":
        return _RowStream(columns, places, self._pool, drops_bitmaps=self._drops_bitmaps)


def _places(rows: Any, row_numbers: Places) -> Places:
    """The positions of the rows whose numbers are `row_numbers`. The position of a row differs from the row's number if bad rows before
    this row are missing."""
    numbers: Places = rows.to_numpy()
    return np.searchsorted(numbers, row_numbers) if len(numbers) and numbers[-1] != len(numbers) - 1 else row_numbers


def _concatenate_columns(table: Columns, batches: deque[pa.RecordBatch]) -> list[Array]:
    """The rows of a table, with each column as one array. Empties `batches`."""
    kinds = table.plain().types
    columns: list[list[Array]] = [[batch.column(place) for batch in batches] for place in range(len(kinds))]
    batches.clear()
    arrays: list[Array] = []
    for kind, pieces in zip(kinds, columns, strict=True):
        arrays.append(_arrow.concat_arrays(pieces) if pieces else _arrow.array([], kind))
        # Free the column's batches before the next column is copied, to save memory.
        pieces.clear()
    return arrays


class _RowStream:
    """A stream of a table's rows in a given order. While one span of rows is in use, the next span is copied in the background."""

    def __init__(self, columns: Sequence[Array], places: Places, pool: ThreadPoolExecutor, *, drops_bitmaps: bool) -> None:
        self._records = pa.RecordBatch.from_arrays(list(columns), names=[str(place) for place in range(len(columns))])
        self._places = places
        self._pool = pool
        self._drops_bitmaps = drops_bitmaps
        rows = max(1, self._records.num_rows)
        self._span = max(1, min(_SPAN_ROWS, _SPAN_BYTES * rows // max(1, self._records.nbytes)))
        self._next = 0
        self._ahead = self._begin_span()
        self._rest = self._records.slice(0, 0)

    def take(self, rows: int) -> list[Array]:
        """The columns of the next rows; see `Rows`."""
        while self._rest.num_rows < rows and self._ahead is not None:
            span, self._ahead = self._ahead, self._begin_span()
            self._rest = _arrow.concat_batches([self._rest, span.result()]) if self._rest.num_rows else span.result()
        piece = self._rest.slice(0, rows)
        self._rest = self._rest.slice(rows)
        columns = piece.columns
        if self._drops_bitmaps:
            for column in columns:
                # Let Arrow count the nulls, because it omits the bitmap only if it knows that there are none.
                _ = column.null_count
        return [_arrow.concat_arrays([column]) for column in columns]

    def _begin_span(self) -> "Future[pa.RecordBatch] | None":
        """Begins to copy the next span of rows. Returns None at the end."""
        places = self._places[self._next : self._next + self._span]
        self._next += len(places)
        return self._pool.submit(self._records.take, to_arrow(places)) if len(places) else None
