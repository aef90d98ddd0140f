"""`make bench-mnist`: how long a small job takes on the cluster, compared with `dataprep run` on the same stores and with an empty pod.

The job converts MNIST's 70,000 records from HDFS to HDFS. Such a job runs in a single pod, so on an idle cluster it should take at most one
second longer than `dataprep run` and an empty pod together. Each round runs all three, one after the other. The medians are printed, and
the command fails if the job takes longer than allowed.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

import kubecluster
from storeservers.hdfs import HdfsCluster
from storeservers.oss import FakeOss
from storeservers.s3 import S3Server
from workbench import mnist
from workbench.installation import CONVERTER_IMAGE, TAG, install_operator
from workbench.jobs import Document, Namespace
from workbench.stores import Stores, a_job

_ALLOWANCE_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 300


def main() -> int:
    """Measures, prints the medians, and returns 1 if the job takes longer than allowed."""
    parser = argparse.ArgumentParser(prog="make bench-mnist", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="number of rounds (%(default)s)")
    rounds = parser.parse_args().rounds
    with _cluster() as (namespace, stores), tempfile.TemporaryDirectory() as folder:
        source = _digits(stores, Path(folder))
        seconds = [_round(number, namespace, stores, source, Path(folder)) for number in range(rounds)]
    job, run, pod = (statistics.median(times) for times in zip(*seconds, strict=True))
    allowed = run + pod + _ALLOWANCE_SECONDS
    sys.stdout.write(
        f"{rounds} rounds, medians: the job {job:.2f} s, dataprep run {run:.2f} s, an empty pod {pod:.2f} s. "
        f"The job takes {job / allowed:.2f} of the {allowed:.2f} s that are allowed.\n"
    )
    return int(job > allowed)


def _round(number: int, namespace: Namespace, stores: Stores, source: str, folder: Path) -> tuple[float, float, float]:
    """Returns the seconds that the job, `dataprep run` and an empty pod take."""
    output = f"{stores.hdfs.uri}/{namespace.name}/{number}"
    job = a_job(stores, name=f"mnist-{number}", source=source, output=f"{output}-cluster", one_pod=True)
    job_seconds = _seconds_until_complete(namespace, job, "dataprepjobs")
    pod_seconds = _seconds_until_complete(namespace, _empty_job(f"empty-{number}"), "jobs")
    job["spec"]["params"]["output"] = f"{output}-run"
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    run_seconds = _seconds(lambda: subprocess.run([sys.executable, "-m", "dataprep_converter", "run", str(file), "--quiet"], check=True))
    return job_seconds, run_seconds, pod_seconds


def _seconds_until_complete(namespace: Namespace, document: Document, plural: str) -> float:
    """Applies an object. Returns the seconds until the object has the condition Complete."""

    def apply_and_wait() -> None:
        namespace.apply(document)
        name = f"{plural}/{document['metadata']['name']}"
        namespace.kubectl(
            "wait", "--for=condition=Complete", f"--timeout={_PATIENCE_SECONDS}s", name, timeout_seconds=2 * _PATIENCE_SECONDS
        )

    return _seconds(apply_and_wait)


def _seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _empty_job(name: str) -> Document:
    """Returns a Job whose pod starts Python and ends at once."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "empty", "image": f"{CONVERTER_IMAGE}:{TAG}", "command": ["python3", "-c", ""], "securityContext": security}
    pod = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": pod}}}


def _digits(stores: Stores, folder: Path) -> str:
    """Writes MNIST to HDFS. Returns the folder's URI."""
    stores.hdfs.mkdirs("/mnist")
    for file in mnist.write(folder / "mnist").iterdir():
        stores.hdfs.write(f"/mnist/{file.name}", file.read_bytes())
    return f"{stores.hdfs.uri}/mnist"


@contextmanager
def _cluster() -> Iterator[tuple[Namespace, Stores]]:
    """Starts a cluster with the operator, the stores and a namespace, and stops all of them afterwards."""
    if kubecluster.attach() is not None:
        raise SystemExit(
            "A test cluster is already running, but the measurement needs its own idle cluster. Stop the running cluster first: make cluster-down"
        )
    cluster = kubecluster.up()
    try:
        install_operator(cluster).wait_ready()
        with tempfile.TemporaryDirectory(prefix="dataprep-stores-") as folder:
            host, base = cluster.bridge_ip, Path(folder)
            if host is None:
                raise SystemExit("The stores need an address that the cluster's pods can reach, but this cluster has no such address.")
            with (
                S3Server(base / "s3", host=host) as s3,
                FakeOss(base / "oss", host=host) as oss,
                HdfsCluster(base / "hdfs", host=host) as hdfs,
            ):
                stores = Stores(lambda: hdfs, s3=s3, oss=oss, volume=base)
                namespace = Namespace(cluster, f"bench-{uuid.uuid4().hex[:8]}")
                namespace.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}}, *stores.secrets())
                yield namespace, stores
    finally:
        cluster.down()


if __name__ == "__main__":
    sys.exit(main())
