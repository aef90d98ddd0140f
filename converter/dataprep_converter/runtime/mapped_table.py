"""A table in a temporary file without a name (in $TMPDIR), mapped into memory: the system may drop its pages at any time."""

import mmap
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dataprep_converter.runtime.temporary import TemporaryFile, room_for

_arrow: Any = pa  # the stubs don't know the options


class MappedTable:
    """Record batches, as one table whose columns are views of the file. The file is removed with the last of them."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Writes the batches as they come. Raises StoreFull."""
        with TemporaryFile("the plan's units") as file:
            # Not as a context, which would write an end to what failed.
            writer = pa.ipc.new_file(file.file, schema)
            for batch in batches:
                with room_for(file.what):
                    writer.write_batch(batch)
            with room_for(file.what):
                writer.close()
            self._mapping = file.map()
        # Not on Arrow's own threads: a worker that exits while one of them still frees the bytes crashes.
        options = _arrow.ipc.IpcReadOptions(use_threads=False)
        self.table: pa.Table = _arrow.ipc.open_file(pa.py_buffer(self._mapping), options=options).read_all()

    def let_go(self) -> None:
        """Drops the pages read so far from this process's memory; they are read again from the file when needed."""
        self._mapping.madvise(mmap.MADV_DONTNEED)
