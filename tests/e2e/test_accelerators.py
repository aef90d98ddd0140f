"""CPU or GPU: where the converter pods land, and what is said when they can't."""

from collections.abc import Iterator

import pytest

from kubecluster import Cluster
from kubecluster.state import marking_nodes
from workbench.jobs import Document, Namespace, condition
from workbench.stores import Stores, a_job

GPU = "nvidia.com/gpu"


@pytest.fixture(autouse=True)
def one_at_a_time() -> Iterator[None]:
    """Each of these tests looks at all nodes for GPUs."""
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


def job(namespace: Namespace, stores: Stores, source: str, **accelerator: object) -> Document:
    gpu = {"nodeSelector": {"accelerator": "gpu"}, "tolerations": [{"key": GPU, "operator": "Exists"}]}
    return a_job(
        stores,
        name="gpu",
        source=source,
        output=f"{stores.hdfs.uri}/{namespace.name}",
        workers__accelerator=gpu | accelerator,
        workers__parallelism=2,
    )


def workers(namespace: Namespace) -> list[Document]:
    return namespace.pods("gpu", step="convert")


def limits(pod: Document) -> Document:
    found: Document = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return found


def test_required_lands_on_the_gpu_node(namespace: Namespace, stores: Stores, digits_on_hdfs: str, gpu_node: str) -> None:
    namespace.apply(job(namespace, stores, digits_on_hdfs, policy="Required", count=1))
    status = namespace.wait_phase("gpu", "Succeeded")
    assert status["effective"]["accelerator"] == "GPU"
    for pod in workers(namespace):
        assert pod["spec"]["nodeName"] == gpu_node
        assert pod["spec"]["nodeSelector"] == {"accelerator": "gpu"}
        assert limits(pod)[GPU] == "1"
        assert GPU in [toleration.get("key") for toleration in pod["spec"]["tolerations"]]


def test_required_waits_and_says_so_until_a_gpu_appears(
    namespace: Namespace, stores: Stores, cluster: Cluster, digits_on_hdfs: str
) -> None:
    namespace.apply(job(namespace, stores, digits_on_hdfs, policy="Required", count=1))
    waiting = namespace.wait("gpu", lambda s: condition(s, "Running").get("reason") == "NoGPUNodes", what="waiting for a GPU")
    assert waiting["phase"] == "Pending"
    cluster.kubectl("label", "node", "node0", "accelerator=gpu", "--overwrite")
    cluster.set_capacity("node0", {GPU: 1})
    try:
        namespace.wait_phase("gpu", "Succeeded")
    finally:
        cluster.remove_capacity("node0", GPU)
        cluster.kubectl("label", "node", "node0", "accelerator-")


def test_preferred_falls_back_to_cpu_with_an_event(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    namespace.apply(job(namespace, stores, digits_on_hdfs, policy="Preferred", count=1, fallbackAfterSeconds=3))
    status = namespace.wait_phase("gpu", "Succeeded")
    assert status["effective"]["accelerator"] == "CPU"
    assert "FellBackToCPU" in [reason for reason, _ in namespace.events("gpu")]


def test_none_never_asks_for_a_gpu(namespace: Namespace, stores: Stores, digits_on_hdfs: str, gpu_node: str) -> None:
    namespace.apply(job(namespace, stores, digits_on_hdfs, policy="None"))
    namespace.wait_phase("gpu", "Succeeded")
    for pod in workers(namespace):
        assert GPU not in limits(pod)
        assert pod["spec"]["nodeName"] != gpu_node
