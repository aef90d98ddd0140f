"""Read a given number of bytes at a time from a stream of pieces of any size."""

from collections.abc import Iterable


class Pieces:
    """The unread rest of a stream, and the offset at which it begins."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = filter(None, pieces)
        self._piece = memoryview(b"")
        self.offset = 0

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end of the stream."""
        parts: list[memoryview] = []
        while size and (self._piece or self._next()):
            parts.append(self._piece[:size])
            self._piece = self._piece[size:]
            size -= len(parts[-1])
            self.offset += len(parts[-1])
        return b"".join(parts)

    def _next(self) -> bool:
        self._piece = memoryview(next(self._pieces, b""))
        return bool(self._piece)
