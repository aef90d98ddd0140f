"""Inputs that read each range with a separate request. No connection stays open between reads."""

# The public methods are documented on the class `Input`, in `__init__.py`.
# ruff: noqa: D102

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing
from typing import ClassVar, Final

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.stores import Entry
from dataprep_converter.stores.digests import checked_stream
from dataprep_converter.stores.streaming import resuming_stream

AHEAD_CONNECTIONS: Final = 4
AHEAD_BYTES: Final = 4 << 20


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
        yield from self._checked(self._streamed(offset, end), offset, end)

    def _checked(self, pieces: Iterator[bytes], offset: int, end: int) -> Iterator[bytes]:
        if (offset, end) != (0, self.size):
            return pieces
        return checked_stream(pieces, size=end, etag=self._digest, uri=self.uri, again=lambda: self._streamed(0, end))

    def _streamed(self, offset: int, end: int) -> Iterator[bytes]:
        return resuming_stream(self._pieces, self.read_at, offset=offset, end=end, step=self.step, what=self.shown)

    def close(self) -> None:
        """Does nothing, because nothing stays open between reads."""


class ParallelInput(RangedInput):
    """An object of a store that limits the speed of each connection and serves requests for ranges in any order."""

    def __init__(self, entry: Entry, *, digest: str = "", is_limited: bool) -> None:
        """If the job limits the store's requests per second (`is_limited`), this object sends as few requests as possible."""
        super().__init__(entry, digest=digest)
        self._is_limited = is_limited

    def stream_ahead(self, offset: int = 0) -> Iterator[bytes]:
        if self._is_limited or self.size - offset <= AHEAD_BYTES:
            yield from self.stream(offset)
            return
        pieces = mapped_ahead(self._ahead_piece, range(offset, self.size, AHEAD_BYTES), most=AHEAD_CONNECTIONS)
        with closing(pieces):
            yield from self._checked(pieces, offset, self.size)

    def _ahead_piece(self, offset: int) -> bytes:
        return self.read_at(offset, AHEAD_BYTES)
