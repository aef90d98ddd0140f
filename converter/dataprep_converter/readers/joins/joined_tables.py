"""Joins tables by key. Rows are added and matched, and returned as joined records in the order of the keys.

Tables that fit into their share of the memory are joined in memory (`in_memory.py`). As soon as the tables exceed their share of the
memory, all rows are moved to DuckDB, which joins the tables out of core (`out_of_core.py`). Both methods return the same records in the
same pieces.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.tensors import Array, to_numpy
from dataprep_converter.readers.joins import out_of_core
from dataprep_converter.readers.joins.in_memory import InMemory, is_for_memory
from dataprep_converter.readers.joins.keys import Keys, Matching, Rows
from dataprep_converter.readers.joins.out_of_core import OutOfCore
from dataprep_converter.readers.joins.tables import Columns, Count, plain, restore
from dataprep_converter.runtime import limits

__all__ = ["Columns", "Count", "Join", "Keys"]

JOINS: Final = "joins"
"""The part of the rules (see `run_id.PARTS`) that says how joined records are divided into pieces. In version 1, a column without nulls in
a piece could count as larger. This happened if the rows were joined in memory, and the column had nulls in other pieces."""
PIECE_RECORDS: Final = 2048
"""The maximum number of joined records that are built together. If records are large, fewer are built together, so that their total size is
about _PIECE_BYTES."""
_FIRST_RECORDS: Final = 256
_PIECE_BYTES: Final = 1 << 20
_PIECE_ROWS: Final = 65_536
_KEPT_FREE: Final = 256 << 20
"""The memory reserved for the interpreter, the readers of the tables and the output, rather than for the rows to join."""
_MOST: Final = 8 << 30
_RETURNED_BYTES: Final = 32 << 20
"""While rows are moved to DuckDB, the memory of so many of them is returned to the system at a time."""

_arrow: Any = pa  # the type stubs lack some functions


class Join(Closeable):
    """A join of tables. To use this class, add the rows of all tables, match the keys, check for duplicate and missing keys, and read the
    records."""

    def __init__(self, tables: Sequence[Columns], version: int = 2) -> None:
        """`version` is the version of JOINS; see `run_id.PARTS`."""
        self._tables = tables
        self._schemas = [table.plain() for table in tables]
        out_of_core.require()
        self._share = share_of_memory()
        self._in_memory = InMemory(tables, self._share, drops_bitmaps=version > 1) if self._share > 0 and is_for_memory(tables) else None
        self._matching: Matching = self._in_memory or self._out_of_core()

    def close(self) -> None:
        """Frees the disk space and memory."""
        self._matching.close()

    def add(self, table: int, rows: Array, keys: Sequence[Array], others: Sequence[Array]) -> None:
        """Adds rows of a table. `rows` contains the number of each added row in the source."""
        schema = self._schemas[table]
        columns = [plain(column, kind) for column, kind in zip((rows, *keys, *others), schema.types, strict=True)]
        self._matching.add(table, pa.RecordBatch.from_arrays(columns, schema=schema))
        if self._in_memory is not None and not self._in_memory.fits():
            self._move()

    def _move(self) -> None:
        """Moves all rows from memory to DuckDB."""
        if self._in_memory is not None:
            self._matching = self._out_of_core()
            moved = 0
            for table, rows in self._in_memory.remove_rows():
                self._matching.add(table, rows)
                moved += rows.nbytes
                if moved >= _RETURNED_BYTES:
                    # Arrow would keep the memory of the rows for other rows, but DuckDB needs it.
                    moved = 0
                    _arrow.default_memory_pool().release_unused()
            self._in_memory = None

    def _out_of_core(self) -> OutOfCore:
        return OutOfCore(self._tables, self._share)

    def match(self) -> Keys:
        """Matches the keys. Call this method after all rows have been added."""
        return self._matching.match()

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yields the joined records in the order of the keys, in small pieces. The keys come first, then the other columns of each table.
        The columns of a table of sequences are lists."""
        yield from records_of(self._tables, *self._matching.row_streams())


def share_of_memory() -> int:
    """The number of bytes of memory that the rows may take in this process. Zero or negative if there is no memory for the rows.

    This is only half of the memory, because moving the rows to DuckDB needs the same amount of memory again. A join in memory also copies
    the rows. But it copies one column at a time, so it needs less memory than a move to DuckDB.
    """
    return min(_MOST, (limits.memory_bytes() - _KEPT_FREE) // 2)


def records_of(tables: Sequence[Columns], keys: Rows, streams: Sequence[Rows]) -> Iterator[pa.RecordBatch]:
    """Yields the joined records in the order of the streams, in small pieces. `keys` and `streams` are the streams that
    `Matching.row_streams` returns. The length of each piece depends only on the content of the pieces before it."""
    count = min(PIECE_RECORDS, _FIRST_RECORDS)
    while len((key_columns := keys.take(count))[0]):
        size = 0
        for piece in _pieces(tables, key_columns, streams):
            size += piece.nbytes
            yield piece
        count = _next_count(len(key_columns[0]), size)


def may_be_cut_otherwise(pieces: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, bool]:
    """Yields the pieces of records without sequences.

    Returns whether version 1 of JOINS (see `run_id.PARTS`) may have divided these records differently. The answer is the same for all ways
    to join the tables.
    """
    has_nulls = depends = False
    for piece in pieces:
        has_nulls = has_nulls or any(column.null_count for column in piece.columns)
        bitmaps = piece.num_columns * -(-piece.num_rows // 8)
        depends = depends or _next_count(piece.num_rows, piece.nbytes) != _next_count(piece.num_rows, piece.nbytes + bitmaps)
        yield piece
    return has_nulls and depends


def _next_count(records: int, size: int) -> int:
    """The number of records to build together next, if the previous `records` records took `size` bytes."""
    return max(1, min(PIECE_RECORDS, _PIECE_BYTES * records // max(1, size)))


def _pieces(tables: Sequence[Columns], key_columns: Sequence[Array], streams: Sequence[Rows]) -> Iterator[pa.RecordBatch]:
    """Yields the records of some keys, in pieces with a limited number of steps."""
    kinds = tables[0].keys.types
    sequences = [number for number, table in enumerate(tables) if table.order_by is not None]
    lengths = {number: to_numpy(column) for number, column in zip(sequences, key_columns[len(kinds) :], strict=True)}
    steps = np.cumsum(sum(lengths.values(), np.zeros(len(key_columns[0]), np.int64)))
    first = 0
    while first < len(steps):
        before = int(steps[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(steps, before + _PIECE_ROWS, side="right")))
        columns = [restore(_part(column, first, stop), kind) for column, kind in zip(key_columns, kinds, strict=False)]
        for number, (table, stream) in enumerate(zip(tables, streams, strict=True)):
            sizes = lengths[number][first:stop] if number in lengths else None
            rows = stream.take(int(sizes.sum()) if sizes is not None else stop - first)
            # If a table has only key columns, DuckDB returns a placeholder column for this table, and `zip` leaves that column out.
            columns += [_group(restore(column, kind), sizes) for column, kind in zip(rows, table.others.types, strict=False)]
        yield pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])
        first = stop


def _part(column: Array, first: int, stop: int) -> Array:
    """The rows of a column from `first` to `stop` (exclusive). Copies the rows, unless they are the complete column."""
    part: Array = column if stop - first == len(column) else _arrow.concat_arrays([column.slice(first, stop - first)])
    return part


def _group(column: Array, sizes: npt.NDArray[np.int64] | None) -> Array:
    """The values of `column`, grouped into lists of the lengths `sizes`, or unchanged if `sizes` is None."""
    if sizes is None:
        return column
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    lists: Array = _arrow.LargeListArray.from_arrays(_arrow.array(offsets), column)
    return lists
