"""Tests in which workers, the operator, a node or a data node are killed, or pods are deleted.

The output's bytes must stay the same, and there must be no duplicates or leftovers.
"""

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.slow_jobs import (
    HELD_SECONDS,
    SHARDED,
    assert_whole,
    kill_processes,
    running_workers,
    slow_job,
    slow_writes,
    some_reports,
)

from kubecluster import Cluster
from storeservers.hdfs import HdfsCluster
from workbench import mnist
from workbench.installation import Installation
from workbench.jobs import Document, Namespace
from workbench.stores import Stores, a_job, mount


def delete_pods(namespace: Namespace) -> int:
    """Returns the number of deleted pods."""
    workers = running_workers(namespace)
    for pod in workers:
        namespace.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
    return len(workers)


@pytest.mark.parametrize(
    "kill", [pytest.param(kill_processes, id="kill -9"), pytest.param(delete_pods, id="forced deletion", marks=pytest.mark.nightly)]
)
def test_a_killed_worker_costs_only_its_own_shard(
    namespace: Namespace, stores: Stores, digits_on_hdfs: str, kill: Callable[[Namespace], int]
) -> None:
    with slow_writes(stores, seconds=1.0):
        namespace.apply(slow_job(namespace, stores, digits_on_hdfs))
        done = some_reports(stores, namespace, at_least=2)
        # Between two tasks, there might be no pod for a moment.
        namespace.wait("slow", lambda _: kill(namespace) > 0, what="at work")
        some_reports(stores, namespace, at_least=4)
    namespace.wait_phase("slow", "Succeeded")
    reports = assert_whole(stores, namespace)
    assert {file: reports[file] for file in done} == done


def test_a_namespace_can_be_deleted_while_a_killed_worker_waits_for_its_next(
    namespace: Namespace, stores: Stores, cluster: Cluster, digits_on_hdfs: str
) -> None:
    """Kubernetes removes a namespace only once its pods are gone.

    But the Job controller keeps a finished pod until it has created a replacement, which is impossible in a namespace that is being
    deleted. So the operator deletes the Job.
    """
    with slow_writes(stores, seconds=2.0):
        namespace.apply(slow_job(namespace, stores, digits_on_hdfs, workers__parallelism=1))
        some_reports(stores, namespace, at_least=1)

        def has_failed(status: Document) -> bool:
            kill_processes(namespace)
            return bool(status.get("failures"))

        namespace.wait("slow", has_failed, what="a failed pod")
        cluster.kubectl("delete", "namespace", namespace.name, "--wait=false")
        cluster.kubectl("wait", "--for=delete", f"namespace/{namespace.name}", "--timeout=90s", timeout_seconds=120)


def in_phase(*phases: str) -> Callable[[Document], bool]:
    return lambda status: status.get("phase") in phases


@pytest.mark.apart
@pytest.mark.long
def test_the_operator_may_die_in_any_phase(namespace: Namespace, stores: Stores, own_operator: Installation, digits_on_s3: str) -> None:
    """The operator is killed in each phase of a single job."""
    with slow_writes(stores, seconds=0.7):
        namespace.apply(slow_job(namespace, stores, digits_on_s3))
        for phase in ("Planning", "Running", "Committing"):
            assert namespace.wait("slow", in_phase(phase, "Succeeded"), what=phase)["phase"] == phase
            own_operator.kill()
    namespace.wait_phase("slow", "Succeeded")
    assert_whole(stores, namespace)
    jobs = [job["metadata"]["name"] for job in namespace.all("jobs")]
    assert len(jobs) == 3, jobs


@pytest.mark.long
@pytest.mark.parametrize("node", [pytest.param("dead", marks=pytest.mark.nightly), "silent"])
def test_a_lost_node_does_not_stop_the_job(namespace: Namespace, stores: Stores, cluster: Cluster, digits_on_hdfs: str, node: str) -> None:
    """A silent node is a node whose kubelet has stopped. Its pods keep running, and write at the same time as their replacements."""
    lose, label = {"dead": cluster.kill_node, "silent": cluster.stop_kubelet}[node], f"test-{node}"
    cluster.add_node(node, labels={label: "yes"}, taints=["test=doomed:NoSchedule"])
    try:
        changes = {
            "workers__nodeSelector": {label: "yes"},
            "workers__podTemplate": {"terminationGracePeriodSeconds": 1},
            "workers__tolerations": [
                {"key": "test", "operator": "Exists"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3},
            ],
        }
        with slow_writes(stores, seconds=1.0):
            namespace.apply(slow_job(namespace, stores, digits_on_hdfs, **changes))
            some_reports(stores, namespace, at_least=2)
        # A silent node's pods are still writing when their replacements begin.
        with slow_writes(stores, seconds=HELD_SECONDS):
            lose(node)
            cluster.kubectl("label", "node", "node0", f"{label}=yes", "--overwrite")
            namespace.wait(
                "slow",
                lambda _: any(pod["spec"]["nodeName"] != node for pod in running_workers(namespace)),
                what="at work on another node",
            )
        namespace.wait_phase("slow", "Succeeded", seconds=600)
        assert_whole(stores, namespace)
    finally:
        cluster.kubectl("label", "node", "node0", f"{label}-")
        cluster.remove_node(node)


def test_a_data_node_killed_in_the_middle_changes_no_byte(
    namespace: Namespace, stores: Stores, own_hdfs: HdfsCluster, digits: Path
) -> None:
    """Every block has a replica on both data nodes. One of the nodes dies in the middle of a block and stays down until the job has finished."""
    volume = mount(namespace, stores)
    job = a_job(
        stores,
        name="hdfs",
        source=f"/data/{digits.name}",
        output=f"{own_hdfs.uri}/{namespace.name}",
        workers__parallelism=2,
        **(volume | SHARDED),
        output__hdfs={"replication": 2},
    )
    namespace.apply(job)
    namespace.wait("hdfs", lambda s: s.get("phase") == "Running", what="Running")
    assert own_hdfs.kill_datanode_while_writing(0)
    namespace.wait_phase("hdfs", "Succeeded")
    for split in ("train", "validation", "test"):
        files = sorted(e.path for e in own_hdfs.ls(f"/{namespace.name}") if Path(e.path).name.startswith(split))
        whole = b"".join(own_hdfs.read(file) for file in files)
        assert hashlib.sha256(whole).hexdigest() == mnist.FILES[f"{split}.tfrecords"].sha256


def test_no_partial_file_is_ever_visible_and_success_is_last(namespace: Namespace, stores: Stores, digits: Path) -> None:
    """Polls the destination every few milliseconds while the job writes to it."""
    folder = stores.volume / namespace.name
    shards = {"train": {12_251_250}, "validation": {1_113_750}, "test": {2_227_500}}
    faults: list[str] = []
    ended = threading.Event()
    seen: set[str] = set()

    def watch() -> None:
        while not ended.is_set():
            success = (folder / "_SUCCESS").exists()
            visible = {f.name: f.stat().st_size for f in folder.glob("*.tfrecords")} if folder.exists() else {}
            seen.update(visible)
            faults.extend(f"{name} had {size} bytes" for name, size in visible.items() if size not in shards[name.split("-")[0]])
            if success and len(visible) != 12:
                faults.append(f"_SUCCESS with {len(visible)} files")
            time.sleep(0.003)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        changes = mount(namespace, stores) | SHARDED | {"workers__parallelism": 2}
        namespace.apply(a_job(stores, name="watched", source=f"/data/{digits.name}", output=f"/data/{namespace.name}", **changes))
        namespace.wait_phase("watched", "Succeeded")
    finally:
        ended.set()
        watcher.join()
    assert faults == []
    assert len(seen) == 12
