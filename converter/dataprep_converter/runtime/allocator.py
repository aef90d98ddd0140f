"""Tunes the memory management of converting processes: glibc keeps freed blocks, and the garbage collector skips the libraries' objects.

By default, glibc returns each freed block of several MiB to the system immediately, and the next block gets new pages. In a job that read
JPEGs, a third of the system time was spent on the first access to new pages. So a process with enough memory keeps the freed blocks of one
batch for the next batch. The kept blocks add about ten MiB to the process's peak memory. With other C libraries (musl, macOS), no parameter
is set.

Python's garbage collector searches all objects for cycles, including hundreds of thousands of library objects, which are never freed. Each
full collection takes 10 to 50 ms and holds the GIL. So these objects are frozen.
"""

import ctypes
import gc
from collections.abc import Sequence
from functools import cache
from typing import Final

from dataprep_converter.runtime import limits

_LEAST: Final = 2 << 30
"""Processes with at least this much memory keep freed blocks."""
_TRIM_THRESHOLD: Final = (-1, 64 << 20)
"""M_TRIM_THRESHOLD: how many bytes may be free at the end of a heap."""
_MMAP_THRESHOLD: Final = (-3, 32 << 20)
"""M_MMAP_THRESHOLD: larger blocks are mapped separately. This is glibc's maximum."""
_OBJECTS_BETWEEN_COLLECTIONS: Final = 10_000


@cache
def tune_allocator() -> None:
    """Sets glibc's parameters and freezes the existing objects.

    Each process that converts or copies calls this function once, before it reads its input.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in options(limits.memory_bytes()):
            mallopt(name, value)
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


def options(memory_bytes: int) -> Sequence[tuple[int, int]]:
    """Returns (number, value) of each glibc parameter to set, for a process that may use this much memory."""
    return (_TRIM_THRESHOLD, _MMAP_THRESHOLD) if memory_bytes >= _LEAST else ()
