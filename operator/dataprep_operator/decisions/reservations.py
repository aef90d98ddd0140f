"""Decides what to do with a job's queue Job, which holds the quota of all steps in a Kueue queue. All functions are pure.

The steps run only while the queue has admitted the queue Job. `queueing.py` decides which jobs have a queue Job, and how the status
describes the queue Job.
"""

from datetime import datetime

from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children import job_bodies, jobs, queue_jobs, spark_jobs
from dataprep_operator.children.metadata import Body
from dataprep_operator.decisions import memory, queueing
from dataprep_operator.decisions.action_kinds import Action, CreateJob, DeleteJob, PatchJob, PatchJobStatus
from dataprep_operator.decisions.steps import has_reported_plan
from dataprep_operator.objects import job_steps
from dataprep_operator.objects.child_jobs import QUEUE, Child
from dataprep_operator.objects.observed import Observed
from dataprep_operator.settings import PodDefaults


def hold(
    observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, current: Child | None, *, gpu: bool, defaults: PodDefaults
) -> list[Action]:
    """Return the actions that keep an unfinished job in its queue.

    Until the queue admits the job, these actions also stop the Job of the current step.
    """
    queue = queueing.queue_job(observed, status.attempt)
    if spec.suspend:
        return _leave(observed, queue, current)
    if queue is None:
        body = queue_jobs.queue_job(
            observed,
            spec,
            attempt=status.attempt,
            gpu=gpu,
            memory=memory.of_converting(status),
            planning_memory=memory.of_planning(status),
            engine=spec.engine if job_steps.of_status(status.step).label == spark_jobs.STEP else None,
            parallelism=_parallelism(spec, status),
            defaults=defaults,
        )
        return [*_stop(observed, current), CreateJob(body, jobs.spec_config_map(observed, status.from_job))]
    if queue.deleting:
        return _stop(observed, current)
    if queue.finished:
        # Someone other than the operator has ended this Job. A finished Job can't hold quota, so the Job is created again.
        return [*_stop(observed, current), DeleteJob(queue)]
    if queue.suspended:
        return [*_stop(observed, current), *_rescale(observed, spec, status, queue), *_report_use(observed, queue)]
    return _report_use(observed, queue)


def release(observed: Observed, *, keep: int | None) -> list[Action]:
    """Delete the queue Jobs of all attempts except `keep`, as soon as none of their pods is left."""
    return [DeleteJob(queue) for queue in _unused(observed) if queue.attempt != keep]


def end(observed: Observed, status: DataPrepJobStatus, *, now: datetime) -> list[Action]:
    """End the queue Jobs of a finished job, as soon as no pod is left, so that Kueue gives the quota to others.

    If `kueue.enabled` has been set to false, the operator isn't allowed to write the status of Jobs, so it deletes the queue Jobs.
    """
    if not observed.kueue:
        return release(observed, keep=None)
    succeeded = status.phase == "Succeeded"
    message = "The DataPrepJob has succeeded." if succeeded else "The DataPrepJob has failed."
    return [
        PatchJobStatus(queue, queue_jobs.final_status(queue, succeeded=succeeded, message=message, now=now)) for queue in _unused(observed)
    ]


def _leave(observed: Observed, queue: Child | None, current: Child | None) -> list[Action]:
    """Take a suspended job out of its queue. The quota is given back when the pods have ended."""
    if current is not None and _uses_quota(observed, current):
        return _stop(observed, current)
    leftovers = [child for child in (current, queue) if child is not None and not child.finished and not child.deleting]
    return [DeleteJob(child) for child in leftovers]


def _stop(observed: Observed, current: Child | None) -> list[Action]:
    if current is None or current.finished or current.deleting or current.suspended or has_reported_plan(observed, current):
        return []
    return [PatchJob(current, {"suspend": True})]


def _rescale(observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, queue: Child) -> list[Action]:
    """Change the number of pods that a waiting job asks for. An admitted job keeps its number of pods until the queue admits it again.

    If the new number changes each pod's share of `planning.resources`, the queue Job is recreated, because its pod template is immutable.
    """
    # Kueue refuses a number below the job's minimum.
    wanted = max(queue.least, _parallelism(spec, status))
    if queue.active or queue.parallelism == wanted:
        return []
    if queue.pods and queue.pods != queue_jobs.fewest_pods(observed, wanted):
        return [DeleteJob(queue)]
    return [PatchJob(queue, {"parallelism": wanted})]


def _parallelism(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> int:
    """Return the number of pods that the rest of the job can use at the same time."""
    match status.step:
        case "Convert":
            return job_bodies.parallelism(spec, status.tasks or 1)
        case "Commit":
            return 1
        case _:
            return spec.workers.parallelism


def _report_use(observed: Observed, queue: Child) -> list[Action]:
    """Write how many pods use the quota.

    A stopped queue Job's quota stays in use until the last pod has ended. Then Kueue takes the quota back.
    """
    pods = queue.parallelism if not queue.suspended or _is_used(observed, queue) else 0
    started = any(child.finished or observed.has_started(child) for child in _step_jobs(observed, queue.attempt))
    desired: Body = queue_jobs.use_status(pods=pods, ready=started)
    return [PatchJobStatus(queue, desired)] if (queue.active, queue.ready) != (desired["active"], desired["ready"]) else []


def _unused(observed: Observed) -> list[Child]:
    """Return the queue Jobs that still hold quota although no pod uses it any more."""
    return [
        child
        for child in observed.children
        if child.step == QUEUE and not child.finished and not child.deleting and not _is_used(observed, child)
    ]


def _is_used(observed: Observed, queue: Child) -> bool:
    return any(_uses_quota(observed, child) for child in _step_jobs(observed, queue.attempt))


def _uses_quota(observed: Observed, child: Child) -> bool:
    """Return whether a step's Job has pods, or might get pods."""
    if any(not pod.finished for pod in observed.pods_of(child)):
        return True
    return not (child.finished or child.suspended or child.deleting or has_reported_plan(observed, child))


def _step_jobs(observed: Observed, attempt: int) -> list[Child]:
    return [child for child in observed.children if child.attempt == attempt and child.step in queueing.STEPS]
