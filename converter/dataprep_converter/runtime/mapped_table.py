"""A table in an unnamed temporary file (in $TMPDIR). The file is mapped into memory, so that the system can drop its pages at any time."""

import mmap
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dataprep_converter.runtime.temporary import TemporaryFile, room_for

_arrow: Any = pa  # the type stubs don't know the options


class MappedTable:
    """A table of record batches. Its columns are views of the file, which is removed when the last view is freed."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, what: str = "the plan's units") -> None:
        """Writes the batches to the file, one by one. `what` names the rows in the error for a full disk. Raises StoreFull."""
        with TemporaryFile(what) as file:
            # Don't use the writer in a `with` block: on leaving the block, it would write a valid footer even after an error.
            writer = pa.ipc.new_file(file.file, schema)
            for batch in batches:
                with room_for(file.what):
                    writer.write_batch(batch)
            with room_for(file.what):
                writer.close()
            self._mapping = file.map()
        # Don't use Arrow's threads: a worker crashes if it exits while such a thread frees the bytes.
        options = _arrow.ipc.IpcReadOptions(use_threads=False)
        self.table: pa.Table = _arrow.ipc.open_file(pa.py_buffer(self._mapping), options=options).read_all()

    def let_go(self) -> None:
        """Drops the pages that have been read so far, so that they no longer occupy this process's memory. If needed, the pages are read from
        the file again."""
        self._mapping.madvise(mmap.MADV_DONTNEED)
