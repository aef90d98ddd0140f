"""Inputs whose bytes are counted."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.stores import Input, read_each


class ByteCounter:
    """Bytes read from the store since they were last asked for."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, size: int) -> None:
        """Count this many bytes."""
        self._bytes += size

    def taken(self) -> int:
        """Returns the count and resets it to 0."""
        taken, self._bytes = self._bytes, 0
        return taken


class MeteredInput(Closeable):
    """An Input whose bytes are counted."""

    def __init__(self, source: Input, count: ByteCounter) -> None:
        self._source = source
        self._count = count

    @property
    def size(self) -> int:
        """Bytes of the object."""
        return self._source.size

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, fewer only at the end."""
        data = self._source.read_at(offset, length)
        self._count.add(len(data))
        return data

    def read_each(self, offsets: npt.NDArray[np.int64], length: int) -> bytes:
        """`length` bytes from each offset, concatenated."""
        data = read_each(self._source, offsets, length)
        self._count.add(len(data))
        return data

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `offset` in order."""
        for piece in self._source.stream(offset, length):
            self._count.add(len(piece))
            yield piece

    def close(self) -> None:
        """Ends reading."""
        self._source.close()
