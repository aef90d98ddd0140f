"""Inputs that read each range with a separate request. No connection stays open between reads."""

# The public methods are documented on the class `Input`, in `__init__.py`.
# ruff: noqa: D102

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.stores import Entry
from dataprep_converter.stores.digests import checked_stream
from dataprep_converter.stores.streaming import resuming_stream


class RangedInput(Closeable, ABC):
    """Reads ranges of one file or object, in the version that was opened."""

    step: ClassVar[int]
    """The number of bytes in the first request when a stream resumes after an error."""

    def __init__(self, entry: Entry, *, digest: str = "") -> None:
        self.uri = entry.uri
        self._entry = entry
        self._digest = digest
        """The object's ETag if it may be a hexadecimal MD5, or else the empty string.

        The ETag is used to check reads of the complete object (see `digests`).
        """

    @property
    def size(self) -> int:
        return self._entry.size

    @property
    def pin(self) -> str:
        return self._entry.pin

    @property
    def shown(self) -> str:
        """The URI as shown in messages."""
        return self.uri

    @abstractmethod
    def read_at(self, offset: int, length: int) -> bytes: ...

    @abstractmethod
    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        """Yields all the bytes from `offset` to `end`. Raises Unreachable if the connection breaks."""

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        end = self.size if length is None else min(self.size, offset + length)
        pieces = self._streamed(offset, end)
        if (offset, end) == (0, self.size):
            pieces = checked_stream(pieces, size=end, etag=self._digest, uri=self.uri, again=lambda: self._streamed(0, end))
        yield from pieces

    def _streamed(self, offset: int, end: int) -> Iterator[bytes]:
        return resuming_stream(self._pieces, self.read_at, offset=offset, end=end, step=self.step, what=self.shown)

    def close(self) -> None:
        """Does nothing, because nothing stays open between reads."""
