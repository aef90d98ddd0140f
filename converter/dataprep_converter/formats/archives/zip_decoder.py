"""Extract the members of archives that `formats/archives/zip_encoder.py` writes.

Headers, checksums, the directory and the end record are all verified.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dataprep_converter.core.crc32 import crc32
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.archives.zip_encoder import DEFLATED, HEAD, LOCAL, STORED, Member, directory_and_end

_DIRECTORY: Final = (b"PK\x01\x02", b"PK\x05\x06")


@dataclass(frozen=True)
class VerifiedMember:
    """A member whose checksum is correct."""

    name: str
    content: bytes
    offset: int
    """The offset of the member in the file."""


def members(pieces: Iterable[bytes]) -> tuple[list[VerifiedMember], BrokenRecord | None]:
    """Return the members before the first fault, and that fault, if any. The complete file is held in memory."""
    data = b"".join(pieces)
    verified_members: list[VerifiedMember] = []
    headers: list[Member] = []
    at = 0
    try:
        while data[at : at + 4] not in _DIRECTORY:
            member, end = _head(data, at)
            verified_members.append(
                VerifiedMember(name=member.name.decode(), content=_content(data[end - member.packed : end], member), offset=at)
            )
            headers.append(member)
            at = end
    except BrokenRecord as fault:
        return verified_members, fault
    return verified_members, _difference(data[at:], directory_and_end(headers, at), offset=at)


def _head(data: bytes, at: int) -> tuple[Member, int]:
    """Return the member that begins at this offset, and the offset of its end."""
    if len(data) - at < HEAD.size:
        raise BrokenRecord(f"truncated header of a member ({len(data) - at} of {HEAD.size} bytes)", offset=at)
    signature, _, _, method, _, _, crc, packed_size, size, name_size, _ = HEAD.unpack_from(data, at)
    if signature != LOCAL:
        raise BrokenRecord(f"expected a member of a zip archive, got {signature.hex()}", offset=at)
    begin = at + HEAD.size + name_size
    member = Member(name=data[at + HEAD.size : begin], method=method, crc=crc, packed=packed_size, size=size, offset=at)
    if len(data) < begin + packed_size:
        raise BrokenRecord(f"truncated member ({len(data) - at} of {begin + packed_size - at} bytes)", offset=at)
    if method not in (STORED, DEFLATED) or data[at:begin] != member.head() or not _is_text(member.name):
        raise BrokenRecord("damaged header of a member", offset=at)
    return member, begin + packed_size


def _content(packed_content: bytes, member: Member) -> bytes:
    content = packed_content
    if member.method == DEFLATED:
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = inflate.decompress(packed_content, member.size + 1)
        except zlib.error as exc:
            raise BrokenRecord(f"damaged content of {member.name.decode()}", offset=member.offset) from exc
        if not inflate.eof or inflate.unused_data:
            raise BrokenRecord(f"damaged content of {member.name.decode()}", offset=member.offset)
    if len(content) != member.size or crc32(content) != member.crc:
        raise BrokenRecord(f"bad CRC of {member.name.decode()}", offset=member.offset)
    return content


def _difference(data: bytes, expected: bytes, *, offset: int) -> BrokenRecord | None:
    """Compare an archive's end with the expected end, which is computed from the members. Return the fault, or None if they are equal."""
    if data == expected:
        return None
    if expected.startswith(data):
        return BrokenRecord(f"truncated directory ({len(data)} of {len(expected)} bytes)", offset=offset)
    at = next((at for at, (one, other) in enumerate(zip(data, expected, strict=False)) if one != other), len(expected))
    return BrokenRecord("the directory doesn't list the archive's members", offset=offset + at)


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
