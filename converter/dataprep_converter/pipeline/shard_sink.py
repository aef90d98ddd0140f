"""The sink of a shard. One thread computes digests and another writes the encoded batches, in order, while the next batch is encoded."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from dataprep_converter.core import native, sha256
from dataprep_converter.core.buffers import Buffer
from dataprep_converter.core.compression import Compressor, Plain
from dataprep_converter.core.sha256 import Sha256
from dataprep_converter.stores import OnDisk, Upload

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

_PIECE_BYTES: Final = 1 << 20
"""Number of bytes in one write. Many small writes would be slow, because after each write, the thread waits for Python's global lock."""


class ShardSink:
    """Writes to one upload. Leaving the context waits for the threads. If an error occurs, the caller must abort the upload."""

    def __init__(self, upload: Upload, compressor: Compressor) -> None:
        self.size = 0
        """Number of bytes written to the file so far."""
        self.raw_size = 0
        """Number of bytes written so far, before compression."""
        self.seconds = 0.0
        """Seconds spent so far on digests and writing. For each batch, only the time of the slowest thread is added."""
        self._upload = upload
        self._compressor = compressor
        self.is_plain = isinstance(compressor, Plain)
        """Whether the file is not compressed."""
        self._file_digest = _new_digest()
        self._raw_digest = self._file_digest if self.is_plain else _new_digest()
        self._sending: deque[list[Future[float]]] = deque()
        # Each executor has one thread, so that batches keep their order.
        self._sink = ThreadPoolExecutor(1, thread_name_prefix="sink")
        self._digesting = ThreadPoolExecutor(1, thread_name_prefix="digest")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._sink.shutdown()
        self._digesting.shutdown()

    def compress(self, pieces: Sequence[Buffer]) -> Sequence[Buffer]:
        """Returns the pieces as the file stores them: compressed, or unchanged."""
        return pieces if self.is_plain else [self._compressor.compress(piece) for piece in pieces]

    def send(self, raw: Sequence[Buffer], packed: Sequence[Buffer]) -> None:
        """Queues a batch to be digested and written. First waits until at most one earlier batch is waiting or being written.

        The caller must not change the buffers until it has sent two more batches.
        """
        self.settle(left=1)
        begun = [] if self.is_plain else [self._digesting.submit(_measure, partial(_digest, self._raw_digest), raw)]
        size = sum(map(len, packed))
        if size:
            begun.append(self._digesting.submit(_measure, partial(_digest, self._file_digest), packed))
            begun.append(
                self._sink.submit(_measure, self._write, packed) if self._upload.blocks else _finished_future(_measure(self._write, packed))
            )
        self._sending.append(begun)
        self.size += size
        self.raw_size += sum(map(len, raw))

    def settle(self, left: int = 0) -> None:
        """Waits until at most `left` batches are waiting or being written."""
        while len(self._sending) > left:
            seconds = max([write.result() for write in self._sending.popleft()], default=0.0)
            self.seconds += seconds

    def finish(self) -> tuple[str, str]:
        """Waits until everything is written. Returns the digests of the file and of the uncompressed records."""
        self.send([], [self._compressor.finish()])
        self.settle()
        return self._file_digest.hexdigest(), self._raw_digest.hexdigest()

    def _write(self, pieces: Sequence[Buffer]) -> None:
        if isinstance(self._upload, OnDisk) and native.is_there():
            self._upload.write_with(partial(native.write_pieces, pieces=pieces))
        else:
            # Gather small pieces here only if the upload doesn't have its own threads. An upload with threads gathers the pieces itself.
            for piece in _gather(pieces) if self._upload.blocks else pieces:
                self._upload.write(piece)


def _new_digest() -> "Sha256 | Hash":
    return Sha256() if sha256.is_there() else hashlib.sha256()


def _digest(digest: "Sha256 | Hash", pieces: Sequence[Buffer]) -> None:
    if isinstance(digest, Sha256):
        digest.update_all(pieces)
    else:
        for piece in pieces:
            digest.update(piece)


def _measure(take: Callable[[Sequence[Buffer]], object], pieces: Sequence[Buffer]) -> float:
    """Calls `take` with the pieces and returns the seconds that the call took."""
    started = perf_counter()
    take(pieces)
    return perf_counter() - started


def _gather(pieces: Iterable[Buffer]) -> Iterator[memoryview]:
    """Yields the bytes of all pieces, regrouped into pieces of at most _PIECE_BYTES.

    Small pieces share one buffer, so each yielded piece is valid only until the next piece is requested.
    """
    room = memoryview(bytearray(_PIECE_BYTES))
    filled = 0
    for each in pieces:
        piece = memoryview(each)
        if filled and filled + len(piece) > len(room):
            yield room[:filled]
            filled = 0
        if len(piece) < len(room):
            room[filled : filled + len(piece)] = piece
            filled += len(piece)
        else:
            for start in range(0, len(piece), len(room)):
                yield piece[start : start + len(room)]
    if filled:
        yield room[:filled]


def _finished_future(seconds: float) -> Future[float]:
    future: Future[float] = Future()
    future.set_result(seconds)
    return future
