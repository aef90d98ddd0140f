"""`units.parquet`: the units of a plan as they are stored. It is written and read a row group at a time, and lies in $TMPDIR while it is here."""

import hashlib
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_converter.runtime.mapped_table import room_for
from dataprep_converter.sampling.units import SCHEMA, UnitTable

_IN_MEMORY: Final = 4 << 20
_PIECE: Final = 4 << 20
_parquet: Any = pq  # the stubs know neither files in Python nor the methods of a ParquetFile


class UnitsFile:
    """The file. A small one is in memory, a larger one in a temporary file that is gone with this object."""

    def __init__(self, pieces: Iterable[bytes] = ()) -> None:
        """With these bytes. Raises StoreFull."""
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="dataprep-")  # noqa: SIM115 - it is closed with this object
        weakref.finalize(self, self._file.close)
        for piece in pieces:
            with room_for("units.parquet"):
                self._file.write(piece)

    @classmethod
    def of(cls, units: UnitTable) -> "UnitsFile":
        """Of these units. Raises StoreFull."""
        made = cls()
        with (
            room_for("units.parquet"),
            _parquet.ParquetWriter(made._file, SCHEMA, compression="zstd", write_statistics=False) as writer,
        ):
            if not len(units):
                writer.write_table(units.table)
            for batch in units.batches(SCHEMA.names):
                writer.write_batch(batch)
        return made

    @property
    def sha256(self) -> str:
        """Digest of its bytes."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    @property
    def size(self) -> int:
        """Number of its bytes."""
        return self._file.seek(0, 2)

    def pieces(self) -> Iterator[bytes]:
        """Its bytes."""
        self._file.seek(0)
        while piece := self._file.read(_PIECE):
            yield piece

    def units(self) -> UnitTable:
        """The units in it. Raises StoreFull."""
        # Not on threads of Arrow's own: a worker that ends while one of them still lets go of the bytes dies with it.
        file = _parquet.ParquetFile(self._file, pre_buffer=False)
        groups = (file.read_row_group(number, use_threads=False) for number in range(file.num_row_groups))
        return UnitTable.joined(batch for group in groups for batch in cast("pa.Table", group).combine_chunks().to_batches())
