"""Derives `status.progress` from live reports while the job runs, and from the commit step's counts at the end. All functions are pure."""

from datetime import datetime
from typing import Final

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.resources.status import DataPrepJobStatus, Progress, RecordProgress, ShardProgress
from dataprep_operator.decisions import steps
from dataprep_operator.objects import ranges, times
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.observed import LiveProgress

ETA_AFTER_FRACTION: Final = 0.05
ETA_AFTER_SECONDS: Final = 5.0
LONGEST_ETA_SECONDS: Final = 100 * 86_400


def running(status: DataPrepJobStatus, live: LiveProgress, child: Child | None, *, now: datetime) -> Progress:
    """Return the progress while workers run. The percentage never decreases, and never reaches 100."""
    before, tasks = status.progress or Progress(), status.tasks or 1
    if child is None:
        return before
    total = before.shards.total
    finished_tasks = steps.finished_count(child, tasks=tasks)
    done = min(total, max(live.shards_done, total * finished_tasks // tasks, before.shards.done))
    failed = min(total - done, -(-ranges.count(child.failed_indexes) * total // tasks))
    active = min(total - done - failed, max(live.shards_active, child.active))
    records = RecordProgress(
        total=before.records.total,
        in_=max(live.records.in_, before.records.in_),
        out=max(live.records.out, before.records.out),
        bad=max(live.records.bad, before.records.bad),
        filtered=max(live.records.filtered, before.records.filtered),
        added=max(live.records.added, before.records.added),
    )
    fraction = max(done / total if total else 0.0, records.in_ / records.total if records.total else 0.0)
    remaining = _remaining_seconds(now, child, records, live.records_per_second, fraction)
    return Progress(
        percent=max(before.percent, min(99, int(100 * fraction))),
        summary=f"{done}/{total}",
        shards=ShardProgress(total=total, done=done, active=max(0, active), failed=failed),
        records=records,
        bytes_in=max(live.bytes_in, before.bytes_in),
        bytes_out=max(live.bytes_out, before.bytes_out),
        records_per_second=round_rate(live.records_per_second),
        bytes_per_second=round_rate(live.bytes_per_second),
        estimated_seconds_remaining=remaining,
        eta=times.for_people(remaining) if remaining is not None else None,
        updated_at=times.text(now),
    )


def planning(status: DataPrepJobStatus, live: LiveProgress, child: Child | None, *, now: datetime) -> Progress | None:
    """Return the progress of the plan step, whose pod also does a small job's work.

    If the pod has reported no such work, the progress stays unchanged.
    """
    if live.shards_total is None:
        return status.progress
    before = status.progress or Progress()
    totals: dict[str, object] = {
        "shards": before.shards.model_copy(update={"total": live.shards_total}),
        "records": before.records.model_copy(update={"total": live.records.total}),
    }
    return running(status.model_copy(update={"progress": before.model_copy(update=totals)}), live, child, now=now)


def sharing(status: DataPrepJobStatus, child: Child | None, *, tasks: int, now: datetime) -> Progress | None:
    """Return the progress of the scan or shuffle step: the number of finished parts or slices, and their total number.

    The number of finished parts never decreases: if a Job is deleted, the Job that replaces it finds the parts' results in the store. The
    percentage counts only the conversion, so it doesn't change.
    """
    if child is None:
        return status.progress
    done = min(tasks, max(_finished_before(status), steps.finished_count(child, tasks=tasks)))
    return with_summary(status, f"{done}/{tasks}", now=now)


def _finished_before(status: DataPrepJobStatus) -> int:
    """Return the number of finished parts or slices, parsed from the summary of the scan or shuffle step."""
    done = status.progress.summary.partition("/")[0] if status.progress is not None else ""
    return int(done) if done.isascii() and done.isdecimal() else 0


def with_summary(status: DataPrepJobStatus, summary: str, *, now: datetime) -> Progress:
    """Return the progress with another summary. The counts of the conversion stay unchanged."""
    return (status.progress or Progress()).model_copy(update={"summary": summary, "updated_at": times.text(now)})


def _remaining_seconds(now: datetime, child: Child, records: RecordProgress, rate: float | None, fraction: float) -> int | None:
    worked_seconds = times.seconds_between(child.started_at, now) or 0.0
    if rate is None or rate <= 0 or not records.total or fraction < ETA_AFTER_FRACTION or worked_seconds < ETA_AFTER_SECONDS:
        return None
    # When a job stalls, its rate approaches zero and the estimate grows. An estimate above LONGEST_ETA_SECONDS isn't shown.
    remaining = max(0, records.total - records.in_) / rate
    return round(remaining) if remaining <= LONGEST_ETA_SECONDS else None


def final(status: DataPrepJobStatus, result: CommitResult, *, now: datetime) -> Progress:
    """Return the final progress, from the commit step's counts."""
    seconds = (status.timings.running_seconds if status.timings else None) or 0.0
    is_measured = seconds >= 1 and not status.reused
    return Progress(
        percent=100,
        summary=f"{result.files}/{result.files}",
        shards=ShardProgress(total=result.files, done=result.files),
        records=result.records.model_copy(update={"total": result.records.in_}),
        bytes_in=result.bytes_in,
        bytes_out=result.bytes_out,
        records_per_second=round_rate(result.records.in_ / seconds) if is_measured else None,
        bytes_per_second=round_rate(result.bytes_out / seconds) if is_measured else None,
        updated_at=times.text(now),
    )


def round_rate(rate: float | None) -> float | None:
    """Round a rate or a duration to one decimal."""
    return None if rate is None else round(rate, 1)
