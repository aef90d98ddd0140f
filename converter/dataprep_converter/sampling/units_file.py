"""`units.parquet`: the stored units of a plan. The file is written and read one row group at a time, through a local file in $TMPDIR."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.runtime.temporary import IN_MEMORY, TemporaryFile, room_for
from dataprep_converter.sampling.units import SCHEMA, UnitTable

_parquet: Any = pq  # the type stubs lack Python's file objects and the methods of a ParquetFile


class UnitsFile(Closeable):
    """The file `units.parquet`. A small file is kept in memory, a larger file in a temporary file."""

    def __init__(self, pieces: Iterable[bytes] = ()) -> None:
        """Creates the file with these bytes. Raises StoreFull."""
        self._file = TemporaryFile.of("units.parquet", pieces, in_memory=IN_MEMORY)

    @classmethod
    def of(cls, units: UnitTable) -> "UnitsFile":
        """Returns the file that stores these units. Raises StoreFull."""
        file = cls()
        try:
            with (
                room_for(file._file.what),
                _parquet.ParquetWriter(file._file.file, SCHEMA, compression="zstd", write_statistics=False) as writer,
            ):
                if not len(units):
                    writer.write_table(units.table)
                for batch in units.batches(SCHEMA.names):
                    writer.write_batch(batch)
        except BaseException:
            file.close()
            raise
        return file

    @property
    def sha256(self) -> str:
        """Digest of the file's bytes."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    @property
    def size(self) -> int:
        """Number of bytes in the file."""
        size: int = self._file.file.seek(0, 2)
        return size

    def pieces(self) -> Iterator[bytes]:
        """Yields the file's bytes."""
        return self._file.pieces()

    def units(self) -> UnitTable:
        """Returns the units in the file. Raises StoreFull."""
        # Arrow's threads are not used, because a worker crashes if it exits while one of these threads is still freeing the bytes.
        file = _parquet.ParquetFile(self._file.file, pre_buffer=False)
        groups = (file.read_row_group(number, use_threads=False) for number in range(file.num_row_groups))
        return UnitTable.concatenate(batch for group in groups for batch in cast("pa.Table", group).combine_chunks().to_batches())

    def close(self) -> None:
        """Removes the temporary file."""
        self._file.close()
