"""Decides what a DataPrepCronJob needs: which job is due, which jobs to delete, and its new status. All functions are pure.

The decision is level-triggered. The existing jobs and the status show which scheduled times have been handled. Therefore the decision can
be made at any time and after any crash.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from dataprep_api import API_VERSION, CRON_KIND, names
from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources import cron
from dataprep_api.resources.cron import MAX_ACTIVE, ActiveJob, DataPrepCronJobSpec, DataPrepCronJobStatus
from dataprep_api.resources.status import TERMINAL_PHASES
from dataprep_operator.children.metadata import Body
from dataprep_operator.decisions import conditions
from dataprep_operator.decisions.events import Note
from dataprep_operator.decisions.schedules import Schedule
from dataprep_operator.objects import times, untrusted
from dataprep_operator.objects.observed import Key
from dataprep_operator.objects.owners import controller
from dataprep_operator.objects.untrusted import Raw

MANY_MISSED: Final = 100
"""A warning is recorded if more scheduled times than this were missed."""
# Time after which to check again whether a replaced job is gone. Normally a watch event reports the job's deletion sooner.
_REPLACING_SECONDS: Final = 10.0


@dataclass(frozen=True)
class ScheduledJob:
    """A job that a DataPrepCronJob controls."""

    name: str
    uid: str
    version: str
    """The resourceVersion at which the job was read."""
    created: datetime
    scheduled: datetime | None = None
    """The time for which the job was created. None if the DataPrepCronJob is the job's owner but didn't create the job."""
    phase: str | None = None
    ended: datetime | None = None
    deleting: bool = False

    @property
    def finished(self) -> bool:
        """Whether the job's phase is final."""
        return self.phase in TERMINAL_PHASES


@dataclass(frozen=True)
class ObservedCron:
    """A DataPrepCronJob and its jobs."""

    key: Key
    uid: str
    generation: int
    created: datetime
    raw: Raw
    status: DataPrepCronJobStatus
    spec: DataPrepCronJobSpec | None
    """The parsed spec, or None if the spec is rejected. `faults` gives the reason."""
    schedule: Schedule | None
    faults: str = ""
    jobs: tuple[ScheduledJob, ...] = ()

    @property
    def active(self) -> list[ScheduledJob]:
        """The unfinished jobs, oldest first. Jobs that are being deleted are included, because they may still have pods."""
        return sorted((job for job in self.jobs if not job.finished), key=lambda job: (job.created, job.name))

    @property
    def last(self) -> datetime | None:
        """The last scheduled time that was handled, from the status or from a job that was created just before a crash."""
        handled_times = [times.parse(self.status.last_schedule_time), *(job.scheduled for job in self.jobs)]
        return max((moment for moment in handled_times if moment is not None), default=None)


@dataclass(frozen=True)
class Decision:
    """What to do. The due job is created first, then the status is written, and finally the jobs in `removals` are deleted."""

    status: DataPrepCronJobStatus
    due: datetime | None = None
    """The scheduled time for which to create a job, if a job is due."""
    removals: Sequence[ScheduledJob] = ()
    notes: Sequence[Note] = field(default=())
    """Events to record in addition to the Events for changed conditions."""
    requeue_after_seconds: float | None = None


_INVALID: Final[tuple[tuple[ConditionType, Literal["True", "False"]], ...]] = (
    (ConditionType.READY, "False"),
    (ConditionType.STALLED, "True"),
    (ConditionType.VALIDATED, "False"),
)
"""The conditions of a DataPrepCronJob whose spec is rejected. kstatus reads `Ready` and `Stalled` (see `status/health.py`)."""


def decide(observed: ObservedCron, *, now: datetime) -> Decision:
    """Decide what the DataPrepCronJob needs now."""
    status = _with_counts(observed)
    if observed.spec is None or observed.schedule is None:
        for kind, value in _INVALID:
            status = _with_condition(observed, status, kind, value, Reason.INVALID_SPEC, observed.faults, now=now)
        return Decision(status.model_copy(update={"next_schedule_time": None}))
    status = status.model_copy(update={"conditions": conditions.without(status.conditions, ConditionType.STALLED)})
    for kind in (ConditionType.READY, ConditionType.VALIDATED):
        status = _with_condition(observed, status, kind, "True", Reason.ACCEPTED, "The spec is valid.", now=now)
    excess_jobs = _excess_jobs(observed, observed.spec)
    if observed.spec.suspend:
        message = "spec.suspend is true; no jobs are created."
        status = _with_condition(observed, status, ConditionType.SUSPENDED, "True", Reason.SUSPENDED, message, now=now)
        return Decision(status.model_copy(update={"next_schedule_time": None}), removals=excess_jobs)
    if conditions.find(status.conditions, ConditionType.SUSPENDED) is not None:
        message = "spec.suspend is false again."
        status = _with_condition(observed, status, ConditionType.SUSPENDED, "False", Reason.RESUMED, message, now=now)
    next_time = observed.schedule.next(now)
    status = status.model_copy(update={"next_schedule_time": times.text(next_time) if next_time else None})
    return _decide_due_job(
        observed,
        observed.spec,
        observed.schedule,
        Decision(status, removals=excess_jobs, requeue_after_seconds=_until(next_time, now)),
        now=now,
    )


def _decide_due_job(observed: ObservedCron, spec: DataPrepCronJobSpec, schedule: Schedule, base: Decision, *, now: datetime) -> Decision:
    """Decide about the latest scheduled time, if it is not handled yet. `base` is the decision about everything except the due job."""
    begin = observed.last or observed.created
    due = schedule.last(after=begin, until=now)
    if due is None:
        return base
    limit = spec.starting_deadline_seconds
    deadline = due + timedelta(seconds=limit) if limit is not None else None
    if deadline is not None and now > deadline:
        return _postpone(
            observed, base, Reason.MISSED_SCHEDULE, f"The job due at {times.text(due)} could not be created within {limit} s.", now=now
        )
    active = observed.active
    if active and spec.concurrency_policy == "Forbid":
        message = f"The job due at {times.text(due)} waits for {active[0].name} to finish."
        delays = [delay for delay in (base.requeue_after_seconds, _until(deadline, now)) if delay is not None]
        postponed = _postpone(observed, base, Reason.JOB_ACTIVE, message, now=now)
        return Decision(postponed.status, removals=postponed.removals, requeue_after_seconds=min(delays, default=None))
    if active and spec.concurrency_policy == "Replace":
        message = f"Deleting {', '.join(job.name for job in active)}, because a job is due at {times.text(due)}."
        postponed = _postpone(observed, base, Reason.JOB_REPLACED, message, now=now)
        replaced_jobs = [job for job in active if not job.deleting]
        return Decision(postponed.status, removals=[*postponed.removals, *replaced_jobs], requeue_after_seconds=_REPLACING_SECONDS)
    counted_from = max(begin, now - timedelta(seconds=limit)) if limit is not None else begin
    notes = []
    if schedule.has_more(after=counted_from, until=now, than=MANY_MISSED):
        message = f"More than {MANY_MISSED} scheduled times have passed since {times.text(counted_from)}; only one job is created, for {times.text(due)}."
        notes.append(Note("Warning", Reason.TOO_MANY_MISSED, f"{message} Set startingDeadlineSeconds, or check the clocks."))
    return Decision(base.status, due=due, removals=base.removals, notes=notes, requeue_after_seconds=base.requeue_after_seconds)


def with_created_job(observed: ObservedCron, status: DataPrepCronJobStatus, job: ScheduledJob, *, now: datetime) -> DataPrepCronJobStatus:
    """Return the status after the due job was created."""
    assert job.scheduled is not None  # noqa: S101 - created for a time
    active = [*status.active, ActiveJob(name=job.name, uid=job.uid)]
    jobs_by_uid = {entry.uid: entry for entry in active}
    status = status.model_copy(update={"last_schedule_time": times.text(job.scheduled), "active": list(jobs_by_uid.values())[:MAX_ACTIVE]})
    message = f"{job.name} was created for {times.text(job.scheduled)}."
    return _with_condition(observed, status, ConditionType.SCHEDULED, "True", Reason.JOB_CREATED, message, now=now)


def with_failure(
    observed: ObservedCron, status: DataPrepCronJobStatus, reason: Reason, message: str, *, now: datetime
) -> DataPrepCronJobStatus:
    """Return the status of a DataPrepCronJob whose due job can't be created."""
    return _with_condition(observed, status, ConditionType.SCHEDULED, "False", reason, message, now=now)


def job_body(observed: ObservedCron, due: datetime) -> Body:
    """Return the DataPrepJob for one scheduled time. The job's name is derived from its time, so the job can't be created twice."""
    body = cron.job_document(observed.raw, scheduled=due)
    metadata = body["metadata"]
    owner = {"apiVersion": API_VERSION, "kind": CRON_KIND, "name": observed.key.name, "uid": observed.uid, "controller": True}
    return body | {
        "metadata": {
            "name": job_name(observed.key.name, due),
            "namespace": observed.key.namespace,
            "labels": {**metadata.get("labels", {}), **_class_label(observed), names.LABEL_CRON_JOB: names.label_value(observed.key.name)},
            "annotations": {**metadata.get("annotations", {}), names.ANNOTATION_SCHEDULED: times.text(due)},
            "ownerReferences": [owner],
        }
    }


def _class_label(observed: ObservedCron) -> dict[str, str]:
    """Return the label with the DataPrepCronJob's operator class, so that the same release handles its jobs."""
    operator_class = untrusted.mapping(observed.raw["metadata"].get("labels")).get(names.LABEL_CLASS)
    return {names.LABEL_CLASS: operator_class} if operator_class else {}


def job_name(cron_name: str, due: datetime) -> str:
    """Return the job's name, `<name>-<minutes since 1970>`, as Kubernetes' CronJob names its Jobs."""
    return f"{cron_name}-{int(due.timestamp()) // 60}"


def read_job(raw: Raw) -> ScheduledJob:
    """Parse a DataPrepJob that a DataPrepCronJob controls."""
    metadata, status = raw["metadata"], untrusted.mapping(raw.get("status"))
    created = times.parse(metadata["creationTimestamp"])
    assert created is not None  # noqa: S101 - the API server always sets it
    return ScheduledJob(
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        created=created,
        scheduled=_scheduled_time(raw),
        phase=untrusted.text(status.get("phase")) or None,
        ended=times.parse(status.get("completionTime")),
        deleting="deletionTimestamp" in metadata,
    )


def notes_between(before: DataPrepCronJobStatus, after: DataPrepCronJobStatus) -> list[Note]:
    """Return Events for the conditions that changed. A new DataPrepCronJob whose spec is accepted causes no Event."""
    notes = []
    for condition in after.conditions:
        if condition.type in (ConditionType.READY, ConditionType.STALLED):
            continue  # these conditions repeat other conditions
        previous = conditions.find(before.conditions, condition.type)
        if previous is not None and (previous.status, previous.reason, previous.message) == (
            condition.status,
            condition.reason,
            condition.message,
        ):
            continue
        if condition.reason == Reason.ACCEPTED and previous is None:
            continue
        reason = Reason(condition.reason)
        notes.append(Note("Warning" if reason in _WARNINGS else "Normal", reason, condition.message))
    return notes


_WARNINGS: Final = frozenset({Reason.INVALID_SPEC, Reason.MISSED_SCHEDULE, Reason.JOB_REFUSED, Reason.CONFLICTING_CHILD})


# Any, because these are JSON objects of the API.
def as_json(status: DataPrepCronJobStatus) -> dict[str, Any]:
    """Return the status as the API's JSON. Empty fields are left out, so that server-side apply removes them."""
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in document.items() if value != []}


# --- internals --------------------------------------------------------------------------------------------------------------


def _with_counts(observed: ObservedCron) -> DataPrepCronJobStatus:
    """Return the status, updated from the DataPrepCronJob's jobs."""
    success_times = [job.ended for job in observed.jobs if job.phase == "Succeeded" and job.ended is not None]
    recorded_success = times.parse(observed.status.last_successful_time)
    last_success = max([*success_times, *([recorded_success] if recorded_success else [])], default=None)
    return observed.status.model_copy(
        update={
            "observed_generation": observed.generation,
            "last_schedule_time": times.text(observed.last) if observed.last else None,
            "last_successful_time": times.text(last_success) if last_success else None,
            "active": [ActiveJob(name=job.name, uid=job.uid) for job in observed.active[:MAX_ACTIVE]],
        }
    )


def _excess_jobs(observed: ObservedCron, spec: DataPrepCronJobSpec) -> list[ScheduledJob]:
    """Return the finished jobs that exceed the history limits, oldest first."""
    excess_jobs = []
    for phase, limit in (("Succeeded", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)):
        finished_jobs = sorted((job for job in observed.jobs if job.phase == phase), key=lambda job: (job.ended or job.created, job.name))
        excess_jobs += [job for job in finished_jobs[: max(0, len(finished_jobs) - limit)] if not job.deleting]
    return excess_jobs


def _postpone(observed: ObservedCron, base: Decision, reason: Reason, message: str, *, now: datetime) -> Decision:
    return Decision(
        with_failure(observed, base.status, reason, message, now=now),
        removals=base.removals,
        requeue_after_seconds=base.requeue_after_seconds,
    )


def _with_condition(
    observed: ObservedCron,
    status: DataPrepCronJobStatus,
    kind: ConditionType,
    value: Literal["True", "False"],
    reason: Reason,
    message: str,
    *,
    now: datetime,
) -> DataPrepCronJobStatus:
    new_conditions = conditions.replace(
        status.conditions, kind, value, reason=reason, message=message, now=now, generation=observed.generation
    )
    return status.model_copy(update={"conditions": new_conditions})


def _until(moment: datetime | None, now: datetime) -> float | None:
    """Return the seconds until just after `moment`."""
    return max(0.0, (moment - now).total_seconds()) + 0.05 if moment is not None else None


def _scheduled_time(raw: Raw) -> datetime | None:
    """Return the time in the job's annotation if it matches the job's name. Users can edit an annotation, but not a name."""
    metadata = raw["metadata"]
    try:
        due = times.parse(untrusted.mapping(metadata.get("annotations")).get(names.ANNOTATION_SCHEDULED))
    except ValueError:
        return None
    return due if due is not None and metadata["name"] == job_name(controller(raw).get("name", ""), due) else None
