"""Builds a job's queue Job, and makes the steps' Jobs run within its quota. All functions are pure.

Kueue queues a queue Job like any other Job, so one Workload represents all steps of a DataPrepJob. The queue Job sets `managedBy`, so
Kubernetes' Job controller ignores the queue Job and never creates pods for it. The operator writes the queue Job's status.
"""

from datetime import datetime
from typing import Any

from dataprep_api import names
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children.metadata import Body, child_name, owned_labels, owned_metadata
from dataprep_operator.children.pod_template import pod_template
from dataprep_operator.objects import times, untrusted
from dataprep_operator.objects.child_jobs import ANNOTATION_LEAST, ANNOTATION_PLACEMENT, QUEUE, Child, Placement
from dataprep_operator.objects.observed import Observed
from dataprep_operator.settings import PodDefaults


def queue_job(
    observed: Observed, spec: DataPrepJobSpec, *, attempt: int, gpu: bool, memory: str | None, parallelism: int, defaults: PodDefaults
) -> Body:
    """Return the Job that asks the queue for the quota of all workers. Kueue resumes this Job when the queue admits it."""
    # No other step's pods need more than the converter pods, so the pods of all steps fit into the same quota.
    pod = pod_template(observed, spec, step="convert", attempt=attempt, arguments=["work"], gpu=gpu, memory=memory, defaults=defaults)
    labels = owned_labels(observed, step=QUEUE, attempt=attempt)
    pod["metadata"]["labels"] |= labels
    annotations = dict(observed.queue_annotations)
    if untrusted.number(annotations.get(ANNOTATION_LEAST)) >= parallelism:
        # Kueue requires the number in this annotation to be less than the Job's parallelism.
        del annotations[ANNOTATION_LEAST]
    metadata = owned_metadata(
        observed,
        child_name(observed, QUEUE, attempt),
        labels=labels | dict(observed.queue_labels),
        annotations=annotations,
    )
    # Without `completions`, Kueue counts `parallelism` pods, and the user may change that number while the Job waits.
    body = {"managedBy": names.CONTROLLER, "parallelism": parallelism, "backoffLimit": 0, "suspend": True, "template": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def within_quota(job: Body, queue: Child, *, placed: bool) -> Body:
    """Return a step's Job that runs within the quota of the admitted queue Job.

    `placed` says whether the step's pods run where the queue has admitted the converter pods. The queue Job becomes the Job's controller.
    So Kueue doesn't count the Job again or put it into the namespace's default queue, and it stops the Job whenever it stops the queue Job.
    """
    metadata, body = job["metadata"], job["spec"]
    owners = [{**owner, "controller": False} for owner in metadata["ownerReferences"]]
    owners.append({"apiVersion": "batch/v1", "kind": "Job", "name": queue.name, "uid": queue.uid, "controller": True})
    annotations = metadata.get("annotations", {}) | {ANNOTATION_PLACEMENT: placement_digest(queue)}
    template = _placed(body["template"], queue.placement) if placed and queue.placement is not None else body["template"]
    return {
        **job,
        "metadata": {**metadata, "ownerReferences": owners, "annotations": annotations},
        "spec": {**body, "parallelism": min(body["parallelism"], queue.parallelism), "template": template},
    }


def placement_digest(queue: Child) -> str:
    """Return the digest that is in the annotation of all Jobs within this queue Job's quota."""
    return queue.placement.digest(queue.uid) if queue.placement is not None else ""


def use_status(*, pods: int, ready: bool) -> Body:
    """Return the queue Job's status while `pods` pods use its quota. Kueue takes the quota back when no pod uses it."""
    return {"active": pods, "ready": pods if ready else 0}


def final_status(queue: Child, *, succeeded: bool, message: str, now: datetime) -> Body:
    """Return the status of a queue Job that has ended, so that Kueue marks the Workload as finished and gives its quota to others."""
    cause, end = ("SuccessCriteriaMet", "Complete") if succeeded else ("FailureTarget", "Failed")
    common = {"status": "True", "reason": "DataPrepJobEnded", "message": message, "lastTransitionTime": times.text(now)}
    started_at = queue.started_at or min(queue.created or now, now)
    return {
        **use_status(pods=0, ready=False),
        "startTime": times.text(started_at),
        **({"completionTime": times.text(max(started_at, now))} if succeeded else {}),
        "conditions": [{"type": kind, **common} for kind in (cause, end)],
    }


# Any, because a pod template is a JSON object of the API.
def _placed(template: Body, placement: Placement) -> dict[str, Any]:
    """Return the pod template with everything that Kueue added to the queue Job's pod template."""
    metadata, pod = template["metadata"], template["spec"]
    tolerations = pod.get("tolerations", [])
    added_tolerations = [dict(toleration) for toleration in placement.tolerations if toleration not in tolerations]
    fields = {
        "nodeSelector": pod.get("nodeSelector", {}) | dict(placement.node_selector),
        "tolerations": [*tolerations, *added_tolerations],
    }
    return {
        "metadata": {**metadata, "annotations": dict(placement.annotations) | metadata["annotations"]},
        "spec": {**pod, **{key: value for key, value in fields.items() if value}},
    }
