"""Derives Events from two successive statuses, one Event for each change. All functions are pure."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from dataprep_api import API_VERSION
from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.redaction import for_display
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_operator.decisions import conditions, memory
from dataprep_operator.objects import job_steps, times
from dataprep_operator.objects.observed import Key

COMPONENT: Final = "dataprep-operator"
_WARNINGS: Final = frozenset(
    {
        Reason.IMAGE_PULL_FAILED,
        Reason.CONFIG_MISSING,
        Reason.POD_REFUSED,
        Reason.NO_GPU_NODES,
        Reason.UNSCHEDULABLE,
        Reason.CONFLICTING_CHILD,
        Reason.PROFILE_NOT_FOUND,
        Reason.OPERATOR_OUTDATED,
        Reason.NOT_QUEUED,
    }
)


@dataclass(frozen=True)
class Note:
    """An Event to record."""

    type: Literal["Normal", "Warning"]
    reason: Reason
    message: str


def between(before: DataPrepJobStatus, after: DataPrepJobStatus) -> list[Note]:
    """Return the Events for the changes between two statuses of a job."""
    notes: list[Note] = []
    if after.attempt > before.attempt and before.attempt > 0:
        notes.append(_new_attempt(before, after))
    if after.run_id and after.run_id != before.run_id and after.progress is not None:
        total = after.progress.records.total
        count_text = f"{total} record{'s' * (total != 1)} in " if total is not None else ""
        notes.append(
            Note(
                "Normal",
                Reason.PLANNED,
                f"{count_text}{after.progress.shards.total} shard{'s' * (after.progress.shards.total != 1)}, "
                f"{after.tasks} task{'s' * (after.tasks != 1)}; run {after.run_id}",
            )
        )
    if after.scan is not None and after.scan != before.scan:
        notes.append(
            Note("Normal", Reason.PLANNING, f"The input is scanned in {after.scan.parts} parts. The scan's name is {after.scan.id}.")
        )
    suspension = conditions.find(after.conditions, ConditionType.SUSPENDED)
    if before.phase == "Suspended" and suspension is not None and suspension.status == "False":
        notes.append(Note("Normal", Reason.RESUMED, suspension.message))
    removal, removal_before = (conditions.find(status.conditions, ConditionType.OUTPUT_REMOVED) for status in (after, before))
    if removal is not None and (removal_before is None or removal_before.reason != removal.reason):
        notes.append(Note("Normal" if removal.reason == Reason.REMOVING_OUTPUT else "Warning", Reason(removal.reason), removal.message))
    quota, quota_before = (conditions.find(status.conditions, ConditionType.QUOTA_RESERVED) for status in (after, before))
    is_news = quota is not None and quota.reason == Reason.NOT_QUEUED and (quota_before is None or quota_before.reason != quota.reason)
    if quota is not None and is_news and after.phase != "Queued":
        notes.append(Note("Warning", Reason.NOT_QUEUED, quota.message))
    handover, handover_before = (conditions.find(status.conditions, ConditionType.HANDED_OVER) for status in (after, before))
    if handover is not None and (handover_before is None or handover_before.message != handover.message):
        notes.append(Note("Warning", Reason.NOT_HANDED_OVER, handover.message))
    if handover is None and handover_before is not None and not removal:
        notes.append(Note("Normal", Reason.HANDED_OVER, "The ConfigMap for training has been created."))
    evictions, evictions_before = after.evictions, before.evictions
    if evictions is not None and evictions.count > (evictions_before.count if evictions_before is not None else 0):
        # The message leaves out the count, so that repeated evictions are recorded as the same Event.
        notes.append(Note("Warning", Reason.EVICTED, f"The cluster evicted pods: {evictions.reason}."))
    if _outcome(after) != _outcome(before):
        notes.append(_phase_note(after))
    return notes


# Any, because an Event is a JSON object of the API.
def body(note: Note, *, key: Key, uid: str, attempt: int, count: int, first: datetime, now: datetime) -> dict[str, Any]:
    """Return the Event.

    The Event's name contains a digest of the Event's content, so a repeated Event increments the count of the existing Event.
    """
    identity = "\0".join([uid, str(attempt), note.type, note.reason, note.message])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{key.name[:230]}.{digest}", "namespace": key.namespace},
        "involvedObject": {"apiVersion": API_VERSION, "kind": key.kind, "namespace": key.namespace, "name": key.name, "uid": uid},
        "type": note.type,
        "reason": str(note.reason),
        "message": for_display(note.message)[:1000],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": times.text(first),
        "lastTimestamp": times.text(now),
        "count": count,
    }


def _new_attempt(before: DataPrepJobStatus, after: DataPrepJobStatus) -> Note:
    if after.handled_retry != before.handled_retry:
        return Note("Normal", Reason.RETRYING, f"Attempt {after.attempt} begins with the step {after.step}.")
    if after.step == "Plan" and before.step != "Plan":
        return Note("Normal", Reason.RETRYING, f"Attempt {after.attempt} begins with the step Plan, because the status was incomplete.")
    memory_now = memory.of(after)
    if memory_now is not None and memory_now != memory.of(before):
        whose = "Tasks" if after.step == "Convert" else f"The {job_steps.of_status(after.step).label} step"
        return Note("Normal", Reason.MEMORY_RAISED, f"{whose} ran out of memory, so attempt {after.attempt} has {memory_now}.")
    return Note("Warning", Reason.FELL_BACK_TO_CPU, "No GPU was free in time, so the conversion falls back to CPU nodes.")


def _outcome(status: DataPrepJobStatus) -> tuple[str | None, str, str | None]:
    """Return (phase, reason, end time). If an edited job fails again for the same reason, only the end time differs."""
    running = conditions.find(status.conditions, ConditionType.RUNNING)
    return status.phase, running.reason if running is not None else "", status.completion_time


def _phase_note(status: DataPrepJobStatus) -> Note:
    running = conditions.find(status.conditions, ConditionType.RUNNING)
    reason = Reason(running.reason) if running is not None else Reason.ACCEPTED
    message = running.message if running is not None else ""
    is_warning = status.phase == "Failed" or reason in _WARNINGS
    return Note("Warning" if is_warning else "Normal", reason, message)
