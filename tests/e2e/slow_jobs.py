"""Jobs that write slowly to the OSS fake, so that a test can catch them while they run."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from storeservers.oss.controls import Fault
from workbench import mnist
from workbench.jobs import PATIENCE_SECONDS, Document, Namespace
from workbench.stores import BUCKET, Stores, a_job

SHARDED = {"output__shards": {"count": 4}, "output__fileName": "{split}-{shard}-of-{shards}.{ext}"}


@contextmanager
def slow_writes(stores: Stores, *, seconds: float, count: int = 1000) -> Iterator[None]:
    """Slows down every PUT to the OSS fake, so that a test can catch the job while it runs."""
    stores.oss.inject(Fault(kind="stall", method="PUT", matching=rf"/{BUCKET}/.*tfrecords", seconds=seconds, count=count))
    try:
        yield
    finally:
        stores.oss.clear_faults()


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


def running_workers(namespace: Namespace) -> list[Document]:
    return [pod for pod in namespace.pods("slow", step="convert") if pod.get("status", {}).get("phase") == "Running"]
