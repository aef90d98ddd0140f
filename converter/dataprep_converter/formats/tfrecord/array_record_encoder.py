"""ArrayRecord: tf.train.Example messages, those of the format `tfrecord`, in a file with access to any record, which Grain reads.

The file is a Riegeli file with chunks of `groupSize` records, a table of the chunks behind them, and where that table begins in the last 64 KiB.
The library that defines it writes it, on one thread: equal records, equal bytes (for one version of it when they are compressed).
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
    """See the module. The file grows in $TMPDIR, because the library writes to paths only."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        library = array_records.library()
        self._messages = TfrecordEncoder(output, features)
        self._file = TemporaryFile("the records of a shard")
        options = f"group_size:{output.array_record.group_size},{_COMPRESSIONS[output.array_record.compression]}"
        self._writer = library.ArrayRecordWriter(array_records.path_of(self._file), options)

    @staticmethod
    def extension(_output: Output) -> str:
        """`array_record`, as TFDS names them."""
        return "array_record"

    @staticmethod
    def numbers(output: Output) -> DtypeSupport:
        """Those of tf.train.Example."""
        return TfrecordEncoder.numbers(output)

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """Nothing yet: see `rest`."""
        framed = memoryview(self._messages.encode(batch))
        at = 0
        while at < len(framed):
            begin = at + HEADER
            end = begin + int.from_bytes(framed[at : at + 8], "little")
            self._writer.write(bytes(framed[begin:end]))
            at = end + FOOTER
        return b""

    def close(self) -> bytes:
        """Nothing: the file is whole, and follows."""
        self._writer.close()
        return b""

    def rest(self) -> Iterator[bytes]:
        """The file, once."""
        with self._file:
            yield from self._file.pieces()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._writer.is_open():
            self._writer.close()
        self._file.close()
