"""`units.parquet`: the stored units of a plan. The file is written and read one row group at a time, through a local file in $TMPDIR."""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_api.dataset.plan import UnitGroups
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.runtime.temporary import IN_MEMORY, TemporaryFile, room_for
from dataprep_converter.sampling.units import SCHEMA, UnitTable

_parquet: Any = pq  # the type stubs lack Python's file objects and the methods of a ParquetFile

_LARGEST_GROUP: Final = 32 << 20
"""If any row group has more than this number of bytes before compression, workers read the complete file rather than single row groups.

A unit usually takes 140 bytes, but a unit with the objects of an image can take thousands.
"""


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
        # Don't use Arrow's threads: a worker crashes if it exits while one of these threads is still freeing the bytes.
        file = _parquet.ParquetFile(self._file.file, pre_buffer=False)
        groups = (file.read_row_group(number, use_threads=False) for number in range(file.num_row_groups))
        return UnitTable.concatenate(batch for group in groups for batch in cast("pa.Table", group).combine_chunks().to_batches())

    def groups(self, units: UnitTable) -> UnitGroups | None:
        """Returns where the file stores its row groups, or None if workers should read the complete file. `units` are the units in the
        file."""
        metadata = _parquet.read_metadata(self._file.file)
        if metadata.num_row_groups < 2:
            return None
        row_groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        offsets = [_offset(group) for group in row_groups]
        # A Parquet file ends with the footer, its length in four bytes, and PAR1.
        offsets += [self.size - metadata.serialized_size - 8, self.size]
        rows = row_groups[0].num_rows
        if any(group.num_rows != rows for group in row_groups[:-1]) or max(group.total_byte_size for group in row_groups) > _LARGEST_GROUP:
            # Either Arrow has divided a group because its text is too long for one array, or a group is too large for a worker's memory.
            return None
        return UnitGroups(
            rows=rows,
            units=metadata.num_rows,
            # Each batch is a row group. Look at one batch after another, because Arrow's `take` would join all batches in memory.
            firsts=[batch.column("first")[0].as_py() for batch in units.batches(SCHEMA.names)],
            offsets=offsets,
            sha256=[self._digest(start, end) for start, end in pairwise(offsets)],
        )

    def _digest(self, start: int, end: int) -> str:
        self._file.file.seek(start)
        return hashlib.sha256(self._file.file.read(end - start)).hexdigest()

    def close(self) -> None:
        """Removes the temporary file."""
        self._file.close()


def _offset(group: Any) -> int:  # Any: the type stubs lack a row group's metadata
    """Returns the offset of a row group's first byte."""
    column = group.column(0)
    return int(column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset)
