"""The status as a whole, from the one before and what is there now. Pure: the time is an argument.

The order of the questions is the order of this file: is it over? may it run? which step is it at, and how is that step doing?
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import (
    MAX_FAILURES,
    MAX_RUNS,
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
    blocked_deadline,
    conditions,
    deadlines,
    evictions,
    handover,
    memory,
    progress_status,
    queueing,
    removal,
    steps,
)
from dataprep_operator.decisions.steps import Absent, Broken, Held, Queued, Through, Working
from dataprep_operator.objects import ranges, redaction, results, times
from dataprep_operator.objects.observed import Awaited, Child, Observed
from dataprep_operator.objects.pods import Blockage
from dataprep_operator.settings import PodDefaults

_BEGIN_AGAIN_WITH_CONVERT: Final = frozenset({Reason.OUTPUT_MISSING, Reason.VERIFICATION_FAILED})
# The plan step alone takes the output folder, so it is also what takes it back.
_BEGIN_AGAIN_WITH_PLAN: Final = frozenset({Reason.INPUT_CHANGED, Reason.INPUT_NOT_FOUND, Reason.OUTPUT_LOST})


@dataclass(frozen=True)
class Moment:
    """What a status is made from, beside the status before it."""

    seen: Observed
    now: datetime
    defaults: PodDefaults
    """What holds for a job that doesn't say otherwise."""

    @property
    def spec(self) -> DataPrepJobSpec:
        """The accepted spec. Ask only after `seen.spec` was found."""
        assert self.seen.spec is not None  # noqa: S101 - `following` has looked
        return self.seen.spec


def following(seen: Observed, *, now: datetime, defaults: PodDefaults) -> DataPrepJobStatus:
    """The status that follows from what is there."""
    return bounded(_steady(seen.status, redaction.of_job(_following(Moment(seen, now, defaults)))))


def _following(moment: Moment) -> DataPrepJobStatus:
    seen = moment.seen
    if seen.deleting and seen.guarded:
        return _leaving(moment)
    if seen.finished and not seen.retry_wanted:
        return _settled(moment)
    status = _begun(moment)
    if seen.too_new:
        return _outdated(moment, status)
    if seen.spec is None:
        return _failed(moment, status, Reason.INVALID_SPEC, seen.faults)
    by = f", with the DataPrepProfile {seen.profile}" if seen.profile is not None else ""
    status = _condition(moment, status, ConditionType.VALIDATED, "True", Reason.ACCEPTED, f"The spec is valid{by}.")
    if status.output is None:
        # From the first moment `kubectl get -o wide` says where the data set will be, with its parameters filled in.
        status = status.model_copy(update={"output": OutputStatus(uri=moment.spec.output.uri)})
    if seen.circle:
        return _failed(moment, status, Reason.CIRCULAR_WAIT, _circular(seen))
    # Who waits for a job writes nothing yet; often that one writes there until then.
    awaited = _without_profile(moment) or _awaited(seen.awaited) or _left_behind(moment) or _in_use(moment)
    if moment.spec.suspend and (status.start_time is None or awaited is not None):
        return _suspended(moment, status)
    if awaited is not None:
        return _in_time(moment, _held(moment, _resumed(moment, status), awaited))
    status = evictions.counted(moment.seen, _started(moment, status))
    status = _stepped(moment, status)
    if status.phase in ("Succeeded", "Failed"):
        return status
    evicted = evictions.too_many(moment.spec, status)
    if evicted is not None:
        return _failed(moment, status, Reason.TOO_MANY_EVICTIONS, evicted)
    return _in_time(moment, _suspended(moment, status) if moment.spec.suspend else _resumed(moment, status))


def _in_time(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    if status.phase == "Failed":
        return status
    overdue = deadlines.overdue(moment.seen, moment.spec, status, now=moment.now)
    return status if overdue is None else _failed(moment, status, *overdue)


def _outdated(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Between the upgrade of the CustomResourceDefinition and that of the operator: a job that runs goes on as it is, a new one waits."""
    if status.start_time is not None:
        return status
    fields = ", ".join(moment.seen.too_new)
    message = f"This operator doesn't know {fields}, which the CustomResourceDefinition has: the job waits until the operator is as new."
    return _phase(moment, status, "Pending", "False", Reason.OPERATOR_OUTDATED, message)


def _steady(before: DataPrepJobStatus, after: DataPrepJobStatus) -> DataPrepJobStatus:
    """`after` with the old times where nothing else changed, so that an unchanged job has an unchanged status."""
    known = {(each.type, each.status, each.reason): each.last_transition_time for each in before.conditions}
    kept = [
        each.model_copy(update={"last_transition_time": known.get((each.type, each.status, each.reason), each.last_transition_time)})
        for each in after.conditions
    ]
    progress = after.progress
    if progress is not None and before.progress is not None:
        as_before = progress.model_copy(update={"updated_at": before.progress.updated_at})
        progress = as_before if as_before == before.progress else progress
    return after.model_copy(update={"conditions": kept, "progress": progress})


# --- the beginning and the end --------------------------------------------------------------------------------------------


def _settled(moment: Moment) -> DataPrepJobStatus:
    """A final status stays as it is; only the retry annotation of a job that can't be retried is noted."""
    seen = moment.seen
    if seen.retry is not None and seen.retry != seen.status.handled_retry:
        return seen.status.model_copy(update={"handled_retry": seen.retry[:256]})
    return seen.status


def _leaving(moment: Moment) -> DataPrepJobStatus:
    """A deleted job's status says only what is in the way of its end."""
    judgement = removal.judge(moment.seen)
    if isinstance(judgement, removal.LetGo):
        return moment.seen.status
    status = handover.told(moment.seen.status, None, now=moment.now, generation=moment.seen.generation)
    return _condition(moment, status, ConditionType.OUTPUT_REMOVED, "False", judgement.reason, judgement.message)


def _begun(moment: Moment) -> DataPrepJobStatus:
    seen = moment.seen
    status = seen.status.model_copy(update={"observed_generation": seen.generation})
    if seen.retry_wanted:
        return _retried(moment, status)
    if seen.retry is not None and seen.retry != status.handled_retry:
        # Set before anything failed: a wish for the past, not for the next failure.
        status = status.model_copy(update={"handled_retry": seen.retry[:256]})
    if status.phase is None:
        status = status.model_copy(update={"phase": "Pending", "attempt": 1, "step": "Plan"})
    return status


def _retried(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    failed = conditions.find(status.conditions, ConditionType.FAILED)
    step = _first_step_again(status, failed)
    status = status.model_copy(
        update={
            "phase": "Pending",
            "handled_retry": (moment.seen.retry or "")[:256],
            "attempt": status.attempt + 1,
            "step": step,
            "completion_time": None,
            "failures": [],
            "failed_indexes": None,
            "evictions": evictions.begun_anew(status),
            # What was learned about the memory stays; GPUs may be free again.
            "effective": memory.learned(status.effective),
        }
        | ({"run_id": None, "plan_sha256": None, "tasks": None, "progress": None} if step == "Plan" else {})
    )
    return _condition(moment, status, ConditionType.FAILED, "False", Reason.RETRYING, f"Attempt {status.attempt}, from the step {step}.")


def _first_step_again(status: DataPrepJobStatus, failed: Condition | None) -> Literal["Plan", "Convert", "Commit"]:
    reason = failed.reason if failed is not None else ""
    if status.run_id is None or reason in _BEGIN_AGAIN_WITH_PLAN:
        return "Plan"
    if status.step == "Commit" and reason not in _BEGIN_AGAIN_WITH_CONVERT:
        return "Commit"
    return "Convert"


def _started(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    if status.start_time:
        return status
    source = moment.spec.source
    name = source.from_job.name if source is not None and source.from_job is not None else None
    # Before anything is made from it: after a restart the other job may be gone.
    found = next((each.data_set for each in moment.seen.awaited if each.name == name), None)
    return status.model_copy(update={"start_time": times.text(moment.now), "child_prefix": moment.seen.child_prefix, "from_job": found})


def _awaited(jobs: Sequence[Awaited]) -> Blockage | None:
    """What keeps the job from starting, when it is other jobs."""
    said = {None: "which does not exist", "Failed": "which has failed and may be retried"}
    waiting = [f"{each.name}, {said.get(each.phase, f'which is {each.phase}')}" for each in jobs if not each.complete]
    return Blockage(Reason.WAITING_FOR_JOB, f"Waiting for {'; '.join(waiting)}.") if waiting else None


def _without_profile(moment: Moment) -> Blockage | None:
    """What keeps the job from starting, when it is a profile that isn't there. A run takes its profile's values once, when it begins."""
    missing = moment.seen.profile_missing
    if missing is None:
        return None
    return Blockage(Reason.PROFILE_NOT_FOUND, f"There is no DataPrepProfile {missing} in the namespace {moment.seen.key.namespace}.")


def _left_behind(moment: Moment) -> Blockage | None:
    """What keeps the job from starting, when its output is still being cleared."""
    if moment.seen.leaving is None:
        return None
    who = moment.seen.called(moment.seen.leaving, how="deleted")
    return Blockage(Reason.WAITING_FOR_JOB, f"Waiting for {who}, which removes {_output(moment)}.")


def _in_use(moment: Moment) -> Blockage | None:
    """What keeps the job from working, when another one works at the same place."""
    rival = moment.seen.rival
    if rival is None:
        return None
    who = moment.seen.called(rival, how="unfinished")
    return Blockage(Reason.OUTPUT_IN_USE, f"Waiting for {who}, which writes to the same place, {_output(moment)}.")


def _circular(seen: Observed) -> str:
    shown = [each.name if each.namespace == seen.key.namespace else "another namespace's job" for each in seen.circle]
    return f"These jobs wait for each other: {' → '.join(shown)}."


def _failed(moment: Moment, status: DataPrepJobStatus, reason: Reason, message: str) -> DataPrepJobStatus:
    if reason is Reason.INVALID_SPEC and status.start_time is None:
        status = _condition(moment, status, ConditionType.VALIDATED, "False", reason, message)
    told = status.failures
    if not any(failure.reason == reason for failure in told):
        told = [Failure(reason=reason, message=message[:1024], step=status.step, at=times.text(moment.now)), *told][:MAX_FAILURES]
    status = _condition(moment, status, ConditionType.RUNNING, "False", reason, message)
    status = _condition(moment, status, ConditionType.FAILED, "True", reason, message)
    progress = status.progress and status.progress.model_copy(
        update={"estimated_seconds_remaining": None, "eta": None, "shards": status.progress.shards.model_copy(update={"active": 0})}
    )
    return _ended(moment, status.model_copy(update={"phase": "Failed", "failures": told, "progress": progress}))


def _ended(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    total = times.seconds_between(times.parse(status.start_time), moment.now)
    timings = (status.timings or Timings()).model_copy(update={"total_seconds": progress_status.rounded(total)})
    ended = times.text(moment.now)
    return status.model_copy(
        update={"completion_time": ended, "timings": timings, "runs": [_run(moment, status, ended), *status.runs][:MAX_RUNS]}
    )


def _run(moment: Moment, status: DataPrepJobStatus, ended: str) -> Run:
    """What the history keeps of the attempt that ends now. It began when the job did, or when a retry was asked for."""
    retried = conditions.find(moment.seen.status.conditions, ConditionType.FAILED)
    began = retried.last_transition_time if retried is not None and retried.status == "False" else status.start_time
    running = conditions.find(status.conditions, ConditionType.RUNNING)
    return Run(
        attempt=status.attempt,
        phase="Succeeded" if status.phase == "Succeeded" else "Failed",
        reason=running.reason if running is not None else Reason.INTERNAL_ERROR,
        message=running.message[:256] if running is not None else "",
        run_id=status.run_id,
        started_at=began or ended,
        ended_at=ended,
    )


# --- suspension -------------------------------------------------------------------------------------------------------------


def _suspended(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    message = "spec.suspend is true; finished shards are kept."
    status = _condition(moment, status, ConditionType.RUNNING, "False", Reason.SUSPENDED, message)
    status = _condition(moment, status, ConditionType.SUSPENDED, "True", Reason.SUSPENDED, message)
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


def _resumed(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    was = conditions.find(status.conditions, ConditionType.SUSPENDED)
    if was is None or was.status == "False":
        return status
    return _condition(moment, status, ConditionType.SUSPENDED, "False", Reason.RESUMED, "spec.suspend is false again.")


# --- steps --------------------------------------------------------------------------------------------------------------------


def _stepped(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """The status after every step that is through has been taken into account."""
    if status.step == "Plan":
        status = _planning(moment, status)
    if status.step == "Convert" and status.phase != "Failed":
        status = _converting(moment, status)
    if status.step == "Commit" and status.phase != "Failed":
        status = _committing(moment, status)
    return status


def _planning(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    judgement = steps.judge(moment.seen, moment.spec, step="plan", attempt=status.attempt)
    match judgement:
        case Through(result=PlanResult() as result):
            return _planned(moment, status, result)
        case Through(unreadable=str() as said):
            return _failed(moment, status, Reason.INTERNAL_ERROR, f"The plan step's message is not one of dataprep's: {said}")
        case _:
            roomier = _with_more_memory(moment, status, judgement)
            return roomier or _unfinished(moment, status, judgement, step="plan", phase="Planning", reason=Reason.PLANNING)


def _planned(moment: Moment, status: DataPrepJobStatus, result: PlanResult) -> DataPrepJobStatus:
    fault = results.fault_of_plan(result, moment.spec)
    if fault:
        return _failed(moment, status, Reason.INTERNAL_ERROR, fault)
    child = moment.seen.child("plan", status.attempt)
    status = status.model_copy(
        update={
            "run_id": result.run_id,
            "plan_sha256": result.plan_sha256,
            "tasks": result.tasks,
            "code": CodeStatus(commit=result.code_commit) if result.code_commit is not None else None,
            "evictions": evictions.in_a_new_step(status),
            "ignored_files": result.ignored,
            "splits": result.splits,
            "labels": result.labels,
            "warnings": _shortened(result.warnings),
            "timings": _timed(status, "planning_seconds", child, ended_at=_last_end(moment.seen, child)),
            "progress": Progress(
                summary=f"0/{result.shards}",
                shards=ShardProgress(total=result.shards),
                records=RecordProgress(total=result.records),
                updated_at=times.text(moment.now),
            ),
        }
    )
    if result.reused and result.commit is not None:
        return _succeeded(moment, status.model_copy(update={"reused": True}), result.commit)
    return status.model_copy(update={"step": "Convert" if result.tasks else "Commit"})


def _converting(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    status = _on_cpu_if_no_gpu_comes(moment, status)
    child = moment.seen.child("convert", status.attempt)
    status = _with_effective_values(moment, status, child)
    status = status.model_copy(
        update={
            "progress": progress_status.running(status, moment.seen.live, child, now=moment.now),
            "failed_indexes": _given_up(status, child),
        }
    )
    status = _in_the_queue(moment, status, child)
    judgement = steps.judge(moment.seen, moment.spec, step="convert", attempt=status.attempt)
    if isinstance(judgement, Through):
        return status.model_copy(update={"step": "Commit", "timings": _timed(status, "running_seconds", child), "failed_indexes": None})
    roomier = _with_more_memory(moment, status, judgement)
    return roomier or _unfinished(moment, status, judgement, step="convert", phase="Running", reason=Reason.CONVERTING)


def _committing(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    judgement = steps.judge(moment.seen, moment.spec, step="commit", attempt=status.attempt)
    match judgement:
        case Through(result=CommitResult() as result):
            child = moment.seen.child("commit", status.attempt)
            timings = _timed(status, "committing_seconds", child).model_copy(
                update={"bottleneck": verdict(result.seconds), "read_wait_seconds": result.seconds.get(READ_WAIT)}
            )
            return _succeeded(moment, status.model_copy(update={"timings": timings}), result)
        case Through(unreadable=str() as said):
            return _failed(moment, status, Reason.INTERNAL_ERROR, f"The commit step's message is not one of dataprep's: {said}")
        case _:
            roomier = _with_more_memory(moment, status, judgement)
            return roomier or _unfinished(moment, status, judgement, step="commit", phase="Committing", reason=Reason.COMMITTING)


def _unfinished(
    moment: Moment, status: DataPrepJobStatus, judgement: steps.Judgement, *, step: str, phase: Phase, reason: Reason
) -> DataPrepJobStatus:
    told = steps.failures(moment.seen, step=step, attempt=status.attempt)
    if told:
        status = status.model_copy(update={"failures": told[:MAX_FAILURES]})
    if isinstance(judgement, Held | Working):
        paused = evictions.pause(moment.seen, moment.spec, status, moment.seen.child(step, status.attempt), now=moment.now)
        if paused is not None:
            return _phase(moment, status, "Pending", "False", Reason.EVICTED, paused)
    match judgement:
        case Broken(reason=why, message=message):
            return _failed(moment, status, why, message)
        case Held(blockage=blockage):
            return _held(moment, status, blockage)
        case Queued():
            held = conditions.find(status.conditions, ConditionType.QUOTA_RESERVED) if step == "convert" else None
            reason = next((each for each in Reason if held is not None and each == held.reason), Reason.QUEUED)
            said = held.message if held is not None else queueing.held_back(moment.seen, moment.seen.child(step, status.attempt))
            return _phase(moment, status, "Queued", "False", reason, said)
        case Absent() | Working() | Through():
            return _phase(moment, status, phase, "True", reason, _MESSAGES[reason])


def _in_the_queue(moment: Moment, status: DataPrepJobStatus, child: Child | None) -> DataPrepJobStatus:
    was_told = conditions.find(status.conditions, ConditionType.QUOTA_RESERVED) is not None
    told = queueing.told(moment.seen, child, was_told=was_told, now=moment.now)
    return status if told is None else _condition(moment, status, ConditionType.QUOTA_RESERVED, *told)


_AT_WORK: Final[Mapping[str, tuple[Phase, Reason]]] = {
    "Plan": ("Planning", Reason.PLANNING),
    "Convert": ("Running", Reason.CONVERTING),
    "Commit": ("Committing", Reason.COMMITTING),
}
_MESSAGES: Final = {
    Reason.PLANNING: "The plan step lists the input and divides it into shards.",
    Reason.CONVERTING: "Converter pods write shards.",
    Reason.COMMITTING: "The commit step checks every shard and writes the manifest.",
}


def _held(moment: Moment, status: DataPrepJobStatus, blockage: Blockage) -> DataPrepJobStatus:
    since, waited = _since(moment, status, blockage), (moment.now - _since(moment, status, blockage)).total_seconds()
    before = conditions.find(status.conditions, ConditionType.RUNNING)
    message = blocked_deadline.message(blockage, before.message if before is not None and before.reason == blockage.reason else "")
    limit = blocked_deadline.seconds(message, moment.spec, status, since=since) if blockage.fatal else None
    if limit is not None and waited >= limit:
        return _failed(
            moment, status, blockage.reason, message if limit == blocked_deadline.LEAST_SECONDS else f"{message} Waited for {limit:.0f} s."
        )
    limit = moment.spec.start_deadline_seconds
    if limit is not None and not blockage.fatal and waited >= limit:
        what = "The job could not start" if blockage.reason in deadlines.NOT_STARTED else "No pod could be scheduled"
        return _failed(moment, status, Reason.START_DEADLINE_EXCEEDED, f"{what} within {limit} s: {blockage.message}")
    return _phase(moment, status, "Pending", "False", blockage.reason, message)


def _since(moment: Moment, status: DataPrepJobStatus, blockage: Blockage) -> datetime:
    """When the blockage began: by the scheduler's word, or by the condition that was written when it was first seen."""
    if blockage.since is not None and not blockage.fatal:
        return blockage.since
    before = conditions.find(status.conditions, ConditionType.RUNNING)
    seen_before = before is not None and before.status == "False" and before.reason == blockage.reason
    return (times.parse(before.last_transition_time) if before is not None and seen_before else None) or moment.now


def _on_cpu_if_no_gpu_comes(moment: Moment, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Preferred: another attempt, on CPU nodes, when no GPU pod was ever scheduled and waiting has taken too long."""
    child = moment.seen.child("convert", status.attempt)
    if child is None or accelerator(moment.spec, status) != "GPU" or moment.spec.workers.accelerator.policy != "Preferred":
        return status
    own = moment.seen.pods_of(child)
    waiting = [pod.unschedulable.since for pod in own if pod.unschedulable is not None and pod.unschedulable.since is not None]
    if child.finished or child.suspended or child.completed_indexes or any(pod.scheduled for pod in own) or not waiting:
        return status
    if (moment.now - min(waiting)).total_seconds() < moment.spec.workers.accelerator.fallback_after_seconds:
        return status
    effective = (status.effective or Effective()).model_copy(update={"accelerator": "CPU"})
    return status.model_copy(update={"attempt": status.attempt + 1, "effective": effective})


def accelerator(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> Literal["CPU", "GPU"]:
    """What the conversion runs on: what the spec prefers, unless this attempt has fallen back."""
    if spec.workers.accelerator.policy == "None" or (status.effective is not None and status.effective.accelerator == "CPU"):
        return "CPU"
    return "GPU"


def _with_effective_values(moment: Moment, status: DataPrepJobStatus, child: Child | None) -> DataPrepJobStatus:
    completions = child.completions if child is not None else status.tasks or 1
    found = {
        "parallelism": child.parallelism if child is not None and child.queued else parallelism(moment.spec, completions),
        "image": child.image if child is not None and child.image else scripts.image(moment.spec, moment.defaults),
        "accelerator": accelerator(moment.spec, status),
    }
    return status.model_copy(update={"effective": (status.effective or Effective()).model_copy(update=found)})


def _with_more_memory(moment: Moment, status: DataPrepJobStatus, judgement: steps.Judgement) -> DataPrepJobStatus | None:
    """Another attempt of the step, or of what is left of the conversion, when it ran out of memory and may have more."""
    if not isinstance(judgement, Broken) or judgement.reason is not Reason.OUT_OF_MEMORY:
        return None
    raised = memory.raised(status, moment.spec, moment.defaults)
    if raised is None:
        return None
    phase, reason = _AT_WORK[status.step or "Plan"]
    status = status.model_copy(update={"attempt": status.attempt + 1, "effective": raised, "failed_indexes": None})
    return _phase(moment, status, phase, "True", reason, _MESSAGES[reason])


def _succeeded(moment: Moment, status: DataPrepJobStatus, result: CommitResult) -> DataPrepJobStatus:
    fault = results.fault_of_commit(result, run_id=status.run_id)
    if fault:
        return _failed(moment, status, Reason.VERIFICATION_FAILED, fault)
    reused = bool(status.reused)
    reason = Reason.REUSED if reused else Reason.COMPLETED
    message = f"{result.records.out} records in {result.files} files at {_output(moment)}" + (" (reused)." if reused else ".")
    status = status.model_copy(
        update={
            "phase": "Succeeded",
            "splits": result.splits or status.splits,
            "outputs": result.outputs,
            "output": OutputStatus(
                uri=_output(moment),
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
            "warnings": _shortened([*status.warnings, *result.warnings]),
            "failed_indexes": None,
            "progress": progress_status.final(status, result, now=moment.now),
        }
    )
    status = _condition(moment, status, ConditionType.RUNNING, "False", reason, message)
    status = _condition(moment, status, ConditionType.OUTPUT_COMMITTED, "True", reason, message)
    status = _condition(moment, status, ConditionType.COMPLETE, "True", reason, message)
    return _ended(moment, _resumed(moment, status))


def _given_up(status: DataPrepJobStatus, child: Child | None) -> str | None:
    if child is None or not child.failed_indexes:
        return None
    return ranges.shortened(ranges.write(steps.failed_tasks(child, tasks=status.tasks or 1)), limit=2048) or None


# --- small ones -------------------------------------------------------------------------------------------------------------


def _phase(
    moment: Moment, status: DataPrepJobStatus, phase: Phase, running: Literal["True", "False"], reason: Reason, message: str
) -> DataPrepJobStatus:
    return _condition(moment, status.model_copy(update={"phase": phase}), ConditionType.RUNNING, running, reason, message)


def _condition(
    moment: Moment, status: DataPrepJobStatus, kind: ConditionType, value: Literal["True", "False"], reason: Reason, message: str
) -> DataPrepJobStatus:
    written = conditions.changed(
        status.conditions, kind, value, reason=reason, message=message, now=moment.now, generation=moment.seen.generation
    )
    return status.model_copy(update={"conditions": written})


def _timed(status: DataPrepJobStatus, field: str, child: Child | None, *, ended_at: datetime | None = None) -> Timings:
    """With the seconds of a step: until its Job's end, else until `ended_at`."""
    timings = status.timings or Timings()
    seconds = times.seconds_between(child.started_at, child.ended_at or ended_at) if child is not None else None
    return timings if seconds is None else timings.model_copy(update={field: seconds})


def _last_end(seen: Observed, child: Child | None) -> datetime | None:
    """When the last pod of a Job has ended."""
    return max((pod.finished_at for pod in seen.pods_of(child) if pod.finished_at), default=None) if child is not None else None


def _output(moment: Moment) -> str:
    return moment.spec.output.uri


def _shortened(warnings: Sequence[str]) -> list[str]:
    return [warning[:1024] for warning in dict.fromkeys(warnings)][:10]


# Any: the API's JSON.
def as_json(status: DataPrepJobStatus) -> dict[str, Any]:
    """The status as the API's JSON: no empty fields, so that server-side apply drops what is gone."""
    written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in written.items() if value != []}
