"""Objects as the API server sends them, and waiting for what they set off."""

import asyncio
from typing import Any

from dataprep_api import names


async def until(condition: Any) -> None:  # Any: a callable without arguments
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came true")


def job_object(name: str = "a", *, uid: str = "uid-a", version: str = "5", **rest: Any) -> dict[str, Any]:  # Any: JSON
    metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"output": {"uri": "s3://o"}}} | rest


def child_object(uid: str = "job-1") -> dict[str, Any]:  # Any: JSON
    owner = {"kind": "DataPrepJob", "name": "a", "uid": "uid-a", "controller": True}
    labels = {names.LABEL_STEP: "plan", names.LABEL_ATTEMPT: "1"}
    return {"metadata": {"name": uid, "namespace": "n", "uid": uid, "resourceVersion": "1", "ownerReferences": [owner], "labels": labels}}
