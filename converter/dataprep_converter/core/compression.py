"""Compresses shards. A gzip file consists of independent members, whose boundaries are at fixed offsets of the raw stream.

The member boundaries don't depend on how the bytes are divided among calls, so the same records always give the same file. Readers treat
concatenated members as one stream (RFC 1952, section 2.2).

    A member: 1f 8b | 08 deflate | 00 flags | 00000000 no time | 00 | 03 Unix | deflate data | uint32 crc32 | uint32 size   (little-endian)
"""

import struct
import zlib
from typing import Any, ClassVar, Final, Protocol

import pyarrow as pa

from dataprep_converter.core.crc32 import crc32

MEMBER_BYTES: Final = 4 * 2**20
_arrow: Any = pa  # the stubs don't know a codec's compression level
_HEADER: Final = bytes.fromhex("1f8b08000000000000 03")


class Compressor(Protocol):
    """Turns raw bytes into the bytes of the file."""

    name: ClassVar[str]
    """The compressor's name in the manifest: `none`, `gzip` or `zstd`."""

    def compress(self, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """Return the bytes that can be written now. The result can be empty, or `data` itself."""
        ...

    def finish(self) -> bytes:
        """Return the remaining bytes."""
        ...


class Plain:
    """Doesn't compress."""

    name: ClassVar[str] = "none"

    def compress(self, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """Return `data` unchanged."""
        return data

    def finish(self) -> bytes:
        """Return no bytes."""
        return b""


class GzipMembers:
    """Compresses to independent gzip members of MEMBER_BYTES raw bytes each."""

    name: ClassVar[str] = "gzip"

    def __init__(self, level: int) -> None:
        self._level = level
        self._buffer = bytearray()
        self._has_members = False

    def compress(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return every member that is now full."""
        self._buffer += data
        members = bytearray()
        while len(self._buffer) >= MEMBER_BYTES:
            members += self._member(bytes(self._buffer[:MEMBER_BYTES]))
            del self._buffer[:MEMBER_BYTES]
        return bytes(members)

    def finish(self) -> bytes:
        """Return the last member. If there is no data, the file is one empty member, because a file of 0 bytes isn't valid gzip."""
        return self._member(bytes(self._buffer)) if self._buffer or not self._has_members else b""

    def _member(self, raw: bytes) -> bytes:
        self._has_members = True
        deflate = zlib.compressobj(self._level, zlib.DEFLATED, -15)
        body = deflate.compress(raw) + deflate.flush()
        return b"".join((_HEADER, body, struct.pack("<II", crc32(raw), len(raw))))


class ZstdFrame:
    """Compresses all bytes to one Zstandard frame, and keeps the bytes in memory until the end.

    The frame contains the size of the raw bytes, which readers need to decompress a file in one call.
    """

    name: ClassVar[str] = "zstd"

    def __init__(self, level: int) -> None:
        self._codec = _arrow.Codec("zstd", compression_level=level)
        self._buffer = bytearray()

    def compress(self, data: bytes | bytearray | memoryview) -> bytes:
        """Hold the data and return no bytes yet."""
        self._buffer += data
        return b""

    def finish(self) -> bytes:
        """Return the frame."""
        frame: bytes = self._codec.compress(bytes(self._buffer), asbytes=True)
        return frame
