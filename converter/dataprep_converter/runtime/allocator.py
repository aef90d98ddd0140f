"""Memory of a converting process: glibc keeps freed blocks, and the garbage collector skips the libraries' objects.

By itself glibc gives each block of some MiB back to the system at once, and the next one is new pages: their first touch was a third of what reading
JPEGs takes in the system. So the process keeps freed blocks of a batch for the next one if there is memory for it: they add some ten MiB
to its peak. Elsewhere (musl, macOS) nothing is set.

Python's collector looks for cycles among all objects, including the libraries' hundreds of thousands, which are never freed: each full collection
takes 10 to 50 ms with the GIL held. So those are frozen.
"""

import ctypes
import gc
from collections.abc import Sequence
from functools import cache
from typing import Final

from dataprep_converter.runtime import limits

_LEAST: Final = 2 << 30
"""With at least this much memory, freed blocks are kept."""
_TRIM_THRESHOLD: Final = (-1, 64 << 20)
"""M_TRIM_THRESHOLD: how much may be free at a heap's end."""
_MMAP_THRESHOLD: Final = (-3, 32 << 20)
"""M_MMAP_THRESHOLD: larger blocks are mapped one by one; glibc's maximum."""


@cache
def tune_allocator() -> None:
    """Once in a process, before it converts."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in options(limits.memory_bytes()):
            mallopt(name, value)
    gc.freeze()


def options(memory_bytes: int) -> Sequence[tuple[int, int]]:
    """glibc's parameters, by number, and values for a process that may use this much memory."""
    return (_TRIM_THRESHOLD, _MMAP_THRESHOLD) if memory_bytes >= _LEAST else ()
