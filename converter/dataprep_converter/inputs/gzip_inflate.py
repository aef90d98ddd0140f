"""Inflating gzip: by ISA-L, in less than half of zlib's time, or by zlib if ISA-L isn't installed. Only their messages for damage differ."""

import zlib
from typing import Any, Final

GZIP: Final = 31
"""zlib's setting for gzip's header and checksum."""
_BEGINS = b"\x1f\x8b\x08"
_FIXED = 10
_CRC, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16

_Inflater: Any
_Error: Any
try:
    from isal import igzip_lib, isal_zlib

    _Inflater, _Error = isal_zlib.decompressobj, igzip_lib.IsalError
except ModuleNotFoundError:
    _Inflater, _Error = zlib.decompressobj, zlib.error

ERRORS: Final[tuple[type[Exception], ...]] = (_Error,)
"""Errors that a member's methods raise for damage."""


def member() -> Any:
    """A decompressor of one member of a gzip stream, like zlib's `decompressobj`. Its first piece of data must hold the whole header (`header_is_whole`):
    if it is split, ISA-L takes the rest of it for data.
    """
    return _Inflater(GZIP)


def header_is_whole(data: bytes) -> bool:
    """Whether a member that begins like this has all of its header. Anything that isn't a header counts as whole: inflating it reports the damage.

    # 1f 8b 08 | flags | 6 bytes | EXTRA: uint16 length, bytes | NAME: bytes, 0 | COMMENT: bytes, 0 | CRC: uint16     (RFC 1952, 2.3)
    """
    if not _BEGINS.startswith(data[: len(_BEGINS)]):
        return True
    if len(data) < _FIXED:
        return False
    flags, at = data[3], _FIXED
    if flags & _EXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            end = data.find(b"\0", at)
            if end < 0:
                return False
            at = end + 1
    return len(data) >= at + (2 if flags & _CRC else 0)
