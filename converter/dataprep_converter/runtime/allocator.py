"""Memory of a process that converts: what stays, and what is not looked at again.

By itself glibc gives each block of some MiB back to the system at once, and the next one is new pages: their first touch was a third of what reading
JPEGs takes in the system. So blocks of a batch that are let go stay with the process for the next batch, where there is memory for it: they add some
ten MiB to its peak. Elsewhere (musl, macOS) nothing is set.

Python's collector looks for cycles among all objects, and those of the libraries, hundreds of thousands, never go: each of its full turns takes 10 to
50 ms, with Python's lock held. So it leaves them out.
"""

import ctypes
import gc
from collections.abc import Sequence
from functools import cache
from typing import Final

from dataprep_converter.runtime import limits

_LEAST: Final = 2 << 30
"""Bytes of memory from which on blocks stay."""
_TRIM_THRESHOLD: Final = (-1, 64 << 20)
"""M_TRIM_THRESHOLD: so much may be free at a heap's end."""
_MMAP_THRESHOLD: Final = (-3, 32 << 20)
"""M_MMAP_THRESHOLD: larger blocks are the system's own; no more is taken."""


@cache
def tune_allocator() -> None:
    """Once in a process, before it converts."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in options(limits.memory_bytes()):
            mallopt(name, value)
    gc.freeze()


def options(memory_bytes: int) -> Sequence[tuple[int, int]]:
    """What a process that may use so much memory tells glibc: numbers of parameters, and their values."""
    return (_TRIM_THRESHOLD, _MMAP_THRESHOLD) if memory_bytes >= _LEAST else ()
