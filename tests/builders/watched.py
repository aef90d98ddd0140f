"""Objects as the API server sends them, and a function that waits for their effects."""

import asyncio
from typing import Any

from tests.operator.world import World

from dataprep_api import names
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.objects import times


async def until(condition: Any) -> None:  # Any: a callable without arguments, which returns any value
    """Wait until a condition holds, for at most one second."""
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("the condition never became true")


def job_object(name: str = "a", *, uid: str = "uid-a", version: str = "5", **rest: Any) -> dict[str, Any]:  # Any: JSON
    """Return a DataPrepJob."""
    metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"output": {"uri": "s3://o"}}} | rest


def child_object(uid: str = "job-1") -> dict[str, Any]:  # Any: JSON
    """Return a Job that belongs to the DataPrepJob."""
    owner = {"kind": "DataPrepJob", "name": "a", "uid": "uid-a", "controller": True}
    labels = {names.LABEL_STEP: "plan", names.LABEL_ATTEMPT: "1"}
    return {"metadata": {"name": uid, "namespace": "n", "uid": uid, "resourceVersion": "1", "ownerReferences": [owner], "labels": labels}}


def disrupted(world: World, reason: str = "PreemptionByScheduler", **rest: Any) -> Body:  # Any: the API's JSON
    now = times.text(world.cluster.now)
    ended = world.ended(143, "terminated")
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": now}
    return {**ended, "conditions": [*ended["conditions"], condition], **rest}


def running_message(world: World, name: str) -> str:
    return str(next(each["message"] for each in world.status(name)["conditions"] if each["type"] == "Running"))
