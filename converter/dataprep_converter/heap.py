"""The C library's heap: blocks of a batch that are let go stay with the process for the next batch.

By itself glibc gives each block of some MiB back to the system at once, and the next one is new pages: their first touch was a third of what reading
JPEGs takes in the system. Elsewhere (musl, macOS) nothing is set.
"""

import ctypes
from functools import cache
from typing import Final

_TRIM_THRESHOLD: Final = (-1, 64 << 20)
"""M_TRIM_THRESHOLD: so much may be free at a heap's end."""
_MMAP_THRESHOLD: Final = (-3, 32 << 20)
"""M_MMAP_THRESHOLD: larger blocks are the system's own; no more is taken."""


@cache
def keep_pages() -> None:
    """Once in a process that converts."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            mallopt(name, value)
