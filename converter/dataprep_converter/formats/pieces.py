"""Taking a number of bytes at a time from pieces of any size."""

from collections.abc import Iterable


class Pieces:
    """What is left of a stream, and where in it that begins."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = filter(None, pieces)
        self._piece = memoryview(b"")
        self.offset = 0

    def take(self, size: int) -> bytes:
        """This many bytes, fewer at the end."""
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
