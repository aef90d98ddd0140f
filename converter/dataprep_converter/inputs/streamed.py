"""An Input over contents that can only be read from the beginning, such as the contents of a compressed file.

Reading forward is a single pass that keeps only the last `kept_bytes` in memory. The first read that goes back further than the kept bytes
copies the contents to an unnamed temporary file.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Lock

from dataprep_converter.core.closeable import Closeable, close_generator
from dataprep_converter.inputs.compressions import Compression
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.runtime.temporary import TemporaryFile
from dataprep_converter.stores import Input

_PIECE = 1 << 20


class StreamInput(Closeable):
    """An Input over a stream. See the module's docstring. Several threads may use it."""

    def __init__(self, start: Callable[[], Iterator[bytes]], *, size: int, kept_bytes: int = 0) -> None:
        """`start` begins a pass over the contents and returns an iterator over pieces.

        `size` is the size of the contents, or -1 if unknown.
        """
        self._start = start
        self._size = size
        self._kept_bytes = kept_bytes
        self._lock = Lock()
        self._pieces = start()
        self._window: deque[tuple[int, bytes]] = deque()
        self._position = 0
        self._copy: TemporaryFile | None = None
        self.owned = ExitStack()
        """Objects that are closed together with this one: the copy, and any objects that the caller adds."""

    @property
    def size(self) -> int:
        """The size of the contents in bytes, as given to the constructor."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset`, or fewer if the contents end earlier."""
        with self._lock:
            if self._copy is None and offset < (self._window[0][0] if self._window else self._position):
                self._copy = self.owned.enter_context(TemporaryFile.of("a copy of an input", self._start()))
                self._window.clear()
            if self._copy is not None:
                return self._copy.read_at(offset, length)
            return self._read_ahead(offset, offset + length)

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yields the bytes from `offset` in order."""
        end = self._size if length is None else min(self._size, offset + length)
        while offset < end and (piece := self.read_at(offset, min(_PIECE, end - offset))):
            yield piece
            offset += len(piece)

    def close(self) -> None:
        """Ends the pass and closes the `owned` objects."""
        # Don't take the lock: a thread that is still waiting for its store may hold it.
        close_generator(self._pieces)
        self._window.clear()
        self.owned.close()

    def _read_ahead(self, offset: int, end: int) -> bytes:
        while self._position < end and (piece := next(self._pieces, None)) is not None:
            self._window.append((self._position, piece))
            self._position += len(piece)
            self._forget(offset)
        if self._position == self._size:
            # Read past the last byte, so that the checksum that follows it is verified.
            next(self._pieces, None)
        self._forget(offset)
        parts = [data[max(0, offset - start) : end - start] for start, data in self._window if start < end]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _forget(self, offset: int) -> None:
        """Drops the pieces before `offset`, except those within the last `kept_bytes`."""
        oldest = min(offset, self._position - self._kept_bytes)
        while self._window and self._window[0][0] + len(self._window[0][1]) <= oldest:
            self._window.popleft()


def unpacked(source: Input, uri: str, *, compression: Compression, size: int, kept_bytes: int = 0) -> StreamInput:
    """Returns the contents of a compressed file. Reading raises BadData, with the file's URI, if the file isn't a complete compressed stream."""
    return StreamInput(lambda: ForwardReader(source, uri, compression=compression).pieces(), size=size, kept_bytes=kept_bytes)
