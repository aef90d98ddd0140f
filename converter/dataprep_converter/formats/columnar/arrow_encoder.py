"""Encoder for Arrow IPC files (Feather v2). Record batches have a fixed size, and each is held in memory until it is complete."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dataprep_api import quantity
from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.columnar.tables_encoder import LARGEST_GROUP, Groups, Pieces
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.records.feature import FeatureSpec

_ipc: Any = pa.ipc  # the type stubs don't cover all options


class ArrowEncoder(SingleFile):
    """Encodes one Arrow IPC file."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        options = output.arrow
        most_bytes = quantity.to_bytes(options.batch_size)
        if most_bytes > LARGEST_GROUP:
            raise BadSpec(f"output.arrow.batchSize must be at most 1Gi, got {options.batch_size}.")
        self._groups = Groups(features, most_bytes=most_bytes, most_records=options.batch_records)
        self._pieces = Pieces()
        compression = None if options.compression == "None" else options.compression.lower()
        self._writer = _ipc.new_file(
            self._pieces, self._groups.schema, options=_ipc.IpcWriteOptions(compression=compression, use_threads=False)
        )

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `arrow`."""
        return "arrow"

    @staticmethod
    def holds_null(_output: Output, _feature: FeatureSpec) -> bool:
        """Return True: every column is nullable."""
        return True

    @staticmethod
    def keeps(kind: pa.DataType) -> pa.DataType | None:
        """Return the type itself."""
        return kind

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """Return the record batches that are now complete."""
        for group in self._groups.add(batch):
            self._writer.write_batch(group)
        return self._pieces.take()

    def close(self) -> bytes:
        """Return the last record batch and the footer."""
        rest = self._groups.rest()
        if rest is not None:
            self._writer.write_batch(rest)
        self._writer.close()
        return self._pieces.take()
