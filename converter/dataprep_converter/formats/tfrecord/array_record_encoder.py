"""Encoder for ArrayRecord: a random-access file of tf.train.Example messages, which Grain reads. `tfrecord` stores the same messages.

The file is a Riegeli file with chunks of `groupSize` records, followed by a chunk table. The last 64 KiB contain the table's offset. The
library that defines the format writes the file on one thread, so equal records give equal bytes. Compressed files have equal bytes only
if the same version of the library wrote them.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final

import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.core.framing import FOOTER, HEADER
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.tfrecord import array_records
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec
from dataprep_converter.runtime.temporary import TemporaryFile

_COMPRESSIONS: Final = {"None": "uncompressed", "Zstd": "zstd", "Brotli": "brotli", "Snappy": "snappy"}


class ArrayRecordEncoder(SingleFile):
    """Encodes one file (see the module's docstring). The file is written in $TMPDIR, because the library can only write to paths."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        library = array_records.library()
        self._messages = TfrecordEncoder(output, features)
        self._file = TemporaryFile("the records of a shard")
        options = f"group_size:{output.array_record.group_size},{_COMPRESSIONS[output.array_record.compression]}"
        self._writer = library.ArrayRecordWriter(array_records.path_of(self._file), options)

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `array_record`, the extension that TFDS uses."""
        return "array_record"

    @staticmethod
    def numbers(output: Output) -> DtypeSupport:
        """Return the numeric types of tf.train.Example."""
        return TfrecordEncoder.numbers(output)

    @staticmethod
    def holds_null(output: Output, feature: FeatureSpec) -> bool:
        """Return whether tf.train.Example can hold a null for the feature."""
        return TfrecordEncoder.holds_null(output, feature)

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """Write the batch to the file and return no bytes yet: see `rest`."""
        framed = memoryview(self._messages.encode(batch))
        at = 0
        while at < len(framed):
            begin = at + HEADER
            end = begin + int.from_bytes(framed[at : at + 8], "little")
            self._writer.write(bytes(framed[begin:end]))
            at = end + FOOTER
        return b""

    def close(self) -> bytes:
        """Complete the file and return no bytes: see `rest`."""
        self._writer.close()
        return b""

    def rest(self) -> Iterator[bytes]:
        """Yield the bytes of the file. This method can be called only once."""
        with self._file:
            yield from self._file.pieces()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._writer.is_open():
            self._writer.close()
        self._file.close()
