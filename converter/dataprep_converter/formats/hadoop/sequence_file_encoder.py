"""Hadoop's SequenceFile, version 6: keys and values as Writables (`writables.py`), a whole batch at once.

    # `SEQ` 06 | text class of keys | text class of values | bool compressed | bool blocks | [text codec] | int32 0 | 16 bytes sync marker
    # text: vint length | UTF-8;    metadata: a count of pairs, of which there are none
    # A record:  int32 length of key and value | int32 length of key | key | value        (big-endian)
    # A sync:    int32 -1 | the marker;  before a record as soon as 102,400 bytes have come since the last one, and before each block
    # A block:   sync | vint records | 4 x (vint length | zlib):  lengths of keys, keys, lengths of values, values;  the lengths as vints

With `Record` each value is a zlib stream. A block ends behind the record with which its keys and values reach 1,000,000 bytes.

Hadoop's marker is random. Ours is made of the job's seed, the split and the shard, so that the same records give the same bytes. Given our
marker, Hadoop's own writer makes the same uncompressed files. Source: hadoop-common, SequenceFile.java.
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
from dataprep_converter.formats.hadoop.writables_encoder import data_of, joined, pairs, vint
from dataprep_converter.formats.tfrecord.contents import Fixed, Part, Ragged, look_up
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec

VERSION: Final = b"SEQ\x06"
CODEC: Final = "org.apache.hadoop.io.compress.DefaultCodec"
ESCAPE: Final = b"\xff\xff\xff\xff"
MARKER: Final = 16
"""Bytes of the sync marker."""
SYNC_INTERVAL: Final = 102_400
BLOCK: Final = 1_000_000
LARGEST: Final = (1 << 31) - 1
"""Bytes of a record's key and value, the most that its header can say."""


def marker(shard: Shard | None, *, seed: int, of: str = "") -> bytes:
    """The sync marker of a shard, or of the file beside it that `of` names."""
    place = f"{shard.split}/{shard.index}" if shard else ""
    return hashlib.sha256(f"{seed}/{place}/{of}".encode()).digest()[:MARKER]


def header(key_class: str, value_class: str, compression: str, sync: bytes) -> bytes:
    """What a file begins with; `compression` is None, Record or Block."""
    is_compressed = compression != "None"
    flags = bytes([is_compressed, compression == "Block"])
    return b"".join((VERSION, _text(key_class), _text(value_class), flags, _text(CODEC) if is_compressed else b"", bytes(4), sync))


class Frames(Protocol):
    """Puts keys and values into a file that begins with this many bytes."""

    def append(self, keys: Part, values: Part) -> tuple[bytes | memoryview, Lengths]:
        """(what is to be written now, where each record, or the block that it will be in, begins in the file)."""
        ...

    def close(self) -> bytes:
        """The rest."""
        ...


def frames(compression: str, *, level: int, sync: bytes, begin: int) -> Frames:
    """The way of `compression`, behind a header of `begin` bytes."""
    if compression == "Block":
        return Blocks(level=level, sync=sync, begin=begin)
    return Records(level=level if compression == "Record" else None, sync=sync, begin=begin)


class Records:
    """Records one by one; with a level their values are compressed."""

    def __init__(self, *, level: int | None, sync: bytes, begin: int) -> None:
        self._level = level
        self._sync = ESCAPE + sync
        self._position = begin
        self._synced = 0
        """Position behind the last sync."""

    def append(self, keys: Part, values: Part) -> tuple[bytes | memoryview, Lengths]:
        """Nothing is held back."""
        key_sizes, value_sizes = _lengths(keys), _lengths(values)
        if self._level is not None:
            values = _compressed(values, self._level)
            value_sizes = values.lengths
        largest = int((key_sizes + value_sizes).max())
        if largest > LARGEST:
            raise BadData(f"A record has {largest:,} bytes, and a SequenceFile can hold {LARGEST:,}.")
        heads = np.stack((key_sizes + value_sizes, key_sizes), axis=1)
        data, offsets = data_of(joined([Fixed(heads, np.dtype(">i4")), keys, values], len(heads)))
        starts = offsets[:-1] - offsets[0]
        size = int(offsets[-1] - offsets[0])
        view = memoryview(data[offsets[0] : offsets[-1]].data).toreadonly()
        cuts = self._cuts(starts)
        added = np.zeros(len(starts) + 1, np.int64)
        added[np.array(cuts, np.int64) + 1] = len(self._sync)
        positions = self._position + starts + np.cumsum(added)[:-1]
        self._position += size + len(self._sync) * len(cuts)
        if not cuts:
            return view, positions
        bounds = [0, *(int(starts[cut]) for cut in cuts), size]
        pieces: list[bytes | memoryview] = [view[: bounds[1]]]
        for begin, end in pairwise(bounds[1:]):
            pieces += [self._sync, view[begin:end]]
        return b"".join(pieces), positions

    def close(self) -> bytes:
        """Nothing: such a file has no end."""
        return b""

    def _cuts(self, starts: Lengths) -> list[int]:
        """The records that have a sync before them, given where each begins behind the first when there is none."""
        cuts: list[int] = []
        first = self._position
        while True:
            record = int(np.searchsorted(starts, self._synced + SYNC_INTERVAL - first))
            if record >= len(starts):
                return cuts
            cuts.append(record)
            first += len(self._sync)
            self._synced = first + int(starts[record])


class Blocks:
    """Records in compressed blocks."""

    def __init__(self, *, level: int, sync: bytes, begin: int) -> None:
        self._level = level
        self._sync = ESCAPE + sync
        self._position = begin
        self._records = 0
        self._streams = [bytearray() for _ in range(4)]
        self._size = 0
        """Of keys and values."""

    def append(self, keys: Part, values: Part) -> tuple[bytes | memoryview, Lengths]:
        """Holds back the records of the block that is not full."""
        columns = [each for part in (keys, values) for each in (_vints(_lengths(part)), data_of(part))]
        sizes = np.cumsum(_lengths(keys) + _lengths(values))
        rows = len(sizes)
        positions = np.empty(rows, np.int64)
        out: list[bytes] = []
        done = 0
        while done < rows:
            before = int(sizes[done - 1]) if done else 0
            last = int(np.searchsorted(sizes, before + BLOCK - self._size))
            end = min(last + 1, rows)
            positions[done:end] = self._position
            for stream, (data, offsets) in zip(self._streams, columns, strict=True):
                stream += data[offsets[done] : offsets[end]].data
            self._records += end - done
            self._size += int(sizes[end - 1]) - before
            if last < rows:
                out.append(self._block())
            done = end
        return b"".join(out), positions

    def close(self) -> bytes:
        """The last block."""
        return self._block() if self._records else b""

    def _block(self) -> bytes:
        pieces = [self._sync, vint(self._records)]
        for stream in self._streams:
            packed = zlib.compress(stream, self._level)
            pieces += [vint(len(packed)), packed]
            stream.clear()
        block = b"".join(pieces)
        self._records = self._size = 0
        self._position += len(block)
        return block


class SequenceFileEncoder(SingleFile):
    """See the module."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._options = output.sequence_file
        self._pairs = pairs(self._options, features, of="sequenceFile")
        self._shard: Shard | None = None
        self._seed = 0
        self._number = 0
        """Of the next record."""
        self._frames: Frames | None = None

    @staticmethod
    def extension(_output: Output) -> str:
        """`seq`; the default file names are Hadoop's own and have none."""
        return "seq"

    @staticmethod
    def numbers(output: Output) -> DtypeSupport:
        """In their own types, but for those of a tf.train.Example."""
        return TfrecordEncoder.numbers(output) if output.sequence_file.value == "Example" else DtypeSupport()

    def begin(self, shard: Shard, *, seed: int) -> None:
        """The sync marker and the numbers of the records depend on the shard."""
        self._shard, self._seed = shard, seed
        self._number = shard.first

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """The file's bytes as far as they are known. Raises BadData for nulls, and for a record beyond what the frame can hold."""
        head, framed = self._begun()
        if batch.num_rows == 0:
            return head
        data, _ = framed.append(self._keys(batch), self._pairs.value.part(batch))
        return b"".join((head, data)) if head else data

    def close(self) -> bytes:
        """The last block; a file without records is a header."""
        head, framed = self._begun()
        return head + framed.close()

    def _begun(self) -> tuple[bytes, Frames]:
        """The header, when it is not written yet."""
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
    chosen, _ = look_up(lengths, vint)
    return binary_data(chosen.column())


def _compressed(part: Part, level: int) -> Ragged:
    """Each row as a zlib stream: as many calls of zlib as there are records is what this compression asks for."""
    data, offsets = data_of(part)
    view, ends = memoryview(data.data), offsets.tolist()
    packed = [zlib.compress(view[begin:end], level) for begin, end in pairwise(ends)]
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return Ragged(content=binary(np.frombuffer(b"".join(packed), np.uint8), bounds), lengths=lengths)
