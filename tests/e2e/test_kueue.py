"""Jobs in queues of a real Kueue, built from its Go module and installed from its manifests."""

import json
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.e2e.slow_jobs import assert_whole, held_writes, slow_job, slow_writes, some_reports
from tests.e2e.spark_clusters import EXECUTORS, NAME, RANGES, SECONDS, digests, joined_job, pods_by_index, small_tables, until_held

from kubecluster import Cluster
from workbench import kueue
from workbench.installation import Installation
from workbench.jobs import Document, Namespace, condition
from workbench.kueue import FLAVOR, FLAVOR_LABEL, MANAGED
from workbench.sharing import is_shared
from workbench.smalljobs import assert_done_once, small_jobs, wait_all
from workbench.stores import BUCKET, Stores
from workbench.wide_rows import large_job

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
SAID_SECONDS = 30
"""A message from Kueue is shown within this time. The operator polls Kueue's status messages about every ten seconds."""
DONE_SECONDS = 120


@pytest.fixture(scope="module")
def running_kueue(cluster: Cluster, operator: Installation) -> Iterator[None]:
    """Kueue. Processes that share the cluster also share Kueue, and `workbench.testing` uninstalls it after the last process."""
    del operator  # requested for its effect
    kueue.install(cluster)
    yield
    if not is_shared():
        kueue.uninstall(cluster)


@pytest.fixture
def queues(namespace: Namespace, running_kueue: None) -> Iterator[Namespace]:
    """A namespace managed by Kueue."""
    del running_kueue
    namespace.cluster.kubectl("label", "namespace", namespace.name, f"{MANAGED}=yes")
    yield namespace
    namespace.kubectl("delete", "dataprepjobs", "--all")
    kueue.delete_queues(namespace.cluster, namespace=namespace.name)


def queued(job: Document, queue: str, **marks: str) -> Document:
    """Adds the queue label and `marks` to the job. A mark becomes an annotation of Kueue if its name begins with `job_`, else a label."""
    metadata = job["metadata"]
    metadata.setdefault("labels", {})[QUEUE_LABEL] = queue
    for name, value in marks.items():
        key = f"kueue.x-k8s.io/{name.replace('_', '-')}"
        metadata.setdefault("annotations" if name.startswith("job_") else "labels", {})[key] = value
    return job


def quota(namespace: Namespace, cpu: str) -> None:
    namespace.apply(*kueue.queue("research", namespace=namespace.name, cpu=cpu))


def held(namespace: Namespace, name: str, *, reason: str, words: list[str], seconds: float = SAID_SECONDS) -> str:
    """Waits for the condition that says why the job is waiting, and returns the condition's message."""

    def said(status: Document) -> bool:
        told = condition(status, "QuotaReserved")
        return told.get("reason") == reason and all(word in told["message"] for word in words)

    status = namespace.wait(name, said, what=f"{reason}: {words}", seconds=seconds)
    told = condition(status, "QuotaReserved")
    assert (status["phase"], told["status"]) == ("Queued", "False")
    assert condition(status, "Running")["status"] == "False"
    until(lambda: not active(namespace, name), what="no pod at work")
    return str(told["message"])


def active(namespace: Namespace, name: str) -> list[str]:
    pods = namespace.pods(name)
    return [pod["metadata"]["name"] for pod in pods if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")]


def step_job(namespace: Namespace, name: str, step: str) -> Document:
    [found] = namespace.all("jobs", selector=f"dataprep.io/job={name},dataprep.io/step={step}")
    return found


def workload(namespace: Namespace, name: str) -> Document:
    """The only Workload of a job."""
    uid = step_job(namespace, name, "queue")["metadata"]["uid"]
    [found] = namespace.all("workloads", selector=f"kueue.x-k8s.io/job-uid={uid}")
    return found


def is_true(workload: Document, kind: str) -> bool:
    return condition(workload.get("status", {}), kind).get("status") == "True"


def until(true: Callable[[], bool], *, what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"timed out after {seconds} s waiting for: {what}"
        time.sleep(0.3)


def test_a_queued_job_without_kueue_gets_a_warning(namespace: Namespace, stores: Stores) -> None:
    """This test comes first in the file, before other tests install Kueue.

    If Kueue is installed already, it ignores the Jobs in this namespace.
    """
    [job] = small_jobs(stores, namespace, ["forgotten"])
    namespace.apply(queued(job, f"nobodys-{uuid.uuid4().hex[:4]}"))
    told = held(namespace, "forgotten", reason="NotQueued", words=["Check that Kueue is running"], seconds=90)
    assert told.startswith("The job waits for a Workload, because Kueue has not created one.")
    until(lambda: "NotQueued" in [reason for reason, _ in namespace.events("forgotten")], what="an Event NotQueued")


def test_a_job_waits_for_quota_with_kueues_message_and_then_writes_the_same_bytes(queues: Namespace, stores: Stores) -> None:
    quota(queues, "10m")
    [first] = small_jobs(stores, queues, ["first"])
    plain, second = small_jobs(stores, queues, ["plain", "second"], one_pod=True)
    queues.apply(plain, queued(first, "research"))
    held(queues, "first", reason="Queued", words=["couldn't assign flavors to pod set main: insufficient quota for cpu in flavor spot"])
    queues.apply(queued(second, "research"))
    assert "0 jobs of the queue are before it." in held(queues, "first", reason="Queued", words=["are before it."])
    held(queues, "second", reason="Queued", words=["1 job of the queue is before it."])
    # Nothing runs before the admission, not even the plan step.
    assert [each["metadata"]["labels"]["dataprep.io/step"] for each in queues.all("jobs", selector="dataprep.io/job=first")] == ["queue"]
    assert step_job(queues, "first", "queue")["spec"]["suspend"] is True

    quota(queues, "50m")  # enough for one of the two jobs
    wait_all(queues, "Succeeded", seconds=DONE_SECONDS)
    for name in ("first", "second"):
        told = condition(queues.status(name), "QuotaReserved")
        assert (told["status"], told["reason"]) == ("True", "QuotaReserved")
        # The pods of all steps run on the nodes for which the queue has admitted the job.
        assert {pod["spec"].get("nodeSelector", {}).get(FLAVOR_LABEL) for pod in queues.pods(name)} == {FLAVOR}
    assert_done_once(stores, queues)
    # A single Workload represented all steps, and its quota was free again at the end.
    until(lambda: all(is_true(workload(queues, name), "Finished") for name in ("first", "second")), what="finished Workloads")
    assert len(queues.all("workloads")) == 2
    began = [step_job(queues, name, "plan")["status"]["startTime"] for name in ("first", "second")]
    # The DataPrepJob already has its completion time, but the last step's Job might not.
    ended = [queues.status(name)["completionTime"] for name in ("first", "second")]
    assert min(ended) <= max(began)


def test_a_job_that_kueue_evicts_waits_again_and_keeps_what_is_done(queues: Namespace, stores: Stores, digits_on_s3: str) -> None:
    quota(queues, "10")
    with slow_writes(stores, seconds=1.0):
        queues.apply(queued(slow_job(queues, stores, digits_on_s3), "research"))
        done = some_reports(stores, queues, at_least=1)
        stop(queues, "HoldAndDrain")
        # The message first says "is stopped". After Kueue has reconciled again, it says "is inactive".
        held(queues, "slow", reason="Queued", words=[f"ClusterQueue {queues.name}-research is "], seconds=60)
    # Neither editing nor suspending the job disturbs Kueue.
    queues.kubectl("patch", "dpj", "slow", "--type=merge", '--patch={"spec": {"workers": {"parallelism": 1}}}')
    assert step_job(queues, "slow", "convert")["spec"]["suspend"] is True
    stop(queues, "None")
    queues.wait_phase("slow", "Succeeded")
    reports = assert_whole(stores, queues)
    assert {file: reports[file] for file in done} == done


def stop(namespace: Namespace, policy: str) -> None:
    patch = json.dumps({"spec": {"stopPolicy": policy}})
    namespace.cluster.kubectl("patch", "clusterqueue", f"{namespace.name}-research", "--type=merge", f"--patch={patch}")


def test_a_job_is_preempted_in_its_plan_and_resumes(queues: Namespace, stores: Stores, digits_on_s3: str) -> None:
    quota(queues, "200m")
    queues.apply(kueue.priority("urgent", 100), kueue.priority("patient", 1))
    [urgent] = small_jobs(stores, queues, ["urgent"], one_pod=True)
    urgent["spec"] |= {"stores": stores.settings(), "output": {"uri": f"oss://{BUCKET}/{queues.name}-urgent"}}
    with held_writes(stores, queues, "_dataprep/"):
        queues.apply(queued(slow_job(queues, stores, digits_on_s3, workers__parallelism=1), "research", priority_class="patient"))
        until(lambda: running(queues, "slow", step="plan"), what="a running plan pod", seconds=DONE_SECONDS)
        first = workload(queues, "slow")["metadata"]["uid"]
        queues.apply(queued(urgent, "research", priority_class="urgent"))
        # The job `slow` holds the quota, because its plan can't be written yet.
        until(lambda: running(queues, "urgent", step="plan"), what="the other plan pod", seconds=DONE_SECONDS)
        assert step_job(queues, "slow", "plan")["spec"]["suspend"] is True
        queues.wait_phase("slow", "Queued")
    queues.wait_phase("urgent", "Succeeded", seconds=DONE_SECONDS)
    told = [message for reason, message in queues.events("slow") if reason == "Queued"]
    assert any("Preempted to accommodate a workload" in message for message in told), told
    queues.wait_phase("slow", "Succeeded")
    assert_whole(stores, queues)
    # The queue has admitted the same Workload twice.
    assert workload(queues, "slow")["metadata"]["uid"] == first
    ended = queues.status("urgent")["completionTime"]
    assert max(pod["status"]["startTime"] for pod in queues.pods("slow", step="plan")) >= ended


def test_the_pods_of_a_scan_run_within_the_jobs_quota(queues: Namespace, stores: Stores) -> None:
    """The job is evicted while its input is scanned, then admitted again, and at last deleted.

    None of its objects is left in the cluster.
    """
    quota(queues, "10")
    job = queued(large_job(queues, stores, files=3), "research")
    with held_writes(stores, queues, r"_dataprep/scan-[^/]*/0"):
        queues.apply(job)
        until(lambda: running(queues, "large", step="scan"), what="a running pod of the scan", seconds=DONE_SECONDS)
        first = workload(queues, "large")["metadata"]["uid"]
        stop(queues, "HoldAndDrain")
        held(queues, "large", reason="Queued", words=[f"ClusterQueue {queues.name}-research is "], seconds=60)
        assert step_job(queues, "large", "scan")["spec"]["suspend"] is True
        stop(queues, "None")
        until(lambda: running(queues, "large", step="scan"), what="a running pod of the scan", seconds=DONE_SECONDS)
        # A single Workload represents all steps, and was admitted twice.
        assert [each["metadata"]["uid"] for each in queues.all("workloads")] == [first]
        queues.kubectl("delete", "dpj", "large")
        until(lambda: not (queues.all("workloads") or queues.all("jobs") or queues.all("pods")), what="nothing left", seconds=60)


@pytest.mark.exclusive
@pytest.mark.nightly
@pytest.mark.usefixtures("spark_image")
def test_the_pods_of_a_spark_cluster_run_within_the_jobs_quota(queues: Namespace, stores: Stores) -> None:
    """The job is evicted while its tables are joined, and then admitted again. It has a single Workload."""
    source = small_tables(queues, stores)
    queues.apply(joined_job(queues, stores, source, name="here", spark=None))
    quota(queues, "2")  # less than a processor for each of the three pods
    with held_writes(stores, queues, RANGES):
        queues.apply(queued(joined_job(queues, stores, source), "research"))
        held(queues, NAME, reason="Queued", words=["insufficient quota for cpu in flavor spot"])
        quota(queues, "3")
        before = until_held(queues, stores)
        first = workload(queues, NAME)["metadata"]["uid"]
        assert is_true(workload(queues, NAME), "Admitted")
        assert {pod["spec"]["nodeSelector"][FLAVOR_LABEL] for pod in pods_by_index(queues).values()} == {FLAVOR}
        stop(queues, "HoldAndDrain")
        held(queues, NAME, reason="Queued", words=[f"ClusterQueue {queues.name}-research is "], seconds=60)
        assert step_job(queues, NAME, "plan")["spec"]["suspend"] is True
        stop(queues, "None")
        until_held(queues, stores, since=before)
        assert sorted(pods_by_index(queues)) == list(range(1 + EXECUTORS))
        assert [each["metadata"]["uid"] for each in queues.all("workloads")] == [first]
    queues.wait_phase(NAME, "Succeeded", seconds=SECONDS)
    queues.wait_phase("here", "Succeeded")
    assert digests(queues) == digests(queues, "here")
    until(lambda: is_true(workload(queues, NAME), "Finished"), what="a finished Workload")
    assert len(queues.all("workloads")) == 1


def running(namespace: Namespace, name: str, *, step: str) -> bool:
    return any(pod.get("status", {}).get("phase") == "Running" for pod in namespace.pods(name, step=step))


def test_a_job_that_is_admitted_with_fewer_workers_writes_the_same_bytes(queues: Namespace, stores: Stores) -> None:
    quota(queues, "100m")  # enough for two of the three workers
    shards: Document = {"output": {"shards": {"count": 3}}, "workers": {"parallelism": 3}}
    [plain] = small_jobs(stores, queues, ["plain"], one_pod=True)
    [partial] = small_jobs(stores, queues, ["partial"])
    for job in (plain, partial):
        for field, values in shards.items():
            job["spec"][field] |= values
    queues.apply(plain, queued(partial, "research", job_min_parallelism="1"))
    wait_all(queues, "Succeeded", seconds=DONE_SECONDS)
    assert queues.status("partial")["effective"]["parallelism"] == 2
    assert step_job(queues, "partial", "convert")["spec"]["parallelism"] == 2
    digests = {name: [file["sha256"] for file in queues.status(name)["outputs"]] for name in ("plain", "partial")}
    assert len(digests["plain"]) == 3
    assert digests["partial"] == digests["plain"]


def test_steps_stay_out_of_the_namespaces_default_queue(queues: Namespace, stores: Stores) -> None:
    """Kueue puts every Job without a queue into the LocalQueue `default`.

    If it put the Jobs of the steps there, they would wait for quota that their own DataPrepJob already uses.
    """
    queues.apply(*kueue.queue("default", namespace=queues.name, cpu="50m"))
    [job] = small_jobs(stores, queues, ["inside"])
    queues.apply(queued(job, "default"))
    wait_all(queues, "Succeeded", seconds=DONE_SECONDS)
    assert_done_once(stores, queues)
    assert len(queues.all("workloads")) == 1


def test_a_deleted_job_leaves_no_workload(queues: Namespace, stores: Stores) -> None:
    quota(queues, "10m")
    [job] = small_jobs(stores, queues, ["gone"])
    queues.apply(queued(job, "research"))
    held(queues, "gone", reason="Queued", words=["insufficient quota"])
    queues.kubectl("delete", "dpj", "gone")
    until(lambda: queues.all("workloads") == [], what="no Workload of the deleted job")


def test_a_queued_job_that_is_suspended_leaves_the_queue_and_comes_back(queues: Namespace, stores: Stores) -> None:
    quota(queues, "10m")
    [job] = small_jobs(stores, queues, ["shy"], one_pod=True)
    queues.apply(queued(job, "research"))
    held(queues, "shy", reason="Queued", words=["insufficient quota"])
    queues.kubectl("patch", "dpj", "shy", "--type=merge", '--patch={"spec": {"suspend": true}}')
    queues.wait_phase("shy", "Suspended")
    until(lambda: queues.all("workloads") == [], what="no Workload of the suspended job")
    quota(queues, "50m")
    queues.kubectl("patch", "dpj", "shy", "--type=merge", '--patch={"spec": {"suspend": false}}')
    wait_all(queues, "Succeeded", seconds=DONE_SECONDS)
    assert_done_once(stores, queues)


def test_a_queue_that_does_not_exist_is_named_and_the_job_runs_once_it_does(queues: Namespace, stores: Stores) -> None:
    [job] = small_jobs(stores, queues, ["lost"], one_pod=True)
    queues.apply(queued(job, "research"))
    held(queues, "lost", reason="Queued", words=["LocalQueue research doesn't exist"])
    quota(queues, "50m")
    wait_all(queues, "Succeeded", seconds=DONE_SECONDS)
    assert_done_once(stores, queues)
