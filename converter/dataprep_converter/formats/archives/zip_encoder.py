"""Zip archives in which nothing but names and contents stands: no times and no host, members in the order in which they come.

    # A member:    504b0304 | needs 20 | flags | method | time 0, 1980-01-01 | crc32 | packed size | size | name length, 0 | name | content
    # Directory:   504b0102 | by 3<<8 | 20 | the same from `needs` to the name length, 0 | 0, 0, 0 | mode 100644 | offset | name, for each member
    # The end:     504b0506 | 0, 0 | members, members | size and offset of the directory | 0                          (little-endian)

Contents are written after their sizes and checksums are known, so a reader that never seeks (Java's ZipInputStream) needs no more.
"""

import stat
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dataprep_converter.core.crc32 import crc32
from dataprep_converter.core.errors import BadData

LOCAL: Final = b"PK\x03\x04"
HEAD: Final = struct.Struct("<4s5H3L2H")
"""Of a member, before its name."""
STORED: Final = 0
DEFLATED: Final = zlib.DEFLATED
_CENTRAL: Final = struct.Struct("<4sH5H3L2H3HLL")
_END: Final = struct.Struct("<4s4H2LH")
_NEEDS: Final = 20
_UNIX: Final = 3 << 8
_UTF8: Final = 0x800
_NEW_YEAR_1980: Final = 1 << 5 | 1
_MOST_MEMBERS: Final = 0xFFFF - 1
_MOST_BYTES: Final = 0xFFFFFFFF - 1
_LEVEL: Final = 6

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Member:
    """What an archive says about one of its members."""

    name: bytes
    method: int
    crc: int
    packed: int
    """Bytes in the archive."""
    size: int
    offset: int
    """Of its head."""

    def _fields(self) -> tuple[int, ...]:
        flags = 0 if self.name.isascii() else _UTF8
        return (_NEEDS, flags, self.method, 0, _NEW_YEAR_1980, self.crc, self.packed, self.size, len(self.name), 0)

    def head(self) -> bytes:
        """The header before the content."""
        return HEAD.pack(LOCAL, *self._fields()) + self.name

    def entry(self) -> bytes:
        """Its place in the directory."""
        mode = (stat.S_IFREG | 0o644) << 16
        return _CENTRAL.pack(b"PK\x01\x02", _UNIX | _NEEDS, *self._fields(), 0, 0, 0, mode, self.offset) + self.name


class Zip:
    """An archive that is being written."""

    def __init__(self, *, deflated: bool) -> None:
        self._deflated = deflated
        self._members: list[Member] = []
        self._size = 0

    def add(self, name: str, contents: Sequence[Bytes]) -> list[Bytes]:
        """The bytes of one more member, whose content is that of `contents` one after another.

        Raises BadData when the archive becomes larger than one without Zip64 can be.
        """
        crc = size = 0
        for content in contents:
            crc = crc32(content, crc)
            size += len(content)
        packed = _deflated(contents) if self._deflated else contents
        member = Member(
            name=name.encode(),
            method=DEFLATED if self._deflated else STORED,
            crc=crc,
            packed=sum(map(len, packed)),
            size=size,
            offset=self._size,
        )
        self._members.append(member)
        if len(self._members) > _MOST_MEMBERS or max(size, member.offset + member.packed) > _MOST_BYTES:
            raise BadData(
                f"A file has more than {_MOST_MEMBERS:,} members or 4 GiB, which a zip archive can't hold; set output.granularity: Minibatch or more shards."
            )
        head = member.head()
        self._size += len(head) + member.packed
        return [head, *packed]

    def end(self) -> bytes:
        """What ends the archive."""
        return ending(self._members, self._size)


def ending(members: Sequence[Member], offset: int) -> bytes:
    """Directory and end record of an archive whose directory begins at `offset`."""
    directory = b"".join(member.entry() for member in members)
    return directory + _END.pack(b"PK\x05\x06", 0, 0, len(members), len(members), len(directory), offset, 0)


def _deflated(contents: Sequence[Bytes]) -> list[bytes]:
    deflate: Any = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return [*(deflate.compress(content) for content in contents), deflate.flush()]
