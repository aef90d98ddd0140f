"""OSS's checksum of an object: CRC-64 as in the xz format, so liblzma, which Python itself uses, computes it.

In Python it would take minutes for what the tests write; liblzma does more than 1 GB/s and leaves other threads run.
"""

from __future__ import annotations

import ctypes
import lzma  # noqa: F401  # so that a Python without liblzma fails with a message that names it

_liblzma = ctypes.CDLL("liblzma.so.5")
_liblzma.lzma_crc64.restype = ctypes.c_uint64
_liblzma.lzma_crc64.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def crc64(content: bytes, begun: int = 0) -> int:
    """Return the checksum of what came before, whose checksum is `begun`, followed by this content."""
    result: int = _liblzma.lzma_crc64(content, len(content), begun)
    return result
