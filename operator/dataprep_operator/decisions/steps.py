"""Determines the state of a step from its Job and pods: absent, queued, blocked, running, succeeded or failed.

`pods.py` reads a single pod, and `current_step.py` derives the job's phase from the step's state. All functions are pure.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dataprep_api.dataset.messages import CommitResult, PlanResult, ScanRequest
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import Failure
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.decisions import queueing
from dataprep_operator.objects import job_steps, ranges
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.observed import Observed
from dataprep_operator.objects.pods import Blockage, Pod


@dataclass(frozen=True)
class Absent:
    """The step's Job doesn't exist."""


@dataclass(frozen=True)
class Queued:
    """The queue hasn't admitted the job or the step's Job yet, or somebody other than the operator has suspended the Job."""


@dataclass(frozen=True)
class Blocked:
    """No pod of the step can start."""

    blockage: Blockage


@dataclass(frozen=True)
class Running:
    """Pods are running or about to start."""


@dataclass(frozen=True)
class Succeeded:
    """The Job succeeded.

    The result is None when the pod that reported the result is gone. The result is always None for a step with an Indexed Job, whose
    results are in the store.
    """

    result: PlanResult | ScanRequest | CommitResult | None
    unreadable: str | None = None
    """The pod's termination message, if it is not a result."""


@dataclass(frozen=True)
class Failed:
    """The Job failed and isn't retried by Kubernetes."""

    reason: Reason
    message: str


Judgement = Absent | Queued | Blocked | Running | Succeeded | Failed


def judge(observed: Observed, spec: DataPrepJobSpec, *, step: str, attempt: int) -> Judgement:
    """Return the state of one step of the job."""
    child = observed.child(step, attempt)
    waits_for_quota = queueing.waits_for_quota(observed, step=step, attempt=attempt)
    if child is None:
        return Blocked(observed.refusal) if observed.refusal is not None else Queued() if waits_for_quota else Absent()
    own_pods = observed.pods_of(child)
    if child.complete or has_reported_plan(observed, child):
        result = observed.result_of(child)
        return Succeeded(result, unreadable=None if result or job_steps.is_indexed(step) else _last_message(own_pods))
    if child.failed:
        return _judge_failed(child, own_pods)
    failure = _terminated_too_often(child, spec, own_pods)
    if failure is not None:
        return failure
    if waits_for_quota or (child.queued and child.suspended) or is_left_suspended(observed, child):
        return Queued()
    blockage = _blockage(observed, spec, own_pods, child)
    return Blocked(blockage) if blockage is not None else Running()


def is_left_suspended(observed: Observed, child: Child) -> bool:
    """Return whether the operator accepts that somebody else suspended the Job.

    If the DataPrepJob has a queue, the suspended Job is put into that queue. If the DataPrepJob has no queue, the operator resumes the Job
    once, in case the suspension was an accident. The operator doesn't resume the Job a second time, because Kueue would suspend the Job
    after every resumption. A Job within the quota of a queue Job is suspended and resumed with the queue Job.
    """
    if child.within is not None and queueing.has_queue_job(observed, child.attempt):
        return False
    return child.suspended_by_others and (observed.queue is not None or child.resumed)


def has_reported_plan(observed: Observed, child: Child) -> bool:
    """Return whether the pod of the plan or merge step has reported its plan, or has asked for a scan.

    The operator doesn't wait until the Job is complete, because the Job controller counts finished pods only once a second.
    """
    return job_steps.plans(child.step) and not child.failed and not child.deleting and observed.result_of(child) is not None


def lacks_result(observed: Observed, child: Child) -> bool:
    """Return whether the step has ended but no cached pod has its result. The watch of Jobs may be ahead of the watch of pods."""
    if child.complete:
        return not job_steps.is_indexed(child.step) and observed.result_of(child) is None
    return child.failed and not _decisive_failures(child, _pod_failures(observed.pods_of(child)))


def failures(observed: Observed, *, step: str, attempt: int) -> list[Failure]:
    """Return the step's failures so far, latest first. Equal failures are merged and counted."""
    child = observed.child(step, attempt)
    step_failures = [pod.failure for pod in observed.pods_of(child) if pod.failure is not None] if child else []
    step_failures.sort(key=lambda failure: failure.at or "", reverse=True)
    grouped: defaultdict[tuple[str, str, str | None, int | None], list[Failure]] = defaultdict(list)
    for failure in step_failures:
        grouped[failure.reason, failure.message, failure.shard, failure.exit_code].append(failure)
    return [equal_failures[0].model_copy(update={"count": len(equal_failures)}) for equal_failures in grouped.values()]


def tasks_of(child: Child, *, tasks: int) -> list[int]:
    """Return the task of each index of an Indexed Job. The tasks of a scan are its parts."""
    return ranges.parse(child.tasks, below=tasks) if child.tasks else list(range(tasks))


def completed_tasks(child: Child, *, tasks: int) -> set[int]:
    """Return the tasks that an Indexed Job has completed."""
    tasks_by_index = tasks_of(child, tasks=tasks)
    return {tasks_by_index[index] for index in ranges.parse(child.completed_indexes, below=len(tasks_by_index))}


def failed_tasks(child: Child, *, tasks: int) -> set[int]:
    """Return an Indexed Job's tasks that have failed and aren't retried."""
    tasks_by_index = tasks_of(child, tasks=tasks)
    return {tasks_by_index[index] for index in ranges.parse(child.failed_indexes, below=len(tasks_by_index))}


def unfinished_tasks(observed: Observed, *, step: str, attempt: int, digest: str, tasks: int) -> list[int]:
    """Return the tasks that the previous Indexed Job of this step has not completed. `digest` is the digest of the plan or of the scan.

    The list is empty when the unfinished tasks are unknown. If the list is empty, all tasks run, and each task skips its finished shards.
    """
    earlier = [child for child in observed.children if child.step == step and child.attempt < attempt and child.digest == digest]
    if not earlier:
        return []
    last = max(earlier, key=lambda child: child.attempt)
    unfinished = set(tasks_of(last, tasks=tasks)) - completed_tasks(last, tasks=tasks)
    return sorted(unfinished) if len(unfinished) < tasks else []


def tasks_before(child: Child, *, tasks: int) -> int:
    """Return the number of tasks that were finished before this Indexed Job was created."""
    return tasks - child.completions if child.tasks else 0


def finished_count(child: Child, *, tasks: int) -> int:
    """Return the number of finished tasks of an Indexed Job, including tasks that were finished before the Job was created."""
    return min(tasks, tasks_before(child, tasks=tasks) + ranges.count(child.completed_indexes))


# --- reasons ------------------------------------------------------------------------------------------------------------

# A Job's failure reason if the failure of a single pod ended the Job.
_ONE_POD_DECIDED: Final = "PodFailurePolicy"


def _judge_failed(child: Child, own_pods: Sequence[Pod]) -> Failed:
    pod_failures = _pod_failures(own_pods)
    pod_failures = _decisive_failures(child, pod_failures) or pod_failures
    if not pod_failures:
        return Failed(Reason.BACKOFF_LIMIT_EXCEEDED, child.failure_message or f"the Job {child.name} failed ({child.failure_reason})")
    last = pod_failures[-1][1]
    if child.failure_reason == _ONE_POD_DECIDED:
        return Failed(Reason(last.reason), last.message)
    return Failed(Reason(last.reason), f"{_failure_summary(child, len(pod_failures))} {last.message}")


def _terminated_too_often(child: Child, spec: DataPrepJobSpec, own_pods: Sequence[Pod]) -> Failed | None:
    """Fail the step if pods have ended with exit code 143 more often than the back-off limit allows.

    Pods that were stopped from outside don't count. The Job can't count exit code 143 as a failure, because a suspension also ends pods
    with this exit code.
    """
    limit = spec.backoff_limit_per_index if job_steps.is_indexed(child.step) else spec.backoff_limit
    terminated_pods = _pod_failures([pod for pod in own_pods if pod.terminated_unprompted])
    counts = Counter(pod.index for pod, _ in terminated_pods)
    index, count = max(counts.items(), key=lambda item: item[1], default=(None, 0))
    if count <= limit:
        return None
    last = [failure for pod, failure in terminated_pods if pod.index == index][-1]
    which = f"The {_share(child)} of index {index}" if index is not None else f"The {child.step} step"
    return Failed(Reason(last.reason), f"{which} failed {count} time{'s' * (count != 1)}; last failure: {last.message}")


def _pod_failures(own_pods: Sequence[Pod]) -> list[tuple[Pod, Failure]]:
    """Return the failed pods with their failures, oldest failure first."""
    return sorted(((pod, pod.failure) for pod in own_pods if pod.failure is not None), key=lambda item: item[1].at or "")


def _decisive_failures(child: Child, pod_failures: list[tuple[Pod, Failure]]) -> list[tuple[Pod, Failure]]:
    """Return the failures that ended the Job. If the failure of a single pod ended the Job, the Job's message names that pod."""
    if child.failure_reason != _ONE_POD_DECIDED:
        return pod_failures
    return [item for item in pod_failures if f"/{item[0].name} " in child.failure_message]


def _failure_summary(child: Child, times_failed: int) -> str:
    if not job_steps.is_indexed(child.step):
        return f"The {child.step} step failed {times_failed} time{'s' * (times_failed != 1)}; last failure:"
    given_up = ranges.count(child.failed_indexes)
    indexes = ranges.shortened(child.failed_indexes, limit=100)
    return f"{given_up} of {child.completions} {_share(child)}s failed permanently (indexes {indexes}); last failure:"


def _share(child: Child) -> str:
    step = job_steps.BY_LABEL.get(child.step)
    return (step.share if step is not None else "") or "task"


def _last_message(own_pods: Sequence[Pod]) -> str | None:
    succeeded_pods = [pod for pod in own_pods if pod.phase == "Succeeded"]
    return None if not succeeded_pods else succeeded_pods[-1].message[:300] or "nothing"


def _blockage(observed: Observed, spec: DataPrepJobSpec, own_pods: Sequence[Pod], child: Child) -> Blockage | None:
    """Return why none of the step's pods has started. If any pod has started, the step isn't blocked.

    A Spark cluster is also blocked if its driver has started and none of its workers has, because the driver waits for a worker.
    """
    if observed.has_started(child):
        workers = [pod for pod in own_pods if pod.index]
        if not job_steps.has_single_pod(child.step) or not workers or any(pod.started for pod in workers):
            return None
        own_pods = workers
    alive_pods = [pod for pod in own_pods if pod.deletion_due is None]
    for pod in alive_pods:
        if pod.waiting is not None:
            return pod.waiting
    if observed.start_blockage is not None:
        return observed.start_blockage
    if any(pod.scheduled for pod in own_pods):
        return None
    blockages = [pod.unschedulable for pod in alive_pods if pod.unschedulable is not None]
    if not blockages:
        return None
    oldest = min(blockages, key=lambda blockage: (blockage.since is None, blockage.since))
    return Blockage(_scheduling_reason(spec, oldest.message, step=child.step), oldest.message, since=oldest.since)


def _scheduling_reason(spec: DataPrepJobSpec, message: str, *, step: str) -> Reason:
    accelerator = spec.workers.accelerator
    about_gpus = accelerator.resource_name in message or "node affinity/selector" in message or "untolerated taint" in message
    return Reason.NO_GPU_NODES if step == "convert" and accelerator.policy == "Required" and about_gpus else Reason.UNSCHEDULABLE
