"""Parses the framing of Hadoop's sequence files. The planner needs only the lengths to find the records; workers also read keys and values.

`formats/hadoop/sequence_file_encoder.py` shows the framing. Files from other programs can be read too, so a file can have any classes,
codecs and metadata, and sync markers at any distance.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dataprep_converter.core.errors import BadData
from dataprep_converter.formats.hadoop.sequence_file_decoder import MOST_RECORDS
from dataprep_converter.formats.hadoop.sequence_file_encoder import ESCAPE, LARGEST, MARKER, VERSION
from dataprep_converter.formats.hadoop.writables_decoder import LONGEST_VINT, vint, vints
from dataprep_converter.formats.tfrecord.frames import Places, Stretch
from dataprep_converter.readers.hadoop.hadoop_codecs import Unpack, unpacker
from dataprep_converter.runtime.ahead import end_if_not_needed
from dataprep_converter.stores import Input

_INT: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ii")
_SYNC: Final = len(ESCAPE) + MARKER
_HEADER_BYTES: Final = 64 << 10
"""The number of bytes that are read at first to parse a header. A header with a lot of metadata can be larger."""
_LONGEST_HEADER: Final = 16 << 20
_COLUMNS: Final = 4
"""The number of streams in a block: lengths of keys, keys, lengths of values, and values."""


@dataclass(frozen=True)
class Header:
    """The header of a sequence file."""

    key: str
    """The class of the keys."""
    value: str
    compression: str
    """The kind of compression: `None`, `Record` or `Block`."""
    codec: str
    sync: bytes
    size: int

    def to_json(self) -> list[str | int]:
        """The values of the fields, in order, as JSON values."""
        return [self.key, self.value, self.compression, self.codec, self.sync.hex(), self.size]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> "Header":
        """The header whose values `to_json` returned."""
        key, value, compression, codec, sync, size = values
        return cls(key, value, compression, codec, bytes.fromhex(sync), size)

    @classmethod
    def read(cls, file: Input, uri: str) -> "Header":
        """Reads the header of a file. Raises BadData if the header is invalid, and BadSpec for an unknown codec."""
        most = min(_HEADER_BYTES, file.size)
        while True:
            data = file.read_at(0, most) if most else b""
            try:
                header = cls._parse(data, uri)
            except ValueError as exc:
                if most == min(file.size, _LONGEST_HEADER):
                    raise BadData(f"{uri}: the header is broken: {exc}.", uri=uri) from exc
                most = min(file.size, _LONGEST_HEADER)
                continue
            if header.codec:
                unpacker(header.codec, uri)
            return header

    @classmethod
    def _parse(cls, data: bytes, uri: str) -> "Header":
        if data[:3] != VERSION[:3]:
            raise BadData(
                f"{uri} is not a sequence file: it begins with {data[:4].hex() or 'nothing'} instead of {VERSION.hex()}.", uri=uri
            )
        if data[: len(VERSION)] != VERSION:
            raise BadData(
                f"{uri} is a sequence file of version {int.from_bytes(data[3:4], 'big')}, but only version 6 can be read.", uri=uri
            )
        key, at = _text(data, len(VERSION))
        value, at = _text(data, at)
        flags, at = _take(data, at, 2)
        is_compressed, is_blocks = flags[0] != 0, flags[1] != 0
        codec = ""
        if is_compressed:
            codec, at = _text(data, at)
        pairs, at = _take(data, at, _INT.size)
        for _ in range(2 * _INT.unpack(pairs)[0]):
            _, at = _text(data, at)
        sync, at = _take(data, at, MARKER)
        return cls(key, value, "Block" if is_blocks else "Record" if is_compressed else "None", codec, sync, at)


@dataclass(frozen=True)
class Cells:
    """Serialised objects: the bytes, and the start and end of each object within them."""

    data: bytes
    starts: Places
    ends: Places

    def __getitem__(self, row: int) -> bytes:
        return self.data[int(self.starts[row]) : int(self.ends[row])]

    def rows(self) -> Iterator[bytes]:
        """Yields the bytes of each object."""
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield self.data[start:end]


def stretches(file: Input, header: Header, uri: str, *, window: int, most: int) -> Iterator[Stretch]:
    """Yields the records of a file in stretches, which are consecutive records of at most `most` bytes in total. A record or block of more
    than `most` bytes becomes a separate stretch.

    Reads `window` bytes at a time, and skips the contents of large records. For impossible lengths, and for a file that ends within a
    record, raises BadData, which names the file and the offset.
    """
    walk = _walk_blocks if header.compression == "Block" else _walk_records
    begin = first = count = end = 0
    for offset, behind, records in walk(_Window(file, window), header, uri):
        if count and behind - begin > most:
            yield Stretch(begin, end - begin, first, count)
            first, count = first + count, 0
        if not count:
            begin = offset
        count += records
        end = behind
    if count:
        yield Stretch(begin, end - begin, first, count)


def pairs(data: bytes, header: Header, uri: str, offset: int) -> tuple[Cells, Cells]:
    """The keys and values of a planned stretch. Raises BadData, which names the file and the offset, if the stretch is invalid."""
    return _of_blocks(data, header, uri, offset) if header.compression == "Block" else _of_records(data, header, uri, offset)


class _Window:
    """Reads a file at any offset, and keeps the most recently read window of the file in memory."""

    def __init__(self, file: Input, window: int) -> None:
        self._file = file
        self._window = window
        self._begin = 0
        self._data = b""
        self.size = file.size

    def take(self, offset: int, length: int) -> bytes:
        """The `length` bytes at this offset, or fewer at the end of the file."""
        length = min(length, self.size - offset)
        at = offset - self._begin
        if at < 0 or at + length > len(self._data):
            end_if_not_needed()
            self._data = b""  # release the old window before the next one is read
            self._data = self._file.read_at(offset, min(self._window, self.size - offset)) if length > 0 else b""
            self._begin, at = offset, 0
        return self._data[at : at + length]


def _walk_records(window: _Window, header: Header, uri: str) -> Iterator[tuple[int, int, int]]:
    """Yields a tuple for each record: the start offset, the end offset, and 1 as the number of records. A sync marker before a record is
    part of the record."""
    at = header.size
    while at < window.size:
        begin = at
        # Most records have no sync marker before them.
        head = window.take(at, _HEAD.size)
        while head.startswith(ESCAPE):
            _check_sync(window.take(at, _SYNC), header, uri, at)
            at += _SYNC
            head = window.take(at, _HEAD.size)
        if at == window.size:
            return
        at = _record_end(head, at, window.size, uri)
        yield begin, at, 1


def _walk_blocks(window: _Window, header: Header, uri: str) -> Iterator[tuple[int, int, int]]:
    """Yields the start offset, the end offset and the number of records of each block."""
    at = header.size
    while at < window.size:
        begin = at
        _check_sync(window.take(at, _SYNC), header, uri, at)
        count, at = _count(window.take(at + _SYNC, LONGEST_VINT), at + _SYNC, begin, uri)
        for _ in range(_COLUMNS):
            size, at = _vint(window.take(at, LONGEST_VINT), at, begin, uri)
            at += size
        if at > window.size:
            raise _bad_data("a truncated block", begin, uri)
        yield begin, at, count


def _of_records(data: bytes, header: Header, uri: str, offset: int) -> tuple[Cells, Cells]:
    begins: list[int] = []
    key_sizes: list[int] = []
    ends: list[int] = []
    at = 0
    while at < len(data):
        head = data[at : at + _HEAD.size]
        if head.startswith(ESCAPE):
            _check_sync(data[at : at + _SYNC], header, uri, offset + at)
            at += _SYNC
            continue
        end = _record_end(head, offset + at, offset + len(data), uri) - offset
        begins.append(at + _HEAD.size)
        key_sizes.append(_HEAD.unpack(head)[1])
        ends.append(end)
        at = end
    starts = np.array(begins, np.int64)
    middles = starts + np.array(key_sizes, np.int64)
    keys, values = Cells(data, starts, middles), Cells(data, middles, np.array(ends, np.int64))
    if header.compression == "None":
        return keys, values
    unpack = unpacker(header.codec, uri)
    return keys, _join_cells(
        [_unpack(unpack, row, LARGEST, offset + begin - _HEAD.size, uri) for begin, row in zip(begins, values.rows(), strict=True)]
    )


def _of_blocks(data: bytes, header: Header, uri: str, offset: int) -> tuple[Cells, Cells]:
    unpack = unpacker(header.codec, uri)
    contents: tuple[list[bytes], list[bytes]] = ([], [])
    sizes: tuple[list[Places], list[Places]] = ([], [])
    at = 0
    while at < len(data):
        place = offset + at
        _check_sync(data[at : at + _SYNC], header, uri, place)
        at += _SYNC
        count, at = _count(data[at : at + LONGEST_VINT], at, place, uri)
        for content, lengths in zip(contents, sizes, strict=True):
            size, at = _vint(data[at : at + LONGEST_VINT], at, place, uri)
            lengths.append(_lengths(_unpack(unpack, data[at : at + size], count * LONGEST_VINT, place, uri), count, place, uri))
            at += size
            total = int(lengths[-1].sum())
            size, at = _vint(data[at : at + LONGEST_VINT], at, place, uri)
            content.append(_unpack(unpack, data[at : at + size], total, place, uri))
            if len(content[-1]) != total:
                raise _bad_data(f"a block with {len(content[-1]):,} bytes of keys or values instead of {total:,}", place, uri)
            at += size
    keys, values = (_cells(b"".join(content), np.concatenate(lengths)) for content, lengths in zip(contents, sizes, strict=True))
    return keys, values


def _join_cells(rows: Sequence[bytes]) -> Cells:
    return _cells(b"".join(rows), np.array([len(row) for row in rows], np.int64))


def _cells(data: bytes, sizes: Places) -> Cells:
    ends = np.cumsum(sizes, dtype=np.int64)
    return Cells(data, ends - sizes, ends)


def _lengths(data: bytes, count: int, offset: int, uri: str) -> Places:
    """Parses `count` lengths, which are stored as vints."""
    sizes = np.frombuffer(data, np.int8)
    if len(sizes) == count and (sizes >= 0).all():
        return sizes.astype(np.int64)
    try:
        values, at = vints(data, count)
    except ValueError as exc:
        raise _bad_data(str(exc), offset, uri) from exc
    if at != len(data):
        raise _bad_data(f"a block with more lengths than its {count:,} records", offset, uri)
    return np.array(values, np.int64)


def _record_end(head: bytes, offset: int, most: int, uri: str) -> int:
    """The end offset of the record that begins with the bytes `head`."""
    if len(head) < _HEAD.size:
        raise _bad_data(f"truncated length ({len(head)} of {_HEAD.size} bytes)", offset, uri)
    size, key_size = _HEAD.unpack(head)
    if not 0 <= key_size <= size:
        raise _bad_data(f"the key's length is {key_size:,} bytes, but the whole record's is {size:,} bytes", offset, uri)
    end: int = offset + _HEAD.size + size
    if end > most:
        raise _bad_data(f"the file ends within the record of {size:,} bytes", offset, uri)
    return end


def _check_sync(marker: bytes, header: Header, uri: str, offset: int) -> None:
    if marker != ESCAPE + header.sync:
        raise _bad_data("a sync marker that differs from the file's", offset, uri)


def _count(head: bytes, at: int, offset: int, uri: str) -> tuple[int, int]:
    count, behind = _vint(head, at, offset, uri)
    if not 0 < count <= MOST_RECORDS:
        raise _bad_data(f"a block of {count:,} records", offset, uri)
    return count, behind


def _vint(head: bytes, at: int, offset: int, uri: str) -> tuple[int, int]:
    """The vint that `head` begins with, and the position at which the vint ends. `at` is the position of `head`."""
    try:
        value, size = vint(head, 0)
    except ValueError as exc:
        raise _bad_data(str(exc), offset, uri) from exc
    return value, at + size


def _unpack(unpack: Unpack, data: bytes, most: int, offset: int, uri: str) -> bytes:
    try:
        return unpack(data, most)
    except ValueError as exc:
        raise _bad_data(str(exc), offset, uri) from exc


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = vint(data, at)
    content, at = _take(data, at, size)
    return content.decode(), at


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if len(data) - at < size:
        raise ValueError("it is truncated")
    return data[at : at + size], at + size


def _bad_data(fault: str, offset: int, uri: str) -> BadData:
    return BadData(f"{uri}: {fault} at offset {offset}.", uri=uri)
