"""Reads members of zip files in place, without unpacking them to disk. All metadata in a zip file is checked.

# A member:  PK 03 04 | 22 bytes | uint16 n, uint16 m | n bytes name | m bytes extra | the stored bytes     (little-endian)
"""

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.crc32 import crc32
from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs.ranged import RangedFile
from dataprep_converter.inputs.streamed import StreamInput
from dataprep_converter.stores import Input

MAGIC: Final = b"PK"
"""The first bytes of a zip file, even of an empty one."""

_LOCAL: Final = struct.Struct("<4s22x2H")
_ENCRYPTED: Final = 0x1
_METHODS: Final = {zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "LZMA", 9: "Deflate64", 93: "Zstandard"}
_PIECE: Final = 1 << 20
_RAW_DEFLATE: Final = -15
_GAP: Final = 64 << 10
"""A read of a stored member still counts as sequential if it skips at most this many bytes.

The skipped bytes are read too, for the checksum.
"""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a zip file."""

    name: str
    header: int
    """The offset of the member's local header."""
    stored: int
    """The member's (compressed) size in the zip file, in bytes."""
    size: int
    """The size of the contents in bytes."""
    crc: int
    deflated: bool


def members(source: Input, uri: str) -> Iterator[Member]:
    """Yields the files of a zip file, in the order of its directory. Raises BadData, with file and member, if a member isn't supported."""
    try:
        with zipfile.ZipFile(RangedFile(source)) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError, EOFError) as exc:
        raise BadData(f"{uri} is not a complete zip file: {exc}.", uri=uri) from exc
    _check_places(infos, source.size, uri)
    for info in infos:
        name = info.filename
        if name.endswith("/"):
            continue
        if info.flag_bits & _ENCRYPTED:
            raise BadData(f"{uri}: the member {name!r} is encrypted.", uri=uri)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise BadData(f"{uri}: the member {name!r} is a link.", uri=uri)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            method = _METHODS.get(info.compress_type, f"method {info.compress_type}")
            raise BadData(f"{uri}: the member {name!r} is compressed by {method}; only Deflate is read.", uri=uri)
        is_deflated = info.compress_type == zipfile.ZIP_DEFLATED
        if not is_deflated and info.compress_size != info.file_size:
            raise BadData(
                f"{uri}: the member {name!r} is stored uncompressed, but has {info.compress_size:,} bytes instead of {info.file_size:,}.",
                uri=uri,
            )
        yield Member(name, info.header_offset, info.compress_size, info.file_size, info.CRC, is_deflated)


def _check_places(infos: list[zipfile.ZipInfo], size: int, uri: str) -> None:
    """Refuses members that share bytes. If members could share bytes, a small file could have almost unlimited contents."""
    end = 0
    for info in sorted(infos, key=lambda entry: entry.header_offset):
        if info.header_offset < end:
            raise BadData(f"{uri}: the member {info.filename!r} overlaps another member.", uri=uri)
        end = info.header_offset + _LOCAL.size + info.compress_size
        if end > size:
            raise BadData(f"{uri}: the member {info.filename!r} would end beyond the end of the file.", uri=uri)


def begin(source: Input, member: Member, uri: str) -> int:
    """Returns the offset of the member's stored bytes. Raises BadData if the member's header isn't valid."""
    head = source.read_at(member.header, _LOCAL.size)
    if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
        raise BadData(f"{uri}: there is no header for the member {member.name!r} at offset {member.header}.", uri=uri)
    _, name, extra = _LOCAL.unpack(head)
    return member.header + _LOCAL.size + int(name) + int(extra)


def inflated(source: Input, member: Member, uri: str, *, kept_bytes: int = 0) -> StreamInput:
    """Returns the contents of a deflated member. Reading raises BadData if the size or checksum differs from the zip file's directory."""
    return StreamInput(lambda: _inflate(source, member, uri), size=member.size, kept_bytes=kept_bytes)


class StoredMember(Closeable):
    """The contents of a member that is stored without compression. The contents are a range of the zip file and can be read at any offset.

    If the member is read completely and in order, its checksum is verified. If the checksum is wrong, reading the end of the member raises
    BadData.
    """

    def __init__(self, source: Input, member: Member, uri: str) -> None:
        self._source = source
        self._member = member
        self._uri = uri
        self._begin = begin(source, member, uri)
        self._summed = self._crc = 0

    @property
    def size(self) -> int:
        """The size of the contents in bytes."""
        return self._member.size

    def read_at(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset`, or fewer if the contents end earlier."""
        count = max(0, min(length, self.size - offset))
        data = self._source.read_at(self._begin + offset, count)
        gap = offset - self._summed
        if 0 < gap <= _GAP:
            # The reader might have skipped bytes that the planner already read, such as an array's header.
            self._add(self._source.read_at(self._begin + self._summed, gap))
            gap = 0
        if -len(data) < gap <= 0:
            self._add(data[-gap:])
        return data

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yields the bytes from `offset` in order."""
        remaining = max(0, self.size - offset)
        summed = crc = 0
        for piece in self._source.stream(self._begin + offset, remaining if length is None else min(length, remaining)):
            summed, crc = summed + len(piece), crc32(piece, crc)
            if offset == 0 and summed == self.size:
                self._check(crc)
            yield piece

    def close(self) -> None:
        """Does nothing. The caller must close the zip file."""

    def _add(self, data: bytes) -> None:
        """Adds the next bytes to the checksum."""
        self._summed += len(data)
        self._crc = crc32(data, self._crc)
        if data and self._summed == self.size:
            self._check(self._crc)

    def _check(self, crc: int) -> None:
        if crc != self._member.crc:
            raise BadData(f"{self._uri}: the member {self._member.name!r} has a wrong checksum.", uri=self._uri)


def _inflate(source: Input, member: Member, uri: str) -> Iterator[bytes]:
    size = crc = 0
    try:
        for piece in _pieces(source.stream(begin(source, member, uri), member.stored)):
            size += len(piece)
            if size > member.size:
                raise BadData(f"{uri}: the member {member.name!r} has more than the {member.size:,} bytes that it should have.", uri=uri)
            crc = crc32(piece, crc)
            yield piece
    except zlib.error as exc:
        raise BadData(f"{uri}: the member {member.name!r} is not valid Deflate: {exc}.", uri=uri) from exc
    if size != member.size:
        raise BadData(f"{uri}: the member {member.name!r} has {size:,} bytes, but should have {member.size:,}.", uri=uri)
    if crc != member.crc:
        raise BadData(f"{uri}: the member {member.name!r} has a wrong checksum.", uri=uri)


def _pieces(deflated: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(_RAW_DEFLATE)
    for data in deflated:
        while data and not inflater.eof:
            yield inflater.decompress(data, _PIECE)
            data = inflater.unconsumed_tail
    while not inflater.eof and (piece := inflater.decompress(b"", _PIECE)):
        yield piece
