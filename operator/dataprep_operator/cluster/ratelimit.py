"""Token buckets for requests to the API server, connections and progress reports."""

import asyncio
import time
from collections.abc import Callable


class TokenBucket:
    """Allows `rate` requests a second, with bursts of up to `burst`."""

    def __init__(self, *, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._refilled_at = clock()

    async def wait(self) -> None:
        """Wait for a token."""
        delay = self.reserve()
        if delay > 0:
            await asyncio.sleep(delay)

    def reserve(self) -> float:
        """Reserve a token, and return the seconds until the caller may use it. Callers are served in order."""
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def allow(self) -> bool:
        """Take a token if one is available. Return whether a token was taken."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._refilled_at) * self._rate)
        self._refilled_at = now
