"""Inputs that count the bytes read from them."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.stores import Input, read_each, stream_ahead


class ByteCounter:
    """Counts the bytes read from the store since the last call to `take_count`."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, size: int) -> None:
        """Adds this number of bytes to the count."""
        self._bytes += size

    def take_count(self) -> int:
        """Returns the count and resets it to 0."""
        count, self._bytes = self._bytes, 0
        return count


class MeteredInput(Closeable):
    """An Input that counts the bytes read from it."""

    def __init__(self, source: Input, count: ByteCounter) -> None:
        self._source = source
        self._count = count

    @property
    def size(self) -> int:
        """The object's size in bytes."""
        return self._source.size

    def read_at(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset`, or fewer if the contents end earlier."""
        data = self._source.read_at(offset, length)
        self._count.add(len(data))
        return data

    def read_each(self, offsets: npt.NDArray[np.int64], length: int) -> bytes:
        """Returns `length` bytes from each offset, concatenated."""
        data = read_each(self._source, offsets, length)
        self._count.add(len(data))
        return data

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yields the bytes from `offset` in order."""
        for piece in self._source.stream(offset, length):
            self._count.add(len(piece))
            yield piece

    def stream_ahead(self, offset: int = 0) -> Iterator[bytes]:
        """Yields the bytes from `offset` to the end, in order, over several connections if that is faster."""
        for piece in stream_ahead(self._source, offset):
            self._count.add(len(piece))
            yield piece

    def close(self) -> None:
        """Closes the counted input."""
        self._source.close()
