"""Derives the condition `QuotaReserved` from the convert Job's state in Kueue. All functions are pure."""

from datetime import datetime
from typing import Final, Literal

from dataprep_api.reasons import Reason
from dataprep_operator.objects import times
from dataprep_operator.objects.child_jobs import QUEUE_LABEL, Child
from dataprep_operator.objects.observed import Admission, Observed

UNQUEUED_AFTER_SECONDS: Final = 30.0
"""Kueue creates a Workload immediately. If no Workload exists after this time, Kueue isn't managing the Job."""


def quota_condition(
    observed: Observed, child: Child | None, *, has_condition: bool, now: datetime
) -> tuple[Literal["True", "False"], Reason, str] | None:
    """Return the condition's status, reason and message, or None to leave the condition unchanged.

    `has_condition` says whether the job already has the condition.
    """
    admission = observed.admission
    if child is None and has_condition:
        return "False", Reason.QUEUED, "No convert Job is in the queue."
    if child is None or not child.queued or child.finished:
        return None
    age_seconds = times.seconds_between(child.created, now) or 0.0
    if admission is not None and not admission.exists and age_seconds >= UNQUEUED_AFTER_SECONDS:
        how = "waits for" if child.suspended else "runs without"
        message = f"The convert Job {how} a Workload, because Kueue has not created one. Check that Kueue is running, that batch/job is among its integrations, and that the queue's label is right."
        return "False", Reason.NOT_QUEUED, message
    if not child.suspended and (admission is None or admission.exists):
        return "True", Reason.QUOTA_RESERVED, f"The queue {observed.queue} has admitted the convert Job."
    queue_message = f" {admission.message.rstrip('.')}." if admission is not None and admission.message else ""
    return "False", Reason.QUEUED, f"{waiting_message(observed)}{queue_message}{_position_sentence(admission)}"


def waiting_message(observed: Observed, child: Child | None = None) -> str:
    """Return the message for a queued or suspended Job, without details from Kueue."""
    step = child.step if child is not None else "convert"
    if observed.queue is not None:
        return f"The {step} Job waits until the queue {observed.queue} admits it."
    return (
        f"Somebody else has suspended the {step} Job, and the operator doesn't resume it. If Kueue suspended the Job (Kueue can also manage Jobs without a queue),"
        f" put the label {QUEUE_LABEL} on a new DataPrepJob, so that all of its Jobs wait in that queue. Otherwise resume the Job: kubectl patch job"
        f' {child.name if child is not None else ""} -p \'{{"spec":{{"suspend":false}}}}\''
    )


def _position_sentence(admission: Admission | None) -> str:
    if admission is None or admission.position is None:
        return ""
    return f" {admission.position} {'job of the queue is' if admission.position == 1 else 'jobs of the queue are'} before it."
