"""Decoder for `sequenceFile` and `mapFile`: reads (key, value) pairs. See `formats/hadoop/sequence_file_encoder.py` for the framing.

The format has no CRC, so only the file's digest reveals a flipped bit in a value.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec import Output
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.hadoop.sequence_file_encoder import ESCAPE, LARGEST, MARKER, header
from dataprep_converter.formats.hadoop.writables_decoder import HEAD, LONGEST_VINT, Long, WritableLayout, form_of, parse, vint, vints
from dataprep_converter.formats.hadoop.writables_encoder import Pairs, pairs
from dataprep_converter.records.feature import FeatureSpec

Pair = tuple[bytes, bytes]
"""A record's serialised key and value."""

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
MOST_RECORDS: Final = 1 << 24
"""The largest accepted number of records in a block.

Our blocks have at most a million records, because they end at 1,000,000 bytes and each record has at least one byte.
"""


class SequenceFileDecoder:
    """Decodes each record to its serialised key and value."""

    def __init__(self, manifest: Manifest) -> None:
        output = Output.model_validate({"uri": "out"} | manifest.content["output"])
        features = [FeatureSpec(**(description | {"shape": tuple(description["shape"])})) for description in manifest.features]
        self.options = output.map_file if manifest.format == "mapFile" else output.sequence_file
        self._record = next((feature.name for feature in features if feature.record), None)
        self.pairs = pairs(self.options, features, format_name=manifest.format)
        self.key: WritableLayout = form_of(self.pairs.key) if self.pairs.key else Long()
        self._value = form_of(self.pairs.value)

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, Pair]]:
        """Yield the records.

        Keys that are record numbers must be consecutive. With block compression, a record's offset is its block's offset.
        """
        expected: int | None = None
        for offset, key, value in read(pieces, pairs=self.pairs, key=self.key, value=self._value, compression=self.options.compression):
            if self.pairs.key is None:
                number: int = _LONG.unpack(key)[0]
                if expected not in (None, number):
                    raise BrokenRecord(f"record number {number} instead of {expected}", offset=offset)
                expected = number + 1
            yield offset, (key, value)

    def parse(self, record: Pair) -> dict[str, Any]:
        """Return the values that are stored in a record's key and value, keyed by feature."""
        key, value = record
        return dict(sorted((parse(self.key, key) | parse(self._value, value)).items()))

    def by_feature(self, record: Pair) -> dict[str, Any]:
        """Return the complete record if it is the job's only feature; otherwise return the same values as `parse`."""
        if self._record is None:
            return self.parse(record)
        return {self._record: [record[1][_INT.size :]]}


class MapFileDecoder(SequenceFileDecoder):
    """Decodes the file `data` of a MapFile, and checks that keys don't decrease.

    The index isn't decoded, because checking its digest is enough.
    """

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, Pair]]:
        """Yield all records in order."""
        last: Any = None
        for offset, (key, value) in super().read(pieces):
            if self.pairs.key is not None:
                ((current,),) = parse(self.key, key).values()
                if last is not None and current < last:
                    raise BrokenRecord(f"the key {current!r} follows the larger key {last!r}", offset=offset)
                last = current
            yield offset, (key, value)


def read(
    pieces: Iterable[bytes], *, pairs: Pairs, key: WritableLayout, value: WritableLayout, compression: str
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (offset, key, value) for every record. Raises BrokenRecord at the first fault, after yielding all good records before it."""
    source = _Source(pieces)
    begin = header(pairs.key_class, pairs.value.java, compression, b"")
    head = source.take(len(begin), "header", at=0)
    if head != begin:
        raise BrokenRecord(f"not the header of a SequenceFile of {pairs.key_class} and {pairs.value.java}", offset=0)
    sync = ESCAPE + source.take(MARKER, "header", at=0)
    if compression == "Block":
        yield from _blocks(source, sync, key, value)
        return
    while source.more():
        offset = source.offset
        word = source.take(4, "length", at=offset)
        if word == ESCAPE:
            if word + source.take(MARKER, "sync marker", at=offset) != sync:
                raise BrokenRecord("a sync marker that is not the file's", offset=offset)
            word = source.take(4, "length", at=offset)
        size, key_size = _INT.unpack(word)[0], _INT.unpack(source.take(4, "length", at=offset))[0]
        if not 0 <= key_size <= size:
            raise BrokenRecord(f"the key's length is {key_size:,} bytes, but the whole record's is {size:,} bytes", offset=offset)
        # Use a length only if the object's own header states the same length. A damaged length then can't cause a large allocation.
        _check(key, source.peek(min(HEAD, key_size)), key_size, offset)
        data = source.take(key_size, "key", at=offset)
        if compression == "None":
            _check(value, source.peek(min(HEAD, size - key_size)), size - key_size, offset)
            yield offset, data, source.take(size - key_size, "value", at=offset)
            continue
        unpacked = _inflate(source.take(size - key_size, "value", at=offset), LARGEST, offset)
        _check(value, unpacked[:HEAD], len(unpacked), offset)
        yield offset, data, unpacked


def _blocks(source: "_Source", sync: bytes, key: WritableLayout, value: WritableLayout) -> Iterator[tuple[int, bytes, bytes]]:
    while source.more():
        offset = source.offset
        if source.take(len(sync), "sync marker", at=offset) != sync:
            raise BrokenRecord("no sync marker before a block", offset=offset)
        count = source.vint(offset)
        if not 0 < count <= MOST_RECORDS:
            raise BrokenRecord(f"a block of {count:,} records", offset=offset)
        columns: list[list[bytes]] = []
        for layout in (key, value):
            sizes = _sizes(_inflate(source.take(source.vint(offset), "lengths", at=offset), count * LONGEST_VINT, offset), count, offset)
            block_size = sum(sizes)
            data = _inflate(source.take(source.vint(offset), "block", at=offset), block_size, offset)
            if len(data) != block_size:
                raise BrokenRecord(f"a block has {len(data):,} bytes instead of {block_size:,}", offset=offset)
            at = 0
            column: list[bytes] = []
            for size in sizes:
                column.append(data[at : at + size])
                _check(layout, column[-1][:HEAD], size, offset)
                at += size
            columns.append(column)
        for each_key, each_value in zip(*columns, strict=True):
            yield offset, each_key, each_value


def _sizes(data: bytes, count: int, offset: int) -> list[int]:
    try:
        sizes, at = vints(data, count)
    except ValueError as exc:
        raise BrokenRecord(str(exc), offset=offset) from exc
    if at != len(data):
        raise BrokenRecord(f"a block with more lengths than its {count:,} records", offset=offset)
    return sizes


def _check(layout: WritableLayout, begin: bytes, size: int, offset: int) -> None:
    try:
        declared_size = layout.size(begin)
    except ValueError as exc:
        raise BrokenRecord(f"not a valid record: {exc}", offset=offset) from exc
    if declared_size is not None and declared_size != size:
        raise BrokenRecord(
            f"not a valid record: an object's header declares {declared_size:,} bytes, but the record has {size:,} bytes for it",
            offset=offset,
        )


def _inflate(data: bytes, most: int, offset: int) -> bytes:
    """Return the content of a zlib stream. Raises BrokenRecord if the stream is damaged or has more than `most` bytes."""
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, most + 1)
        if len(content) <= most and not stream.eof:
            content += stream.decompress(stream.unconsumed_tail, 1)
    except zlib.error as exc:
        raise BrokenRecord(f"broken zlib stream ({exc})", offset=offset) from exc
    if len(content) > most or not stream.eof or stream.unused_data:
        raise BrokenRecord("a zlib stream that doesn't end where it should", offset=offset)
    return content


class _Source:
    """The bytes of a file, which are consumed from the beginning."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._data = b""
        self._at = 0
        self._data_offset = 0

    @property
    def offset(self) -> int:
        """The offset of the next byte."""
        return self._data_offset + self._at

    def more(self) -> bool:
        """Return whether any bytes are left."""
        return self._fill_buffer(1) > 0

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes (fewer at the end of the file), but don't consume them."""
        self._fill_buffer(size)
        return self._data[self._at : self._at + size]

    def take(self, size: int, part: str, *, at: int) -> bytes:
        """Consume and return the next `size` bytes. Raises BrokenRecord with the offset `at` if fewer than `size` bytes are left."""
        available = self._fill_buffer(size)
        if available < size:
            raise BrokenRecord(f"truncated {part} ({available:,} of {size:,} bytes)", offset=at)
        data = self._data[self._at : self._at + size]
        self._at += size
        return data

    def vint(self, at: int) -> int:
        """Consume and return the next vint."""
        try:
            value, size = vint(self.peek(LONGEST_VINT), 0)
        except ValueError as exc:
            raise BrokenRecord(str(exc), offset=at) from exc
        self._at += size
        return value

    def _fill_buffer(self, size: int) -> int:
        """Buffer at least `size` bytes, or all that are left. Return the number of buffered bytes."""
        available = len(self._data) - self._at
        if available >= size:
            return available
        pieces = [self._data[self._at :]]
        self._data_offset += self._at
        self._at = 0
        for piece in self._pieces:
            pieces.append(piece)
            available += len(piece)
            if available >= size:
                break
        self._data = b"".join(pieces)
        return available
