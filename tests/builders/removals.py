"""Jobs with `deletionPolicy: Delete`, whose data sets are removed when the jobs are deleted."""

from typing import Any

from tests.operator.world import NAMESPACE, World, a_commit, a_plan


def body(world: World, name: str = "mnist") -> dict[str, Any] | None:
    return world.cluster.objects.get(("dataprepjobs", NAMESPACE, name))


def finalizers(world: World) -> list[str]:
    found = body(world)
    assert found is not None
    return list(found["metadata"].get("finalizers") or [])


def succeeded(world: World, name: str = "mnist", **spec: Any) -> None:  # Any: a spec parsed from YAML
    world.apply(name, **({"deletionPolicy": "Delete"} | spec))
    world.settle(name)
    for suffix, message in (("plan", a_plan()), ("convert-1", None), ("commit-1", "commit")):
        step(world, suffix, message, name)


def step(world: World, suffix: str, message: Any, name: str = "mnist") -> None:  # Any: a message model, `commit`, or None
    job = world.job(suffix, name)["metadata"]
    if message is not None:
        told = a_commit() if message == "commit" else message
        owner = [{"kind": "Job", "name": job["name"], "uid": job["uid"], "controller": True}]
        metadata = {"name": f"{job['name']}-pod", "labels": job["labels"], "ownerReferences": owner}
        world.cluster.add("pods", NAMESPACE, {"metadata": metadata, "status": world.ended(0, told)})
    done = {"conditions": [{"type": "Complete", "status": "True"}], "completedIndexes": "0-3"}
    world.cluster.change("jobs", job["name"], {"status": done})
    world.settle(name)
