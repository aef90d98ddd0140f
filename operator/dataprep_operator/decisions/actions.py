"""What to do about a job: actions as values, from its status and what is there. Pure; `reconcile.py` carries them out.

The status is written before anything here is done, so a decision outlives the operator that made it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError

from dataprep_api.reasons import Reason
from dataprep_api.resources.status import TERMINAL_PHASES, DataPrepJobStatus
from dataprep_api.spec import CleanupRule, DataPrepJobSpec
from dataprep_operator.children import jobs
from dataprep_operator.children.jobs import Body
from dataprep_operator.decisions import blocked_deadline, deadlines, evictions, handover, memory, removal, steps
from dataprep_operator.decisions.events import Note
from dataprep_operator.decisions.queueing import UNQUEUED_AFTER_SECONDS
from dataprep_operator.decisions.status import accelerator
from dataprep_operator.decisions.steps import Held, Queued, Through
from dataprep_operator.objects import times, untrusted
from dataprep_operator.objects.observed import CLEANUP, Child, Observed
from dataprep_operator.objects.pods import LINGERING_SECONDS, STUCK_CREATING_SECONDS, STUCK_TERMINATING_SECONDS, Pod
from dataprep_operator.settings import PodDefaults

# A pass removes this many pods and comes back, so that one job can't hold a worker for minutes.
MOST_DELETIONS: Final = 200
# A child of the same name at once would get no pods for minutes: the Job controller counts the pods that it expects by a Job's name, and
# forgets what it expected of a deleted one only if it finds none of that name (deleteJob, syncJob in Kubernetes' pkg/controller/job).
MADE_AGAIN_AFTER_SECONDS: Final = 5.0


@dataclass(frozen=True)
class CreateJob:
    """Make the ConfigMap unless it is there, then this child Job."""

    body: Body
    config_map: Body


@dataclass(frozen=True)
class KeepConfigMap:
    """Make the ConfigMap with the spec unless it is there: a pod waits, and it may be for this one."""

    config_map: Body


@dataclass(frozen=True)
class PatchJob:
    """Change a child Job."""

    child: Child
    spec: Body
    told: str = ""
    """What an Event says about it, when it is worth one."""


@dataclass(frozen=True)
class Enqueue:
    """Put a child Job that stands still into the job's queue."""

    child: Child
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class DeleteJob:
    """Remove a child Job and its pods."""

    child: Child


@dataclass(frozen=True)
class DeletePod:
    """Remove a finished pod."""

    pod: Pod


@dataclass(frozen=True)
class FailPod:
    """Declare a pod failed whose node never confirms its end."""

    pod: Pod


@dataclass(frozen=True)
class DeleteSelf:
    """Remove the DataPrepJob itself."""


@dataclass(frozen=True)
class Guard:
    """Add the finalizer that makes a deletion wait for the removal of the output, or take it away."""

    on: bool


@dataclass(frozen=True)
class Tell:
    """Tell an Event."""

    note: Note


Action = Guard | Tell | CreateJob | KeepConfigMap | PatchJob | Enqueue | DeleteJob | DeletePod | FailPod | DeleteSelf


def actions(seen: Observed, status: DataPrepJobStatus, *, now: datetime, defaults: PodDefaults) -> list[Action]:
    """What brings the cluster to what the status says, in order."""
    if seen.deleting:
        return _removal(seen, now=now, defaults=defaults) if seen.guarded else []
    if seen.doomed:
        return [DeleteJob(child) for child in seen.children if not child.deleting]
    lost: list[Action] = [FailPod(pod) for own in seen.pods.values() for pod in own if pod.stuck_terminating(now)]
    if seen.removes != seen.guarded:
        # Before anything is written; and gone at once when the user changes his mind.
        lost.append(Guard(on=seen.removes))
    if status.phase in TERMINAL_PHASES:
        return [*lost, *_stops(seen, keep=None), *_cleanups(seen, status, now=now, defaults=defaults)]
    current = seen.child((status.step or "Plan").lower(), status.attempt)
    # Two of one place never write at the same time, whatever has been begun.
    strays = _stops(seen, keep=current if seen.rival is None else None)
    if seen.spec is None or status.start_time is None or seen.rival is not None:
        return [*lost, *strays]
    return [
        *lost,
        *strays,
        *_kept(seen, status, current, now=now),
        *_for_step(seen, seen.spec, status, current, now=now, defaults=defaults),
    ]


def wake_after_seconds(seen: Observed, status: DataPrepJobStatus, *, now: datetime, defaults: PodDefaults) -> float | None:
    """When the job must be looked at again although nothing will have happened by then; None for never."""
    due = [moment for own in seen.pods.values() for pod in own if (moment := _pod_due(pod, now)) is not None]
    due += [missed + timedelta(seconds=MADE_AGAIN_AFTER_SECONDS) for missed in seen.missed.values()]
    if seen.deleting and seen.guarded:
        due.append(now + timedelta(seconds=removal.LOOK_AGAIN_SECONDS))
    if status.phase in TERMINAL_PHASES:
        due += [moment for _, moment in _cleanup_times(seen, status, defaults=defaults)]
        again = handover.look_again_at(status, now=now) if status.phase == "Succeeded" and not seen.deleting else None
        due += [again] if again is not None else []
    elif seen.spec is not None:
        due += _deadlines(seen, seen.spec, status, now=now)
    later = [(moment - now).total_seconds() for moment in due if moment > now]
    return min(later) + 0.5 if later else None


# --- one step -------------------------------------------------------------------------------------------------------------


def _for_step(
    seen: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, current: Child | None, *, now: datetime, defaults: PodDefaults
) -> list[Action]:
    if current is None:
        if spec.suspend or _just_gone(seen, (status.step or "Plan").lower(), status.attempt, now=now):
            return []
        return [CreateJob(_body(seen, spec, status, defaults=defaults), jobs.spec_map(seen, status.from_job))]
    if _ran_for_nothing(seen, spec, status):
        return [DeleteJob(current)]
    if current.finished or current.deleting:
        return []
    if current.queued:
        # A queue starts and stops its Jobs itself; a suspended DataPrepJob has none.
        return [DeleteJob(current)] if spec.suspend else []
    if steps.left_to_others(seen, current):
        return _enqueued(seen, current) if not spec.suspend else []
    is_paused = evictions.pause(seen, spec, status, current, now=now) is not None
    return _adjustments(spec, current, suspend=spec.suspend or is_paused)


def _enqueued(seen: Observed, child: Child) -> list[Action]:
    return [Enqueue(child, seen.queue_labels, seen.queue_annotations)] if seen.queue and not child.deleting else []


def _just_gone(seen: Observed, step: str, attempt: int, *, now: datetime) -> bool:
    missed = seen.missed.get((step, attempt))
    return missed is not None and now < missed + timedelta(seconds=MADE_AGAIN_AFTER_SECONDS)


def _kept(seen: Observed, status: DataPrepJobStatus, current: Child | None, *, now: datetime) -> list[Action]:
    """Somebody may have deleted the ConfigMap that pods mount; it isn't watched, so a pod that should have started long ago is what tells."""
    waits = current is not None and not current.finished and any(pod.stuck_creating(now) for pod in seen.pods_of(current))
    return [KeepConfigMap(jobs.spec_map(seen, status.from_job))] if waits else []


def _body(seen: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, *, defaults: PodDefaults) -> Body:
    run_id, plan_sha256 = status.run_id or "", status.plan_sha256 or ""
    code_commit = status.code.commit if status.code is not None else None
    match status.step:
        case "Convert":
            tasks = status.tasks or 0
            return jobs.convert_job(
                seen,
                spec,
                run_id=run_id,
                plan_sha256=plan_sha256,
                tasks=tasks,
                only=steps.unfinished_tasks(seen, attempt=status.attempt, plan_sha256=plan_sha256, tasks=tasks),
                attempt=status.attempt,
                gpu=accelerator(spec, status) == "GPU",
                memory=memory.of(status),
                code_commit=code_commit,
                defaults=defaults,
            )
        case "Commit":
            return jobs.commit_job(
                seen,
                spec,
                run_id=run_id,
                plan_sha256=plan_sha256,
                attempt=status.attempt,
                memory=memory.of(status),
                code_commit=code_commit,
                defaults=defaults,
            )
        case _:
            return jobs.plan_job(seen, spec, attempt=status.attempt, memory=memory.of(status), defaults=defaults)


def _ran_for_nothing(seen: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus) -> bool:
    """Whether the plan or commit step succeeded and its pod is gone before its message was read: then it runs again, and finds its own result."""
    judgement = steps.judge(seen, spec, step=(status.step or "Plan").lower(), attempt=status.attempt)
    return status.step != "Convert" and isinstance(judgement, Through) and judgement.result is None and judgement.unreadable is None


def _adjustments(spec: DataPrepJobSpec, current: Child, *, suspend: bool) -> list[Action]:
    wanted: Body = {}
    told = ""
    if current.suspended != suspend:
        wanted["suspend"] = suspend
    if current.step == "convert":
        parallelism = jobs.parallelism(spec, current.completions)
        if parallelism != current.parallelism:
            wanted["parallelism"] = parallelism
            told = f"parallelism {current.parallelism} → {parallelism}"
    return [PatchJob(current, wanted, told)] if wanted else []


def _stops(seen: Observed, *, keep: Child | None) -> list[Action]:
    """Stops every unfinished child but one. Suspension keeps the Job, its counts and its failed pods' logs; a queue would only start it again."""
    found: list[Action] = []
    for child in seen.children:
        if child == keep or child.finished or child.deleting or steps.has_told(seen, child):
            continue
        if child.queued:
            found.append(DeleteJob(child))
        elif not child.suspended:
            found.append(PatchJob(child, {"suspend": True}))
    return found


# --- after the end ----------------------------------------------------------------------------------------------------------


def _cleanups(seen: Observed, status: DataPrepJobStatus, *, now: datetime, defaults: PodDefaults) -> list[Action]:
    due = {action for action, moment in _cleanup_times(seen, status, defaults=defaults) if moment <= now}
    if "DeleteSelf" in due:
        return [DeleteSelf()]
    if "DeleteJobs" in due:
        return _announced("Jobs", [DeleteJob(child) for child in seen.children if not child.deleting])
    if "DeletePods" in due:
        gone = [pod for child in seen.children for pod in seen.pods_of(child) if pod.deletion_due is None]
        return _announced("pods", [DeletePod(pod) for pod in gone[:MOST_DELETIONS]])
    return []


def _announced(what: str, deletions: Sequence[Action]) -> list[Action]:
    return [Tell(Note("Normal", Reason.CLEANED_UP, f"A cleanup rule removes {what}.")), *deletions] if deletions else []


def _cleanup_times(seen: Observed, status: DataPrepJobStatus, *, defaults: PodDefaults) -> list[tuple[str, datetime]]:
    ended = times.parse(status.completion_time)
    if ended is None:
        return []
    rules, ttl, retains = _ends(seen)
    found = [(str(rule.action), ended + timedelta(seconds=rule.after_seconds)) for rule in rules if rule.when == status.phase]
    if ttl is None and retains and not any(action == "DeleteSelf" for action, _ in found):
        ttl = defaults.ttl_seconds
    return found if ttl is None else [*found, ("DeleteSelf", ended + timedelta(seconds=ttl))]


def _ends(seen: Observed) -> tuple[Sequence[CleanupRule], int | None, bool]:
    """The cleanup rules, the time to live, and whether the output stays. Of a spec that can't be accepted, what of these can be read."""
    if seen.spec is not None:
        return seen.spec.cleanup or [], seen.spec.ttl_seconds_after_finished, seen.spec.deletion_policy == "Retain"
    ttl = untrusted.number(seen.raw_spec.get("ttlSecondsAfterFinished"), -1)
    found = [_rule(each) for each in untrusted.mappings(seen.raw_spec.get("cleanup"))]
    return [rule for rule in found if rule is not None], ttl if ttl >= 0 else None, not seen.removes


# Any: the API's JSON.
def _rule(raw: Mapping[str, Any]) -> CleanupRule | None:
    try:
        return CleanupRule.model_validate(raw)
    except ValidationError:
        return None


def _removal(seen: Observed, *, now: datetime, defaults: PodDefaults) -> list[Action]:
    """The end of a deleted job that has our finalizer: first nobody writes, then one pod removes what was written, then it goes."""
    judgement = removal.judge(seen)
    if isinstance(judgement, removal.LetGo):
        return [*([Tell(judgement.note)] if judgement.note is not None else []), Guard(on=False)]
    lost: list[Action] = [FailPod(pod) for pod in seen.pods_left if pod.stuck_terminating(now)]
    cleanup = seen.child(CLEANUP, 1)
    strays = _stops(seen, keep=cleanup)
    if isinstance(judgement, removal.Remove) and seen.spec is not None and not strays and not _just_gone(seen, CLEANUP, 1, now=now):
        body = jobs.cleanup_job(seen, seen.spec, runs=judgement.runs, defaults=defaults)
        return [*lost, CreateJob(body, jobs.spec_map(seen, seen.status.from_job))]
    if isinstance(judgement, removal.Wait) and judgement.again_at is not None and judgement.again_at <= now and cleanup is not None:
        return [*lost, *strays, *([DeleteJob(cleanup)] if not cleanup.deleting else [])]
    return [*lost, *strays, *(_started_again(seen, cleanup) if cleanup is not None and cleanup.suspended_by_others else [])]


def _started_again(seen: Observed, child: Child) -> list[Action]:
    return _enqueued(seen, child) if steps.left_to_others(seen, child) else [PatchJob(child, {"suspend": False})]


# --- when to look again -------------------------------------------------------------------------------------------------------


def _pod_due(pod: Pod, now: datetime) -> datetime | None:
    if pod.deletion_due is not None:
        return pod.deletion_due + timedelta(seconds=LINGERING_SECONDS if pod.finished else STUCK_TERMINATING_SECONDS)
    if pod.creating and pod.scheduled_at is not None:
        checked = pod.scheduled_at + timedelta(seconds=STUCK_CREATING_SECONDS + 1)
        return checked if checked > now else now + timedelta(seconds=STUCK_CREATING_SECONDS)
    return None


def _deadlines(seen: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, *, now: datetime) -> list[datetime]:
    all_kinds = (deadlines.of_the_job(seen, status), deadlines.of_the_step(seen, status), deadlines.of_waiting(spec, status))
    found = [moment for moment in all_kinds if moment is not None]
    judgement = steps.judge(seen, spec, step=(status.step or "Plan").lower(), attempt=status.attempt)
    if isinstance(judgement, Held | Queued):
        # Not worth exact arithmetic: a held job is looked at now and then until something gives.
        found.append(now + timedelta(seconds=blocked_deadline.LEAST_SECONDS / 3))
    current = seen.child((status.step or "Plan").lower(), status.attempt)
    paused_until = evictions.paused_until(seen, spec, status, current)
    if paused_until is not None:
        found.append(paused_until)
    if current is not None and current.created is not None and seen.admission is not None and not seen.admission.exists:
        found.append(current.created + timedelta(seconds=UNQUEUED_AFTER_SECONDS))
    if current is not None and not seen.pods_of(current) and not current.finished and not current.suspended:
        found.append(now + timedelta(seconds=STUCK_CREATING_SECONDS))
    return found
