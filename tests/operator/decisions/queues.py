"""Plays Kueue for the queue Jobs of a world: admits and evicts them, and lets the pods of their steps run and end."""

from typing import Any

from tests.operator.world import NAMESPACE, World

from dataprep_operator.cluster.cluster import Body
from dataprep_operator.objects.child_jobs import QUEUE_LABEL

SPOT: Body = {"nodeSelector": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}


def queued(world: World, **spec: Any) -> None:  # Any: fields of the spec
    world.apply(labels={QUEUE_LABEL: "research"}, **spec)
    assert world.settle() == "Queued"


def workload(world: World, uid: str, *conditions: Body) -> None:
    """Store the Workload of the queue Job with this uid."""
    metadata = {"name": f"job-{uid}", "labels": {"kueue.x-k8s.io/job-uid": uid}}
    key = ("workloads", NAMESPACE, str(metadata["name"]))
    if key in world.cluster.objects:
        world.cluster.remove(*key)
    world.cluster.add("workloads", NAMESPACE, {"metadata": metadata, "status": {"conditions": list(conditions)}})


def change(world: World, suffix: str, body: Body) -> None:
    world.cluster.change("jobs", world.job(suffix)["metadata"]["name"], body)


def admit(world: World, suffix: str = "queue-1", *, parallelism: int = 2, template: Body | None = None) -> str:
    """Resume the queue Job as Kueue does, and return the phase."""
    job = world.job(suffix)["metadata"]
    if not any(plural == "workloads" for plural, _, _ in world.cluster.objects):
        workload(world, job["uid"], {"type": "QuotaReserved", "status": "True", "message": "Quota reserved in ClusterQueue c"})
    pod = template if template is not None else SPOT
    change(world, suffix, {"spec": {"suspend": False, "parallelism": parallelism, "template": {"spec": pod}}})
    return world.settle()


def evict(world: World, suffix: str = "queue-1") -> str:
    change(world, suffix, {"spec": {"suspend": True}})
    return world.settle()


def run(world: World, suffix: str) -> None:
    """Let a pod of the step run."""
    world.pod(suffix, world.scheduled(phase="Running"))
    world.settle()


def stopped(world: World, suffix: str) -> None:
    """Remove the pods of a suspended Job, as the Job controller does."""
    uid = world.job(suffix)["metadata"]["uid"]
    for plural, namespace, name in list(world.cluster.objects):
        body = world.cluster.objects[plural, namespace, name]
        if plural == "pods" and body["metadata"]["ownerReferences"][0]["uid"] == uid:
            world.cluster.remove(plural, namespace, name)
    world.settle()


def active(world: World, suffix: str = "queue-1") -> int:
    return int(world.job(suffix).get("status", {}).get("active", 0))


def pod_of(world: World, suffix: str) -> Body:
    spec: Body = world.job(suffix)["spec"]["template"]["spec"]
    return spec
