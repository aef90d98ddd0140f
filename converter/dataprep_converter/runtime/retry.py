"""Retries calls, with a limit on attempts, a limit on the total time, and jitter.

Use this module only for small calls that are safe to repeat: stat, get, delete, a put that repeats the same bytes, or a page of a listing.
This module doesn't retry uploads of shards. If an upload fails, the worker uploads the shard again from the beginning, under a new
temporary name.
"""

import logging
import math
import random
import threading
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
class RetryPolicy:
    """The limits on the number of attempts and on the total time of all attempts."""

    attempts: int = 6
    total_seconds: float = 30.0
    """No attempt begins more than this many seconds after the first attempt."""
    first_delay_seconds: float = 0.2
    longest_delay_seconds: float = 8.0
    errors: tuple[type[ConvertError], ...] = (Unreachable,)
    """Errors that lead to another attempt. Any other error is raised immediately."""

    def delay(self, failures: int) -> float:
        """Returns how many seconds to wait after this many failures.

        The delay doubles with each failure. Each delay is multiplied by a random factor from 0.5 to 1, so that workers don't retry at the
        same time.
        """
        longest = min(self.first_delay_seconds * 2.0 ** (failures - 1), self.longest_delay_seconds)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


DEFAULT_POLICY = RetryPolicy()
CLEANUP_POLICY = RetryPolicy(attempts=3, total_seconds=5.0)
"""The limits for cleanup. Cleanup must be short, because this process may have been asked to exit."""

_waited = threading.local()
"""How many seconds this thread has waited until the request budget allowed its requests."""

_no_later_than: ContextVar[float] = ContextVar("no_later_than", default=math.inf)


@contextmanager
def with_deadline(*, seconds: float) -> Iterator[None]:
    """Within the block, no retry begins later than `seconds` from now, regardless of the policy that is passed to `retrying`.

    Only the first attempt of a call can begin later.
    """
    token = _no_later_than.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _no_later_than.reset(token)


def add_wait(seconds: float) -> None:
    """Records how long this thread has waited for the request budget. This time isn't part of the total time of the attempts."""
    _waited.seconds = _waited_seconds() + seconds


def _waited_seconds() -> float:
    seconds: float = getattr(_waited, "seconds", 0.0)
    return seconds


def retrying(
    call: Callable[[], T],
    *,
    what: str,
    policy: RetryPolicy = DEFAULT_POLICY,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Returns the result of `call`.

    Retries the call after the errors in `policy`, and raises the last error when the limits are reached.
    """
    latest, earlier_waits = clock() + policy.total_seconds, _waited_seconds()
    failures = 0
    while True:
        try:
            return call()
        except policy.errors as exc:
            failures += 1
            delay = policy.delay(failures)
            last = min(latest + _waited_seconds() - earlier_waits, _no_later_than.get())
            if failures >= policy.attempts or clock() + delay > last:
                raise
            logger.warning("%s failed (attempt %d of %d), again in %.1f s: %s", what, failures, policy.attempts, delay, exc)
        sleep(delay)
