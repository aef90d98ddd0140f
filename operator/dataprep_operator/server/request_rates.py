"""Divides a job's request rate for each store among the job's pods, based on the request counts in the pods' progress reports.

A store can't tell which requests belong to the same job. So if it refuses requests, all pods of the job slow down together. The rates are
kept only in memory. After a restart of the operator, the pods keep their rates, and the operator sets new rates after the next refusal.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dataprep_api.dataset.messages import MOST_STORES, RequestCounts
from dataprep_api.pace import HIGHEST_RATE, Pace, may_be_chance, shares, wanted

SILENT_INTERVALS: Final = 3
"""A pod that has missed this many reports gets no share."""
LEAST_SILENCE_SECONDS: Final = 10.0
_FIRST_PART: Final = 0.25
_LEAST_SECONDS: Final = 1.0
"""Counts over a shorter time aren't meaningful."""
FEW_PODS: Final = 50
"""If a job has more pods than this, the rate is divided only once a second, because each division examines all pods."""


@dataclass(frozen=True)
class _Traffic:
    """The requests of one pod to one store."""

    heard_at: float
    counted_at: float
    counts: RequestCounts
    """The totals at the time `counted_at`."""
    seconds: float
    """The time between the last two totals."""
    sent: int
    refused: int
    share: float | None = None
    """The pod's share in the last reply."""

    def after(self, counts: RequestCounts, *, now: float) -> "_Traffic":
        """Return the traffic, updated with the counts of another report."""
        if counts.sent < self.counts.sent or counts.refused < self.counts.refused:
            return _first(counts, now=now)
        if now - self.counted_at < _LEAST_SECONDS:
            return replace(self, heard_at=now)
        return _Traffic(
            heard_at=now,
            counted_at=now,
            counts=counts,
            seconds=now - self.counted_at,
            sent=counts.sent - self.counts.sent,
            refused=counts.refused - self.counts.refused,
            share=self.share,
        )


def _first(counts: RequestCounts, *, now: float) -> _Traffic:
    """Return the traffic of a pod's first report."""
    seconds = max(_LEAST_SECONDS, counts.seconds)
    return _Traffic(heard_at=now, counted_at=now, counts=counts, seconds=seconds, sent=counts.sent, refused=counts.refused)


@dataclass
class _Store:
    """The requests of a job to one store."""

    pace: Pace = field(default_factory=Pace)
    pods: dict[str, _Traffic] = field(default_factory=dict)
    fair_shares: dict[str, float] = field(default_factory=dict)
    held: float = 0.0
    """The sum of the pods' shares."""
    divided_at: float = -math.inf

    def report(self, counts: RequestCounts, *, pod_uid: str, now: float, interval: float) -> None:
        """Note a pod's counts. Cut the rate if the store refused requests that were sent at the current rate."""
        earlier = self.pods.get(pod_uid)
        if earlier is None:
            self.pods[pod_uid] = _first(counts, now=now)
            return
        current = self.pods[pod_uid] = earlier.after(counts, now=now)
        # One interval after a cut, all pods know the new rate. Before that, the store may refuse requests because of the old rate, so a
        # refusal doesn't cause another cut.
        is_new = current.counted_at == now and current.refused > 0 and earlier.counted_at >= self.pace.cut_at + interval
        if is_new:
            pods = self.pods.values()
            accepted = sum((each.sent - each.refused) / each.seconds for each in pods)
            by_chance = may_be_chance(sent=sum(each.sent for each in pods), refused=sum(each.refused for each in pods))
            self.pace = self.pace.after_refusal(accepted=accepted, by_chance=by_chance, now=now)

    def share(self, pod_uid: str, *, now: float) -> float | None:
        """Return the pod's share of the rate, or None if the rate is unlimited."""
        own = self.pods[pod_uid]
        # All pods of a job have the same limit.
        rate = min(self.pace.rate_at(now), own.counts.limit or math.inf, HIGHEST_RATE)
        if rate == HIGHEST_RATE:
            return None
        if len(self.pods) <= FEW_PODS or now - self.divided_at >= _LEAST_SECONDS:
            self._divide(rate, now=now)
        fair = self.fair_shares.get(pod_uid, rate / len(self.pods))
        # The other pods keep their shares until their next reports. Until then, the other pods may hold the complete rate. Nevertheless,
        # give a new pod part of its fair share, so that it can begin.
        held_by_others = self.held - (own.share or 0.0)
        share = min(fair, max(rate - held_by_others, _FIRST_PART * fair))
        self.pods[pod_uid] = replace(own, share=share)
        self.held = held_by_others + share
        return share

    def drop_silent(self, *, now: float, silence: float) -> None:
        """Forget the pods that haven't reported for this many seconds."""
        for uid in [uid for uid, each in self.pods.items() if now - each.heard_at > silence]:
            del self.pods[uid]

    def _divide(self, rate: float, *, now: float) -> None:
        wants = {uid: wanted(per_second=each.sent / each.seconds, is_waiting=each.counts.is_waiting) for uid, each in self.pods.items()}
        self.fair_shares, self.divided_at = shares(rate, wants), now
        self.held = sum(each.share or 0.0 for each in self.pods.values())


class RequestRates:
    """The rates of one job, by store."""

    def __init__(self) -> None:
        self._stores: dict[str, _Store] = {}
        self._looked_at = -math.inf
        """The time of the last search for silent pods."""

    def shares(self, reported: Mapping[str, RequestCounts] | None, *, pod_uid: str, now: float, interval: float) -> dict[str, float]:
        """Return the pod's shares in requests a second, for the stores that have a limit or have refused requests.

        `interval` is the time between two reports of a pod, in seconds. A pod that no longer reports counts gives up its share.
        """
        for name, store in self._stores.items():
            if name not in (reported or {}):
                store.pods.pop(pod_uid, None)
        if now - self._looked_at >= _LEAST_SECONDS:
            self._looked_at = now
            for store in self._stores.values():
                store.drop_silent(now=now, silence=max(LEAST_SILENCE_SECONDS, SILENT_INTERVALS * interval))
        result: dict[str, float] = {}
        for name, counts in (reported or {}).items():
            if name not in self._stores and len(self._stores) >= MOST_STORES:
                continue
            store = self._stores.setdefault(name, _Store())
            store.report(counts, pod_uid=pod_uid, now=now, interval=interval)
            share = store.share(pod_uid, now=now)
            if share is not None:
                result[name] = share
        return result
