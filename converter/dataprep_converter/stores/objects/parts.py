"""Splits an upload into parts of equal size. A few threads send full parts while the next part is buffered. Used by all object stores."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

PART_BYTES: Final = 8 << 20
COPIED_BYTES: Final = 256 << 20
"""The size of the parts that a store copies from another object. A store takes seconds for a part of this size."""
PART_LIMIT: Final = 10_000
"""The maximum number of parts of an upload, on S3 and OSS."""
IN_FLIGHT: Final = 4
"""The maximum number of parts that are sent concurrently. An upload keeps at most one more part in memory."""

_GROWN_AFTER = 5_000
_SHOWN = 5


def part_bytes_for(size_hint: int | None) -> int:
    """Returns the part size for an object of about `size_hint` bytes: 8 MiB, or more if 8 MiB would give over 9,000 parts."""
    if size_hint is None:
        return PART_BYTES
    return max(PART_BYTES, math.ceil(size_hint / 9_000 / (1 << 20)) << 20)


def unfinished(right: str, folder: str, keys: Sequence[str]) -> str:
    """Returns the message for unfinished uploads that remain because we lack the permission to remove them."""
    names = ", ".join(keys[:_SHOWN]) + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")
    return f"missing {right} on {folder}: {len(keys)} unfinished uploads remain: {names}."


class CopyUnsupported(Exception):
    """The server doesn't copy parts of other objects. The store catches this error, and the object's bytes are sent instead."""


class Parts:
    """The parts of one upload.

    `begin` is called once, before the first part is sent. `send` is called in another thread, with a part's number (from 1) and bytes.
    `send` returns the part's ETag, which is needed to complete the upload.
    """

    def __init__(
        self, *, begin: Callable[[], None], send: Callable[[int, memoryview], str], threads: ThreadPoolExecutor, part_bytes: int
    ) -> None:
        self._begin = begin
        self._send = send
        self._threads = threads
        self._part_bytes = part_bytes
        self._buffer = bytearray()
        self._filled = 0
        self._pending: deque[Future[str]] = deque()
        self._tags: list[str] = []
        self._sent = 0
        self.size = 0

    @property
    def begun(self) -> bool:
        """Whether a part has been sent. As long as no part has been sent, the object fits into one request."""
        return self._sent > 0

    @property
    def rest(self) -> memoryview:
        """The bytes not sent yet."""
        return memoryview(self._buffer)[: self._filled]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Copies `data` into the buffer. Raises any error that occurred while an earlier part was sent."""
        view = memoryview(data).cast("B")
        self.size += len(view)
        while view:
            # Send a full part only when more data comes, so that an object of exactly one part needs only one request.
            if self._filled == self._part_bytes:
                self._send_buffer()
            if self._filled == len(self._buffer):
                self._extend_buffer(self._filled + len(view))
            count = min(len(view), len(self._buffer) - self._filled)
            self._buffer[self._filled : self._filled + count] = view[:count]
            self._filled += count
            view = view[count:]

    def copy(self, size: int, copy: Callable[[int, range | None], str]) -> None:
        """Adds parts that the store copies from another object of `size` bytes. Must not be combined with `write`.

        The function `copy` is called in other threads, with a part's number (from 1) and the range of bytes to copy. It returns the part's
        ETag. If one part holds the complete object, the range is None, because S3 and OSS refuse ranges of small objects.
        """
        self._begin()
        step = max(COPIED_BYTES, part_bytes_for(size))
        for first in range(0, size, step):
            stretch = range(first, min(first + step, size)) if size > step else None
            self._sent += 1
            self._pending.append(self._threads.submit(copy, self._sent, stretch))
        self.size = size

    def finish(self) -> list[str]:
        """Sends the last part, waits for all parts, and returns their tags in order. May be called again when a commit is retried."""
        if self._filled or not self.begun:
            self._send_buffer()
        while self._pending:
            self._tags.append(self._pending.popleft().result())
        return self._tags

    def cancel(self) -> None:
        """Cancels the parts that haven't been started, and waits for the parts that are being sent. Ignores their errors."""
        for part in self._pending:
            part.cancel()
        while self._pending:
            part = self._pending.popleft()
            if not part.cancelled():
                part.exception()
        self._buffer = bytearray()
        self._filled = 0

    def _send_buffer(self) -> None:
        if not self.begun:
            self._begin()
        while len(self._pending) >= IN_FLIGHT:
            self._tags.append(self._pending.popleft().result())
        self._sent += 1
        self._pending.append(self._threads.submit(self._send, self._sent, self.rest))
        if self._sent == _GROWN_AFTER:
            # The object's size wasn't given, and 40 GB have already been sent. Larger parts leave room for 160 GB more.
            self._part_bytes *= 4
        self._buffer = bytearray()
        self._filled = 0

    def _extend_buffer(self, needed: int) -> None:
        """Extends the buffer, up to a full part. The first part's buffer grows with its data, because many small objects may be staged at
        once."""
        size = self._part_bytes if self.begun else min(self._part_bytes, max(needed, 2 * len(self._buffer)))
        if self._buffer:
            self._buffer.extend(bytes(size - len(self._buffer)))
        else:
            self._buffer = bytearray(size)
