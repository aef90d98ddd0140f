"""OSS's object checksum: CRC-64 as in the xz format, computed by liblzma, which Python itself uses.

Pure Python would take minutes for the tests' data. liblzma does more than 1 GB/s and releases the GIL.
"""

from __future__ import annotations

import ctypes
import lzma  # noqa: F401  # makes a Python without liblzma fail with a clear message

_liblzma = ctypes.CDLL("liblzma.so.5")
_liblzma.lzma_crc64.restype = ctypes.c_uint64
_liblzma.lzma_crc64.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def crc64(content: bytes, begun: int = 0) -> int:
    """Continue the checksum `begun` over this content, and return the result."""
    result: int = _liblzma.lzma_crc64(content, len(content), begun)
    return result
