"""What the condition `QuotaReserved` says of the convert Job, in the queue's own words where they are known. Pure; `kueue` asks the queue."""

from datetime import datetime
from typing import Final, Literal

from dataprep_api.reasons import Reason
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import QUEUE_LABEL, Admission, Child, Observed

UNQUEUED_AFTER_SECONDS: Final = 30.0
"""Kueue makes a Workload at once; after so long there is nobody who would."""


def told(seen: Observed, child: Child | None, *, was_told: bool, now: datetime) -> tuple[Literal["True", "False"], Reason, str] | None:
    """Value, reason and message; None when there is nothing to say. `was_told`: whether the condition is there already."""
    admission = seen.admission
    if child is None and was_told:
        return "False", Reason.QUEUED, "There is no convert Job in the queue now."
    if child is None or not child.queued or child.finished:
        return None
    unknown_for = times.seconds_between(child.created, now) or 0.0
    if admission is not None and not admission.exists and unknown_for >= UNQUEUED_AFTER_SECONDS:
        how = "waits for a Workload of Kueue" if child.suspended else "runs without a Workload of Kueue"
        message = f"The convert Job {how}, which has made none: is Kueue running, is batch/job among its integrations, and is the queue's label right?"
        return "False", Reason.NOT_QUEUED, message
    if not child.suspended and (admission is None or admission.exists):
        return "True", Reason.QUOTA_RESERVED, f"The queue {seen.queue} has let the convert Job start."
    said = f" {admission.message.rstrip('.')}." if admission is not None and admission.message else ""
    return "False", Reason.QUEUED, f"{held_back(seen)}{said}{_place(admission)}"


def held_back(seen: Observed, child: Child | None = None) -> str:
    """What is said while nothing of the queue's own words is known."""
    step = child.step if child is not None else "convert"
    if seen.queue is not None:
        return f"The queue {seen.queue} holds the {step} Job back."
    return (
        f"Somebody else has suspended the {step} Job, and the operator leaves it so. If it is Kueue, which may manage Jobs without a queue too:"
        f" put the label {QUEUE_LABEL} on a new DataPrepJob, and all of its Jobs wait in that queue. Else: kubectl patch job"
        f' {child.name if child is not None else ""} -p \'{{"spec":{{"suspend":false}}}}\''
    )


def _place(admission: Admission | None) -> str:
    if admission is None or admission.position is None:
        return ""
    return f" {admission.position} {'job of the queue is' if admission.position == 1 else 'jobs of the queue are'} before it."
