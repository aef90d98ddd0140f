"""Paces this process's requests to one entry of `spec.stores`, so that a store with a rate limit refuses few requests.

Each request waits for its turn, and the status of the store's response is recorded. `dataprep_api.pace` computes the rate. In a converter
pod, the replies to progress reports contain the pod's share of the job's rate (see `cli.reporter`).
"""

import contextlib
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from dataprep_api.dataset.messages import RequestCounts
from dataprep_api.pace import REFUSALS, Pace, may_be_chance
from dataprep_converter.runtime import retry

logger = logging.getLogger(__name__)

_HOLD_SECONDS: Final = 1.0
"""After the rate was lowered, refusals of requests that are sent within this many seconds don't lower the rate again.

A store that counts requests per second can still refuse requests in this time, even if the new rate is low enough.
"""
_LATE_SECONDS: Final = 0.05
"""If a thread wakes up less than this many seconds late, the next request isn't delayed."""
_SHORTEST_WAIT_SECONDS: Final = 1e-6
_SLOW_RATE: Final = 5.0
"""Below this many requests per second, the time between two requests is random, because many pods may have started at the same time."""
_SLICE_SECONDS: Final = 0.25
_SLICES: Final = 20


@dataclass
class _Slice:
    """The number of requests in a quarter of a second."""

    sent: int = 0
    refused: int = 0


class RequestBudget:
    """The request budget for one entry of `spec.stores`, or for a scheme without an entry. Any thread may use it.

    `limit` is the entry's `requestsPerSecond`. Log messages contain `name`.
    """

    def __init__(self, *, limit: float | None = None, name: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._queue = threading.Lock()
        """Held by the thread that may send the next request. Other threads wait for this lock."""
        self._changed = threading.Event()
        """Set when the rate has changed, because the next request can then be sent earlier."""
        self._senders = 1
        self._share: float | None = None
        """This process's share of the job's rate, once the operator has computed it."""
        self._pace = Pace()
        self._last_turn = -math.inf
        self._jitter = 1.0
        self._slices: dict[int, _Slice] = {}
        self._waiting = 0
        self._first_at = math.inf
        self._sent = 0
        self._refused = 0

    @property
    def is_limited(self) -> bool:
        """Whether the entry sets `requestsPerSecond`."""
        return self._limit is not None

    def wait_turn(self) -> float:
        """Waits until a request may be sent, and returns the time at which it is sent. Pass this time to `answered`."""
        begun = self._clock()
        with self._waits(), self._queue:
            self._changed.clear()
            while (delay := self.take_turn()) > 0:
                self._changed.wait(delay)
                self._changed.clear()
        now = self._clock()
        retry.add_wait(now - begun)
        return now

    @contextlib.contextmanager
    def _waits(self) -> Iterator[None]:
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    def take_turn(self) -> float:
        """Returns 0 if a request may be sent now, and counts this request. Otherwise, returns the seconds to wait."""
        with self._lock:
            now = self._clock()
            rate = self._rate(now)
            due = self._last_turn + self._jitter / rate
            if due - now > _SHORTEST_WAIT_SECONDS:
                return due - now
            self._last_turn = due if now - due < _LATE_SECONDS else now
            self._jitter = random.uniform(0.5, 1.5) if rate < _SLOW_RATE else 1.0  # noqa: S311 - jitter, not a secret
            self._first_at = min(self._first_at, now)
            self._sent += 1
            self._slice(now).sent += 1
            return 0.0

    def answered(self, status: int, *, sent_at: float) -> None:
        """Records the status of the response to a request. A refusal lowers the rate, but not twice within a second."""
        if status not in REFUSALS:
            return
        with self._lock:
            now = self._clock()
            self._refused += 1
            self._slice(sent_at).refused += 1
            if sent_at < self._pace.cut_at + _HOLD_SECONDS:
                return
            accepted, by_chance = self._lately(now)
            self._pace = self._pace.after_refusal(accepted=accepted, by_chance=by_chance, now=now)
            rate = self._rate(now)
        logger.info("%s refuses requests (status %d), sending at most %.1f requests per second from now on", self._name, status, rate)

    def share_among(self, processes: int) -> None:
        """Divides the limit equally among this number of processes, until the operator computes a share."""
        with self._lock:
            self._senders = max(1, processes)

    def adopt(self, share: float) -> None:
        """Sets this process's share of the job's rate, in requests per second."""
        with self._lock:
            now = self._clock()
            self._pace = self._pace.adopted(share, now=now)
            if self._limit is not None:
                self._share = share
        self._changed.set()

    @property
    def counts(self) -> RequestCounts:
        """The totals of this process, for its progress reports."""
        with self._lock:
            return RequestCounts(
                seconds=max(0.0, self._clock() - self._first_at),
                sent=self._sent,
                refused=self._refused,
                is_waiting=self._waiting > 0,
                limit=self._limit,
            )

    def _rate(self, now: float) -> float:
        part = math.inf if self._limit is None else self._limit / self._senders
        return min(self._pace.rate_at(now), part if self._share is None else self._share)

    def _slice(self, at: float) -> _Slice:
        number = int(at / _SLICE_SECONDS)
        if number not in self._slices:
            for old in [each for each in self._slices if each < number - 2 * _SLICES]:
                del self._slices[old]
            self._slices[number] = _Slice()
        return self._slices[number]

    def _lately(self, now: float) -> tuple[float, bool]:
        """Returns how many requests per second the store has recently accepted, and whether its refusals may be due to chance.

        Measures the rate over the last five seconds and over the last second, and returns the higher rate. The rate over five seconds alone
        would be too low if there were few requests to send in the first of these seconds.
        """
        last = int(now / _SLICE_SECONDS)
        slices = [(number, each) for number, each in self._slices.items() if last - _SLICES < number <= last]
        sent, refused = sum(each.sent for _, each in slices), sum(each.refused for _, each in slices)
        in_last_second = sum(each.sent - each.refused for number, each in slices if last - number < 1 / _SLICE_SECONDS)
        return max(in_last_second, (sent - refused) / (_SLICES * _SLICE_SECONDS)), may_be_chance(sent=sent, refused=refused)
