"""A work queue like client-go's, with three priorities and with back-off after failures.

Each key is in the queue at most once. Two workers never process the same key at the same time. kopf doesn't retry event handlers, so this
queue retries the keys instead.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from dataprep_operator import metrics
from dataprep_operator.errors import OperatorError

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0
"""This delay is short, because a job may have to wait this long after the API server has recovered.

The delay needn't protect the API server, because the client's rate limit does.
"""

_NORMAL_TURN = 4
"""Every fourth key comes from the normal lane if this lane isn't empty. So the normal lane can't starve."""
_LOW_TURN = 16
"""Every sixteenth key comes from the low-priority lane if this lane isn't empty."""


def backoff_seconds(failures: int, *, chance: float) -> float:
    """Return the delay after the given number of failures. The delay grows exponentially up to a limit.

    `chance`, from 0 to 1, reduces the delay by up to half.
    """
    full_delay = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 16))
    return full_delay * (1 - chance / 2)


class WorkQueue(Generic[K]):
    """A queue of keys with lanes for high, normal and low priority. Each lane is first in, first out."""

    def __init__(
        self, *, high_priority: Callable[[K], bool] = lambda _: False, low_priority: Callable[[K], bool] = lambda _: False
    ) -> None:
        self._is_high_priority = high_priority
        self._is_low_priority = low_priority
        self._high: deque[K] = deque()
        self._normal: deque[K] = deque()
        self._low: deque[K] = deque()
        self._take_count = 0
        self._waiting_since: dict[K, float] = {}
        """Maps a waiting key to the time at which its wait began, on the event loop's clock."""
        self._processing: set[K] = set()
        self._dirty: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._wakeup = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting_since)

    def add(self, key: K) -> None:
        """Enqueue a key. If the key is being processed, it is enqueued again afterwards."""
        self._forget_timer(key)
        if key in self._processing:
            self._dirty.add(key)
        elif key not in self._waiting_since:
            self._waiting_since[key] = asyncio.get_running_loop().time()
            (self._high if self._is_high_priority(key) else self._low if self._is_low_priority(key) else self._normal).append(key)
            self._wakeup.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Enqueue a key after a delay. If the key is already scheduled for an earlier time, nothing changes."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        due = loop.time() + seconds
        if key in self._waiting_since or (timer is not None and timer.when() <= due):
            return
        self._forget_timer(key)
        self._timers[key] = loop.call_later(seconds, self.add, key)

    async def run(self, work: Callable[[K], Awaitable[None]]) -> None:
        """Run one worker until it is cancelled. Several workers may run at the same time."""
        while True:
            key = await self._take_next()
            try:
                await work(key)
            except Exception as exc:  # one key's failure must not stop other keys
                delay = self._retry_later(key)
                logger.warning("%s: %s: %s; next try in %.1f s", key, type(exc).__name__, exc, delay, exc_info=_needs_traceback(exc))
            else:
                self._failures.pop(key, None)
            finally:
                self._finish(key)

    def close(self) -> None:
        """Cancel all timers."""
        for key in list(self._timers):
            self._forget_timer(key)

    async def _take_next(self) -> K:
        while not self._waiting_since:
            self._wakeup.clear()
            await self._wakeup.wait()
        self._take_count += 1
        key = self._next_lane().popleft()
        metrics.QUEUE_WAIT.observe(asyncio.get_running_loop().time() - self._waiting_since.pop(key))
        self._processing.add(key)
        return key

    def _next_lane(self) -> deque[K]:
        """Return the lane to take the next key from."""
        if self._low and (self._take_count % _LOW_TURN == 0 or not (self._high or self._normal)):
            return self._low
        return self._normal if self._normal and (self._take_count % _NORMAL_TURN == 0 or not self._high) else self._high

    def _retry_later(self, key: K) -> float:
        self._failures[key] = self._failures.get(key, 0) + 1
        delay = backoff_seconds(self._failures[key], chance=random.random())  # noqa: S311 - jitter
        self._forget_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self.add, key)
        return delay

    def _finish(self, key: K) -> None:
        self._processing.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def _forget_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()


def _needs_traceback(exc: Exception) -> bool:
    """Return whether to log a traceback. The operator's own errors don't need a traceback."""
    return not isinstance(exc, OperatorError)
