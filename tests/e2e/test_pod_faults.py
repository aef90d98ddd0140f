"""Tests of pods that are evicted, run out of memory, can't be created or lack a mount, and of children that somebody edits by hand.

Each test checks the message that a user reads, and the time until the job recovers or fails.
"""

import json
import time
from collections.abc import Callable

from tests.e2e.slow_jobs import assert_whole, evict, running_workers, slow_job, slow_writes, some_reports

from workbench.jobs import Document, Namespace, condition
from workbench.smalljobs import assert_done_once, small_jobs, wait_all
from workbench.stores import Stores, mount

FEWER = {"output__shards": {"count": 2}}
SAID_SECONDS = 45
"""The message about a fault appears within this time."""
HEALED_SECONDS = 90
"""A small job finishes within this time after the fault, including the Job controller's backoff."""


def waits(namespace: Namespace, name: str, *, reason: str, words: list[str]) -> Document:
    """Waits until the condition `Running` is False with this reason."""

    def said(status: Document) -> bool:
        return bool(condition(status, "Running").get("reason") == reason)

    running = condition(namespace.wait(name, said, what=reason, seconds=SAID_SECONDS), "Running")
    assert running["status"] == "False"
    assert [word for word in words if word not in running["message"]] == [], running["message"]
    return running


def test_an_evicted_pod_is_replaced_and_not_counted_as_a_failure(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    with slow_writes(stores, seconds=1.0):
        namespace.apply(slow_job(namespace, stores, digits_on_hdfs, backoffLimitPerIndex=0, workers__parallelism=1, **FEWER))
        done = some_reports(stores, namespace, at_least=1)
        namespace.wait("slow", lambda _: evict(namespace) > 0, what="at work", seconds=60)
    namespace.wait_phase("slow", "Succeeded")
    reports = assert_whole(stores, namespace)
    assert {file: reports[file] for file in done} == done
    assert namespace.status("slow").get("failures", []) == []


def test_a_pod_over_its_memory_limit_says_so(namespace: Namespace, stores: Stores) -> None:
    [job] = small_jobs(stores, namespace, ["hungry"], backoffLimit=0)
    job["spec"]["workers"]["resources"] = {"requests": {"memory": "16Mi"}, "limits": {"memory": "16Mi"}}
    namespace.apply(job)
    failed = condition(namespace.wait_phase("hungry", "Failed"), "Failed")
    assert failed["reason"] == "OutOfMemory"
    assert "needed more memory than its limit (OOMKilled); raise planning.resources.limits.memory" in failed["message"]


def test_a_quota_that_is_used_up_is_named_and_the_job_goes_on_once_there_is_room(namespace: Namespace, stores: Stores) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "narrow"}, "spec": {"hard": {"pods": "0"}}}
    namespace.apply(quota, *small_jobs(stores, namespace, ["waiting"], one_pod=True))
    waits(namespace, "waiting", reason="PodRefused", words=["exceeded quota: narrow", "pods=0"])
    namespace.kubectl("patch", "resourcequota", "narrow", "--type=merge", '--patch={"spec": {"hard": {"pods": "10"}}}')
    wait_all(namespace, "Succeeded", seconds=HEALED_SECONDS)
    assert_done_once(stores, namespace)


def test_a_missing_config_map_is_named(namespace: Namespace, stores: Stores) -> None:
    [job] = small_jobs(stores, namespace, ["no-map"])
    job["spec"]["workers"]["volumes"].append({"name": "settings", "configMap": {"name": "nowhere"}})
    job["spec"]["workers"]["volumeMounts"].append({"name": "settings", "mountPath": "/settings"})
    namespace.apply(job)
    waits(namespace, "no-map", reason="ConfigMissing", words=['configmap "nowhere" not found'])
    failed = condition(namespace.wait_phase("no-map", "Failed"), "Failed")
    assert (failed["reason"], 'configmap "nowhere" not found' in failed["message"]) == ("ConfigMissing", True)


def test_a_missing_volume_claim_is_named_and_the_job_goes_on_once_it_is_there(namespace: Namespace, stores: Stores) -> None:
    [job] = small_jobs(stores, namespace, ["no-claim"], one_pod=True)
    namespace.kubectl("delete", "persistentvolumeclaim/shared", f"persistentvolume/shared-{namespace.name}")
    namespace.apply(job)
    waits(namespace, "no-claim", reason="Unschedulable", words=['persistentvolumeclaim "shared" not found'])
    mount(namespace, stores)
    wait_all(namespace, "Succeeded", seconds=HEALED_SECONDS)
    assert_done_once(stores, namespace)


def test_deleted_or_edited_children_are_restored(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    with slow_writes(stores, seconds=1.0):
        namespace.apply(slow_job(namespace, stores, digits_on_hdfs, **FEWER))
        done = some_reports(stores, namespace, at_least=1)
        before = child_of(namespace, "convert")
        namespace.kubectl(
            "patch", "job", before["metadata"]["name"], "--type=merge", '--patch={"spec": {"suspend": true, "parallelism": 1}}'
        )
        until_child(namespace, lambda child: child["spec"]["suspend"] is False and child["spec"]["parallelism"] == 2)
        namespace.kubectl("delete", "configmap", "--selector=dataprep.io/job=slow")
        namespace.kubectl("delete", "job", before["metadata"]["name"])
        until_child(namespace, lambda child: child["metadata"]["uid"] != before["metadata"]["uid"])
        some_reports(stores, namespace, at_least=2)
        # New pods can't mount the ConfigMap, but running pods aren't affected.
        namespace.kubectl("delete", "configmap", "--selector=dataprep.io/job=slow")
    namespace.wait_phase("slow", "Succeeded")
    reports = assert_whole(stores, namespace)
    assert {file: reports[file] for file in done} == done


def child_of(namespace: Namespace, step: str) -> Document:
    found = namespace.all("jobs", selector=f"dataprep.io/job=slow,dataprep.io/step={step}")
    return found[0] if found else {"spec": {}, "metadata": {}}


def until_child(namespace: Namespace, wanted: Callable[[Document], bool]) -> None:
    """Waits until the operator has changed the child so that `wanted` holds."""
    deadline = time.monotonic() + 15
    while not (child := child_of(namespace, "convert"))["metadata"] or not wanted(child):
        assert time.monotonic() < deadline, f"timed out after 15 s: {child['spec']}"
        time.sleep(0.2)


def test_a_resumed_child_of_a_finished_job_is_suspended_again(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    """The job exceeds its deadline. The reason of its condition `Failed` remains the deadline."""
    with slow_writes(stores, seconds=3.0):
        namespace.apply(slow_job(namespace, stores, digits_on_hdfs, stepDeadlines={"convertSeconds": 5}, workers__parallelism=1, **FEWER))
        failed = condition(namespace.wait_phase("slow", "Failed"), "Failed")
        assert failed["reason"] == "DeadlineExceeded"
        assert failed["message"] == "The convert step ran for longer than stepDeadlines.convertSeconds (5 s)."
        until_child(namespace, lambda child: child["spec"]["suspend"] is True)
        namespace.kubectl(
            "patch", "job", child_of(namespace, "convert")["metadata"]["name"], "--type=merge", '--patch={"spec": {"suspend": false}}'
        )
        until_child(namespace, lambda child: child["spec"]["suspend"] is True)
    deadline = time.monotonic() + 60
    while running_workers(namespace):
        assert time.monotonic() < deadline, "a worker of a finished job still runs"
        time.sleep(0.5)
    assert condition(namespace.status("slow"), "Failed") == failed
    assert namespace.all("jobs", selector="dataprep.io/step=commit") == []


def test_nothing_starts_when_a_finished_jobs_children_are_deleted(namespace: Namespace, stores: Stores) -> None:
    namespace.apply(*small_jobs(stores, namespace, ["done"], cleanup=[{"when": "Succeeded", "action": "DeletePods", "afterSeconds": 1}]))
    namespace.wait_phase("done", "Succeeded")
    deadline = time.monotonic() + 20
    while namespace.pods("done"):
        assert time.monotonic() < deadline, "the cleanup rule's pods are still there"
        time.sleep(0.5)
    finished = namespace.status("done")
    namespace.kubectl("delete", "jobs,configmaps", "--selector=dataprep.io/job=done")
    namespace.kubectl("annotate", "dpj", "done", "somebody/looks=here")
    time.sleep(5)
    assert namespace.all("jobs") == []
    assert namespace.pods("done") == []
    assert namespace.status("done") == finished
    # A finished job repeats no step. But the ConfigMap for training belongs to no step, so it is created again.
    assert json.loads(namespace.kubectl("get", "configmap", "done", "--output=json"))["data"]["DATAPREP_FORMAT"]
