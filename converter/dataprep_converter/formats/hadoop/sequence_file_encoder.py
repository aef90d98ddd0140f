"""Encoder for Hadoop's SequenceFile, version 6. Keys and values are Writables (`writables_encoder.py`), and a batch is encoded in one call.

    # The header:  `SEQ` 06 | text key class | text value class | bool compressed | bool blocks | [text codec] | int32 0 | sync marker
    #              text: vint length | UTF-8          The int32 0 is the number of metadata pairs. The sync marker has 16 bytes.
    # A record:    int32 length of key and value together | int32 key length | key | value        (big-endian)
    # A sync:      int32 -1 | the sync marker
    # A block:     sync | vint records | 4 x (vint length | zlib):  key lengths, keys, value lengths, values          Lengths are vints.

With the compression `Record`, each value is a zlib stream. A block ends with the record that brings the block's keys and values to at least
1,000,000 bytes. A sync precedes each block. In a file without blocks, a sync precedes each record that begins at least 102,400 bytes after
the previous sync. For the first sync, this distance is measured from the beginning of the file.

Hadoop's sync marker is random. Our marker is derived from the job's seed, the split and the shard, so that equal records give equal bytes.
Given our marker, Hadoop's own writer produces the same bytes for uncompressed files. Source: hadoop-common, SequenceFile.java.
"""

import hashlib
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from dataprep_api.dataset.plan import Shard
from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadData
from dataprep_converter.core.native import Lengths
from dataprep_converter.core.tensors import binary, binary_data
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.hadoop.writables_encoder import data_of, holds_null, joined, pairs, vint
from dataprep_converter.formats.tfrecord.contents import Fixed, Part, Ragged, look_up
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec

VERSION: Final = b"SEQ\x06"
CODEC: Final = "org.apache.hadoop.io.compress.DefaultCodec"
ESCAPE: Final = b"\xff\xff\xff\xff"
MARKER: Final = 16
"""The size of the sync marker in bytes."""
SYNC_INTERVAL: Final = 102_400
BLOCK: Final = 1_000_000
LARGEST: Final = (1 << 31) - 1
"""The largest total size of a key and its value, in bytes, that a record's header can hold."""


def marker(shard: Shard | None, *, seed: int, file: str = "") -> bytes:
    """Return the sync marker of a shard's file. `file` distinguishes the files of a shard that consists of several files."""
    place = f"{shard.split}/{shard.index}" if shard else ""
    return hashlib.sha256(f"{seed}/{place}/{file}".encode()).digest()[:MARKER]


def header(key_class: str, value_class: str, compression: str, sync: bytes) -> bytes:
    """Return the header of a file. `compression` is None, Record or Block."""
    is_compressed = compression != "None"
    flags = bytes([is_compressed, compression == "Block"])
    return b"".join((VERSION, _text(key_class), _text(value_class), flags, _text(CODEC) if is_compressed else b"", bytes(4), sync))


class Frames(Protocol):
    """Frames keys and values as the body of a file."""

    def append(self, keys: Part, values: Part) -> tuple[bytes | memoryview, Lengths]:
        """Add records.

        Return the bytes that can now be written, and each record's position in the file. With block compression, a record has the
        position of its block.
        """
        ...

    def close(self) -> bytes:
        """Return the remaining bytes."""
        ...


def frames(compression: str, *, level: int, sync: bytes, begin: int) -> Frames:
    """Return the framing for `compression`. The file's header is `begin` bytes long."""
    if compression == "Block":
        return Blocks(level=level, sync=sync, begin=begin)
    return Records(level=level if compression == "Record" else None, sync=sync, begin=begin)


class Records:
    """Frames each record separately. If a compression level is given, each value is compressed."""

    def __init__(self, *, level: int | None, sync: bytes, begin: int) -> None:
        self._level = level
        self._sync = ESCAPE + sync
        self._position = begin
        self._last_sync = 0
        """The position after the last sync."""

    def append(self, keys: Part, values: Part) -> tuple[bytes | memoryview, Lengths]:
        """Return all framed records: none stay in memory."""
        key_sizes, value_sizes = _lengths(keys), _lengths(values)
        if self._level is not None:
            values = _compress_rows(values, self._level)
            value_sizes = values.lengths
        largest = int((key_sizes + value_sizes).max())
        if largest > LARGEST:
            raise BadData(f"A record has {largest:,} bytes, and a SequenceFile can hold at most {LARGEST:,}.")
        heads = np.stack((key_sizes + value_sizes, key_sizes), axis=1)
        data, offsets = data_of(joined([Fixed(heads, np.dtype(">i4")), keys, values], len(heads)))
        starts = offsets[:-1] - offsets[0]
        size = int(offsets[-1] - offsets[0])
        view = memoryview(data[offsets[0] : offsets[-1]].data).toreadonly()
        cuts = self._cuts(starts)
        sync_sizes = np.zeros(len(starts) + 1, np.int64)
        sync_sizes[np.array(cuts, np.int64) + 1] = len(self._sync)
        positions = self._position + starts + np.cumsum(sync_sizes)[:-1]
        self._position += size + len(self._sync) * len(cuts)
        if not cuts:
            return view, positions
        bounds = [0, *(int(starts[cut]) for cut in cuts), size]
        pieces: list[bytes | memoryview] = [view[: bounds[1]]]
        for begin, end in pairwise(bounds[1:]):
            pieces += [self._sync, view[begin:end]]
        return b"".join(pieces), positions

    def close(self) -> bytes:
        """Return no bytes: a SequenceFile has no footer."""
        return b""

    def _cuts(self, starts: Lengths) -> list[int]:
        """Return the numbers of the records that need a sync before them.

        `starts` contains each record's distance from the first record, not counting syncs.
        """
        cuts: list[int] = []
        first = self._position
        while True:
            record = int(np.searchsorted(starts, self._last_sync + SYNC_INTERVAL - first))
            if record >= len(starts):
                return cuts
            cuts.append(record)
            first += len(self._sync)
            self._last_sync = first + int(starts[record])


class Blocks:
    """Frames records in compressed blocks."""

    def __init__(self, *, level: int, sync: bytes, begin: int) -> None:
        self._level = level
        self._sync = ESCAPE + sync
        self._position = begin
        self._records = 0
        self._streams = [bytearray() for _ in range(4)]
        self._size = 0
        """The size of the open block's keys and values in bytes."""

    def append(self, keys: Part, values: Part) -> tuple[bytes | memoryview, Lengths]:
        """Return the blocks that are now full. The records of the last block, which is incomplete, stay in memory."""
        columns = [column for part in (keys, values) for column in (_vints(_lengths(part)), data_of(part))]
        sizes = np.cumsum(_lengths(keys) + _lengths(values))
        rows = len(sizes)
        positions = np.empty(rows, np.int64)
        out: list[bytes] = []
        start = 0
        while start < rows:
            before = int(sizes[start - 1]) if start else 0
            last = int(np.searchsorted(sizes, before + BLOCK - self._size))
            end = min(last + 1, rows)
            positions[start:end] = self._position
            for stream, (data, offsets) in zip(self._streams, columns, strict=True):
                stream += data[offsets[start] : offsets[end]].data
            self._records += end - start
            self._size += int(sizes[end - 1]) - before
            if last < rows:
                out.append(self._block())
            start = end
        return b"".join(out), positions

    def close(self) -> bytes:
        """Return the last block."""
        return self._block() if self._records else b""

    def _block(self) -> bytes:
        pieces = [self._sync, vint(self._records)]
        for stream in self._streams:
            compressed = zlib.compress(stream, self._level)
            pieces += [vint(len(compressed)), compressed]
            stream.clear()
        block = b"".join(pieces)
        self._records = self._size = 0
        self._position += len(block)
        return block


class SequenceFileEncoder(SingleFile):
    """Encodes one SequenceFile."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._options = output.sequence_file
        self._pairs = pairs(self._options, features, format_name="sequenceFile")
        self._shard: Shard | None = None
        self._seed = 0
        self._number = 0
        """The number of the next record."""
        self._frames: Frames | None = None

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `seq`. The default file names are Hadoop's own and have no extension."""
        return "seq"

    @staticmethod
    def numbers(output: Output) -> DtypeSupport:
        """Numbers keep their types, except in a tf.train.Example."""
        return TfrecordEncoder.numbers(output) if output.sequence_file.value == "Example" else DtypeSupport()

    @staticmethod
    def holds_null(output: Output, feature: FeatureSpec) -> bool:
        """Return whether the value can hold a null for the feature. The key can't hold nulls."""
        return holds_null(output.sequence_file, feature)

    def begin(self, shard: Shard, *, seed: int) -> None:
        """Store the shard and the seed, on which the sync marker and the record numbers depend."""
        self._shard, self._seed = shard, seed
        self._number = shard.first

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """Return the bytes of the file that can now be written.

        Raises BadData for nulls, and for a record that is too large for the format.
        """
        head, framed = self._start_file()
        if batch.num_rows == 0:
            return head
        data, _ = framed.append(self._keys(batch), self._pairs.value.part(batch))
        return b"".join((head, data)) if head else data

    def close(self) -> bytes:
        """Return the last block. A file without records consists of only the header."""
        head, framed = self._start_file()
        return head + framed.close()

    def _start_file(self) -> tuple[bytes, Frames]:
        """Return the file's header, which is empty if it has already been written. Also return the object that frames the records."""
        if self._frames is not None:
            return b"", self._frames
        sync = marker(self._shard, seed=self._seed)
        head = header(self._pairs.key_class, self._pairs.value.java, self._options.compression, sync)
        self._frames = frames(self._options.compression, level=self._options.compression_level, sync=sync, begin=len(head))
        return head, self._frames

    def _keys(self, batch: pa.RecordBatch) -> Part:
        if self._pairs.key is not None:
            return self._pairs.key.part(batch)
        first = self._number
        self._number += batch.num_rows
        return Fixed(np.arange(first, self._number), np.dtype(">i8"))


def _text(value: str) -> bytes:
    return vint(len(value.encode())) + value.encode()


def _lengths(part: Part) -> Lengths:
    return part.lengths if isinstance(part, Ragged) else np.full(len(part.values), part.width, np.int64)


def _vints(lengths: Lengths) -> Any:
    vints, _ = look_up(lengths, vint)
    return binary_data(vints.column())


def _compress_rows(part: Part, level: int) -> Ragged:
    """Compress each row to a separate zlib stream. Separate streams need one call to zlib per row."""
    data, offsets = data_of(part)
    view, ends = memoryview(data.data), offsets.tolist()
    streams = [zlib.compress(view[begin:end], level) for begin, end in pairwise(ends)]
    lengths = np.fromiter(map(len, streams), np.int64, len(streams))
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return Ragged(content=binary(np.frombuffer(b"".join(streams), np.uint8), bounds), lengths=lengths)
