"""Jobs in queues of a real Kueue, built from its Go module and installed from its manifests."""

import json
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.e2e.slow_jobs import assert_whole, slow_job, slow_writes, some_reports

from kubecluster import Cluster
from workbench import kueue
from workbench.installation import Installation
from workbench.jobs import Document, Namespace, condition
from workbench.kueue import FLAVOR_LABEL, MANAGED
from workbench.smalljobs import assert_done_once, small_jobs, wait_all
from workbench.stores import Stores

pytestmark = pytest.mark.xdist_group("kueue")
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
FLAVOR = "spot"
SAID_SECONDS = 30
"""The operator polls Kueue's status messages about every ten seconds."""
DONE_SECONDS = 120


@pytest.fixture(scope="module")
def running_kueue(cluster: Cluster, operator: Installation) -> Iterator[None]:
    """Kueue, and nodes of its flavor."""
    del operator  # requested for its effect
    with kueue.installed(cluster):
        cluster.kubectl("label", "--overwrite", "nodes", "--all", f"{FLAVOR_LABEL}={FLAVOR}")
        yield
        cluster.kubectl("label", "nodes", "--all", f"{FLAVOR_LABEL}-")
        cluster.kubectl("delete", "resourceflavors", "--all", "--timeout=30s")


@pytest.fixture
def queues(namespace: Namespace, running_kueue: None) -> Iterator[Namespace]:
    """A namespace managed by Kueue."""
    del running_kueue
    namespace.cluster.kubectl("label", "namespace", namespace.name, f"{MANAGED}=yes")
    yield namespace
    namespace.kubectl("delete", "dataprepjobs", "--all")
    # Kueue's finalizers are on them, so they have to go before Kueue does.
    namespace.cluster.kubectl("delete", "clusterqueues", "--all", "--timeout=60s")


def queued(job: Document, queue: str) -> Document:
    job["metadata"].setdefault("labels", {})[QUEUE_LABEL] = queue
    return job


def quota(namespace: Namespace, cpu: str) -> None:
    namespace.apply(*kueue.queue("research", namespace=namespace.name, cpu=cpu, flavor=FLAVOR))


def held(namespace: Namespace, name: str, *, reason: str, words: list[str], seconds: float = SAID_SECONDS) -> str:
    """Waits for the condition that says why the job is waiting; returns its message."""

    def said(status: Document) -> bool:
        told = condition(status, "QuotaReserved")
        return told.get("reason") == reason and all(word in told["message"] for word in words)

    status = namespace.wait(name, said, what=f"{reason}: {words}", seconds=seconds)
    told = condition(status, "QuotaReserved")
    assert (status["phase"], told["status"]) == ("Queued", "False")
    assert condition(status, "Running")["status"] == "False"
    until(lambda: not active(namespace, name), what="no converter pod at work")
    return str(told["message"])


def active(namespace: Namespace, name: str) -> list[str]:
    pods = namespace.pods(name, step="convert")
    return [pod["metadata"]["name"] for pod in pods if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")]


def convert(namespace: Namespace, name: str) -> Document:
    [found] = namespace.all("jobs", selector=f"dataprep.io/job={name},dataprep.io/step=convert")
    return found


def until(true: Callable[[], bool], *, what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.3)


@pytest.mark.long
def test_a_queued_job_without_kueue_gets_a_warning(namespace: Namespace, stores: Stores) -> None:
    """This is the first test of the file, because Kueue runs from the next one on."""
    [job] = small_jobs(stores, namespace, ["forgotten"])
    namespace.apply(queued(job, f"nobodys-{uuid.uuid4().hex[:4]}"))
    told = held(namespace, "forgotten", reason="NotQueued", words=["Check that Kueue is running"], seconds=90)
    assert told.startswith("The convert Job waits for a Workload, because Kueue has not created one.")
    assert "NotQueued" in [reason for reason, _ in namespace.events("forgotten")]


def test_a_job_waits_for_quota_with_kueues_message_and_then_writes_the_same_bytes(queues: Namespace, stores: Stores) -> None:
    quota(queues, "10m")
    plain, first, second = small_jobs(stores, queues, ["plain", "first", "second"])
    queues.apply(plain, queued(first, "research"))
    held(queues, "first", reason="Queued", words=["couldn't assign flavors to pod set main: insufficient quota for cpu in flavor spot"])
    queues.apply(queued(second, "research"))
    assert "0 jobs of the queue are before it." in held(queues, "first", reason="Queued", words=["are before it."])
    held(queues, "second", reason="Queued", words=["1 job of the queue is before it."])
    assert convert(queues, "first")["spec"]["suspend"] is True

    quota(queues, "50m")  # quota for one of the two jobs
    wait_all(queues, "Succeeded", seconds=DONE_SECONDS)
    for name in ("first", "second"):
        told = condition(queues.status(name), "QuotaReserved")
        assert (told["status"], told["reason"]) == ("True", "QuotaReserved")
        # Kueue sets the flavor's node selector, and the operator leaves it alone.
        for pod in queues.pods(name):
            chosen = pod["spec"].get("nodeSelector", {}).get(FLAVOR_LABEL)
            assert chosen == (FLAVOR if pod["metadata"]["labels"]["dataprep.io/step"] == "convert" else None)
    assert_done_once(stores, queues)
    ran = sorted((convert(queues, name)["status"] for name in ("first", "second")), key=lambda status: str(status["startTime"]))
    assert ran[0]["completionTime"] <= ran[1]["startTime"]


def test_a_job_that_kueue_evicts_waits_again_and_keeps_what_is_done(queues: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    quota(queues, "10")
    with slow_writes(stores, seconds=1.0):
        queues.apply(queued(slow_job(queues, stores, digits_on_hdfs), "research"))
        done = some_reports(stores, queues, at_least=1)
        stop(queues, "HoldAndDrain")
        # First "is stopped", then "is inactive" as soon as Kueue has reconciled again.
        held(queues, "slow", reason="Queued", words=[f"ClusterQueue {queues.name}-research is "], seconds=60)
    # Neither edits nor a suspension of the job disturb Kueue.
    queues.kubectl("patch", "dpj", "slow", "--type=merge", '--patch={"spec": {"workers": {"parallelism": 1}}}')
    assert convert(queues, "slow")["spec"]["suspend"] is True
    stop(queues, "None")
    queues.wait_phase("slow", "Succeeded", seconds=180)
    reports = assert_whole(stores, queues)
    assert {file: reports[file] for file in done} == done


def stop(namespace: Namespace, policy: str) -> None:
    patch = json.dumps({"spec": {"stopPolicy": policy}})
    namespace.cluster.kubectl("patch", "clusterqueue", f"{namespace.name}-research", "--type=merge", f"--patch={patch}")


def test_a_queued_job_that_is_suspended_leaves_the_queue_and_comes_back(queues: Namespace, stores: Stores) -> None:
    quota(queues, "10m")
    [job] = small_jobs(stores, queues, ["shy"])
    queues.apply(queued(job, "research"))
    held(queues, "shy", reason="Queued", words=["insufficient quota"])
    queues.kubectl("patch", "dpj", "shy", "--type=merge", '--patch={"spec": {"suspend": true}}')
    queues.wait_phase("shy", "Suspended", seconds=30)
    until(lambda: queues.all("workloads") == [], what="no Workload of the suspended job")
    quota(queues, "50m")
    queues.kubectl("patch", "dpj", "shy", "--type=merge", '--patch={"spec": {"suspend": false}}')
    wait_all(queues, "Succeeded", seconds=DONE_SECONDS)
    assert_done_once(stores, queues)


def test_a_queue_that_does_not_exist_is_named_and_the_job_runs_once_it_does(queues: Namespace, stores: Stores) -> None:
    [job] = small_jobs(stores, queues, ["lost"])
    queues.apply(queued(job, "research"))
    held(queues, "lost", reason="Queued", words=["LocalQueue research doesn't exist"])
    quota(queues, "50m")
    wait_all(queues, "Succeeded", seconds=DONE_SECONDS)
    assert_done_once(stores, queues)
