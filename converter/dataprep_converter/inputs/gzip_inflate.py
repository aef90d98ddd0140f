"""Inflates gzip with ISA-L or, if ISA-L isn't installed, with zlib, which takes more than twice as long.

ISA-L and zlib differ only in their error messages for damaged data.
"""

import zlib
from typing import Any, Final

GZIP: Final = 31
"""zlib's `wbits` value for data with gzip's header and checksum."""
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
"""The errors that a decompressor returned by `member` raises for damaged data."""


def member() -> Any:
    """Returns a decompressor for one member of a gzip stream, like zlib's `decompressobj`.

    The first piece of data must contain the complete header (see `header_is_whole`). If the header continues in the next piece, ISA-L
    mistakes the rest of the header for data.
    """
    return _Inflater(GZIP)


def header_is_whole(data: bytes) -> bool:
    """Returns whether `data`, the beginning of a member, contains its complete header.

    Data that isn't a header counts as complete: the error is then reported when the data is inflated.

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
