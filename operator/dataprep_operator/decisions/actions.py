"""Decides which actions a job needs, from its status and the observed state. All functions are pure. The actuator performs the actions.

The status is written before the actions are performed, so a decision survives a restart of the operator.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from dataprep_api.reasons import Reason
from dataprep_api.resources.status import TERMINAL_PHASES, DataPrepJobStatus
from dataprep_api.spec import CleanupRule, DataPrepJobSpec
from dataprep_operator.children import job_bodies, jobs, queue_jobs
from dataprep_operator.children.metadata import Body
from dataprep_operator.decisions import (
    blocked_deadline,
    deadlines,
    evictions,
    handover,
    queueing,
    removal,
    reservations,
    step_jobs,
    steps,
)
from dataprep_operator.decisions.action_kinds import (
    Action,
    CreateJob,
    DeleteJob,
    DeletePod,
    DeleteSelf,
    EmitEvent,
    Enqueue,
    EnsureConfigMap,
    FailPod,
    PatchJob,
    SetFinalizer,
)
from dataprep_operator.decisions.events import Note
from dataprep_operator.decisions.status.effective import accelerator
from dataprep_operator.decisions.steps import Blocked, Queued, Succeeded
from dataprep_operator.objects import job_steps, times, untrusted
from dataprep_operator.objects.child_jobs import CLEANUP, QUEUE, Child
from dataprep_operator.objects.finished_tasks import SucceededWorker
from dataprep_operator.objects.observed import Observed
from dataprep_operator.objects.pods import LINGERING_SECONDS, STUCK_CREATING_SECONDS, STUCK_TERMINATING_SECONDS, Pod
from dataprep_operator.settings import PodDefaults

# Number of pods deleted per reconciliation. This number is limited so that one job can't occupy a worker for minutes.
MOST_DELETIONS: Final = 200
# If a new Job has the name of a Job that was just deleted, the new Job might get no pods for minutes. The Job controller keeps track of
# expected pods under the Job's name. It forgets a deleted Job's pods only while no Job has that name (see Kubernetes' pkg/controller/job).
RECREATE_AFTER_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Decision:
    """The actions to perform, in order, and the seconds after which to reconcile again if no event arrives."""

    actions: Sequence[Action]
    requeue_after_seconds: float | None = None


def decide(observed: Observed, status: DataPrepJobStatus, *, now: datetime, defaults: PodDefaults) -> Decision:
    """Decide which actions bring the cluster into the state that the status describes."""
    judgement: steps.Judgement = steps.Absent()
    if observed.spec is not None and status.phase not in TERMINAL_PHASES:
        judgement = steps.judge(observed, observed.spec, step=job_steps.of_status(status.step).label, attempt=status.attempt)
    return Decision(
        _actions(observed, status, judgement, now=now, defaults=defaults),
        _requeue_after_seconds(observed, status, judgement, now=now, defaults=defaults),
    )


def _actions(
    observed: Observed, status: DataPrepJobStatus, judgement: steps.Judgement, *, now: datetime, defaults: PodDefaults
) -> list[Action]:
    if observed.deleting:
        return _removal_actions(observed, now=now, defaults=defaults) if observed.has_finalizer else []
    if observed.namespace_terminating:
        return [DeleteJob(child) for child in observed.children if not child.deleting]
    first_actions: list[Action] = [FailPod(pod) for pods in observed.pods.values() for pod in pods if pod.stuck_terminating(now)]
    if observed.deletes_output != observed.has_finalizer:
        # The finalizer is added before any pod can write. The finalizer is removed as soon as the user sets the policy back to Retain.
        first_actions.append(SetFinalizer(on=observed.deletes_output))
    if status.phase in TERMINAL_PHASES:
        stops = [*_suspend_children(observed, keep=None), *reservations.end(observed, status, now=now)]
        return [*first_actions, *stops, *_cleanup_actions(observed, status, now=now, defaults=defaults)]
    current = observed.current_child(status)
    # Two jobs with the same output must never write at the same time, even if both have started.
    strays = _suspend_children(observed, keep=current if observed.rival is None else None)
    if observed.spec is None or status.start_time is None or observed.rival is not None:
        return [*first_actions, *strays, *reservations.release(observed, keep=None)]
    strays += reservations.release(observed, keep=status.attempt if queueing.has_queue_job(observed, status.attempt) else None)
    return [
        *first_actions,
        *strays,
        *_spec_config_map_actions(observed, status, current, now=now),
        *_step_actions(observed, observed.spec, status, current, judgement, now=now, defaults=defaults),
    ]


def _requeue_after_seconds(
    observed: Observed, status: DataPrepJobStatus, judgement: steps.Judgement, *, now: datetime, defaults: PodDefaults
) -> float | None:
    moments = [moment for pods in observed.pods.values() for pod in pods if (moment := _pod_deadline(pod, now)) is not None]
    moments += [missing_since + timedelta(seconds=RECREATE_AFTER_SECONDS) for missing_since in observed.missing_since.values()]
    if observed.deleting and observed.has_finalizer:
        moments.append(now + timedelta(seconds=removal.LOOK_AGAIN_SECONDS))
    if status.phase in TERMINAL_PHASES:
        moments += [moment for _, moment in _cleanup_times(observed, status, defaults=defaults)]
        next_check = handover.next_check_at(status, now=now) if status.phase == "Succeeded" and not observed.deleting else None
        moments += [next_check] if next_check is not None else []
    elif observed.spec is not None:
        moments += _next_deadlines(observed, observed.spec, status, judgement, now=now)
    delays = [(moment - now).total_seconds() for moment in moments if moment > now]
    return min(delays) + 0.5 if delays else None


# --- one step -------------------------------------------------------------------------------------------------------------


def _step_actions(
    observed: Observed,
    spec: DataPrepJobSpec,
    status: DataPrepJobStatus,
    current: Child | None,
    judgement: steps.Judgement,
    *,
    now: datetime,
    defaults: PodDefaults,
) -> list[Action]:
    if not queueing.has_queue_job(observed, status.attempt):
        return _work_actions(observed, spec, status, current, judgement, queue=None, now=now, defaults=defaults)
    queue = queueing.admitted(observed, status.attempt)
    gpu = accelerator(spec, status) == "GPU"
    quota_actions = reservations.hold(observed, spec, status, current, gpu=gpu, defaults=defaults)
    if queue is None or spec.suspend:
        return quota_actions
    return [*quota_actions, *_work_actions(observed, spec, status, current, judgement, queue=queue, now=now, defaults=defaults)]


def _work_actions(
    observed: Observed,
    spec: DataPrepJobSpec,
    status: DataPrepJobStatus,
    current: Child | None,
    judgement: steps.Judgement,
    *,
    queue: Child | None,
    now: datetime,
    defaults: PodDefaults,
) -> list[Action]:
    """Return the actions of a step that may run. `queue` is the admitted queue Job, if the job has one."""
    if current is None:
        if spec.suspend or _was_just_deleted(observed, job_steps.of_status(status.step).label, status.attempt, now=now):
            return []
        body = step_jobs.job(observed, spec, status, queue=queue, defaults=defaults)
        return [CreateJob(body, jobs.spec_config_map(observed, status.from_job), step_jobs.network(observed, spec, status))]
    if _lost_its_result(status, judgement):
        return [DeleteJob(current)]
    if current.finished or current.deleting:
        return []
    if current.queued:
        # The queue suspends and resumes its Jobs itself. While a DataPrepJob is suspended, it must have no Job in the queue.
        return [DeleteJob(current)] if spec.suspend else []
    if queue is not None and current.within != queue_jobs.placement_digest(queue):
        # The queue has admitted the job again, to other nodes. A new Job runs the unfinished tasks there.
        return [DeleteJob(current)]
    if steps.is_left_suspended(observed, current):
        return _enqueue_actions(observed, current) if not spec.suspend else []
    is_paused = evictions.pause_message(observed, spec, status, current, now=now) is not None
    return _adjustments(spec, current, most=current.completions if queue is None else queue.parallelism, suspend=spec.suspend or is_paused)


def _enqueue_actions(observed: Observed, child: Child) -> list[Action]:
    return [Enqueue(child, observed.queue_labels, observed.queue_annotations)] if observed.queue and not child.deleting else []


def _was_just_deleted(observed: Observed, step: str, attempt: int, *, now: datetime) -> bool:
    missing_since = observed.missing_since.get((step, attempt))
    return missing_since is not None and now < missing_since + timedelta(seconds=RECREATE_AFTER_SECONDS)


def _spec_config_map_actions(observed: Observed, status: DataPrepJobStatus, current: Child | None, *, now: datetime) -> list[Action]:
    """Recreate the spec's ConfigMap when a pod takes too long to create its container, because somebody may have deleted the ConfigMap.

    ConfigMaps aren't watched.
    """
    is_waiting = current is not None and not current.finished and any(pod.stuck_creating(now) for pod in observed.pods_of(current))
    return [EnsureConfigMap(jobs.spec_config_map(observed, status.from_job))] if is_waiting else []


def _lost_its_result(status: DataPrepJobStatus, judgement: steps.Judgement) -> bool:
    """Return whether a single-pod step succeeded but lost its result, because its pod was deleted before the result was read.

    A step that lost its result runs again, and finds the output of its first run.
    """
    if job_steps.of_status(status.step).is_indexed:
        return False
    return isinstance(judgement, Succeeded) and judgement.result is None and judgement.unreadable is None


def _adjustments(spec: DataPrepJobSpec, current: Child, *, most: int, suspend: bool) -> list[Action]:
    changes: Body = {}
    event_message = ""
    if current.suspended != suspend:
        changes["suspend"] = suspend
    if job_steps.is_indexed(current.step):
        parallelism = min(most, job_bodies.parallelism(spec, current.completions))
        if parallelism != current.parallelism:
            changes["parallelism"] = parallelism
            event_message = f"parallelism {current.parallelism} → {parallelism}"
    return [PatchJob(current, changes, event_message)] if changes else []


def _suspend_children(observed: Observed, *, keep: Child | None) -> list[Action]:
    """Stop all unfinished children except `keep`.

    Suspension preserves the Job, its counts and the logs of its failed pods. Queued Jobs are deleted, because the queue would resume them.
    Queue Jobs, which have no pods, are left to `reservations.py`.
    """
    actions: list[Action] = []
    for child in observed.children:
        if child == keep or child.step == QUEUE or child.finished or child.deleting or steps.has_reported_plan(observed, child):
            continue
        if child.queued:
            actions.append(DeleteJob(child))
        elif not child.suspended:
            actions.append(PatchJob(child, {"suspend": True}))
    return actions


# --- cleanup ----------------------------------------------------------------------------------------------------------------


def _cleanup_actions(observed: Observed, status: DataPrepJobStatus, *, now: datetime, defaults: PodDefaults) -> list[Action]:
    due_actions = {action for action, moment in _cleanup_times(observed, status, defaults=defaults) if moment <= now}
    if "DeleteSelf" in due_actions:
        return [DeleteSelf()]
    if "DeleteJobs" in due_actions:
        return _with_event("Jobs", [DeleteJob(child) for child in observed.children if not child.deleting])
    if "DeletePods" in due_actions:
        return _with_event("pods", [DeletePod(pod) for pod in islice(_undeleted_pods(observed), MOST_DELETIONS)])
    return []


def _undeleted_pods(observed: Observed) -> Iterator[Pod | SucceededWorker]:
    for child in observed.children:
        own_pods = {pod.uid: pod for pod in observed.pods_of(child)}
        yield from (pod for pod in own_pods.values() if pod.deletion_due is None)
        yield from (worker for worker in observed.succeeded_workers.get(child.uid, ()) if worker.uid not in own_pods)


def _with_event(what: str, deletions: Sequence[Action]) -> list[Action]:
    return [EmitEvent(Note("Normal", Reason.CLEANED_UP, f"A cleanup rule deletes {what}.")), *deletions] if deletions else []


def _cleanup_times(observed: Observed, status: DataPrepJobStatus, *, defaults: PodDefaults) -> list[tuple[str, datetime]]:
    ended_at = times.parse(status.completion_time)
    if ended_at is None:
        return []
    rules, ttl, retains = _cleanup_settings(observed)
    cleanup_times = [(str(rule.action), ended_at + timedelta(seconds=rule.after_seconds)) for rule in rules if rule.when == status.phase]
    if ttl is None and retains and not any(action == "DeleteSelf" for action, _ in cleanup_times):
        ttl = defaults.ttl_seconds
    return cleanup_times if ttl is None else [*cleanup_times, ("DeleteSelf", ended_at + timedelta(seconds=ttl))]


def _cleanup_settings(observed: Observed) -> tuple[Sequence[CleanupRule], int | None, bool]:
    """Return the cleanup rules, the TTL, and whether the output is retained. If the spec is invalid, its readable parts are used."""
    if observed.spec is not None:
        return observed.spec.cleanup or [], observed.spec.ttl_seconds_after_finished, observed.spec.deletion_policy == "Retain"
    ttl = untrusted.number(observed.raw_spec.get("ttlSecondsAfterFinished"), -1)
    rules = [_rule(raw_rule) for raw_rule in untrusted.mappings(observed.raw_spec.get("cleanup"))]
    return [rule for rule in rules if rule is not None], ttl if ttl >= 0 else None, not observed.deletes_output


# Any, because a cleanup rule is a JSON object of the API.
def _rule(raw: Mapping[str, Any]) -> CleanupRule | None:
    try:
        return CleanupRule.model_validate(raw)
    except ValidationError:
        return None


def _removal_actions(observed: Observed, *, now: datetime, defaults: PodDefaults) -> list[Action]:
    """Return the actions for a deleted job that has the operator's finalizer.

    The actions stop the job's pods, then run a pod that removes the output, and finally remove the finalizer.
    """
    judgement = removal.judge(observed)
    if isinstance(judgement, removal.Release):
        return [*([EmitEvent(judgement.note)] if judgement.note is not None else []), SetFinalizer(on=False)]
    first_actions: list[Action] = [FailPod(pod) for pod in observed.writing_pods if pod.stuck_terminating(now)]
    cleanup = observed.child(CLEANUP, 1)
    strays = [*_suspend_children(observed, keep=cleanup), *reservations.release(observed, keep=None)]
    if (
        isinstance(judgement, removal.Remove)
        and observed.spec is not None
        and not strays
        and not _was_just_deleted(observed, CLEANUP, 1, now=now)
    ):
        body = jobs.cleanup_job(observed, observed.spec, runs=judgement.runs, defaults=defaults)
        return [*first_actions, CreateJob(body, jobs.spec_config_map(observed, observed.status.from_job))]
    if isinstance(judgement, removal.Wait) and judgement.again_at is not None and judgement.again_at <= now and cleanup is not None:
        return [*first_actions, *strays, *([DeleteJob(cleanup)] if not cleanup.deleting else [])]
    return [*first_actions, *strays, *(_restart_actions(observed, cleanup) if cleanup is not None and cleanup.suspended_by_others else [])]


def _restart_actions(observed: Observed, child: Child) -> list[Action]:
    return _enqueue_actions(observed, child) if steps.is_left_suspended(observed, child) else [PatchJob(child, {"suspend": False})]


# --- when to reconcile again -------------------------------------------------------------------------------------------------------


def _pod_deadline(pod: Pod, now: datetime) -> datetime | None:
    if pod.deletion_due is not None:
        return pod.deletion_due + timedelta(seconds=LINGERING_SECONDS if pod.finished else STUCK_TERMINATING_SECONDS)
    if pod.creating and pod.scheduled_at is not None:
        check_at = pod.scheduled_at + timedelta(seconds=STUCK_CREATING_SECONDS + 1)
        return check_at if check_at > now else now + timedelta(seconds=STUCK_CREATING_SECONDS)
    return None


def _next_deadlines(
    observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, judgement: steps.Judgement, *, now: datetime
) -> list[datetime]:
    possible_deadlines = (
        deadlines.job_deadline(observed, status),
        deadlines.step_deadline(observed, status),
        deadlines.start_deadline(spec, status),
    )
    moments = [moment for moment in possible_deadlines if moment is not None]
    if isinstance(judgement, Blocked | Queued):
        # A blocked job has no exact deadline, so it is checked periodically.
        moments.append(now + timedelta(seconds=blocked_deadline.LEAST_SECONDS / 3))
    current = observed.current_child(status)
    paused_until = evictions.paused_until(observed, spec, status, current)
    if paused_until is not None:
        moments.append(paused_until)
    queued = queueing.queued_job(observed, status.attempt)
    if queued is not None and queued.created is not None and observed.admission is not None and not observed.admission.exists:
        moments.append(queued.created + timedelta(seconds=queueing.UNQUEUED_AFTER_SECONDS))
    if current is not None and not observed.has_pods(current) and not current.finished and not current.suspended:
        moments.append(now + timedelta(seconds=STUCK_CREATING_SECONDS))
    return moments
