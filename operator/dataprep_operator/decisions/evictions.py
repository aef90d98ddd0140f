"""Counts evictions of a job's pods in the status, and pauses the job when they come in a row. Pure.

An eviction is the condition `DisruptionTarget`: preemption, drain, taint, node pressure or node loss. The pod may vanish soon after, so it
is counted by the condition's time: those later than the last one counted, plus new ones of the same second.
"""

from datetime import datetime, timedelta
from typing import Final

from dataprep_api.resources.status import DataPrepJobStatus, Evictions
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.objects import times
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.observed import Observed

FIRST_PAUSE_SECONDS: Final = 10.0
MOST_PAUSE_SECONDS: Final = 600.0
_MOST_DOUBLINGS: Final = 10


def count(observed: Observed, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """The status with new evictions counted."""
    before = status.evictions or Evictions()
    since = times.parse(before.last_time)
    evictions = [(pod.disrupted_at, pod.disrupted_by) for own in observed.pods.values() for pod in own if pod.disrupted_at is not None]
    again = max(0, sum(1 for at, _ in evictions if at == since) - before.at_last_time)
    new = again + sum(1 for at, _ in evictions if since is None or at > since)
    if not new:
        return status
    last, reason = max(evictions)
    shards_done = status.progress.shards.done if status.progress is not None else 0
    after = Evictions(
        count=before.count + new,
        in_a_row=new + (before.in_a_row if shards_done == before.shards_done else 0),
        shards_done=shards_done,
        last_time=times.text(last),
        at_last_time=sum(1 for at, _ in evictions if at == last),
        reason=reason[:256],
    )
    return status.model_copy(update={"evictions": after})


def reset(status: DataPrepJobStatus) -> Evictions | None:
    """The counts for a retry. What was counted before isn't counted again."""
    return status.evictions and status.evictions.model_copy(update={"count": 0, "in_a_row": 0})


def start_streak(status: DataPrepJobStatus) -> Evictions | None:
    """The counts for the next step: none of its pods has been evicted yet."""
    return status.evictions and status.evictions.model_copy(update={"in_a_row": 0})


def too_many(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> str | None:
    """Why the job fails, when it has exceeded `maxEvictions`."""
    evictions, limit = status.evictions, spec.max_evictions
    if evictions is None or limit is None or evictions.count <= limit:
        return None
    return f"Pods were evicted {evictions.count} times, and maxEvictions is {limit}; the last time by {evictions.reason}."


def paused_until(observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, child: Child | None) -> datetime | None:
    """When pods may be created again: after a pause that doubles with each round of evictions without a finished shard.

    None while a pod runs, since the pause would stop it, and none for Jobs that a queue controls.
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
    """The message during a pause; None outside of one."""
    until = paused_until(observed, spec, status, child)
    if until is None or now >= until or status.evictions is None:
        return None
    evictions = status.evictions
    return f"Pods were evicted {evictions.in_a_row} times without a finished shard, the last time by {evictions.reason}: new ones are created at {times.text(until)}."
