"""Zip archives that store only the names and contents of files. Times and the host's name aren't stored.

Members keep the order in which they are added.

    # A member:    504b0304 | needs 20 | flags | method | time 0, 1980-01-01 | crc32 | packed size | size | name length, 0 | name | content
    # Directory:   for each member 504b0102 | by 3<<8 | 20 | the member's fields from `needs` to `name length, 0` | 0, 0, 0 | mode 100644
    #              | offset | name
    # The end:     504b0506 | 0, 0 | members, members | size and offset of the directory | 0                          (little-endian)

Sizes and checksums are written before the content, so that even a reader that never seeks, such as Java's ZipInputStream, can use them.
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
"""A member's header, up to the name."""
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
    """The facts that an archive stores about one of its members."""

    name: bytes
    method: int
    crc: int
    packed: int
    """The size of the content in the archive, in bytes."""
    size: int
    offset: int
    """The offset of the member's header."""

    def _fields(self) -> tuple[int, ...]:
        flags = 0 if self.name.isascii() else _UTF8
        return (_NEEDS, flags, self.method, 0, _NEW_YEAR_1980, self.crc, self.packed, self.size, len(self.name), 0)

    def head(self) -> bytes:
        """Return the header that precedes the content."""
        return HEAD.pack(LOCAL, *self._fields()) + self.name

    def entry(self) -> bytes:
        """Return the member's entry in the directory."""
        mode = (stat.S_IFREG | 0o644) << 16
        return _CENTRAL.pack(b"PK\x01\x02", _UNIX | _NEEDS, *self._fields(), 0, 0, 0, mode, self.offset) + self.name


class Zip:
    """Writes an archive."""

    def __init__(self, *, deflated: bool) -> None:
        self._deflated = deflated
        self._members: list[Member] = []
        self._size = 0

    def add(self, name: str, contents: Sequence[Bytes]) -> list[Bytes]:
        """Add a member whose content is the concatenation of `contents`, and return the member's bytes.

        Raises BadData if the archive becomes too large for a zip archive without Zip64.
        """
        crc = size = 0
        for content in contents:
            crc = crc32(content, crc)
            size += len(content)
        packed_contents = _deflate(contents) if self._deflated else contents
        member = Member(
            name=name.encode(),
            method=DEFLATED if self._deflated else STORED,
            crc=crc,
            packed=sum(map(len, packed_contents)),
            size=size,
            offset=self._size,
        )
        self._members.append(member)
        if len(self._members) > _MOST_MEMBERS or max(size, member.offset + member.packed) > _MOST_BYTES:
            raise BadData(
                f"A file has more than {_MOST_MEMBERS:,} members or more than 4 GiB, which a zip archive can't hold;"
                " set output.granularity: Minibatch, or increase the number of shards."
            )
        head = member.head()
        self._size += len(head) + member.packed
        return [head, *packed_contents]

    def end(self) -> bytes:
        """Return the last bytes of the archive."""
        return directory_and_end(self._members, self._size)


def directory_and_end(members: Sequence[Member], offset: int) -> bytes:
    """Return the directory and the end record of an archive whose directory begins at `offset`."""
    directory = b"".join(member.entry() for member in members)
    return directory + _END.pack(b"PK\x05\x06", 0, 0, len(members), len(members), len(directory), offset, 0)


def _deflate(contents: Sequence[Bytes]) -> list[bytes]:
    deflate: Any = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return [*(deflate.compress(content) for content in contents), deflate.flush()]
