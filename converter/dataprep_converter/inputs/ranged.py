"""Wraps a store's file in a file object from which Arrow can read ranges."""

import errno
import io
import os
from collections.abc import Sequence
from typing import Final

from dataprep_converter.stores import Input

_END: Final = 64 << 10
"""The number of bytes at the end of a file that are read in one request and kept: the footer of a large file, or all of a small file."""


class RangedFile(io.RawIOBase):
    """Reads ranges of `source`. Ranges that have been loaded are read from memory."""

    def __init__(self, source: Input) -> None:
        super().__init__()
        self._source = source
        self._position = 0
        start = max(0, source.size - _END)
        self._end = (start, source.read_at(start, _END))
        self._loaded: list[tuple[int, bytes]] = []

    def load(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Reads these (offset, end) ranges into memory. Ranges that were loaded before are dropped."""
        self._loaded = []
        self._loaded = [(offset, self._at(offset, end - offset)) for offset, end in ranges]

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Changes the position, like `seek` of any file object. Raises OSError for a position before the start of the file."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """Returns the position, like `tell` of any file object."""
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Returns the next `size` bytes, or fewer at the end."""
        remaining = max(0, self._source.size - self._position)
        length = remaining if size is None or size < 0 else min(size, remaining)
        data = self._at(self._position, length)
        self._position += len(data)
        return data

    def _at(self, offset: int, length: int) -> bytes:
        for start, data in (self._end, *self._loaded):
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return self._source.read_at(offset, length) if length else b""
