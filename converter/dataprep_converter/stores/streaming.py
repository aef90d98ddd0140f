"""Streams a range of a file over a connection that may break."""

import logging
from collections.abc import Callable, Iterator

from dataprep_converter.core.errors import Unreachable

logger = logging.getLogger(__name__)


def resuming_stream(
    pieces: Callable[[int, int], Iterator[bytes]], read_at: Callable[[int, int], bytes], *, offset: int, end: int, step: int, what: str
) -> Iterator[bytes]:
    """Yields the bytes from `offset` to `end`, through as many streams as needed.

    `pieces(offset, end)` starts a stream. If a stream breaks, reading resumes after the bytes received so far. After a break, the next
    `step` bytes are read with `read_at`, which retries; then a new stream starts. `what` is the name of the file in log messages.
    """
    while offset < end:
        stream = pieces(offset, end)
        try:
            for piece in stream:
                offset += len(piece)
                yield piece
        except Unreachable as exc:
            logger.warning("the stream of %s broke, resuming at byte %d: %s", what, offset, exc)
            piece = read_at(offset, min(step, end - offset))
            offset += len(piece)
            yield piece
