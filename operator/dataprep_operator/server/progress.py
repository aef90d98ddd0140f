"""Aggregates the workers' progress reports in memory. Losing the reports is harmless, because no decision depends on them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dataprep_api.dataset.messages import LARGEST_NUMBER, ProgressReply, ProgressReport
from dataprep_api.resources.status import RecordProgress
from dataprep_operator.cluster.ratelimit import TokenBucket
from dataprep_operator.objects.finished_tasks import FinishedTasks
from dataprep_operator.objects.observed import LiveProgress
from dataprep_operator.server.request_rates import RequestRates

# Time constant of the moving averages.
MEMORY_SECONDS: Final = 15.0
LEAST_STEP_SECONDS: Final = 1.0
# A worker that has not reported for longer than this is not counted as active.
SILENCE_SECONDS: Final = 60.0
REPORTS_A_SECOND: Final = 100.0
LEAST_INTERVAL_SECONDS: Final = 2.0
POD_REPORTS_A_SECOND: Final = 1.0
POD_REPORTS_AT_ONCE: Final = 10


@dataclass
class Meter:
    """An exponentially weighted moving rate."""

    at: datetime | None = None
    records: int = 0
    bytes_out: int = 0
    records_per_second: float | None = None
    bytes_per_second: float | None = None

    def update(self, now: datetime, *, records: int, bytes_out: int) -> None:
        """Update the rates with the totals at `now`.

        If the totals have decreased, for example because a worker restarted, count this as no progress.
        """
        if self.at is None:
            self.at, self.records, self.bytes_out = now, records, bytes_out
            return
        seconds = (now - self.at).total_seconds()
        if seconds < LEAST_STEP_SECONDS:
            return
        self.records_per_second = _mean(self.records_per_second, max(0, records - self.records) / seconds, seconds)
        self.bytes_per_second = _mean(self.bytes_per_second, max(0, bytes_out - self.bytes_out) / seconds, seconds)
        self.at, self.records, self.bytes_out = now, records, bytes_out


@dataclass
class _Reports:
    planning: dict[str, tuple[datetime, ProgressReport]] = field(default_factory=dict)
    """The reports of plan pods that do a small job's work."""
    dividing: dict[str, tuple[datetime, ProgressReport]] = field(default_factory=dict)
    """The reports of the shuffle step's pods. They aren't part of the job's progress, which counts converted records."""
    by_pod: dict[str, tuple[datetime, ProgressReport]] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    limiters: dict[str, TokenBucket] = field(default_factory=dict)
    rates: RequestRates = field(default_factory=RequestRates)


class ProgressStore:
    """Holds the latest report of every worker pod, grouped by job."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Reports] = {}

    def may_report(self, *, job_uid: str, pod_uid: str) -> bool:
        """Return whether the pod's rate limit allows a report now. Every call counts as a report."""
        limiters = self._jobs.setdefault(job_uid, _Reports()).limiters
        return limiters.setdefault(pod_uid, TokenBucket(rate=POD_REPORTS_A_SECOND, burst=POD_REPORTS_AT_ONCE)).allow()

    def record(self, report: ProgressReport, *, job_uid: str, pod_uid: str, now: datetime, step: str = "convert") -> None:
        """Store a report from a pod of this step. If a later report from the same pod is already stored, the report is dropped."""
        reports = self._jobs.setdefault(job_uid, _Reports())
        by_pod = {"plan": reports.planning, "shuffle": reports.dividing}.get(step, reports.by_pod)
        if by_pod is reports.by_pod:
            reports.dividing.clear()
        previous = by_pod.get(pod_uid)
        if previous is None or previous[1].sequence < report.sequence:
            by_pod[pod_uid] = (now, report)

    def reply(self, report: ProgressReport, *, job_uid: str, pod_uid: str, now: datetime) -> ProgressReply:
        """Return the reply to a report: the seconds until the next report, and the pod's share of the requests to each store."""
        rates = self._jobs.setdefault(job_uid, _Reports()).rates
        wait = self.next_report_seconds()
        shares = rates.shares(report.requests, pod_uid=pod_uid, now=now.timestamp(), interval=wait)
        return ProgressReply(next_report_seconds=wait, requests_per_second=shares)

    def live(self, job_uid: str, *, finished: FinishedTasks, attempt: int, now: datetime) -> LiveProgress:
        """Return the job's progress: the finished tasks' results plus the most advanced report of each unfinished task."""
        reports = self._jobs.setdefault(job_uid, _Reports()) if finished.tasks else self._jobs.get(job_uid)
        if reports is None:
            return LiveProgress()
        best: dict[int, ProgressReport] = {}
        shards_active = 0
        for pod_uid, (heard_at, report) in list(reports.by_pod.items()):
            if report.index in finished.tasks:
                del reports.by_pod[pod_uid]
                continue
            if report.attempt == attempt and (now - heard_at).total_seconds() < SILENCE_SECONDS:
                shards_active += report.shards_active
            best_report = best.get(report.index)
            if best_report is None or best_report.records.in_ < report.records.in_:
                best[report.index] = report
        work, unfinished = finished.work, best.values()
        records = RecordProgress(
            in_=_total(work.records_in, (report.records.in_ for report in unfinished)),
            out=_total(work.records_out, (report.records.out for report in unfinished)),
            bad=_total(work.records_bad, (report.records.bad for report in unfinished)),
            filtered=_total(work.records_filtered, (report.records.filtered for report in unfinished)),
            added=_total(work.records_added, (report.records.added for report in unfinished)),
        )
        bytes_out = _total(work.bytes_out, (report.bytes_out for report in unfinished))
        reports.meter.update(now, records=records.in_, bytes_out=bytes_out)
        return LiveProgress(
            shards_done=_total(work.shards, (report.shards_done for report in unfinished)),
            shards_active=_total(shards_active),
            records=records,
            bytes_in=_total(0, (report.bytes_in for report in unfinished)),
            bytes_out=bytes_out,
            records_per_second=reports.meter.records_per_second,
            bytes_per_second=reports.meter.bytes_per_second,
        )

    def planning(self, job_uid: str, *, attempt: int, now: datetime) -> LiveProgress:
        """Return the progress of a small job whose plan pod does the work."""
        reports = self._jobs.get(job_uid)
        latest = max(reports.planning.items(), key=lambda heard: heard[1][0], default=None) if reports is not None else None
        if reports is None or latest is None or latest[1][1].attempt != attempt:
            return LiveProgress()
        pod_uid, (heard_at, report) = latest
        reports.meter.update(now, records=report.records.in_, bytes_out=report.bytes_out)
        return LiveProgress(
            shards_done=report.shards_done,
            shards_active=report.shards_active if (now - heard_at).total_seconds() < SILENCE_SECONDS else 0,
            shards_total=report.shards_total,
            pod_uid=pod_uid,
            records=report.records,
            bytes_in=report.bytes_in,
            bytes_out=report.bytes_out,
            records_per_second=reports.meter.records_per_second,
            bytes_per_second=reports.meter.bytes_per_second,
        )

    def forget(self, job_uid: str) -> None:
        """Drop the reports of a finished job."""
        self._jobs.pop(job_uid, None)

    def next_report_seconds(self) -> float:
        """Return how many seconds a worker should wait before its next report. The more workers there are, the longer each worker waits."""
        # Once pods of a step report, pods of earlier steps no longer report.
        reporters = sum(len(reports.by_pod or reports.dividing or reports.planning) for reports in self._jobs.values())
        return min(300.0, max(LEAST_INTERVAL_SECONDS, reporters / REPORTS_A_SECOND))


def _total(count: int, more_counts: Iterable[int] = ()) -> int:
    """Return the sum of untrusted counts, capped at the largest number that a status can contain."""
    return min(LARGEST_NUMBER, sum(more_counts, start=count))


def _mean(previous: float | None, value: float, seconds: float) -> float:
    if previous is None:
        return value
    weight = 1 - math.exp(-seconds / MEMORY_SECONDS)
    return previous + weight * (value - previous)
