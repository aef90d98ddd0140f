"""Retrying: the one place that tries again, with a limit, a total time and jitter.

Only for small calls that may be repeated (stat, get, put of the same bytes, delete, a page of a listing). A shard is not
one of them: its upload is redone as a whole by the worker, under a new temporary name.
"""

import logging
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from dataprep_converter.core.errors import ConvertError, Unreachable

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """How often and how long something is tried."""

    attempts: int = 6
    total_seconds: float = 30.0
    """No new attempt begins later than this after the first one began."""
    first_delay_seconds: float = 0.2
    longest_delay_seconds: float = 8.0
    errors: tuple[type[ConvertError], ...] = (Unreachable,)
    """Errors worth another attempt; any other is raised at once."""

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures: doubling, with jitter between half and all of it, so that workers spread."""
        longest = min(self.first_delay_seconds * 2.0 ** (failures - 1), self.longest_delay_seconds)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


PATIENT = Patience()
ON_THE_WAY_OUT = Patience(attempts=3, total_seconds=5.0)
"""For cleanup by a process that may have been told to end."""

_no_later_than: ContextVar[float] = ContextVar("no_later_than", default=math.inf)


@contextmanager
def with_deadline(*, seconds: float) -> Iterator[None]:
    """Within the block no retry begins later than `seconds` from now, whatever `retrying` is given. First attempts may."""
    token = _no_later_than.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _no_later_than.reset(token)


def retrying(
    call: Callable[[], T],
    *,
    what: str,
    patience: Patience = PATIENT,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """The result of `call`, tried again while it raises what `patience` names; the last error when patience ends."""
    latest = min(clock() + patience.total_seconds, _no_later_than.get())
    failures = 0
    while True:
        try:
            return call()
        except patience.errors as exc:
            failures += 1
            delay = patience.delay(failures)
            if failures >= patience.attempts or clock() + delay > latest:
                raise
            logger.warning("%s failed (attempt %d of %d), again in %.1f s: %s", what, failures, patience.attempts, delay, exc)
        sleep(delay)
