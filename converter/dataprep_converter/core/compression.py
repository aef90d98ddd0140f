"""Compression of a shard: gzip as independent members, cut at fixed places of the raw stream.

The cuts depend on nothing but the bytes, so the same records give the same file however they arrive. Readers take
concatenated members as one stream (RFC 1952, section 2.2).

    A member: 1f 8b | 08 deflate | 00 flags | 00000000 no time | 00 | 03 Unix | deflate data | uint32 crc32 | uint32 size   (little-endian)
"""

import struct
import zlib
from typing import Any, ClassVar, Final, Protocol

import pyarrow as pa

from dataprep_converter.core.crc32 import crc32

MEMBER_BYTES: Final = 4 * 2**20
_arrow: Any = pa  # the stubs don't know a codec's levels
_HEADER: Final = bytes.fromhex("1f8b08000000000000 03")


class Compressor(Protocol):
    """Raw bytes in, file bytes out."""

    name: ClassVar[str]
    """`none`, `gzip` or `zstd`, for the manifest."""

    def compress(self, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """What can be written now; may be empty, may be `data` itself."""
        ...

    def finish(self) -> bytes:
        """The rest."""
        ...


class Plain:
    """No compression."""

    name: ClassVar[str] = "none"

    def compress(self, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """`data` itself."""
        return data

    def finish(self) -> bytes:
        """Nothing."""
        return b""


class GzipMembers:
    """Independent gzip members of MEMBER_BYTES raw bytes each."""

    name: ClassVar[str] = "gzip"

    def __init__(self, level: int) -> None:
        self._level = level
        self._waiting = bytearray()
        self._written = False

    def compress(self, data: bytes | bytearray | memoryview) -> bytes:
        """Every member that became full."""
        self._waiting += data
        done = bytearray()
        while len(self._waiting) >= MEMBER_BYTES:
            done += self._member(bytes(self._waiting[:MEMBER_BYTES]))
            del self._waiting[:MEMBER_BYTES]
        return bytes(done)

    def finish(self) -> bytes:
        """The last member; an empty file is one empty member, because zero bytes are no gzip file."""
        return self._member(bytes(self._waiting)) if self._waiting or not self._written else b""

    def _member(self, raw: bytes) -> bytes:
        self._written = True
        deflate = zlib.compressobj(self._level, zlib.DEFLATED, -15)
        body = deflate.compress(raw) + deflate.flush()
        return b"".join((_HEADER, body, struct.pack("<II", crc32(raw), len(raw))))


class ZstdFrame:
    """One Zstandard frame of all bytes, which says their number: readers that decompress a file at once want that. Holds them until the end."""

    name: ClassVar[str] = "zstd"

    def __init__(self, level: int) -> None:
        self._codec = _arrow.Codec("zstd", compression_level=level)
        self._waiting = bytearray()

    def compress(self, data: bytes | bytearray | memoryview) -> bytes:
        """Nothing yet."""
        self._waiting += data
        return b""

    def finish(self) -> bytes:
        """The frame."""
        made: bytes = self._codec.compress(bytes(self._waiting), asbytes=True)
        return made
