"""Determines which of a DataPrepJob's Jobs is in a Kueue queue, and derives the condition `QuotaReserved` from its state. All functions are
pure.

If the chart sets `kueue.enabled`, the Job in the queue is the queue Job, which represents all steps. Otherwise, it is the convert Job. If
an earlier release started an attempt with the convert Job in the queue, the attempt continues without a queue Job.
"""

from datetime import datetime
from typing import Final, Literal

from dataprep_api.reasons import Reason
from dataprep_operator.objects import job_steps, times
from dataprep_operator.objects.child_jobs import QUEUE, QUEUE_LABEL, Child
from dataprep_operator.objects.observed import Admission, Observed

UNQUEUED_AFTER_SECONDS: Final = 30.0
"""Kueue creates a Workload immediately. If no Workload exists after this time, Kueue isn't managing the Job."""
STEPS: Final = frozenset(job_steps.BY_LABEL)
"""The steps that run within the quota of a queue Job. The step that removes a deleted job's output isn't included."""


def has_queue_job(observed: Observed, attempt: int) -> bool:
    """Return whether a queue Job represents all steps of this attempt in the queue. The queue Job might not exist yet."""
    step_jobs = [child for child in observed.children if child.attempt == attempt and child.step in STEPS]
    return observed.kueue and observed.queue is not None and all(child.within is not None for child in step_jobs)


def queue_job(observed: Observed, attempt: int) -> Child | None:
    """Return the attempt's queue Job, if it exists."""
    return observed.child(QUEUE, attempt)


def queued_job(observed: Observed, attempt: int) -> Child | None:
    """Return the Job that is in the queue, if it exists: the queue Job or the convert Job."""
    return queue_job(observed, attempt) if has_queue_job(observed, attempt) else observed.child("convert", attempt)


def admitted(observed: Observed, attempt: int) -> Child | None:
    """Return the queue Job if the queue has admitted it."""
    queue = queue_job(observed, attempt)
    return None if queue is None or queue.suspended or queue.finished or queue.deleting else queue


def waits_for_quota(observed: Observed, *, step: str, attempt: int) -> bool:
    """Return whether the step must wait, because the queue has not admitted the queue Job."""
    return step in STEPS and has_queue_job(observed, attempt) and admitted(observed, attempt) is None


def quota_condition(
    observed: Observed, child: Child | None, *, has_condition: bool, whole: bool = False, now: datetime
) -> tuple[Literal["True", "False"], Reason, str] | None:
    """Return the condition's status, reason and message, or None to leave the condition unchanged.

    `child` is the Job in the queue, if it exists. `has_condition` says whether the job already has the condition, and `whole` says whether
    the Job represents all steps.
    """
    admission = observed.admission
    if child is None and has_condition:
        return "False", Reason.QUEUED, "The job isn't in the queue." if whole else "No convert Job is in the queue."
    if child is None or not child.queued or child.finished:
        return None
    age_seconds = times.seconds_between(child.created, now) or 0.0
    if admission is not None and not admission.exists and age_seconds >= UNQUEUED_AFTER_SECONDS:
        how = "waits for" if child.suspended else "runs without"
        message = f"{_subject(child)} {how} a Workload, because Kueue has not created one. Check that Kueue is running, that batch/job is among its integrations, and that the queue's label is right."
        return "False", Reason.NOT_QUEUED, message
    if not child.suspended and (admission is None or admission.exists):
        return "True", Reason.QUOTA_RESERVED, f"The queue {observed.queue} has admitted {_uncapitalized(_subject(child))}."
    queue_message = f" {admission.message.rstrip('.')}." if admission is not None and admission.message else ""
    return "False", Reason.QUEUED, f"{waiting_message(observed, child)}{queue_message}{_position_sentence(admission)}"


def waiting_message(observed: Observed, child: Child | None = None) -> str:
    """Return the message for a queued or suspended Job, without details from Kueue."""
    if observed.queue is not None:
        return f"{_subject(child)} waits until the queue {observed.queue} admits it."
    return (
        f"Somebody else has suspended {_uncapitalized(_subject(child))}, and the operator doesn't resume it. Kueue may have suspended the Job, because Kueue can also manage Jobs without a queue."
        f" In that case, put the label {QUEUE_LABEL} on a new DataPrepJob, so that all of its Jobs wait in the label's queue. Otherwise resume the Job: kubectl patch job"
        f' {child.name if child is not None else ""} -p \'{{"spec":{{"suspend":false}}}}\''
    )


def _subject(child: Child | None) -> str:
    return "The job" if child is None or child.step == QUEUE else f"The {child.step} Job"


def _uncapitalized(subject: str) -> str:
    return f"the{subject.removeprefix('The')}"


def _position_sentence(admission: Admission | None) -> str:
    if admission is None or admission.position is None:
        return ""
    return f" {admission.position} {'job of the queue is' if admission.position == 1 else 'jobs of the queue are'} before it."
