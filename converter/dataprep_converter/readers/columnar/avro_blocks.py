"""Finds and decompresses the blocks of Avro container files. The records in the blocks are decoded elsewhere (`avro_records.py`).

# A file:   "Obj" 01 | metadata, a map of bytes: avro.schema, avro.codec | 16 bytes sync | blocks
# A block:  long records | long size | the compressed records | 16 bytes sync
# A long: a zigzag varint of at most ten bytes. A map consists of blocks (number of pairs, then the pairs) and ends with 0.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.errors import BadData
from dataprep_converter.stores import Input

LARGEST_BLOCK: Final = 1 << 30
"""The maximum size of a block in bytes, before and after decompression. A damaged size never causes a larger allocation."""

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_AT_ONCE: Final = 4 << 20
_LARGEST_HEADER: Final = 64 << 20
_LONGEST_COUNTS: Final = 20
_MOST_PER_BYTE: Final = 1 << 16
"""The maximum number of records for each byte of a compressed block."""

_arrow: Any = pa  # the type stubs lack a codec's arguments


@dataclass(frozen=True)
class Header:
    """The header of a file."""

    schema: bytes
    """The schema, in JSON."""
    codec: str
    sync: bytes
    size: int
    """The size of the header in bytes."""


@dataclass(frozen=True)
class AvroBlock:
    """The position of a block in its file."""

    offset: int
    size: int
    """The size in bytes, including the block's counts and its sync marker."""
    records: int


def header_of(source: Input, uri: str, *, length: int) -> Header:
    """Reads the header of a file. `length` is the number of bytes that are read first. Raises BadData if the file isn't an Avro container,
    or has an unknown codec."""
    while True:
        data = source.read_at(0, length)
        if not data.startswith(_MAGIC):
            raise BadData(f"{uri} is not an Avro file: an Avro file begins with the letters Obj and a byte 01.", uri=uri)
        try:
            header = _parsed_header(data)
        except IndexError as exc:
            if len(data) < length or length >= _LARGEST_HEADER:
                raise BadData(f"{uri} is not a complete Avro file: its header is truncated or broken.", uri=uri) from exc
            length *= 8
            continue
        if header.codec not in _CODECS:
            raise BadData(f"{uri}: its blocks are compressed with {header.codec!r}; known: {', '.join(_CODECS)}.", uri=uri)
        return header


def blocks_of(source: Input, header: Header, uri: str) -> Iterator[AvroBlock]:
    """Yields the blocks of a file, in order. If the blocks are large, reads only their counts and sync markers. Raises BadData for a file
    that is truncated, or whose blocks don't end with the sync marker."""
    offset = header.size
    start, window = 0, b""

    def at(place: int, length: int) -> bytes:
        nonlocal start, window
        if not (start <= place and place + length <= start + len(window)):
            start, window = place, source.read_at(place, _AT_ONCE)
        return window[place - start : place - start + length]

    while offset < source.size:
        counts = at(offset, _LONGEST_COUNTS)
        try:
            records, place = _long(counts, 0)
            size, place = _long(counts, place)
        except IndexError as exc:
            raise BadData(f"{uri} is truncated: it ends within the block at byte {offset:,}.", uri=uri) from exc
        end = offset + place + size
        if size < 0 or records < 0 or size > LARGEST_BLOCK or records > max(1, size) * (1 if header.codec == "null" else _MOST_PER_BYTE):
            raise BadData(f"{uri}: the block at byte {offset:,} is damaged: {records:,} records in {size:,} bytes.", uri=uri)
        if end + _SYNC > source.size:
            raise BadData(f"{uri} is truncated: the block at byte {offset:,} has {size:,} bytes, but the file ends before that.", uri=uri)
        if at(end, _SYNC) != header.sync:
            raise BadData(f"{uri}: the block at byte {offset:,} is damaged: it doesn't end with the sync marker.", uri=uri)
        yield AvroBlock(offset, end + _SYNC - offset, records)
        offset = end + _SYNC


def contents_of(data: bytes, header: Header) -> Iterator[tuple[int, bytes]]:
    """Yields the number of records and the decompressed records of each block in `data`, which begins and ends with complete blocks.

    Raises ValueError for a damaged block.
    """
    place = 0
    while place < len(data):
        try:
            records, place = _long(data, place)
            size, place = _long(data, place)
        except IndexError as exc:
            raise ValueError("a truncated block") from exc
        end = place + size
        if size < 0 or data[end : end + _SYNC] != header.sync:
            raise ValueError("a block that doesn't end with the sync marker")
        yield records, _CODECS[header.codec](data[place:end])
        place = end + _SYNC


def _parsed_header(data: bytes) -> Header:
    """Parses a header. Raises IndexError if the data ends within the header."""
    entries: dict[bytes, bytes] = {}
    place = len(_MAGIC)
    while True:
        pairs, place = _long(data, place)
        if not pairs:
            break
        if pairs < 0:
            _, place = _long(data, place)
        for _ in range(abs(pairs)):
            key, place = _bytes(data, place)
            entries[key], place = _bytes(data, place)
    sync = data[place : place + _SYNC]
    if len(sync) < _SYNC:
        raise IndexError
    codec = entries.get(b"avro.codec", b"null").decode(errors="replace")
    return Header(entries.get(b"avro.schema", b""), codec, sync, place + _SYNC)


def _long(data: bytes, place: int) -> tuple[int, int]:
    """Decodes the number at the position `place`. Returns the number and the position after it."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place
        shift += 7
        if shift > 63:
            raise IndexError


def _bytes(data: bytes, place: int) -> tuple[bytes, int]:
    size, place = _long(data, place)
    if size < 0 or place + size > len(data):
        raise IndexError
    return data[place : place + size], place + size


# --- codecs -------------------------------------------------------------------------------------------------------


def _of_stream(make: Callable[[], Any], errors: tuple[type[Exception], ...]) -> Callable[[bytes], bytes]:
    def decompress(data: bytes) -> bytes:
        stream = make()
        try:
            content: bytes = stream.decompress(data, LARGEST_BLOCK)
        except errors as exc:
            raise ValueError(f"a broken compressed block ({exc})") from exc
        if not stream.eof:
            raise ValueError(f"a compressed block that is truncated, or larger than {LARGEST_BLOCK >> 20} MiB")
        return content

    return decompress


def _snappy(data: bytes) -> bytes:
    """Decompresses raw Snappy data, which begins with the size of the contents.

    The four bytes after the data are the CRC-32 of the contents.
    """
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > LARGEST_BLOCK:
        raise ValueError(f"a compressed block larger than {LARGEST_BLOCK >> 20} MiB")
    try:
        content: bytes = _arrow.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    except (pa.ArrowException, OSError) as exc:
        raise ValueError("a broken compressed block") from exc
    if zlib.crc32(content) != int.from_bytes(data[-4:], "big"):
        raise ValueError("a block with a wrong checksum")
    return content


def _zstandard(data: bytes) -> bytes:
    try:
        with _arrow.CompressedInputStream(_arrow.BufferReader(data), "zstd") as stream:
            content: bytes = stream.read(LARGEST_BLOCK)
            if stream.read(1):
                raise ValueError(f"a compressed block larger than {LARGEST_BLOCK >> 20} MiB")
            return content
    except (pa.ArrowException, OSError) as exc:
        raise ValueError(f"a broken compressed block ({exc})") from exc


_CODECS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _of_stream(lambda: zlib.decompressobj(-zlib.MAX_WBITS), (zlib.error,)),
    "snappy": _snappy,
    "bzip2": _of_stream(bz2.BZ2Decompressor, (OSError, EOFError)),
    "xz": _of_stream(lambda: lzma.LZMADecompressor(memlimit=LARGEST_BLOCK), (lzma.LZMAError, EOFError)),
    "zstandard": _zstandard,
}
