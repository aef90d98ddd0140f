"""Determines the accelerator, the parallelism and the image of the convert step. All functions are pure."""

from typing import Literal

from dataprep_api import names
from dataprep_api.resources.status import DataPrepJobStatus, Effective
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children import scripts
from dataprep_operator.children.job_bodies import parallelism
from dataprep_operator.decisions import queueing
from dataprep_operator.decisions.status.context import Context
from dataprep_operator.objects.child_jobs import Child


def accelerator(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> Literal["CPU", "GPU"]:
    """Return whether the convert step runs on CPUs or GPUs. If this attempt has fallen back to the CPU, the spec's choice is ignored."""
    if spec.workers.accelerator.policy == "None" or (status.effective is not None and status.effective.accelerator == "CPU"):
        return "CPU"
    return "GPU"


def fall_back_to_cpu(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """If the policy is `Preferred` and no GPU pod was scheduled in time, start another attempt on CPU nodes."""
    child = context.observed.child("convert", status.attempt)
    if child is None or accelerator(context.spec, status) != "GPU" or context.spec.workers.accelerator.policy != "Preferred":
        return status
    pods = context.observed.pods_of(child)
    unschedulable_since = [pod.unschedulable.since for pod in pods if pod.unschedulable is not None and pod.unschedulable.since is not None]
    is_scheduled = bool(context.observed.succeeded_workers.get(child.uid)) or any(pod.scheduled for pod in pods)
    if child.finished or child.suspended or child.completed_indexes or is_scheduled or not unschedulable_since:
        return status
    if (context.now - min(unschedulable_since)).total_seconds() < context.spec.workers.accelerator.fallback_after_seconds:
        return status
    effective = (status.effective or Effective()).model_copy(update={"accelerator": "CPU"})
    return status.model_copy(update={"attempt": status.attempt + 1, "effective": effective})


def with_effective(context: Context, status: DataPrepJobStatus, child: Child | None) -> DataPrepJobStatus:
    """Return the status with the convert step's effective values, and the label selector of its pods."""
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
