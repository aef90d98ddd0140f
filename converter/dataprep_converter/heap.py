"""Memory of a process that converts: what stays, and what is not looked at again.

By itself glibc gives each block of some MiB back to the system at once, and the next one is new pages: their first touch was a third of what reading
JPEGs takes in the system. So blocks of a batch that are let go stay with the process for the next batch. Elsewhere (musl, macOS) nothing is set.

Python's collector looks for cycles among all objects, and those of the libraries, hundreds of thousands, never go: each of its full turns takes 10 to
50 ms, with Python's lock held. So it leaves them out.
"""

import ctypes
import gc
from functools import cache
from typing import Final

_TRIM_THRESHOLD: Final = (-1, 64 << 20)
"""M_TRIM_THRESHOLD: so much may be free at a heap's end."""
_MMAP_THRESHOLD: Final = (-3, 32 << 20)
"""M_MMAP_THRESHOLD: larger blocks are the system's own; no more is taken."""


@cache
def settle() -> None:
    """Once in a process, before it converts."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            mallopt(name, value)
    gc.freeze()
