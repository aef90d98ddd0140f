"""Builds a job's queue Job, and makes the steps' Jobs run within its quota. All functions are pure.

Kueue queues a queue Job like any other Job, so one Workload represents all steps of a DataPrepJob. The queue Job sets `managedBy`, so
Kubernetes' Job controller ignores the queue Job and never creates pods for it. The operator writes the queue Job's status.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from dataprep_api import names, quantity
from dataprep_api.spec import DataPrepJobSpec, Resources
from dataprep_api.spec.engine import Engine
from dataprep_operator.children.metadata import Body, child_name, owned_labels, owned_metadata
from dataprep_operator.children.pod_template import CONVERT, planning_resources, pod_template
from dataprep_operator.objects import times, untrusted
from dataprep_operator.objects.child_jobs import ANNOTATION_LEAST, ANNOTATION_PLACEMENT, ANNOTATION_PODS, QUEUE, Child, Placement
from dataprep_operator.objects.observed import Observed
from dataprep_operator.settings import PodDefaults

_SHARED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""The resources for which the pods of the plan, merge or commit step can use the quota of several converter pods."""


def queue_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    attempt: int,
    gpu: bool,
    memory: str | None,
    planning_memory: str | None,
    engine: Engine | None,
    parallelism: int,
    defaults: PodDefaults,
) -> Body:
    """Return the Job that asks the queue for the quota of all workers. Kueue resumes this Job when the queue admits it.

    `memory` is the raised memory of the converter pods, and `planning_memory` is the raised memory of the pods of the plan, merge and
    commit steps. Each is None if the memory was not raised. `engine` is the plan step's engine, or None when that step is over.
    """
    planning = planning_resources(spec)
    needed = _needed(planning, engine, memory=planning_memory)
    if planning is None and engine is None:
        # All pods have the same resources apart from their memory.
        memory = max(filter(None, (memory, planning_memory)), key=quantity.to_bytes, default=None)
    pod = pod_template(observed, spec, step=CONVERT, attempt=attempt, arguments=["work"], gpu=gpu, memory=memory, defaults=defaults)
    labels = owned_labels(observed, step=QUEUE, attempt=attempt)
    pod["metadata"]["labels"] |= labels
    annotations = dict(observed.queue_annotations)
    if untrusted.number(annotations.get(ANNOTATION_LEAST)) >= parallelism:
        # Kueue requires the number in this annotation to be less than the Job's parallelism.
        del annotations[ANNOTATION_LEAST]
    if planning is not None or engine is not None:
        pods = fewest_pods(observed, parallelism)
        container = pod["spec"]["containers"][0]
        container["resources"] = _with_others(container["resources"], needed, pods=pods)
        annotations[ANNOTATION_PODS] = str(pods)
    metadata = owned_metadata(
        observed,
        child_name(observed, QUEUE, attempt),
        labels=labels | dict(observed.queue_labels),
        annotations=annotations,
    )
    # Without `completions`, Kueue counts `parallelism` pods, and `parallelism` can be changed while the Job waits.
    body = {"managedBy": names.CONTROLLER, "parallelism": parallelism, "backoffLimit": 0, "suspend": True, "template": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def fewest_pods(observed: Observed, parallelism: int) -> int:
    """Return the smallest number of pods for which Kueue may admit a queue Job of `parallelism` pods."""
    least = untrusted.number(observed.queue_annotations.get(ANNOTATION_LEAST))
    return max(1, min(parallelism, least or parallelism))


def _needed(planning: Resources | None, engine: Engine | None, *, memory: str | None) -> dict[str, Decimal]:
    """Return the total resources of another step's pods, which all run at the same time.

    The result is empty if no other step has its own resources. `memory` is the largest memory of the other steps' pods if it was raised,
    or else None.
    """
    raised: dict[str, int | str] = {"memory": memory} if memory is not None else {}
    needed: dict[str, Decimal] = {}
    if planning is not None:
        # If a container has no request, Kubernetes uses the limit as its request.
        amounts = (planning.limits or {}) | (planning.requests or {}) | raised
        needed = {name: quantity.to_number(amount) for name, amount in amounts.items()}
    if engine is not None:
        spark, pods = engine.spark, 1 + engine.spark.executor.instances
        of_pod = {"cpu": Decimal(spark.executor.cores), "memory": Decimal(spark.pod_bytes)}
        of_pod["memory"] = max(of_pod["memory"], *(quantity.to_number(amount) for amount in raised.values()), Decimal(0))
        needed |= {name: max(pods * amount, needed.get(name, Decimal(0))) for name, amount in of_pod.items()}
    return needed


def _with_others(resources: Body, needed: Mapping[str, Decimal], *, pods: int) -> Body:
    """Return the converter pods' resources, raised so that `pods` pods have at least the resources in `needed`."""
    requests, limits = dict(resources.get("requests", {})), dict(resources.get("limits", {}))
    for name in _SHARED & needed.keys():
        share = needed[name] / pods
        own = requests.get(name, limits.get(name))
        if own is not None and quantity.to_number(own) >= share:
            continue
        requests[name] = f"{math.ceil(share * 1000)}m" if name == "cpu" else str(math.ceil(share))
        if name in limits and quantity.to_number(limits[name]) < share:
            limits[name] = requests[name]
    return {kind: amounts for kind, amounts in (("requests", requests), ("limits", limits)) if amounts}


def within_quota(job: Body, queue: Child, *, placed: bool) -> Body:
    """Return a step's Job that runs within the quota of the admitted queue Job.

    If `placed`, the step's pods run on the nodes to which the queue has admitted the converter pods. The queue Job becomes the Job's
    controller. So Kueue neither counts the Job again nor puts it into the namespace's default queue. Whenever Kueue stops the queue Job,
    it also stops this Job.
    """
    metadata, body = job["metadata"], job["spec"]
    owners = [{**owner, "controller": False} for owner in metadata["ownerReferences"]]
    owners.append({"apiVersion": "batch/v1", "kind": "Job", "name": queue.name, "uid": queue.uid, "controller": True})
    annotations = metadata.get("annotations", {}) | {ANNOTATION_PLACEMENT: placement_digest(queue)}
    # A Spark cluster may have more pods than the convert step, but the quota is enough for all of them (see `_needed`).
    parallelism = body["parallelism"] if "successPolicy" in body else min(body["parallelism"], queue.parallelism)
    template = _placed(body["template"], queue.placement) if placed and queue.placement is not None else body["template"]
    return {
        **job,
        "metadata": {**metadata, "ownerReferences": owners, "annotations": annotations},
        "spec": {**body, "parallelism": parallelism, "template": template},
    }


def placement_digest(queue: Child) -> str:
    """Return the digest of the queue Job's placement, which is an annotation of all Jobs within its quota."""
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
