"""Computes three deadlines: for a job, for its current step, and for its wait to start. All functions are pure."""

from datetime import datetime, timedelta
from typing import Final

from pydantic.alias_generators import to_camel

from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import Condition, DataPrepJobStatus
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.decisions import conditions
from dataprep_operator.objects import job_steps, times
from dataprep_operator.objects.observed import Observed

NOT_STARTED: Final = frozenset({Reason.WAITING_FOR_JOB, Reason.PROFILE_NOT_FOUND, Reason.OUTPUT_IN_USE})


def job_deadline(observed: Observed, status: DataPrepJobStatus) -> datetime | None:
    """Return when `activeDeadlineSeconds` ends.

    The time starts again from zero after a retry and, as in a Kubernetes Job, after a suspension.
    """
    if observed.spec is None or observed.spec.active_deadline_seconds is None or status.start_time is None:
        return None
    begin_times = [status.start_time]
    for kind in (ConditionType.SUSPENDED, ConditionType.FAILED):
        condition = conditions.find(status.conditions, kind)
        if condition is not None and condition.status == "False":
            begin_times.append(condition.last_transition_time)
    begin = times.parse(max(begin_times))
    return begin + timedelta(seconds=observed.spec.active_deadline_seconds) if begin else None


def step_deadline(observed: Observed, status: DataPrepJobStatus) -> datetime | None:
    """Return when the current step's limit in `stepDeadlines` ends, counted from the start or last resumption of its Job."""
    limit = _step_limit(observed.spec, status) if observed.spec is not None else None
    child = observed.current_child(status)
    if limit is None or child is None or child.suspended or child.started_at is None:
        return None
    return child.started_at + timedelta(seconds=limit)


def _step_limit(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> int | None:
    limit: int | None = getattr(spec.step_deadlines, job_steps.of_status(status.step).deadline_field, None)
    return limit


def waiting_since(status: DataPrepJobStatus, running: Condition) -> datetime | None:
    """Return when the job began to wait for the current reason.

    Earlier releases didn't write `waitingSince`, but they updated the transition time whenever the reason changed.
    """
    return times.parse(status.waiting_since or running.last_transition_time)


def start_deadline(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> datetime | None:
    """Return when `startDeadlineSeconds` ends, for a job that waits for another job, for its output, or for its profile."""
    condition = conditions.find(status.conditions, ConditionType.RUNNING)
    if spec.start_deadline_seconds is None or condition is None or condition.reason not in NOT_STARTED:
        return None
    since = waiting_since(status, condition)
    return since + timedelta(seconds=spec.start_deadline_seconds) if since else None


def overdue(observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, *, now: datetime) -> tuple[Reason, str] | None:
    """Return the reason and message of an exceeded deadline, or None. Suspended jobs never exceed a deadline."""
    if spec.suspend:
        return None
    step_due = step_deadline(observed, status)
    if step_due is not None and now >= step_due:
        step = job_steps.of_status(status.step)
        field = to_camel(step.deadline_field)
        limit = f"stepDeadlines.{field} ({_step_limit(spec, status)} s)"
        return Reason.DEADLINE_EXCEEDED, f"The {step.label} step ran for longer than {limit}."
    due = job_deadline(observed, status)
    if due is None or now < due:
        return None
    return Reason.DEADLINE_EXCEEDED, f"The job ran for longer than activeDeadlineSeconds ({spec.active_deadline_seconds} s)."
