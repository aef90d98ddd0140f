"""Streams a range of a file over a connection that may break."""

import logging
from collections.abc import Callable, Iterator

from dataprep_converter.core.errors import Unreachable

logger = logging.getLogger(__name__)


def resuming_stream(
    pieces: Callable[[int, int], Iterator[bytes]], read_at: Callable[[int, int], bytes], *, offset: int, end: int, step: int, what: str
) -> Iterator[bytes]:
    """The bytes from `offset` to `end`, over as many streams as it takes.

    `pieces(offset, end)` begins one. When it breaks, it resumes after the bytes that came: the next `step` bytes come by `read_at`, which retries,
    and then a new stream begins. `what` names the file in the log.
    """
    while offset < end:
        stream = pieces(offset, end)
        try:
            for piece in stream:
                offset += len(piece)
                yield piece
        except Unreachable as exc:
            logger.warning("stream of %s broke, reading on at %d: %s", what, offset, exc)
            piece = read_at(offset, min(step, end - offset))
            offset += len(piece)
            yield piece
