"""Tests of the data that the cache keeps about the pods of an Indexed Job, and of the sum of these pods' results."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.builders.watched import child_object

from dataprep_api import names
from dataprep_api.dataset import messages
from dataprep_api.dataset.messages import WorkResult
from dataprep_api.resources.status import RecordProgress
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects.finished_tasks import FinishedTasks, SucceededWorker, Work, work_of
from dataprep_operator.objects.pods import Pod

ORDERS = {"the Job first": (Kind.JOBS, Kind.PODS), "the pod first": (Kind.PODS, Kind.JOBS)}
NOW = "2026-01-31T12:00:00Z"


def a_job(uid: str = "job-1", *, step: str = "convert", attempt: int = 1) -> Any:  # Any: the API's JSON, here and below
    raw = child_object(uid)
    raw["metadata"]["labels"] = {names.LABEL_STEP: step, names.LABEL_ATTEMPT: str(attempt)}
    return raw


def a_result(task: int, records: int = 10) -> WorkResult:
    counts = RecordProgress(in_=records, out=records - 3, bad=1, filtered=2)
    return WorkResult(index=task, shards_done=2, shards_skipped=1, records=counts, bytes_out=7 * records)


def a_worker(name: str = "p", *, job: str = "job-1", message: str = "", phase: str = "Succeeded", **status: Any) -> Any:
    owner = {"kind": "Job", "name": job, "uid": job, "controller": True}
    terminated = {"exitCode": 0, "finishedAt": NOW, "message": message}
    return {
        "metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}", "ownerReferences": [owner], "managedFields": ["a lot"]},
        "spec": {"containers": ["a lot"]},
        "status": {"phase": phase, "hostIP": "a lot", "containerStatuses": [{"name": "dataprep", "state": {"terminated": terminated}}]}
        | status,
    }


def deleted(pod: Any) -> Any:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": NOW}}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_of_a_worker_that_has_succeeded_only_its_identity_and_its_counts_are_kept(order: tuple[Kind, Kind]) -> None:
    cache, result = Cache(), a_result(4)
    for kind in order:
        cache.put(kind, a_job() if kind is Kind.JOBS else a_worker(message=messages.dump(result)))

    assert cache.pods_of("n", "job-1") == ()
    assert cache.succeeded_workers_of("n", "job-1") == (SucceededWorker("p", "n", "uid-p", "job-1", 4, work_of(result)),)
    assert cache.pod("n", "p") == cache.succeeded_workers_of("n", "job-1")[0]
    kept = pickle.dumps(cache)
    assert b"uid-p" in kept
    assert b"a lot" not in kept
    assert messages.dump(result).encode() not in kept


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_of_a_pod_that_has_scanned_a_part_only_its_identity_is_kept(order: tuple[Kind, Kind]) -> None:
    cache = Cache()
    for kind in order:
        cache.put(kind, a_job(step="scan") if kind is Kind.JOBS else a_worker())

    assert cache.pods_of("n", "job-1") == ()
    assert [each.uid for each in cache.succeeded_workers_of("n", "job-1")] == ["uid-p"]
    assert b"a lot" not in pickle.dumps(cache)


def test_a_scan_finishes_no_task() -> None:
    cache = Cache()
    cache.put(Kind.JOBS, a_job(step="scan"))
    cache.put(Kind.PODS, a_worker(message=messages.dump(a_result(4))))

    assert cache.finished_tasks(cache.children_of("n", "uid-a")).tasks == frozenset()


@pytest.mark.parametrize("step", ["plan", "merge", "commit", "cleanup"])
def test_a_pod_of_another_step_is_kept_whole(step: str) -> None:
    cache = Cache()
    cache.put(Kind.JOBS, a_job(step=step))
    cache.put(Kind.PODS, a_worker(message="its last words"))

    assert [pod.message for pod in cache.pods_of("n", "job-1")] == ["its last words"]
    assert cache.succeeded_workers_of("n", "job-1") == ()


DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "lastTransitionTime": NOW}]


@pytest.mark.parametrize(
    "pod",
    [
        a_worker(phase="Running"),
        a_worker(phase="Failed"),
        a_worker(conditions=DISRUPTED, message=messages.dump(a_result(4))),
        deleted(a_worker(message=messages.dump(a_result(4)))),
    ],
    ids=["running", "failed", "disrupted", "deleted"],
)
def test_a_worker_that_decisions_look_at_is_kept_whole(pod: Any) -> None:
    cache = Cache()
    cache.put(Kind.JOBS, a_job())
    cache.put(Kind.PODS, pod)

    assert [each.uid for each in cache.pods_of("n", "job-1")] == ["uid-p"]
    assert isinstance(cache.pod("n", "p"), Pod)
    has_result = bool(pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"])
    assert cache.finished_tasks(cache.children_of("n", "uid-a")).tasks == ({4} if has_result else set())


def test_a_worker_that_has_succeeded_is_news_only_once() -> None:
    cache, pod = Cache(), a_worker(message=messages.dump(a_result(4)))
    cache.put(Kind.JOBS, a_job())
    cache.put(Kind.PODS, a_worker(phase="Running"))

    assert cache.put(Kind.PODS, pod)
    assert not cache.put(Kind.PODS, pod | {"spec": {"containers": ["something else"]}})
    assert cache.put(Kind.PODS, deleted(pod))


def test_a_name_stays_with_the_newer_pod_when_the_older_ones_job_arrives() -> None:
    cache, newer = Cache(), a_worker(job="job-2", phase="Running")
    newer["metadata"]["uid"] = "newer"
    cache.put(Kind.PODS, a_worker())
    cache.put(Kind.PODS, newer)
    cache.put(Kind.JOBS, a_job())
    named = cache.pod("n", "p")
    assert named is not None
    assert named.uid == "newer"


def test_of_several_results_of_a_task_the_last_one_counts() -> None:
    cache = Cache()
    for attempt in (1, 2):
        cache.put(Kind.JOBS, a_job(f"job-{attempt}", attempt=attempt))
    for name, job, result in (
        ("b", "job-1", a_result(0, 20)),
        ("a", "job-1", a_result(0, 10)),
        ("c", "job-1", a_result(1, 30)),
        ("d", "job-2", a_result(1, 40)),
    ):
        cache.put(Kind.PODS, a_worker(name, job=job, message=messages.dump(result)))

    assert cache.finished_tasks(cache.children_of("n", "uid-a")) == FinishedTasks(
        {0, 1}, work_of(a_result(0, 20)).plus(work_of(a_result(1, 40)))
    )


Step = tuple[str, str, int | None, str]
"""A pod's name, its Job, the task whose result it reports, and what happens to it."""
STEPS: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from(["job-1", "job-2"]),
    st.one_of(st.none(), st.integers(0, 2)),
    st.sampled_from(["runs", "succeeds", "is deleted", "vanishes"]),
)


@given(steps=st.lists(STEPS, max_size=25))
@settings(max_examples=examples(100), deadline=None)
def test_the_sum_always_equals_that_of_the_pods_that_exist(steps: list[Step]) -> None:
    cache, pods = Cache(), dict[str, Any]()
    for attempt in (1, 2):
        cache.put(Kind.JOBS, a_job(f"job-{attempt}", attempt=attempt))
    for number, (name, job, task, event) in enumerate(steps):
        message = messages.dump(a_result(task, 10 + number)) if task is not None else ""
        pod = a_worker(name, job=job, message=message, phase="Running" if event == "runs" else "Succeeded")
        if event == "vanishes":
            cache.drop(Kind.PODS, pods.pop(name, pod))
            continue
        pods[name] = deleted(pod) if event == "is deleted" else pod
        cache.put(Kind.PODS, pods[name])

    expected: dict[int, Work] = {}
    for job in ("job-1", "job-2"):
        for _, pod in sorted(pods.items()):
            message = pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
            if pod["metadata"]["ownerReferences"][0]["uid"] == job and pod["status"]["phase"] == "Succeeded" and message:
                result = messages.parse(message)
                assert isinstance(result, WorkResult)
                expected[result.index] = work_of(result)
    found = cache.finished_tasks(cache.children_of("n", "uid-a"))
    assert found.tasks == expected.keys()
    assert found.work == Work(*(sum(counts) for counts in zip(*expected.values(), strict=True))) if expected else found.work == Work()
