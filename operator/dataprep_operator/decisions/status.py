"""Derives the complete status from the previous status and the observed state. All functions are pure.

`_derive` first checks whether the job is finished, then whether it may run, and then the state of its current step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from dataprep_api import names
from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import (
    MAX_FAILURES,
    MAX_RUNS,
    TERMINAL_PHASES,
    CodeStatus,
    Condition,
    DataPrepJobStatus,
    Effective,
    Failure,
    OutputStatus,
    Phase,
    Progress,
    RecordProgress,
    Run,
    ShardProgress,
    Timings,
    bounded,
)
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.stages import READ_WAIT, verdict
from dataprep_operator.children import scripts
from dataprep_operator.children.jobs import parallelism
from dataprep_operator.decisions import (
    activity,
    blocked_deadline,
    conditions,
    deadlines,
    evictions,
    handover,
    health,
    memory,
    progress_status,
    queueing,
    removal,
    steps,
)
from dataprep_operator.decisions.activity import Activity
from dataprep_operator.decisions.steps import Absent, Blocked, Failed, Queued, Running, Succeeded
from dataprep_operator.objects import ranges, redaction, results, times
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.observed import Dependency, Observed
from dataprep_operator.objects.pods import Blockage
from dataprep_operator.settings import PodDefaults

_RETRY_FROM_CONVERT: Final = frozenset({Reason.OUTPUT_MISSING, Reason.VERIFICATION_FAILED})
# After a failure with one of these reasons, a retry starts with the plan step. Only the plan step claims the output folder, so only the
# plan step can claim the folder again.
_RETRY_FROM_PLAN: Final = frozenset({Reason.INPUT_CHANGED, Reason.INPUT_NOT_FOUND, Reason.OUTPUT_LOST})


@dataclass(frozen=True)
class Context:
    """The inputs from which a status is derived, besides the previous status."""

    observed: Observed
    now: datetime
    defaults: PodDefaults
    """Defaults for values that the job's spec leaves out."""

    @property
    def spec(self) -> DataPrepJobSpec:
        """The valid spec. Before using this property, check that `observed.spec` is not None."""
        assert self.observed.spec is not None  # noqa: S101 - checked by `_derive`
        return self.observed.spec


def next_status(observed: Observed, *, now: datetime, defaults: PodDefaults) -> DataPrepJobStatus:
    """Return the job's next status."""
    context = Context(observed, now, defaults)
    return bounded(_keep_times(observed.status, redaction.redact_status(health.with_health(context.observed, _derive(context), now=now))))


def _derive(context: Context) -> DataPrepJobStatus:
    observed = context.observed
    if observed.deleting and observed.has_finalizer:
        return _await_removal(context)
    if observed.finished and not observed.restart_wanted:
        return _keep_final(context)
    status = _initialize(context)
    if observed.too_new:
        return _await_upgrade(context, status)
    if observed.spec is None:
        return _fail(context, status, Reason.INVALID_SPEC, observed.faults)
    profile_text = f", with the DataPrepProfile {observed.profile}" if observed.profile is not None else ""
    status = _with_condition(context, status, ConditionType.VALIDATED, "True", Reason.ACCEPTED, f"The spec is valid{profile_text}.")
    if status.output is None or status.start_time is None:
        # The output is set early, so that `kubectl get -o wide` shows the output with its parameters filled in.
        status = status.model_copy(update={"output": OutputStatus(uri=context.spec.output.uri)})
    if observed.wait_cycle:
        return _fail(context, status, Reason.CIRCULAR_WAIT, _cycle_message(observed))
    # Dependencies are checked before the output, because a job that waits for other jobs doesn't write yet. Often one of the jobs that a
    # job waits for uses the same output.
    blockage = (
        _profile_blockage(context) or _dependency_blockage(observed.dependencies) or _removal_blockage(context) or _rival_blockage(context)
    )
    if context.spec.suspend and (status.start_time is None or blockage is not None):
        return _suspend(context, status)
    if blockage is not None:
        return _enforce_deadlines(context, _report_blockage(context, _resume(context, status), blockage))
    status = evictions.count(context.observed, _start(context, status))
    status = _advance(context, status)
    if status.phase in ("Succeeded", "Failed"):
        return status
    evictions_message = evictions.too_many(context.spec, status)
    if evictions_message is not None:
        return _fail(context, status, Reason.TOO_MANY_EVICTIONS, evictions_message)
    return _enforce_deadlines(context, _suspend(context, status) if context.spec.suspend else _resume(context, status))


def _enforce_deadlines(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    if status.phase == "Failed":
        return status
    overdue = deadlines.overdue(context.observed, context.spec, status, now=context.now)
    return status if overdue is None else _fail(context, status, *overdue)


def _await_upgrade(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Make new jobs wait if the CRD is newer than this operator. Running jobs continue."""
    if status.start_time is not None:
        return status
    fields = ", ".join(context.observed.too_new)
    message = (
        f"This operator doesn't support {fields}, which the CustomResourceDefinition contains. "
        "The job waits until the operator is upgraded."
    )
    return _with_phase(context, status, "Pending", "False", Reason.OPERATOR_OUTDATED, message)


def _keep_times(before: DataPrepJobStatus, after: DataPrepJobStatus) -> DataPrepJobStatus:
    """Return the status `after`, but each part that differs from `before` only in its time keeps the time from `before`.

    Therefore the new status of an unchanged job equals the old status.
    """
    old_times = {(condition.type, condition.status): condition.last_transition_time for condition in before.conditions}
    new_conditions = [
        condition.model_copy(
            update={"last_transition_time": old_times.get((condition.type, condition.status), condition.last_transition_time)}
        )
        for condition in after.conditions
    ]
    progress = after.progress
    if progress is not None and before.progress is not None:
        with_old_time = progress.model_copy(update={"updated_at": before.progress.updated_at})
        progress = with_old_time if with_old_time == before.progress else progress
    return after.model_copy(update={"conditions": new_conditions, "progress": progress})


# --- start and end of a job -----------------------------------------------------------------------------------------------


def _keep_final(context: Context) -> DataPrepJobStatus:
    """Return the final status. It changes only to record the observed generation, and a retry annotation if the job can't be retried."""
    observed = context.observed
    status = observed.status.model_copy(update={"observed_generation": observed.generation})
    if observed.retry is not None and observed.retry != status.handled_retry:
        status = status.model_copy(update={"handled_retry": observed.retry[:256]})
    return status


def _await_removal(context: Context) -> DataPrepJobStatus:
    """Return the status of a deleted job whose output is being removed. Only the condition OutputRemoved changes."""
    judgement = removal.judge(context.observed)
    if isinstance(judgement, removal.Release):
        return context.observed.status
    status = handover.with_condition(context.observed.status, None, now=context.now, generation=context.observed.generation)
    return _with_condition(context, status, ConditionType.OUTPUT_REMOVED, "False", judgement.reason, judgement.message)


def _initialize(context: Context) -> DataPrepJobStatus:
    observed = context.observed
    status = observed.status.model_copy(update={"observed_generation": observed.generation})
    if observed.retry_wanted:
        return _retry(context, status)
    if observed.edited:
        restart: dict[str, Any] = {"phase": "Pending", "step": "Plan", "completion_time": None, "failures": [], "rejected_spec": None}
        status = status.model_copy(update=restart)
        status = _with_condition(context, status, ConditionType.FAILED, "False", Reason.EDITED, "The spec was edited.")
    if observed.retry is not None and observed.retry != status.handled_retry:
        # The retry annotation was set before the job failed, so it causes no retry after a later failure.
        status = status.model_copy(update={"handled_retry": observed.retry[:256]})
    if status.phase is None:
        status = status.model_copy(update={"phase": "Pending", "attempt": 1, "step": "Plan"})
    return status


def _retry(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    failed_condition = conditions.find(status.conditions, ConditionType.FAILED)
    step = _retry_step(status, failed_condition)
    status = status.model_copy(
        update={
            "phase": "Pending",
            "handled_retry": (context.observed.retry or "")[:256],
            "attempt": status.attempt + 1,
            "step": step,
            "completion_time": None,
            "failures": [],
            "failed_indexes": None,
            "evictions": evictions.reset(status),
            # Keep the raised memory, but request GPUs again, because some GPUs may be free now.
            "effective": memory.carry_over(status.effective),
        }
        | ({"run_id": None, "plan_sha256": None, "tasks": None, "progress": None} if step == "Plan" else {})
    )
    return _with_condition(
        context, status, ConditionType.FAILED, "False", Reason.RETRYING, f"Attempt {status.attempt}, from the step {step}."
    )


def _retry_step(status: DataPrepJobStatus, failed_condition: Condition | None) -> Literal["Plan", "Convert", "Commit"]:
    reason = failed_condition.reason if failed_condition is not None else ""
    if status.run_id is None or reason in _RETRY_FROM_PLAN:
        return "Plan"
    if status.step == "Commit" and reason not in _RETRY_FROM_CONVERT:
        return "Commit"
    return "Convert"


def _start(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    if status.start_time:
        return status
    source = context.spec.source
    name = source.from_job.name if source is not None and source.from_job is not None else None
    # Record the other job's output before creating children that depend on it, because the other job may be gone after a restart.
    from_job = next((dependency.data_set for dependency in context.observed.dependencies if dependency.name == name), None)
    return status.model_copy(
        update={"start_time": times.text(context.now), "child_prefix": context.observed.child_prefix, "from_job": from_job}
    )


def _dependency_blockage(jobs: Sequence[Dependency]) -> Blockage | None:
    """Return the blockage if other jobs keep this job from starting."""
    phrases = {None: "which does not exist", "Failed": "which has failed and may be retried"}
    descriptions = [
        f"{dependency.name}, {phrases.get(dependency.phase, f'which is {dependency.phase}')}"
        for dependency in jobs
        if not dependency.complete
    ]
    return Blockage(Reason.WAITING_FOR_JOB, f"Waiting for {'; '.join(descriptions)}.") if descriptions else None


def _profile_blockage(context: Context) -> Blockage | None:
    """Return the blockage if a missing profile keeps the job from starting. A profile's values are read only once, when the job starts."""
    profile_name = context.observed.profile_missing
    if profile_name is None:
        return None
    return Blockage(
        Reason.PROFILE_NOT_FOUND, f"There is no DataPrepProfile {profile_name} in the namespace {context.observed.key.namespace}."
    )


def _removal_blockage(context: Context) -> Blockage | None:
    """Return the blockage if another job's removal of the output keeps this job from starting."""
    if context.observed.output_remover is None:
        return None
    who = context.observed.describe(context.observed.output_remover, how="deleted")
    return Blockage(Reason.WAITING_FOR_JOB, f"Waiting for {who}, which removes {_output_uri(context)}.")


def _rival_blockage(context: Context) -> Blockage | None:
    """Return the blockage if another job that writes to the same location keeps this job from working."""
    rival = context.observed.rival
    if rival is None:
        return None
    who = context.observed.describe(rival, how="unfinished")
    return Blockage(Reason.OUTPUT_IN_USE, f"Waiting for {who}, which writes to the same place, {_output_uri(context)}.")


def _cycle_message(observed: Observed) -> str:
    job_names = [key.name if key.namespace == observed.key.namespace else "another namespace's job" for key in observed.wait_cycle]
    return f"These jobs wait for each other: {' → '.join(job_names)}."


def _fail(context: Context, status: DataPrepJobStatus, reason: Reason, message: str) -> DataPrepJobStatus:
    if reason is Reason.INVALID_SPEC and status.start_time is None:
        status = _with_condition(context, status, ConditionType.VALIDATED, "False", reason, message)
    if status.start_time is None:
        status = status.model_copy(update={"rejected_spec": context.observed.spec_digest})
    failures = status.failures
    if not any(failure.reason == reason for failure in failures):
        failures = [Failure(reason=reason, message=message[:1024], step=status.step, at=times.text(context.now)), *failures][:MAX_FAILURES]
    status = _with_condition(context, status, ConditionType.RUNNING, "False", reason, message)
    status = _with_condition(context, status, ConditionType.FAILED, "True", reason, message)
    progress = status.progress and status.progress.model_copy(
        update={"estimated_seconds_remaining": None, "eta": None, "shards": status.progress.shards.model_copy(update={"active": 0})}
    )
    return _finish(context, status.model_copy(update={"phase": "Failed", "failures": failures, "progress": progress}))


def _finish(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    total = times.seconds_between(times.parse(status.start_time), context.now)
    timings = (status.timings or Timings()).model_copy(update={"total_seconds": progress_status.round_rate(total)})
    ended_at = times.text(context.now)
    return status.model_copy(
        update={
            "completion_time": ended_at,
            "timings": timings,
            "runs": [_history_entry(context, status, ended_at), *status.runs][:MAX_RUNS],
        }
    )


def _history_entry(context: Context, status: DataPrepJobStatus, ended_at: str) -> Run:
    """Return the history entry of the attempt that ends now. The attempt began at the job's start or at the last retry."""
    failed_condition = conditions.find(context.observed.status.conditions, ConditionType.FAILED)
    started_at = (
        failed_condition.last_transition_time if failed_condition is not None and failed_condition.status == "False" else status.start_time
    )
    running = conditions.find(status.conditions, ConditionType.RUNNING)
    return Run(
        attempt=status.attempt,
        phase="Succeeded" if status.phase == "Succeeded" else "Failed",
        reason=running.reason if running is not None else Reason.INTERNAL_ERROR,
        message=running.message[:256] if running is not None else "",
        run_id=status.run_id,
        started_at=started_at or ended_at,
        ended_at=ended_at,
    )


# --- suspension -------------------------------------------------------------------------------------------------------------


def _suspend(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    message = "spec.suspend is true; finished shards are kept."
    status = _with_condition(context, status, ConditionType.RUNNING, "False", Reason.SUSPENDED, message)
    status = _with_condition(context, status, ConditionType.SUSPENDED, "True", Reason.SUSPENDED, message)
    progress = status.progress and status.progress.model_copy(
        update={
            "records_per_second": None,
            "bytes_per_second": None,
            "estimated_seconds_remaining": None,
            "eta": None,
            "shards": status.progress.shards.model_copy(update={"active": 0}),
        }
    )
    return status.model_copy(update={"phase": "Suspended", "progress": progress})


def _resume(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    condition = conditions.find(status.conditions, ConditionType.SUSPENDED)
    if condition is None or condition.status == "False":
        return status
    return _with_condition(context, status, ConditionType.SUSPENDED, "False", Reason.RESUMED, "spec.suspend is false again.")


# --- steps --------------------------------------------------------------------------------------------------------------------


def _advance(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Update the status from the current step. When a step has finished, continue with the next step."""
    if queueing.has_queue_job(context.observed, status.attempt):
        status = _with_quota_condition(context, status, queueing.queue_job(context.observed, status.attempt), whole=True)
    if status.step == "Plan":
        status = _plan_step(context, status)
    if status.step == "Convert" and status.phase != "Failed":
        status = _convert_step(context, status)
    if status.step == "Commit" and status.phase not in TERMINAL_PHASES:
        status = _commit_step(context, status)
    return status


def _plan_step(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    judgement = steps.judge(context.observed, context.spec, step="plan", attempt=status.attempt)
    match judgement:
        case Succeeded(result=PlanResult() as result):
            return _complete_plan(context, status, result)
        case Succeeded(unreadable=str() as message):
            return _fail(context, status, Reason.INTERNAL_ERROR, f"The plan step's message is not one of dataprep's: {message}")
        case _:
            child = context.observed.child("plan", status.attempt)
            progress = progress_status.planning(status, context.observed.live_progress, child, now=context.now)
            status = status.model_copy(update={"progress": progress})
            next_attempt = _with_more_memory(context, status, judgement)
            return next_attempt or _report_unfinished(
                context, status, judgement, step="plan", doing=activity.of_plan_pod(status, context.observed, child)
            )


def _complete_plan(context: Context, status: DataPrepJobStatus, result: PlanResult) -> DataPrepJobStatus:
    fault = results.plan_fault(result, context.spec)
    if fault:
        return _fail(context, status, Reason.INTERNAL_ERROR, fault)
    child = context.observed.child("plan", status.attempt)
    status = status.model_copy(
        update={
            "run_id": result.run_id,
            "plan_sha256": result.plan_sha256,
            "tasks": result.tasks,
            "code": CodeStatus(commit=result.code_commit) if result.code_commit is not None else None,
            "evictions": evictions.start_streak(status),
            "ignored_files": result.ignored,
            "splits": result.splits,
            "labels": result.labels,
            "warnings": _bounded_warnings(result.warnings),
            "timings": _with_duration(status, "planning_seconds", child, ended_at=_last_end(context.observed, child)),
            "progress": Progress(
                # The percentage never decreases, even if the workers repeat what the pod of the plan step has done.
                percent=status.progress.percent if status.progress is not None else 0,
                summary=f"0/{result.shards}",
                shards=ShardProgress(total=result.shards),
                records=RecordProgress(total=result.records),
                updated_at=times.text(context.now),
            ),
        }
    )
    if result.commit is not None:
        if result.reused:
            return _succeed(context, status.model_copy(update={"reused": True}), result.commit)
        return _complete_in_one_pod(context, status, child, result, result.commit)
    return status.model_copy(update={"step": "Convert" if result.tasks else "Commit"})


def _complete_in_one_pod(
    context: Context, status: DataPrepJobStatus, child: Child | None, result: PlanResult, commit: CommitResult
) -> DataPrepJobStatus:
    """Complete a small job, of which the pod of the plan step has done all steps."""
    timings = status.timings or Timings()
    later_seconds = (result.work_seconds or 0.0) + (result.commit_seconds or 0.0)
    planning_seconds = None if timings.planning_seconds is None else max(0.0, timings.planning_seconds - later_seconds)
    timings = timings.model_copy(
        update={
            "planning_seconds": progress_status.round_rate(planning_seconds),
            "running_seconds": progress_status.round_rate(result.work_seconds),
            "committing_seconds": progress_status.round_rate(result.commit_seconds),
        }
    )
    status = _with_effective(context, status, child).model_copy(update={"step": "Commit", "timings": timings})
    return _succeed(context, _with_bottleneck(status, commit), commit)


def _with_bottleneck(status: DataPrepJobStatus, result: CommitResult) -> DataPrepJobStatus:
    update = {"bottleneck": verdict(result.seconds), "read_wait_seconds": result.seconds.get(READ_WAIT)}
    return status.model_copy(update={"timings": (status.timings or Timings()).model_copy(update=update)})


def _convert_step(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    status = _fall_back_to_cpu(context, status)
    child = context.observed.child("convert", status.attempt)
    status = _with_effective(context, status, child)
    status = status.model_copy(
        update={
            "progress": progress_status.running(status, context.observed.live_progress, child, now=context.now),
            "failed_indexes": _failed_task_ranges(status, child),
        }
    )
    if not queueing.has_queue_job(context.observed, status.attempt):
        status = _with_quota_condition(context, status, child)
    judgement = steps.judge(context.observed, context.spec, step="convert", attempt=status.attempt)
    if isinstance(judgement, Succeeded):
        return status.model_copy(
            update={"step": "Commit", "timings": _with_duration(status, "running_seconds", child), "failed_indexes": None}
        )
    next_attempt = _with_more_memory(context, status, judgement)
    return next_attempt or _report_unfinished(context, status, judgement, step="convert", doing=activity.OF_STEP["Convert"])


def _commit_step(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    judgement = steps.judge(context.observed, context.spec, step="commit", attempt=status.attempt)
    match judgement:
        case Succeeded(result=CommitResult() as result):
            child = context.observed.child("commit", status.attempt)
            status = status.model_copy(update={"timings": _with_duration(status, "committing_seconds", child)})
            return _succeed(context, _with_bottleneck(status, result), result)
        case Succeeded(unreadable=str() as message):
            return _fail(context, status, Reason.INTERNAL_ERROR, f"The commit step's message is not one of dataprep's: {message}")
        case _:
            next_attempt = _with_more_memory(context, status, judgement)
            return next_attempt or _report_unfinished(context, status, judgement, step="commit", doing=activity.OF_STEP["Commit"])


def _report_unfinished(
    context: Context, status: DataPrepJobStatus, judgement: steps.Judgement, *, step: str, doing: Activity
) -> DataPrepJobStatus:
    failures = steps.failures(context.observed, step=step, attempt=status.attempt)
    if failures:
        status = status.model_copy(update={"failures": failures[:MAX_FAILURES]})
    if isinstance(judgement, Blocked | Running):
        pause_message = evictions.pause_message(
            context.observed, context.spec, status, context.observed.child(step, status.attempt), now=context.now
        )
        if pause_message is not None:
            return _with_phase(context, status, "Pending", "False", Reason.EVICTED, pause_message)
    match judgement:
        case Failed(reason=failure_reason, message=message):
            return _fail(context, status, failure_reason, message)
        case Blocked(blockage=blockage):
            return _report_blockage(context, status, blockage)
        case Queued():
            is_in_queue = step == "convert" or queueing.has_queue_job(context.observed, status.attempt)
            quota = conditions.find(status.conditions, ConditionType.QUOTA_RESERVED) if is_in_queue else None
            reason = next((candidate for candidate in Reason if quota is not None and candidate == quota.reason), Reason.QUEUED)
            message = (
                quota.message
                if quota is not None
                else queueing.waiting_message(context.observed, context.observed.child(step, status.attempt))
            )
            return _with_phase(context, status, "Queued", "False", reason, message)
        case Absent() | Running() | Succeeded():
            return _with_activity(context, status, doing)


def _with_quota_condition(context: Context, status: DataPrepJobStatus, child: Child | None, *, whole: bool = False) -> DataPrepJobStatus:
    has_condition = conditions.find(status.conditions, ConditionType.QUOTA_RESERVED) is not None
    quota_condition = queueing.quota_condition(context.observed, child, has_condition=has_condition, whole=whole, now=context.now)
    return status if quota_condition is None else _with_condition(context, status, ConditionType.QUOTA_RESERVED, *quota_condition)


def _report_blockage(context: Context, status: DataPrepJobStatus, blockage: Blockage) -> DataPrepJobStatus:
    since = _blocked_since(context, status, blockage)
    waited_seconds = (context.now - since).total_seconds()
    before = conditions.find(status.conditions, ConditionType.RUNNING)
    message = blocked_deadline.message(blockage, before.message if before is not None and before.reason == blockage.reason else "")
    limit = blocked_deadline.seconds(message, context.spec, status, since=since) if blockage.fatal else None
    if limit is not None and waited_seconds >= limit:
        return _fail(
            context, status, blockage.reason, message if limit == blocked_deadline.LEAST_SECONDS else f"{message} Waited for {limit:.0f} s."
        )
    limit = context.spec.start_deadline_seconds
    if limit is not None and not blockage.fatal and waited_seconds >= limit:
        what = "The job could not start" if blockage.reason in deadlines.NOT_STARTED else "No pod could be scheduled"
        return _fail(context, status, Reason.START_DEADLINE_EXCEEDED, f"{what} within {limit} s: {blockage.message}")
    return _with_phase(context, status, "Pending", "False", blockage.reason, message)


def _blocked_since(context: Context, status: DataPrepJobStatus, blockage: Blockage) -> datetime:
    """Return when the blockage began, according to the scheduler or to the condition that reported it."""
    if blockage.since is not None and not blockage.fatal:
        return blockage.since
    before = conditions.find(status.conditions, ConditionType.RUNNING)
    if before is None or before.status != "False" or before.reason != blockage.reason:
        return context.now
    return deadlines.waiting_since(status, before) or context.now


def _fall_back_to_cpu(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """With the policy `Preferred`, start another attempt on CPU nodes when no GPU pod was scheduled in time."""
    child = context.observed.child("convert", status.attempt)
    if child is None or accelerator(context.spec, status) != "GPU" or context.spec.workers.accelerator.policy != "Preferred":
        return status
    pods = context.observed.pods_of(child)
    unschedulable_since = [pod.unschedulable.since for pod in pods if pod.unschedulable is not None and pod.unschedulable.since is not None]
    if child.finished or child.suspended or child.completed_indexes or any(pod.scheduled for pod in pods) or not unschedulable_since:
        return status
    if (context.now - min(unschedulable_since)).total_seconds() < context.spec.workers.accelerator.fallback_after_seconds:
        return status
    effective = (status.effective or Effective()).model_copy(update={"accelerator": "CPU"})
    return status.model_copy(update={"attempt": status.attempt + 1, "effective": effective})


def accelerator(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> Literal["CPU", "GPU"]:
    """Return what the convert step runs on: the CPU if this attempt has fallen back to the CPU, or else the spec's choice."""
    if spec.workers.accelerator.policy == "None" or (status.effective is not None and status.effective.accelerator == "CPU"):
        return "CPU"
    return "GPU"


def _with_effective(context: Context, status: DataPrepJobStatus, child: Child | None) -> DataPrepJobStatus:
    completions = child.completions if child is not None else status.tasks or 1
    queue = queueing.admitted(context.observed, status.attempt)
    most = queue.parallelism if queue is not None else completions
    effective_fields = {
        "parallelism": child.parallelism if child is not None and child.queued else min(most, parallelism(context.spec, completions)),
        "image": child.image if child is not None and child.image else scripts.image(context.spec, context.defaults),
        "accelerator": accelerator(context.spec, status),
    }
    selector = f"{names.LABEL_JOB_UID}={context.observed.uid},{names.LABEL_STEP}=convert"
    effective = (status.effective or Effective()).model_copy(update=effective_fields)
    return status.model_copy(update={"effective": effective, "selector": selector})


def _with_more_memory(context: Context, status: DataPrepJobStatus, judgement: steps.Judgement) -> DataPrepJobStatus | None:
    """Return the status of another attempt with more memory, if the step ran out of memory and may be given more. Otherwise return None."""
    if not isinstance(judgement, Failed) or judgement.reason is not Reason.OUT_OF_MEMORY:
        return None
    effective = memory.increase(status, context.spec, context.defaults)
    if effective is None:
        return None
    status = status.model_copy(update={"attempt": status.attempt + 1, "effective": effective, "failed_indexes": None})
    return _with_activity(context, status, activity.OF_STEP[status.step or "Plan"])


def _succeed(context: Context, status: DataPrepJobStatus, result: CommitResult) -> DataPrepJobStatus:
    fault = results.commit_fault(result, run_id=status.run_id)
    if fault:
        return _fail(context, status, Reason.VERIFICATION_FAILED, fault)
    reused = bool(status.reused)
    reason = Reason.REUSED if reused else Reason.COMPLETED
    message = (
        f"{result.records.out} record{'s' * (result.records.out != 1)} in {result.files} file{'s' * (result.files != 1)} "
        f"at {_output_uri(context)}" + (" (reused)." if reused else ".")
    )
    status = status.model_copy(
        update={
            "phase": "Succeeded",
            "splits": result.splits or status.splits,
            "outputs": result.outputs,
            "output": OutputStatus(
                uri=_output_uri(context),
                manifest_uri=result.manifest_uri,
                manifest_sha256=result.manifest_sha256,
                digest=result.digest,
                quarantine_uri=result.quarantine_uri,
                files=result.files,
                records=result.records.out,
                bytes=result.bytes_out,
                channels=result.channels,
            ),
            "bad_records": [
                Failure(reason=Reason.BAD_RECORDS, message=bad.reason, input=bad.uri, index=bad.row) for bad in result.bad[:MAX_FAILURES]
            ],
            "warnings": _bounded_warnings([*status.warnings, *result.warnings]),
            "failed_indexes": None,
            "progress": progress_status.final(status, result, now=context.now),
        }
    )
    status = _with_condition(context, status, ConditionType.RUNNING, "False", reason, message)
    status = _with_condition(context, status, ConditionType.OUTPUT_COMMITTED, "True", reason, message)
    status = _with_condition(context, status, ConditionType.COMPLETE, "True", reason, message)
    return _finish(context, _resume(context, status))


def _failed_task_ranges(status: DataPrepJobStatus, child: Child | None) -> str | None:
    if child is None or not child.failed_indexes:
        return None
    return ranges.shortened(ranges.write(steps.failed_tasks(child, tasks=status.tasks or 1)), limit=2048) or None


# --- helpers ----------------------------------------------------------------------------------------------------------------


def _with_activity(context: Context, status: DataPrepJobStatus, doing: Activity) -> DataPrepJobStatus:
    return _with_phase(context, status, doing.phase, "True", doing.reason, doing.message)


def _with_phase(
    context: Context, status: DataPrepJobStatus, phase: Phase, running: Literal["True", "False"], reason: Reason, message: str
) -> DataPrepJobStatus:
    return _with_condition(context, status.model_copy(update={"phase": phase}), ConditionType.RUNNING, running, reason, message)


def _with_condition(
    context: Context, status: DataPrepJobStatus, kind: ConditionType, value: Literal["True", "False"], reason: Reason, message: str
) -> DataPrepJobStatus:
    new_conditions = conditions.replace(
        status.conditions, kind, value, reason=reason, message=message, now=context.now, generation=context.observed.generation
    )
    return status.model_copy(update={"conditions": new_conditions})


def _with_duration(status: DataPrepJobStatus, field: str, child: Child | None, *, ended_at: datetime | None = None) -> Timings:
    """Return the timings, with a step's duration added. If the step's Job has no end time, `ended_at` is used instead."""
    timings = status.timings or Timings()
    seconds = times.seconds_between(child.started_at, child.ended_at or ended_at) if child is not None else None
    return timings if seconds is None else timings.model_copy(update={field: seconds})


def _last_end(observed: Observed, child: Child | None) -> datetime | None:
    """Return when the Job's last pod ended."""
    return max((pod.finished_at for pod in observed.pods_of(child) if pod.finished_at), default=None) if child is not None else None


def _output_uri(context: Context) -> str:
    return context.spec.output.uri


def _bounded_warnings(warnings: Sequence[str]) -> list[str]:
    return [warning[:1024] for warning in dict.fromkeys(warnings)][:10]


# Any, because these are JSON objects of the API.
def as_json(status: DataPrepJobStatus) -> dict[str, Any]:
    """Return the status as the API's JSON. Empty fields are left out, so that server-side apply removes them."""
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in document.items() if value != []}
