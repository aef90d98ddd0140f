"""Counts the evictions of a job's pods in the status, and pauses the job after several in a row. All functions are pure.

An evicted pod has the condition `DisruptionTarget`. The cause is preemption, a drain, a taint, node pressure or a lost node. The pod may
disappear soon afterwards, so evictions are distinguished by the condition's transition time. An eviction is new if it is later than the
last counted eviction, or if it is in the same second and hasn't been counted yet.
"""

from datetime import datetime, timedelta
from typing import Final

from dataprep_api.resources.status import DataPrepJobStatus, Evictions
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.decisions import steps
from dataprep_operator.objects import times
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.observed import Observed

FIRST_PAUSE_SECONDS: Final = 10.0
MOST_PAUSE_SECONDS: Final = 600.0
_MOST_DOUBLINGS: Final = 10


def count(observed: Observed, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Return the status with new evictions counted."""
    before = status.evictions or Evictions()
    since = times.parse(before.last_time)
    evictions = [(pod.disrupted_at, pod.disrupted_by) for pods in observed.pods.values() for pod in pods if pod.disrupted_at is not None]
    new_at_last_time = max(0, sum(1 for at, _ in evictions if at == since) - before.at_last_time)
    new = new_at_last_time + sum(1 for at, _ in evictions if since is None or at > since)
    if not new:
        return status
    last, reason = max(evictions)
    shards_done = _done(observed, status)
    after = Evictions(
        count=before.count + new,
        in_a_row=new + (before.in_a_row if shards_done == before.shards_done else 0),
        shards_done=shards_done,
        last_time=times.text(last),
        at_last_time=sum(1 for at, _ in evictions if at == last),
        reason=reason[:256],
    )
    return status.model_copy(update={"evictions": after})


def _done(observed: Observed, status: DataPrepJobStatus) -> int:
    """Return the number of finished shards or, in the scan and shuffle steps, of finished parts or slices."""
    of_step = {"Scan": status.scan.parts if status.scan is not None else 0, "Shuffle": status.shuffle_tasks}
    if (tasks := of_step.get(status.step or "")) is not None:
        child = observed.current_child(status)
        return steps.finished_count(child, tasks=tasks) if child is not None else 0
    return status.progress.shards.done if status.progress is not None else 0


def reset(status: DataPrepJobStatus) -> Evictions | None:
    """Return the counts at the start of a retry.

    The counts are zero, but the time of the last counted eviction is kept, so no eviction is counted twice.
    """
    return status.evictions and status.evictions.model_copy(update={"count": 0, "in_a_row": 0})


def start_streak(status: DataPrepJobStatus) -> Evictions | None:
    """Return the counts at the start of the next step, with the count of consecutive evictions reset."""
    return status.evictions and status.evictions.model_copy(update={"in_a_row": 0})


def too_many(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> str | None:
    """Return the failure message if the job has exceeded `maxEvictions`, or else None."""
    evictions, limit = status.evictions, spec.max_evictions
    if evictions is None or limit is None or evictions.count <= limit:
        return None
    return (
        f"Pods were evicted {evictions.count} time{'s' * (evictions.count != 1)}, but maxEvictions is {limit}. "
        f"Last cause: {evictions.reason}."
    )


def paused_until(observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, child: Child | None) -> datetime | None:
    """Return when pods may be created again, or None if they may be created now.

    The pause doubles each time pods are evicted again before a shard, part or slice is finished. Returns None while a pod runs, because the
    pause would stop the pod. Jobs that a queue controls are never paused.
    """
    evictions = status.evictions
    last = times.parse(evictions.last_time) if evictions is not None else None
    if evictions is None or last is None or child is None or child.queued or child.finished:
        return None
    rounds = evictions.in_a_row // max(1, min(spec.workers.parallelism, child.completions))
    if rounds < 1 or any(
        pod.phase == "Running" and pod.disrupted_at is None and pod.deletion_due is None for pod in observed.pods_of(child)
    ):
        return None
    return last + timedelta(seconds=min(MOST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(rounds - 1, _MOST_DOUBLINGS)))


def pause_message(
    observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, child: Child | None, *, now: datetime
) -> str | None:
    """Return the status message during a pause, or None if the job is not paused."""
    until = paused_until(observed, spec, status, child)
    if until is None or now >= until or status.evictions is None:
        return None
    evictions = status.evictions
    what = {"Scan": "part of the scan", "Shuffle": "slice of the input"}.get(status.step or "", "shard")
    return (
        f"Pods were evicted {evictions.in_a_row} time{'s' * (evictions.in_a_row != 1)} without a finished {what}. "
        f"Last cause: {evictions.reason}. New pods are created at {times.text(until)}."
    )
