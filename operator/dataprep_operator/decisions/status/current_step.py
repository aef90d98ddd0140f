"""Derives the status from the state of the job's current step. All functions are pure.

`steps.py` determines this state. When a step has finished, the next step becomes the current step.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from dataprep_api.dataset.messages import CommitResult, PlanResult, ScanRequest
from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import (
    MAX_FAILURES,
    TERMINAL_PHASES,
    CodeStatus,
    DataPrepJobStatus,
    Progress,
    RecordProgress,
    ScanStatus,
    ShardProgress,
    Timings,
)
from dataprep_api.stages import READ_WAIT, verdict
from dataprep_operator.decisions import conditions, evictions, memory, queueing, steps
from dataprep_operator.decisions.status import activity, progress
from dataprep_operator.decisions.status.activity import Activity
from dataprep_operator.decisions.status.context import Context, with_activity, with_condition, with_phase
from dataprep_operator.decisions.status.effective import fall_back_to_cpu, with_effective
from dataprep_operator.decisions.status.outcomes import bounded_warnings, fail, succeed
from dataprep_operator.decisions.status.waits import report_blockage
from dataprep_operator.decisions.steps import Absent, Blocked, Failed, Queued, Running, Succeeded
from dataprep_operator.objects import job_steps, ranges, results, times
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.observed import Observed

BEFORE_PLANNING: Final[Mapping[str, str | None]] = {
    "step": "Plan", "run_id": None, "plan_sha256": None, "tasks": None, "shuffle_tasks": None, "progress": None, "scan": None,
}  # fmt: skip
"""The values with which an attempt begins with the plan step."""


def advance(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Update the status from the current step. When a step has finished, continue with the next step."""
    if _lacks_number_of_tasks(status):
        status = status.model_copy(update={"attempt": status.attempt + 1, **BEFORE_PLANNING})
    if queueing.has_queue_job(context.observed, status.attempt):
        status = _with_quota_condition(context, status, queueing.queue_job(context.observed, status.attempt), whole=True)
    if status.step == "Plan":
        status = _plan_step(context, status)
    if status.step == "Scan" and status.phase != "Failed":
        status = _scan_step(context, status)
    if status.step == "Merge" and status.phase != "Failed":
        status = _merge_step(context, status)
    if status.step == "Shuffle" and status.phase != "Failed":
        status = _shuffle_step(context, status)
    if status.step == "Convert" and status.phase != "Failed":
        status = _convert_step(context, status)
    if status.step == "Commit" and status.phase not in TERMINAL_PHASES:
        status = _commit_step(context, status)
    return status


def _lacks_number_of_tasks(status: DataPrepJobStatus) -> bool:
    """Return whether the scan or the shuffle can't continue, because the status lacks the step's fields.

    The fields are missing if an earlier release's CRD is installed: the API server drops fields that this CRD doesn't define.
    """
    return (status.step in ("Scan", "Merge") and status.scan is None) or (status.step == "Shuffle" and status.shuffle_tasks is None)


def _plan_step(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    judgement = steps.judge(context.observed, context.spec, step="plan", attempt=status.attempt)
    match judgement:
        case Succeeded(result=PlanResult() as result):
            return _complete_plan(context, status, result)
        case Succeeded(result=ScanRequest() as request):
            return _begin_scan(context, status, request)
        case Succeeded(unreadable=str() as message):
            return _fail_for_message(context, status, message)
        case _:
            child = context.observed.child("plan", status.attempt)
            planning_progress = progress.planning(status, context.observed.live_progress, child, now=context.now)
            status = status.model_copy(update={"progress": planning_progress})
            next_attempt = _with_more_memory(context, status, judgement)
            return next_attempt or _report_unfinished(
                context, status, judgement, step="plan", doing=activity.of_plan_pod(status, context.observed, child)
            )


def _begin_scan(context: Context, status: DataPrepJobStatus, request: ScanRequest) -> DataPrepJobStatus:
    """Continue with the scan step. Everything that the plan pod asked for is recorded, so the job no longer depends on that pod."""
    fault = results.scan_fault(request, context.spec)
    if fault:
        return fail(context, status, Reason.INTERNAL_ERROR, fault)
    child = context.observed.child("plan", status.attempt)
    return status.model_copy(
        update={
            "step": "Scan",
            "scan": ScanStatus(id=request.scan, parts=request.parts),
            "code": CodeStatus(commit=request.code_commit) if request.code_commit is not None else None,
            "evictions": evictions.start_streak(status),
            "timings": _with_duration(status, "planning_seconds", child, ended_at=_last_end(context.observed, child)),
            "progress": progress.with_summary(status, f"0/{request.parts}", now=context.now),
        }
    )


def _scan_step(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    child, parts = context.observed.child("scan", status.attempt), status.scan.parts if status.scan is not None else 0
    status = status.model_copy(update={"progress": progress.sharing(status, child, tasks=parts, now=context.now)})
    judgement = steps.judge(context.observed, context.spec, step="scan", attempt=status.attempt)
    if isinstance(judgement, Succeeded):
        timings = _with_duration(status, "planning_seconds", child, add=True)
        return status.model_copy(update={"step": "Merge", "timings": timings, "evictions": evictions.start_streak(status)})
    next_attempt = _with_more_memory(context, status, judgement)
    return next_attempt or _report_unfinished(context, status, judgement, step="scan", doing=activity.OF_STEP["Scan"])


def _merge_step(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    judgement = steps.judge(context.observed, context.spec, step="merge", attempt=status.attempt)
    match judgement:
        case Succeeded(result=PlanResult() as result):
            return _complete_plan(context, status, result)
        case Succeeded(unreadable=str() as message):
            return _fail_for_message(context, status, message)
        case _:
            next_attempt = _with_more_memory(context, status, judgement)
            return next_attempt or _report_unfinished(context, status, judgement, step="merge", doing=activity.OF_STEP["Merge"])


def _complete_plan(context: Context, status: DataPrepJobStatus, result: PlanResult) -> DataPrepJobStatus:
    child, was_scanned = context.observed.current_child(status), status.step == "Merge"
    fault = results.plan_fault(result, context.spec, step=job_steps.of_status(status.step).label)
    if fault is None and was_scanned:
        fault = results.merge_fault(result, code_commit=status.code.commit if status.code is not None else None)
    if fault:
        return fail(context, status, Reason.INTERNAL_ERROR, fault)
    status = status.model_copy(
        update={
            "run_id": result.run_id,
            "plan_sha256": result.plan_sha256,
            "tasks": result.tasks,
            "shuffle_tasks": result.shuffle_tasks,
            "code": CodeStatus(commit=result.code_commit) if result.code_commit is not None else None,
            "evictions": evictions.start_streak(status),
            "ignored_files": result.ignored,
            "splits": result.splits,
            "labels": result.labels,
            "warnings": bounded_warnings(result.warnings),
            "timings": _with_duration(status, "planning_seconds", child, ended_at=_last_end(context.observed, child), add=was_scanned),
            "progress": Progress(
                # Never lower the percentage, even if the workers repeat work that the plan pod has done.
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
            return succeed(context, status.model_copy(update={"reused": True}), result.commit)
        return _complete_in_one_pod(context, status, child, result, result.commit)
    if not result.tasks:
        return status.model_copy(update={"step": "Commit"})
    if result.shuffle_tasks is None:
        return status.model_copy(update={"step": "Convert"})
    return status.model_copy(
        update={"step": "Shuffle", "progress": progress.with_summary(status, f"0/{result.shuffle_tasks}", now=context.now)}
    )


def _complete_in_one_pod(
    context: Context, status: DataPrepJobStatus, child: Child | None, result: PlanResult, commit: CommitResult
) -> DataPrepJobStatus:
    """Complete a small job whose plan pod has done all steps."""
    timings = status.timings or Timings()
    later_seconds = (result.work_seconds or 0.0) + (result.commit_seconds or 0.0)
    planning_seconds = None if timings.planning_seconds is None else max(0.0, timings.planning_seconds - later_seconds)
    timings = timings.model_copy(
        update={
            "planning_seconds": progress.round_rate(planning_seconds),
            "running_seconds": progress.round_rate(result.work_seconds),
            "committing_seconds": progress.round_rate(result.commit_seconds),
        }
    )
    status = with_effective(context, status, child).model_copy(update={"step": "Commit", "timings": timings})
    return succeed(context, _with_bottleneck(status, commit), commit)


def _with_bottleneck(status: DataPrepJobStatus, result: CommitResult) -> DataPrepJobStatus:
    update = {"bottleneck": verdict(result.seconds), "read_wait_seconds": result.seconds.get(READ_WAIT)}
    return status.model_copy(update={"timings": (status.timings or Timings()).model_copy(update=update)})


def _shuffle_step(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    child, slices = context.observed.child("shuffle", status.attempt), status.shuffle_tasks or 0
    judgement = steps.judge(context.observed, context.spec, step="shuffle", attempt=status.attempt)
    if isinstance(judgement, Succeeded):
        shards = status.progress.shards.total if status.progress is not None else 0
        return status.model_copy(
            update={
                "step": "Convert",
                "evictions": evictions.start_streak(status),
                "timings": _with_duration(status, "running_seconds", child),
                "progress": progress.with_summary(status, f"0/{shards}", now=context.now),
            }
        )
    status = status.model_copy(update={"progress": progress.sharing(status, child, tasks=slices, now=context.now)})
    next_attempt = _with_more_memory(context, status, judgement)
    return next_attempt or _report_unfinished(context, status, judgement, step="shuffle", doing=activity.OF_STEP["Shuffle"])


def _convert_step(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    status = fall_back_to_cpu(context, status)
    child = context.observed.child("convert", status.attempt)
    status = with_effective(context, status, child)
    status = status.model_copy(
        update={
            "progress": progress.running(status, context.observed.live_progress, child, now=context.now),
            "failed_indexes": _failed_task_ranges(status, child),
        }
    )
    if not queueing.has_queue_job(context.observed, status.attempt):
        status = _with_quota_condition(context, status, child)
    judgement = steps.judge(context.observed, context.spec, step="convert", attempt=status.attempt)
    if isinstance(judgement, Succeeded):
        # After a retry, the recorded time may include an earlier convert Job. So add up the durations again, beginning with the shuffle.
        status = status.model_copy(update={"timings": _with_duration(status, "running_seconds", _shuffle_job(context.observed, status))})
        timings = _with_duration(status, "running_seconds", child, add=status.shuffle_tasks is not None)
        return status.model_copy(update={"step": "Commit", "timings": timings, "failed_indexes": None})
    next_attempt = _with_more_memory(context, status, judgement)
    return next_attempt or _report_unfinished(context, status, judgement, step="convert", doing=activity.OF_STEP["Convert"])


def _commit_step(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    judgement = steps.judge(context.observed, context.spec, step="commit", attempt=status.attempt)
    match judgement:
        case Succeeded(result=CommitResult() as result):
            child = context.observed.child("commit", status.attempt)
            status = status.model_copy(update={"timings": _with_duration(status, "committing_seconds", child)})
            return succeed(context, _with_bottleneck(status, result), result)
        case Succeeded(unreadable=str() as message):
            return _fail_for_message(context, status, message)
        case _:
            next_attempt = _with_more_memory(context, status, judgement)
            return next_attempt or _report_unfinished(context, status, judgement, step="commit", doing=activity.OF_STEP["Commit"])


def _fail_for_message(context: Context, status: DataPrepJobStatus, message: str) -> DataPrepJobStatus:
    step = job_steps.of_status(status.step)
    return fail(
        context, status, Reason.INTERNAL_ERROR, f"The {step.label} step's termination message was not written by dataprep: {message}"
    )


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
            return with_phase(context, status, "Pending", "False", Reason.EVICTED, pause_message)
    match judgement:
        case Failed(reason=failure_reason, message=message):
            return fail(context, status, failure_reason, message)
        case Blocked(blockage=blockage):
            return report_blockage(context, status, blockage)
        case Queued():
            is_in_queue = step == "convert" or queueing.has_queue_job(context.observed, status.attempt)
            quota = conditions.find(status.conditions, ConditionType.QUOTA_RESERVED) if is_in_queue else None
            reason = next((candidate for candidate in Reason if quota is not None and candidate == quota.reason), Reason.QUEUED)
            message = (
                quota.message
                if quota is not None
                else queueing.waiting_message(context.observed, context.observed.child(step, status.attempt))
            )
            return with_phase(context, status, "Queued", "False", reason, message)
        case Absent() | Running() | Succeeded():
            return with_activity(context, status, doing)


def _with_quota_condition(context: Context, status: DataPrepJobStatus, child: Child | None, *, whole: bool = False) -> DataPrepJobStatus:
    has_condition = conditions.find(status.conditions, ConditionType.QUOTA_RESERVED) is not None
    quota_condition = queueing.quota_condition(context.observed, child, has_condition=has_condition, whole=whole, now=context.now)
    return status if quota_condition is None else with_condition(context, status, ConditionType.QUOTA_RESERVED, *quota_condition)


def _with_more_memory(context: Context, status: DataPrepJobStatus, judgement: steps.Judgement) -> DataPrepJobStatus | None:
    """Return the status that starts another attempt with more memory, or None.

    Returns None if the step didn't run out of memory, or if its memory can't be raised.
    """
    if not isinstance(judgement, Failed) or judgement.reason is not Reason.OUT_OF_MEMORY:
        return None
    effective = memory.increase(status, context.spec, context.defaults)
    if effective is None:
        return None
    status = status.model_copy(update={"attempt": status.attempt + 1, "effective": effective, "failed_indexes": None})
    return with_activity(context, status, activity.OF_STEP[status.step or "Plan"])


def _failed_task_ranges(status: DataPrepJobStatus, child: Child | None) -> str | None:
    if child is None or not child.failed_indexes:
        return None
    return ranges.shortened(ranges.write(steps.failed_tasks(child, tasks=status.tasks or 1)), limit=2048) or None


def _with_duration(
    status: DataPrepJobStatus, field: str, child: Child | None, *, ended_at: datetime | None = None, add: bool = False
) -> Timings:
    """Return the timings with a step's duration. If the step's Job has no end time, `ended_at` is used instead.

    With `add`, the duration is added to the field's current value.
    """
    timings = status.timings or Timings()
    seconds = times.seconds_between(child.started_at, child.ended_at or ended_at) if child is not None else None
    if seconds is None:
        return timings
    earlier_seconds: float = (getattr(timings, field) or 0.0) if add else 0.0
    return timings.model_copy(update={field: earlier_seconds + seconds})


def _shuffle_job(observed: Observed, status: DataPrepJobStatus) -> Child | None:
    """Return the latest complete shuffle Job of the current plan, or None if there is none."""
    jobs = [child for child in observed.children if child.step == "shuffle" and child.complete and child.digest == status.plan_sha256]
    return max(jobs, key=lambda child: child.attempt, default=None)


def _last_end(observed: Observed, child: Child | None) -> datetime | None:
    """Return when the Job's last pod ended."""
    return max((pod.finished_at for pod in observed.pods_of(child) if pod.finished_at), default=None) if child is not None else None
