"""Sorts numbered rows of any width out of core.

DuckDB's sort is out of core too. But each of its threads holds 122,880 rows at once, so wide rows would need more memory than there is. Here,
rows are divided into ranges of numbers by their size in bytes. The parts of all ranges are in one file, in which each range has many parts.
"""

import tempfile
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.tensors import to_arrow

NUMBER: Final = "n"
"""The column with a row's number. It comes first."""

_arrow: Any = pa  # the type stubs lack some functions


class NumberedRows(Closeable):
    """Rows whose numbers are `0` to `rows - 1`, each once. First add all rows, then read them."""

    def __init__(self, folder: str, schema: pa.Schema, rows: int, *, row_bytes: int, range_bytes: int) -> None:
        """The rows have the columns of `schema`, the first of which is NUMBER. `row_bytes` is the average size of a row, and `range_bytes`
        that of a range. About three times as many bytes are in memory."""
        self._schema = schema
        self._range_bytes = range_bytes
        self._range_rows = max(1, range_bytes // max(1, row_bytes))
        self._parts: list[list[tuple[int, int]]] = [[] for _ in range(-(-rows // self._range_rows))]
        """For each range, the offset and the size of its parts."""
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `close` closes it

    def close(self) -> None:
        """Frees the disk."""
        self._file.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows, in any order."""
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= self._range_bytes:
            self._write()

    def sorted_rows(self) -> Iterator[pa.RecordBatch]:
        """Returns the rows without NUMBER, sorted by it. Call this method after all rows have been added."""
        self._write()
        self._file.flush()
        return (self._sorted([self._read(offset, size) for offset, size in parts]).drop_columns(NUMBER) for parts in self._parts)

    def _write(self) -> None:
        """Appends the waiting rows to the file, range by range."""
        batches, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not batches:
            return
        rows = self._sorted(batches)
        ranges = rows.column(0).to_numpy() // self._range_rows
        starts = np.flatnonzero(np.diff(ranges, prepend=-1)).tolist()
        for first, stop in zip(starts, [*starts[1:], len(ranges)], strict=True):
            part: pa.Buffer = rows.slice(first, stop - first).serialize()
            self._parts[int(ranges[first])].append((self._file.tell(), part.size))
            self._file.write(part)

    def _read(self, offset: int, size: int) -> pa.RecordBatch:
        self._file.seek(offset)
        rows: pa.RecordBatch = _arrow.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), self._schema)
        return rows

    def _sorted(self, batches: list[pa.RecordBatch]) -> Any:
        rows = _arrow.concat_batches(batches)
        batches.clear()
        return rows.take(to_arrow(np.argsort(rows.column(0).to_numpy())))
