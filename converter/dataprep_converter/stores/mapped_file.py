"""Reads many small pieces of a local file in few system calls.

If rows are read in random order, a system call for each row costs more than reading the row's bytes.

The file is mapped into memory, and the kernel copies the pieces from the mapping into an anonymous file in memory. If our own code copied
the pieces, an unreadable page (after a truncation or a disk error) would raise a signal that ends the process. When the kernel copies the
pieces, the system call returns an error instead.
"""

import ctypes
import errno
import mmap
import os
from threading import Lock
from typing import Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.closeable import Closeable

_AT_ONCE: Final = os.sysconf("SC_IOV_MAX")
_pwritev = getattr(ctypes.CDLL(None, use_errno=True), "pwritev64", None)
if _pwritev is not None:
    _pwritev.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
    _pwritev.restype = ctypes.c_ssize_t


class MappedFile(Closeable):
    """A memory mapping of an open file. `size` is the size of the file in bytes, and must be at least 1.

    Raises OSError on file systems without mappings, and on systems other than Linux.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        if _pwritev is None or not hasattr(os, "memfd_create"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._mapped = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        # Without this advice, the kernel would read 128 KiB around each piece.
        self._mapped.madvise(mmap.MADV_RANDOM)
        self._address = np.frombuffer(self._mapped, np.uint8).ctypes.data
        self._buffer = os.fdopen(os.memfd_create("dataprep", os.MFD_CLOEXEC), "r+b", buffering=0)
        self._lock = Lock()

    def read_each(self, offsets: npt.NDArray[np.int64], length: int) -> bytes:
        """Returns the pieces of `length` bytes at these offsets, concatenated. All pieces must be within the file's size.

        If a piece can't be read, raises OSError or returns fewer bytes. Raises ValueError if this object is closed. If the file was
        truncated, the rest of its last page reads as zeros, so the caller must check the file's size afterwards.
        """
        # struct iovec: the address and the size of a piece.
        pieces = np.empty((len(offsets), 2), np.uint64)
        pieces[:, 0] = offsets.astype(np.uint64) + np.uint64(self._address)
        pieces[:, 1] = length
        # Hold the lock, so that no other thread closes the buffer. After a close, the buffer's descriptor might be reused for another file,
        # which we would overwrite.
        with self._lock:
            buffer = self._buffer.fileno()
            for first in range(0, len(offsets), _AT_ONCE):
                chunk = pieces[first : first + _AT_ONCE]
                if _pwritev is None or _pwritev(buffer, chunk.ctypes.data, len(chunk), first * length) != len(chunk) * length:
                    return b""
            return os.pread(buffer, len(offsets) * length, 0)

    def close(self) -> None:
        """Frees the mapping and the buffer. Later reads raise ValueError."""
        with self._lock:
            self._buffer.close()
            self._mapped.close()
