"""Makes jobs write slowly to the OSS fake, so that a test can act while the jobs run, and injects faults into their pods."""

import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from storeservers.oss.controls import Fault
from workbench import mnist
from workbench.jobs import PATIENCE_SECONDS, Document, Namespace
from workbench.stores import BUCKET, Stores, a_job

HELD_SECONDS: Final = 55
"""Each write is held for this long. The converter's OSS client waits for a minute."""
_MANY: Final = 1000
SHARDED = {"output__shards": {"count": 4}, "output__fileName": "{split}-{shard}-of-{shards}.{ext}"}


@contextmanager
def slow_writes(stores: Stores, *, seconds: float, count: int = 1000) -> Iterator[None]:
    """Slows down every PUT to the OSS fake, so that a test can act while the job runs."""
    stores.oss.inject(Fault(kind="stall", method="PUT", matching=rf"/{BUCKET}/.*tfrecords", seconds=seconds, count=count))
    try:
        yield
    finally:
        stores.oss.clear_faults()


@contextmanager
def held_writes(stores: Stores, namespace: Namespace, matching: str, *, skip: int = 0) -> Iterator[None]:
    """Holds PUTs to the OSS fake whose keys match the regular expression, but lets the first `skip` of them pass.

    The expression applies to the part of the key after the namespace's folder.
    """
    pattern = rf"/{BUCKET}/{namespace.name}[^/]*/{matching}"
    stores.oss.inject(Fault(kind="stall", method="PUT", matching=pattern, skip=skip, seconds=HELD_SECONDS, count=_MANY))
    try:
        yield
    finally:
        stores.oss.clear_faults()


def held_so_far(stores: Stores) -> int:
    """The number of PUTs that `held_writes` has held since it began."""
    return sum(_MANY - fault.count for fault in stores.oss.faults() if fault.kind == "stall")


def slow_job(namespace: Namespace, stores: Stores, source: str, **changes: Any) -> Document:
    return a_job(
        stores, name="slow", source=source, output=f"oss://{BUCKET}/{namespace.name}", **(SHARDED | {"workers__parallelism": 2} | changes)
    )


def assert_whole(stores: Stores, namespace: Namespace) -> dict[str, Document]:
    """Checks that the output is complete, and returns the reports by file."""
    prefix = f"{namespace.name}/"
    for split in ("train", "validation", "test"):
        keys = sorted(key for key in stores.oss.keys(BUCKET, f"{prefix}{split}-"))
        whole = b"".join(stores.oss.read(BUCKET, key) for key in keys)
        assert hashlib.sha256(whole).hexdigest() == mnist.FILES[f"{split}.tfrecords"].sha256
    assert [upload.key for upload in stores.oss.uploads(BUCKET) if upload.key.startswith(prefix)] == []
    keys = stores.oss.keys(BUCKET, prefix)
    assert [key for key in keys if "/." in key] == []
    reports = [json.loads(stores.oss.read(BUCKET, key)) for key in keys if "/reports/" in key and key.endswith(".json")]
    return {report["file"]: report for report in reports}


def some_reports(stores: Stores, namespace: Namespace, *, at_least: int) -> dict[str, Document]:
    """Waits until the given number of shards is done."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        keys = [key for key in stores.oss.keys(BUCKET, f"{namespace.name}/") if "/reports/" in key and key.endswith(".json")]
        if len(keys) >= at_least:
            reports = [json.loads(stores.oss.read(BUCKET, key)) for key in keys]
            return {report["file"]: report for report in reports}
        assert time.monotonic() < deadline, f"only {len(keys)} shards after {PATIENCE_SECONDS} s\n{namespace.story('slow')}"
        time.sleep(0.2)


def running_workers(namespace: Namespace, job: str = "slow", *, step: str = "convert") -> list[Document]:
    return [pod for pod in namespace.pods(job, step=step) if pod.get("status", {}).get("phase") == "Running"]


def kill_processes(namespace: Namespace, job: str = "slow", *, step: str = "convert") -> int:
    """Kills the converter process with SIGKILL, from the machine that acts as the node.

    Returns the number of containers whose process was killed.
    """
    return sum(kill_processes_of(pod) for pod in running_workers(namespace, job, step=step))


def kill_processes_of(pod: Document) -> bool:
    """Kills all processes of a pod's container with SIGKILL. Returns whether there were any."""
    container = pod["status"]["containerStatuses"][0].get("containerID", "").removeprefix("containerd://")
    hit = False
    for cgroup in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if container and container in cgroup.read_text():
                os.kill(int(cgroup.parent.name), signal.SIGKILL)
                hit = True
        except (OSError, ValueError):
            continue
    return hit


def evict(namespace: Namespace, job: str = "slow", *, step: str = "convert") -> int:
    """Evicts all converter pods through the eviction API, as `kubectl drain` does. Returns their number."""
    workers = [pod["metadata"]["name"] for pod in running_workers(namespace, job, step=step)]
    for name in workers:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace.name}}
        path = f"/api/v1/namespaces/{namespace.name}/pods/{name}/eviction"
        namespace.cluster.kubectl("create", f"--raw={path}", "--filename=-", stdin=json.dumps(eviction))
    return len(workers)
