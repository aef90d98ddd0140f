"""Tests of live progress, suspend and resume, parallelism, retry, logs, deletion, and the columns that kubectl prints."""

import json
import os
import subprocess
import sys
import time

from kubecluster import Cluster
from storeservers.oss.controls import Fault
from workbench.jobs import PATIENCE_SECONDS, Document, Namespace, condition
from workbench.stores import BUCKET, Stores, a_job


def a_slow_job(namespace: Namespace, stores: Stores, source: str, *, seconds: float = 1.2, parallelism: int = 1) -> Document:
    """A job with 12 shards, each of which takes a while to write to the OSS fake."""
    stores.oss.inject(Fault(kind="stall", method="PUT", matching=rf"/{BUCKET}/{namespace.name}/.*tfrecords", seconds=seconds, count=1000))
    return a_job(
        stores,
        name="slow",
        source=source,
        output=f"oss://{BUCKET}/{namespace.name}",
        output__shards={"count": 4},
        output__fileName="{split}-{shard}-of-{shards}.{ext}",
        workers__parallelism=parallelism,
    )


def test_progress_rises_and_ends_exact(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    namespace.apply(a_slow_job(namespace, stores, digits_on_hdfs, seconds=1.8))
    seen: list[tuple[int, int]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while time.monotonic() < deadline:
            status = namespace.status("slow")
            progress = status.get("progress") or {}
            now = (progress.get("percent", 0), progress.get("records", {}).get("out", 0))
            if not seen or now != seen[-1]:
                seen.append(now)
            if status.get("phase") in ("Succeeded", "Failed"):
                break
            time.sleep(0.3)
    finally:
        stores.oss.clear_faults()
    assert status["phase"] == "Succeeded", namespace.story("slow")
    records = [out for _, out in seen]
    assert records == sorted(records)
    between = {out for out in records if 0 < out < 70_000}
    assert len(between) >= 3, seen
    progress = status["progress"]
    assert (progress["percent"], progress["records"]["in"], progress["records"]["out"]) == (100, 70_000, 70_000)
    assert progress["shards"] == {"total": 12, "done": 12, "active": 0, "failed": 0}
    table = namespace.kubectl("get", "dpj")
    assert table.splitlines()[0].split() == ["NAME", "PHASE", "REASON", "PROGRESS", "SHARDS", "RECORDS", "RATE", "ETA", "AGE"]
    assert table.splitlines()[1].split()[:3] == ["slow", "Succeeded", "Completed"]
    assert "12/12" in table
    reasons = [reason for reason, _ in namespace.events("slow")]
    assert [r for r in reasons if r in ("Planning", "Converting", "Committing", "Completed")] == [
        "Planning",
        "Converting",
        "Committing",
        "Completed",
    ]


def test_suspend_keeps_what_is_done_and_resume_goes_on(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    """The job is scaled down before the suspension and scaled up again after it."""
    namespace.apply(a_slow_job(namespace, stores, digits_on_hdfs, parallelism=2))
    try:
        namespace.wait("slow", lambda s: (s.get("progress") or {}).get("shards", {}).get("done", 0) >= 1, what="one shard far")
        namespace.kubectl("scale", "dpj", "slow", "--replicas=1")
        namespace.wait("slow", lambda s: s["effective"]["parallelism"] == 1, what="scaled down", seconds=30)
        namespace.wait("slow", lambda s: (s.get("progress") or {}).get("shards", {}).get("done", 0) >= 2, what="two shards far")
        namespace.kubectl("patch", "dpj", "slow", "--type=merge", '--patch={"spec": {"suspend": true}}')
        namespace.wait_phase("slow", "Suspended")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(pod.get("status", {}).get("phase") not in ("Succeeded", "Failed") for pod in namespace.pods("slow", step="convert")):
            assert time.monotonic() < deadline
            time.sleep(0.3)
        done = {
            k: stores.oss.read(BUCKET, k) for k in stores.oss.keys(BUCKET, f"{namespace.name}/") if "/reports/" in k and k.endswith(".json")
        }
        assert len(done) >= 2
        namespace.kubectl("patch", "dpj", "slow", "--type=merge", '--patch={"spec": {"suspend": false}}')
        namespace.kubectl("scale", "dpj", "slow", "--replicas=2")
    finally:
        stores.oss.clear_faults()
    status = namespace.wait_phase("slow", "Succeeded")
    assert {k: stores.oss.read(BUCKET, k) for k in done} == done
    assert status["effective"]["parallelism"] == 2
    assert status.get("failures", []) == []


def test_a_retry_makes_only_what_is_missing(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    """Write access is lost halfway, so the job fails and names the missing permission. After access is restored, a retry succeeds."""
    namespace.apply(a_slow_job(namespace, stores, digits_on_hdfs))
    try:
        namespace.wait("slow", lambda s: (s.get("progress") or {}).get("shards", {}).get("done", 0) >= 2, what="two shards far")
        stores.oss.deny("oss:PutObject")
        status = namespace.wait_phase("slow", "Failed")
        assert condition(status, "Failed")["reason"] == "NotPermitted", status
        assert "oss:PutObject" in condition(status, "Failed")["message"]
        failed_logs = subprocess.run(
            [sys.executable, "-m", "dataprep_converter", "logs", "slow", "--failed", "--namespace", namespace.name],
            env=os.environ | {"KUBECONFIG": str(namespace.cluster.kubeconfig)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "missing oss:PutObject" in failed_logs.stdout
    finally:
        stores.oss.deny()
        stores.oss.clear_faults()
    done = {
        k: stores.oss.read(BUCKET, k) for k in stores.oss.keys(BUCKET, f"{namespace.name}/") if "/reports/" in k and k.endswith(".json")
    }
    namespace.kubectl("annotate", "dpj", "slow", "dataprep.io/retry=once")
    status = namespace.wait("slow", lambda s: s.get("phase") == "Succeeded", what="Succeeded after the retry")
    assert status["attempt"] == 2
    assert {k: stores.oss.read(BUCKET, k) for k in done} == done


def test_deleting_the_job_removes_its_pods_and_keeps_its_output(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    namespace.apply(a_slow_job(namespace, stores, digits_on_hdfs))
    try:
        namespace.wait("slow", lambda s: (s.get("progress") or {}).get("shards", {}).get("done", 0) >= 2, what="two shards far")
        shards = [key for key in stores.oss.keys(BUCKET, f"{namespace.name}/") if key.endswith(".tfrecords")]
        namespace.kubectl("delete", "dpj", "slow")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while namespace.all("pods") or namespace.all("jobs"):
            assert time.monotonic() < deadline, namespace.kubectl("get", "pods,jobs")
            time.sleep(0.3)
    finally:
        stores.oss.clear_faults()
    assert set(shards) <= set(stores.oss.keys(BUCKET, f"{namespace.name}/"))
    configs = [c["metadata"]["name"] for c in namespace.all("configmaps") if c["metadata"]["name"] != "kube-root-ca.crt"]
    assert configs == []


def test_explain_reads_well(cluster: Cluster, namespace: Namespace) -> None:
    del namespace
    text = cluster.kubectl("explain", "dataprepjob.spec.source.idx", "--recursive")
    assert "IDX files." in text
    assert "subsets" in text


def test_old_children_are_not_created_again(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    output = f"{stores.hdfs.uri}/{namespace.name}"
    namespace.apply(a_job(stores, name="done", source=digits_on_hdfs, output=output, limit=1000, one_pod=True))
    before = namespace.wait_phase("done", "Succeeded")
    namespace.kubectl("delete", "jobs", "--all")
    time.sleep(5)
    assert namespace.all("jobs") == []
    assert json.dumps(namespace.status("done"), sort_keys=True) == json.dumps(before, sort_keys=True)
