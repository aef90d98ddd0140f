"""A table in a temporary file without a name (in $TMPDIR), mapped into memory: its pages are the system's to keep, and to take back."""

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from dataprep_converter.core.errors import StoreFull

_arrow: Any = pa  # the stubs don't know the options


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """What is written in here goes to $TMPDIR. Raises StoreFull."""
    try:
        yield
    except OSError as exc:
        raise StoreFull(f"{tempfile.gettempdir()} has no room for {what}: {exc.strerror}.") from exc


class MappedTable:
    """Record batches, as one table whose columns are views of the file. The file is gone with the last of them."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Writes the batches as they come. Raises StoreFull."""
        with tempfile.TemporaryFile(prefix="dataprep-") as file:
            # Not as a context, which would write an end to what failed.
            writer = pa.ipc.new_file(file, schema)
            for batch in batches:
                with room_for("the plan's units"):
                    writer.write_batch(batch)
            with room_for("the plan's units"):
                writer.close()
                file.flush()
            self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # Not on Arrow's own threads: a worker that ends while one of them still lets go of the bytes dies with it.
        options = _arrow.ipc.IpcReadOptions(use_threads=False)
        self.table: pa.Table = _arrow.ipc.open_file(pa.py_buffer(self._mapping), options=options).read_all()

    def let_go(self) -> None:
        """Takes what was read out of this process's memory; it is read again from the file when it is looked at."""
        self._mapping.madvise(mmap.MADV_DONTNEED)
