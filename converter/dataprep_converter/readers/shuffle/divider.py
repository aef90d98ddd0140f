"""The first round of a shuffle: divides the records of one slice of the input among the tasks that write them.

Records are collected until they take `most_bytes` in memory, then sorted by task and written to a temporary file, in one piece for each
task. At the end, the pieces of each task are joined in the stored file. The sort is stable, so the records of each task stay in the order of
the input.
"""

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.readers.shuffle import shuffle_file
from dataprep_converter.readers.shuffle.shuffle_file import BAD, Identity, Range
from dataprep_converter.readers.shuffle.stored_rows import no_rows
from dataprep_converter.runtime import limits
from dataprep_converter.runtime.temporary import TemporaryFile

MOST_BYTES: Final = 64 << 20
"""Records are sorted when the records in memory reach this size in bytes, or a larger size if there are very many columns and tasks.

Sorting takes about twice this size in additional memory.
"""
_COLUMN_BYTES: Final = 80
"""The approximate number of bytes that a piece takes for each column, in addition to the column's values."""
_SHARE: Final = 16
"""The records that wait to be sorted may take 1/_SHARE of the memory."""
_MOST_KEPT: Final = 2
"""Rows are copied if their buffers take more than this many times the size of the rows."""
_AT_ONCE: Final = 4 << 20
"""Pieces are written and read about this many bytes at a time."""
_arrow: Any = pa  # the type stubs lack some functions

Tasks = npt.NDArray[np.int64]


@dataclass
class _Part:
    """The pieces of one task in the temporary file. They contain either records or bad samples."""

    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    lengths: "array[int]" = field(default_factory=lambda: array("Q"))
    """The offset and length of each piece. Each sort adds a piece, so a list of tuples would take too much memory."""
    digest: Any = field(default_factory=hashlib.sha256)  # Any, because hashlib has no public type

    @property
    def size(self) -> int:
        return sum(self.lengths)

    @property
    def places(self) -> Iterator[tuple[int, int]]:
        """Yields the offset and length of each piece."""
        return zip(self.offsets, self.lengths, strict=True)


class _Sorter:
    """Collects batches of one schema, and writes them to the temporary file in one piece for each task."""

    def __init__(self, schema: pa.Schema, tasks: int, file: TemporaryFile) -> None:
        self._schema = schema
        self._file = file
        self._batches: list[pa.RecordBatch] = []
        self._tasks: list[Tasks] = []
        self.held_bytes = 0
        """The number of bytes in memory."""
        self.samples = np.zeros(tasks, np.int64)
        self.parts = [_Part() for _ in range(tasks)]

    def add(self, rows: pa.RecordBatch, tasks: Tasks) -> None:
        """Adds rows, each with its task."""
        if rows.num_rows:
            if rows.get_total_buffer_size() > _MOST_KEPT * rows.nbytes:
                # Copy the rows, because a slice of a block would keep the whole block in memory.
                rows = rows.take(to_arrow(np.arange(rows.num_rows)))
            self._batches.append(rows)
            self._tasks.append(tasks)
            self.held_bytes += rows.nbytes

    def write(self) -> None:
        """Writes the collected rows. Raises StoreFull."""
        if not self._batches:
            return
        rows: pa.RecordBatch = _arrow.concat_batches(self._batches)
        tasks = np.concatenate(self._tasks)
        self._batches, self._tasks, self.held_bytes = [], [], 0
        order = np.argsort(tasks, kind="stable")
        rows = rows.take(to_arrow(order))
        numbers, starts = np.unique(tasks[order], return_index=True)
        bounds = [*starts.tolist(), len(order)]
        pieces = zip(numbers.tolist(), bounds, bounds[1:], strict=False)
        while self._write_some(rows, pieces):
            pass

    def _write_some(self, rows: pa.RecordBatch, pieces: Iterator[tuple[int, int, int]]) -> int:
        """Writes about _AT_ONCE bytes of the next pieces, and returns the number of pieces. An item of `pieces` consists of a task, the
        position of the piece's first row, and the position after its last row."""
        sink = pa.BufferOutputStream()
        # Arrow writes the schema before the first batch, but the stored ranges contain no schema. So first write an empty batch, which
        # isn't stored.
        options = _arrow.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
        made: list[tuple[_Part, int]] = []
        with _arrow.ipc.new_stream(sink, self._schema, options=options) as writer:
            writer.write_batch(no_rows(self._schema))
            first = sink.tell()
            for task, low, high in pieces:
                writer.write_batch(rows.slice(low, high - low))
                made.append((self.parts[task], sink.tell()))
                self.samples[task] += high - low
                if sink.tell() - first >= _AT_ONCE:
                    break
        data = memoryview(sink.getvalue())
        for part, end in made:
            part.offsets.append(self._file.size)
            part.lengths.append(end - first)
            part.digest.update(data[first:end])
            self._file.write(data[first:end])
            first = end
        return len(made)


class Divider(Closeable):
    """Divides records among tasks.

    Besides the records to be sorted, memory holds 16 bytes for each piece. Each sort adds one piece for each task. For example, a slice of
    10 GB for 10,000 tasks takes 26 MB for its 160 sorts. With so many tasks, the pieces are small. Each piece takes about _COLUMN_BYTES of
    overhead per column in the file, and small pieces compress less well. So, if the memory allows it, a sort begins only when the records
    take at least as many bytes as this overhead.
    """

    def __init__(self, schema: pa.Schema, tasks: int, *, most_bytes: int | None = None) -> None:
        """`schema` is the schema of the rows. `most_bytes` limits the rows in memory."""
        self._most_bytes = most_bytes or min(max(MOST_BYTES, _COLUMN_BYTES * len(schema) * tasks), limits.memory_bytes() // _SHARE)
        self._file = TemporaryFile("the records of a shuffle")
        self._records = _Sorter(schema, tasks, self._file)
        self._bad = _Sorter(BAD, tasks, self._file)

    def add(self, rows: pa.RecordBatch, tasks: Tasks, bad: pa.RecordBatch, bad_tasks: Tasks) -> None:
        """Adds the rows of a batch and its bad samples, each with its task. Batches must be in the order of the input. Raises StoreFull."""
        self._records.add(rows, tasks)
        self._bad.add(bad, bad_tasks)
        if self._records.held_bytes + self._bad.held_bytes >= self._most_bytes:
            self._records.write()
            self._bad.write()

    def pieces(self, identity: Identity) -> Iterator[bytes]:
        """Yields the bytes of the stored file, after all batches have been added. Raises StoreFull."""
        self._records.write()
        self._bad.write()
        ranges = [
            Range(
                samples=int(self._records.samples[task] + self._bad.samples[task]),
                records_bytes=records.size,
                bad_bytes=bad.size,
                sha256=shuffle_file.digest_of(records.digest.digest(), bad.digest.digest()),
            )
            for task, (records, bad) in enumerate(zip(self._records.parts, self._bad.parts, strict=True))
        ]
        yield shuffle_file.head(identity, ranges)
        places = (place for pair in zip(self._records.parts, self._bad.parts, strict=True) for part in pair for place in part.places)
        yield from _read_pieces(self._file, places)

    def close(self) -> None:
        """Removes the temporary file."""
        self._file.close()


def _read_pieces(file: TemporaryFile, places: Iterator[tuple[int, int]]) -> Iterator[bytes]:
    """Yields the bytes at these places of the file, in order, a few MiB at a time."""
    waiting: list[bytes] = []
    size = 0
    for offset, length in places:
        waiting.append(file.read_at(offset, length))
        size += length
        if size >= _AT_ONCE:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
