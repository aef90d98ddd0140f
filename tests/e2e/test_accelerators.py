"""Tests of CPU and GPU nodes: where converter pods are scheduled, and the status if no node fits."""

from collections.abc import Iterator

import pytest

from kubecluster import Cluster
from kubecluster.state import marking_nodes
from workbench.installation import Installation
from workbench.jobs import Document, Namespace, condition
from workbench.stores import BUCKET, Stores, a_job

GPU = "nvidia.com/gpu"
PROMISED_SECONDS = 30
"""A job falls back to CPU nodes within this time after `fallbackAfterSeconds`."""


@pytest.fixture(autouse=True)
def one_at_a_time() -> Iterator[None]:
    """Runs these tests one at a time, because each of them depends on the GPUs of all nodes."""
    with marking_nodes():
        yield


@pytest.fixture
def gpu_node(cluster: Cluster) -> Iterator[str]:
    """node1 with two GPUs in its status, a label and a taint."""
    node = "node1"
    cluster.kubectl("label", "node", node, "accelerator=gpu", "--overwrite")
    cluster.kubectl("taint", "node", node, f"{GPU}=present:NoSchedule", "--overwrite")
    cluster.set_capacity(node, {GPU: 2})
    yield node
    cluster.remove_capacity(node, GPU)
    cluster.kubectl("taint", "node", node, f"{GPU}-")
    cluster.kubectl("label", "node", node, "accelerator-")


def job(namespace: Namespace, stores: Stores, source: str, *, parallelism: int = 1, **accelerator: object) -> Document:
    gpu = {"nodeSelector": {"accelerator": "gpu"}, "tolerations": [{"key": GPU, "operator": "Exists"}]}
    return a_job(
        stores,
        name="gpu",
        source=source,
        output=f"s3://{BUCKET}/{namespace.name}",
        workers__accelerator=gpu | accelerator,
        workers__parallelism=parallelism,
        limit=1000,
    )


def workers(namespace: Namespace) -> list[Document]:
    """Returns the converter pods. Fails if there are none, so that an assertion about all pods can't pass for an empty list."""
    found = namespace.pods("gpu", step="convert")
    assert found, namespace.story("gpu")
    return found


def wait_until_workers_are_asked_for(namespace: Namespace) -> None:
    namespace.wait("gpu", lambda _: bool(namespace.pods("gpu", step="convert")), what="asking for workers")


def wait_until_no_gpu_is_told(namespace: Namespace) -> Document:
    return namespace.wait(
        "gpu",
        lambda status: condition(status, "Running").get("reason") == "NoGPUNodes",
        what="waiting for a GPU",
        seconds=PROMISED_SECONDS,
    )


def limits(pod: Document) -> Document:
    found: Document = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return found


def test_required_lands_on_the_gpu_node(namespace: Namespace, stores: Stores, digits_on_s3: str, gpu_node: str) -> None:
    namespace.apply(job(namespace, stores, digits_on_s3, policy="Required", count=1))
    status = namespace.wait_phase("gpu", "Succeeded")
    assert status["effective"]["accelerator"] == "GPU"
    for pod in workers(namespace):
        assert pod["spec"]["nodeName"] == gpu_node
        assert pod["spec"]["nodeSelector"] == {"accelerator": "gpu"}
        assert limits(pod)[GPU] == "1"
        assert GPU in [toleration.get("key") for toleration in pod["spec"]["tolerations"]]


def test_required_waits_and_says_so_until_a_gpu_appears(namespace: Namespace, stores: Stores, cluster: Cluster, digits_on_s3: str) -> None:
    namespace.apply(job(namespace, stores, digits_on_s3, policy="Required", count=1))
    wait_until_workers_are_asked_for(namespace)
    waiting = wait_until_no_gpu_is_told(namespace)
    assert waiting["phase"] == "Pending"
    cluster.kubectl("label", "node", "node0", "accelerator=gpu", "--overwrite")
    cluster.set_capacity("node0", {GPU: 1})
    try:
        namespace.wait_phase("gpu", "Succeeded")
    finally:
        cluster.remove_capacity("node0", GPU)
        cluster.kubectl("label", "node", "node0", "accelerator-")


def test_preferred_falls_back_to_cpu_with_an_event(namespace: Namespace, stores: Stores, digits_on_s3: str) -> None:
    namespace.apply(job(namespace, stores, digits_on_s3, policy="Preferred", count=1, fallbackAfterSeconds=3))
    wait_until_workers_are_asked_for(namespace)
    namespace.wait(
        "gpu",
        lambda status: status.get("effective", {}).get("accelerator") == "CPU",
        what="on CPU nodes",
        seconds=3 + PROMISED_SECONDS,
    )
    status = namespace.wait_phase("gpu", "Succeeded")
    assert status["effective"]["accelerator"] == "CPU"
    for pod in workers(namespace):
        assert GPU not in limits(pod)
    assert "FellBackToCPU" in [reason for reason, _ in namespace.events("gpu")]


def test_none_never_asks_for_a_gpu(namespace: Namespace, stores: Stores, digits_on_s3: str, gpu_node: str) -> None:
    namespace.apply(job(namespace, stores, digits_on_s3, policy="None"))
    namespace.wait_phase("gpu", "Succeeded")
    for pod in workers(namespace):
        assert GPU not in limits(pod)
        assert pod["spec"]["nodeName"] != gpu_node


@pytest.fixture
def other_gpu_node(cluster: Cluster) -> Iterator[str]:
    """node0 with more GPUs than any test requests, no taint and another label."""
    node = "node0"
    cluster.kubectl("label", "node", node, "accelerator=other", "--overwrite")
    cluster.set_capacity(node, {GPU: 8})
    yield node
    cluster.remove_capacity(node, GPU)
    cluster.kubectl("label", "node", node, "accelerator-")


def test_two_gpus_come_from_the_selected_node(
    namespace: Namespace, stores: Stores, digits_on_s3: str, gpu_node: str, other_gpu_node: str
) -> None:
    """The GPU nodes have room for only one of the two workers at a time.

    The second worker waits, and doesn't use the GPUs of a node with a different label.
    """
    namespace.apply(job(namespace, stores, digits_on_s3, parallelism=2, policy="Required", count=2))
    status = namespace.wait_phase("gpu", "Succeeded")
    assert status["effective"]["accelerator"] == "GPU"
    for pod in workers(namespace):
        assert pod["spec"]["nodeName"] == gpu_node != other_gpu_node
        assert pod["spec"]["nodeSelector"] == {"accelerator": "gpu"}
        assert limits(pod)[GPU] == "2"


def test_a_job_waits_for_more_gpus_than_the_selected_node_has(
    namespace: Namespace, stores: Stores, digits_on_s3: str, gpu_node: str, other_gpu_node: str
) -> None:
    del gpu_node, other_gpu_node  # two GPUs on the labelled node, eight on another
    namespace.apply(job(namespace, stores, digits_on_s3, policy="Required", count=3))
    wait_until_workers_are_asked_for(namespace)
    assert wait_until_no_gpu_is_told(namespace)["phase"] == "Pending"
    assert [pod["spec"].get("nodeName") for pod in workers(namespace) if pod["spec"].get("nodeName")] == []


@pytest.mark.apart
def test_one_value_of_the_chart_keeps_cpu_jobs_off_gpu_nodes_without_a_taint(
    namespace: Namespace, stores: Stores, cluster: Cluster, own_operator: Installation, digits_on_s3: str
) -> None:
    """A CPU job that selects the GPU node by another of the node's labels isn't scheduled.

    Without this selector, the job runs on another node.
    """
    node, taken_from = "node1", {"accelerator": "gpu"}
    own_operator.install(
        {"namespaces": [namespace.name], "crds": {"install": False}, "workers": {"cpu": {"avoidNodes": taken_from}}},
    )
    cluster.kubectl("label", "node", node, "accelerator=gpu", "room=gpu", "--overwrite")
    try:
        kept_off = job(namespace, stores, digits_on_s3, policy="None")
        kept_off["spec"]["workers"]["nodeSelector"] = {"room": "gpu"}
        namespace.apply(kept_off)
        namespace.wait(
            "gpu",
            lambda status: condition(status, "Running").get("reason") == "Unschedulable",
            what="without a node",
            seconds=3 * PROMISED_SECONDS,
        )
        assert [pod["spec"].get("nodeName") for pod in namespace.pods("gpu")] == [None]
        namespace.kubectl("delete", "dpj", "gpu")
        namespace.apply(job(namespace, stores, digits_on_s3, policy="None"))
        namespace.wait_phase("gpu", "Succeeded")
        for pod in workers(namespace):
            assert pod["spec"]["nodeName"] != node
    finally:
        cluster.kubectl("label", "node", node, "accelerator-", "room-")
