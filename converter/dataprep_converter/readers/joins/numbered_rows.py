"""Sorts numbered rows of any width out of core.

DuckDB's sort is out of core too. But each of its threads holds 122,880 rows at once, so wide rows would need more memory than there is.

Here, rows that don't fit are divided into `_FAN_OUT` buckets, each of which has an equal share of the numbers. A bucket whose rows don't fit
either is divided again. So the memory doesn't depend on the number of rows, or on how their sizes are distributed.
"""

import tempfile
from array import array
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.tensors import to_arrow

NUMBER: Final = "n"
"""The column with a row's number. It comes first."""

_FAN_OUT: Final = 64

_arrow: Any = pa  # the type stubs lack some functions


class NumberedRows(Closeable):
    """Rows with different numbers. First add all rows, then read them once."""

    def __init__(self, folder: str, schema: pa.Schema, numbers: range, *, most_bytes: int) -> None:
        """The rows have the columns of `schema`, the first of which is NUMBER, and numbers in the range `numbers`.

        Rows of more than `most_bytes` are divided. About three times as many bytes are in memory.
        """
        self._folder = folder
        self._schema = schema
        self._numbers = numbers
        self._most_bytes = most_bytes
        self._step = max(1, -(-len(numbers) // _FAN_OUT))
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._parts = [array("q") for _ in range(0, len(numbers), self._step)]
        """For each bucket, the offsets and sizes of its parts in the file, in turn."""
        self._file: Any = None

    def close(self) -> None:
        """Frees the disk."""
        if self._file is not None:
            # After a failed write, closing the file tries to write the rest.
            with suppress(OSError):
                self._file.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows, in any order."""
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= self._most_bytes and len(self._parts) > 1:
            self._divide()

    def sorted_rows(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows without NUMBER, sorted by it."""
        if self._file is None:
            if self._waiting:
                yield self._take_sorted().drop_columns(NUMBER)
            return
        self._divide()
        self._file.flush()
        for bucket, parts in enumerate(self._parts):
            start = self._numbers.start + bucket * self._step
            numbers = range(start, min(start + self._step, self._numbers.stop))
            with NumberedRows(self._folder, self._schema, numbers, most_bytes=self._most_bytes) as rows:
                for offset, size in zip(parts[::2], parts[1::2], strict=True):
                    rows.add(self._read(offset, size))
                yield from rows.sorted_rows()

    def _divide(self) -> None:
        """Appends the waiting rows to the file, bucket by bucket."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - `close` closes it
        if not self._waiting:
            return
        rows = self._take_sorted()
        buckets = (rows.column(0).to_numpy() - self._numbers.start) // self._step
        starts = np.flatnonzero(np.diff(buckets, prepend=-1)).tolist()
        for first, stop in zip(starts, [*starts[1:], len(buckets)], strict=True):
            part: pa.Buffer = rows.slice(first, stop - first).serialize()
            self._parts[int(buckets[first])].extend((self._file.tell(), part.size))
            self._file.write(part)

    def _read(self, offset: int, size: int) -> pa.RecordBatch:
        self._file.seek(offset)
        rows: pa.RecordBatch = _arrow.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), self._schema)
        return rows

    def _take_sorted(self) -> Any:
        """Returns the waiting rows as one batch, sorted by number. Afterwards, no rows wait."""
        rows = _arrow.concat_batches(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        return rows.take(to_arrow(np.argsort(rows.column(0).to_numpy())))
