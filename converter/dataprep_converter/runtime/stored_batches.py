"""Record batches in an unnamed temporary file (in $TMPDIR), so that only the batches in use take memory."""

import weakref
from collections.abc import Iterator

import pyarrow as pa

from dataprep_converter.runtime.temporary import IN_MEMORY, TemporaryFile


class StoredBatches:
    """A list of record batches, of which a few MiB stay in memory. Only one thread may use the list.

    The file is removed when the list is freed. As with a TemporaryFile, a read can raise StoreFull.
    """

    def __init__(self, schema: pa.Schema, what: str) -> None:
        """`what` names the rows in the error for a full disk."""
        self._schema = schema
        self._file = TemporaryFile(what, in_memory=IN_MEMORY)
        weakref.finalize(self, self._file.close)
        self._ends = [0]

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends a batch. Raises StoreFull."""
        self._file.seek(self._ends[-1])
        self._file.write(memoryview(batch.serialize()))
        self._ends.append(self._file.size)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> pa.RecordBatch:
        start, end = self._ends[number], self._ends[number + 1]
        self._file.seek(start)
        return pa.ipc.read_record_batch(pa.py_buffer(self._file.file.read(end - start)), self._schema)
