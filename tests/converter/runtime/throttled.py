"""A simulation of pods that send requests to a store, which refuses some of the requests. Only the clock and the store are simulated."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from dataprep_converter.runtime.request_budget import RequestBudget
from dataprep_operator.server.request_rates import RequestRates

OK, REFUSED = 200, 503
_ANSWER_SECONDS: Final = 0.02
_BACK_OFF_SECONDS: Final = 0.3
_REPORT_SECONDS: Final = 2.0


@dataclass
class Store:
    """Accepts at most `limit` requests in any second."""

    limit: int
    accepted: deque[float] = field(default_factory=deque)

    def answer(self, now: float) -> int:
        while self.accepted and self.accepted[0] <= now - 1:
            self.accepted.popleft()
        if len(self.accepted) >= self.limit:
            return REFUSED
        self.accepted.append(now)
        return OK


@dataclass
class Pod:
    """A converter process: its number of threads, the pause of each thread between two requests, and when it starts and ends."""

    threads: int = 8
    pause_seconds: float = 0.0
    starts: float = 0.0
    ends: float = 1e9
    limit: float | None = None
    answers: list[tuple[float, int]] = field(default_factory=list)
    """The time and status of each response."""

    def rate(self, since: float, until: float) -> float:
        """Return the number of accepted requests per second."""
        return sum(status == OK for at, status in self.answers if since <= at < until) / (until - since)


def run(pods: Sequence[Pod], store: Store, *, seconds: float, shared: bool = True) -> None:
    """Simulate some seconds. If `shared` is set, an operator responds to the pods' reports."""
    now = 0.0
    events: list[tuple[float, int, Callable[[], None]]] = []
    order = itertools.count()
    rates = RequestRates()

    def at(when: float, event: Callable[[], None]) -> None:
        heapq.heappush(events, (when, next(order), event))

    def add(number: int, pod: Pod) -> None:
        budget = RequestBudget(limit=pod.limit, clock=lambda: now)
        budget.share_among(len(pods))
        waiting = 0
        next_at = -1.0

        def ask() -> None:
            nonlocal waiting
            if now < pod.ends:
                waiting += 1
                send()

        def send() -> None:
            nonlocal waiting, next_at
            while waiting and (delay := budget.take_turn()) == 0:
                waiting -= 1
                at(now + _ANSWER_SECONDS, partial(answered, store.answer(now), now))
            if waiting and not now < next_at <= now + delay:
                next_at = now + delay
                at(next_at, send)

        def answered(status: int, sent_at: float) -> None:
            budget.answered(status, sent_at=sent_at)
            pod.answers.append((now, status))
            at(now + (_BACK_OFF_SECONDS if status == REFUSED else pod.pause_seconds), ask)

        def report() -> None:
            counts = budget.counts
            ended = now >= pod.ends
            reported = None if ended else {"0": counts.model_copy(update={"is_waiting": waiting > 0})}
            for share in rates.shares(reported, pod_uid=str(number), now=now, interval=_REPORT_SECONDS).values():
                budget.adopt(share)
            send()
            if not ended:
                at(now + _REPORT_SECONDS, report)

        for _ in range(pod.threads):
            at(pod.starts, ask)
        if shared:
            at(pod.starts + 1 + number / len(pods), report)

    for number, pod in enumerate(pods):
        add(number, pod)
    while events and events[0][0] <= seconds:
        now, _, event = heapq.heappop(events)
        event()


def refused(pods: Sequence[Pod], since: float, until: float) -> float:
    """Return the fraction of refused requests."""
    statuses = [status for pod in pods for at, status in pod.answers if since <= at < until]
    return statuses.count(REFUSED) / len(statuses)
