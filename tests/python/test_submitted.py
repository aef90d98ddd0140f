"""Jobs on a cluster, tested with a fake API server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.python.played_cluster import PlayedCluster

import dataprep_io as dp

SUCCEEDED: dict[str, Any] = {
    "phase": "Succeeded",
    "runId": "abcd",
    "splits": [{"name": "train", "records": 3, "shards": 1}],
    "labels": [{"feature": "kind", "numClasses": 2, "classes": ["a", "b"]}],
    "output": {"uri": "s3://b/set", "manifestUri": "s3://b/set/_dataprep/abcd/manifest.json", "files": 1, "records": 3, "bytes": 90},
    "warnings": ["one class is rare"],
    "laterField": 1,
}
FAILED: dict[str, Any] = {
    "phase": "Failed",
    "conditions": [
        {
            "type": "Failed",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "BadRecords",
            "message": "3 rows are bad",
        }
    ],
}
RUNNING: dict[str, Any] = {
    "phase": "Running",
    "progress": {
        "percent": 40,
        "shards": {"total": 5, "done": 2},
        "records": {"in": 1200, "total": 3000},
        "estimatedSecondsRemaining": 7,
    },
}


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedCluster]:
    with PlayedCluster() as played:
        monkeypatch.setenv("KUBECONFIG", str(played.kubeconfig(tmp_path)))
        yield played


def a_job() -> dp.Job:
    return dp.Job("rows", source={"csv": {"uris": ["s3://b/rows.csv"]}}, output={"uri": "s3://b/set"})


def test_a_submit_creates_the_job_in_the_namespace(played: PlayedCluster) -> None:
    job = a_job().submit(namespace="ml")
    assert job.namespace == "ml"
    body = played.bodies[0]
    assert (body["kind"], body["metadata"]) == ("DataPrepJob", {"name": "rows", "namespace": "ml"})
    assert body["spec"] == {"source": {"csv": {"uris": ["s3://b/rows.csv"]}}, "output": {"uri": "s3://b/set"}}
    assert played.requests == ["POST /apis/dataprep.io/v1alpha1/namespaces/ml/dataprepjobs?fieldValidation=Strict"]


def test_the_default_namespace_is_that_of_the_context(played: PlayedCluster, tmp_path: Path) -> None:
    assert a_job().submit().namespace == "team"
    other = played.kubeconfig(tmp_path, namespace=None)
    assert a_job().submit(kubeconfig=str(other)).namespace == "default"


@pytest.mark.usefixtures("played")
def test_a_second_submit_of_the_name_is_refused() -> None:
    a_job().submit()
    with pytest.raises(dp.ClusterError, match="The namespace team already has a DataPrepJob rows: delete it first, choose another name"):
        a_job().submit()


def test_a_submit_while_the_name_is_being_deleted_says_so(played: PlayedCluster) -> None:
    a_job().submit()
    played.jobs["team/rows"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(dp.ClusterError, match="The DataPrepJob rows in the namespace team is still being deleted: submit again"):
        a_job().submit()


def test_wait_returns_the_result(played: PlayedCluster) -> None:
    played.statuses = [{}, RUNNING, SUCCEEDED]
    result = a_job().submit().wait(poll=0)
    assert (result.uri, result.records, result.shards, result.bytes, result.run_id) == ("s3://b/set", 3, 1, 90, "abcd")
    assert (dict(result.splits), dict(result.classes)) == ({"train": 3}, {"kind": ("a", "b")})
    assert result.warnings == ("one class is rare",)
    assert len(played.requests) == 4


def test_wait_raises_the_reason_of_a_failed_job(played: PlayedCluster) -> None:
    played.statuses = [RUNNING, FAILED]
    with pytest.raises(dp.JobFailed, match=r"^The job rows has failed: 3 rows are bad$") as caught:
        a_job().submit().wait(poll=0)
    assert caught.value.reason == "BadRecords"


def test_wait_goes_on_while_the_api_server_is_away(played: PlayedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job().submit()
    played.statuses = [SUCCEEDED]
    played.faults = [503, 500, 429]
    assert job.wait(poll=0).records == 3
    monkeypatch.setattr("dataprep_io.jobs.submitted.TOLERATED_SECONDS", -1)
    played.faults = [503]
    with pytest.raises(dp.ClusterError, match="made up by a test"):
        job.wait(poll=0)
    played.faults = [403]
    with pytest.raises(dp.ClusterError) as caught:
        job.wait(poll=0)
    assert caught.value.status == 403


def test_wait_reads_the_credentials_again_when_they_have_expired(played: PlayedCluster) -> None:
    job = a_job().submit()
    played.faults = [401]
    with pytest.raises(dp.ClusterError):
        job.wait(poll=0)
    played.statuses = [RUNNING, SUCCEEDED]
    played.faults_after = 1
    assert job.wait(poll=0).records == 3
    assert len(played.requests) == 5


def test_wait_ends_after_its_timeout(played: PlayedCluster) -> None:
    played.statuses = [RUNNING]
    with pytest.raises(TimeoutError, match=r"The job rows hasn't ended within 0\.05 seconds\. The job continues\."):
        a_job().submit().wait(timeout=0.05, poll=0.01)


def test_a_running_job_has_progress_but_no_result(played: PlayedCluster) -> None:
    played.statuses = [RUNNING]
    job = a_job().submit()
    assert job.progress == dp.Progress("Running", 40, 2, 5, 1200, 3000, None, 7)
    assert str(job.progress) == "Running 40 %, 2 of 5 shards, 1,200 records, 7 s left"
    assert job.phase == "Running"
    with pytest.raises(dp.NotFinished, match="The job rows has no result yet: its phase is Running"):
        job.result  # noqa: B018 - the access asks the cluster


@pytest.mark.usefixtures("played")
def test_a_new_job_is_pending() -> None:
    assert a_job().submit().progress == dp.Progress("Pending")


def test_attach_finds_a_job_of_another_program(played: PlayedCluster) -> None:
    a_job().submit(namespace="ml")
    played.statuses = [SUCCEEDED]
    found = dp.Job.attach("rows", namespace="ml")
    assert (found.name, found.namespace, found.to_yaml()) == (
        "rows",
        "ml",
        a_job().to_yaml().replace("name: rows", "name: rows\n  namespace: ml"),
    )
    assert found.result.records == 3
    with pytest.raises(dp.JobNotFound, match="not found"):
        dp.Job.attach("others", namespace="ml")


def test_attach_finds_a_job_of_a_later_release(played: PlayedCluster) -> None:
    a_job().submit()
    played.jobs["team/rows"]["spec"]["later"] = 1
    played.statuses = [SUCCEEDED]
    found = dp.Job.attach("rows")
    assert found.result.records == 3
    with pytest.raises(dp.SpecError, match="spec.later: unknown field"):
        found.spec  # noqa: B018 - the access checks the job


def test_a_retry_is_only_for_a_failed_job_and_hides_its_failure(played: PlayedCluster) -> None:
    job = a_job().submit()
    played.statuses = [RUNNING]
    with pytest.raises(dp.ClusterError, match="The job rows is Running: only a failed job can be retried"):
        job.retry()
    played.statuses = [FAILED]
    job.retry()
    wish = played.jobs["team/rows"]["metadata"]["annotations"]["dataprep.io/retry"]
    assert job.phase == "Pending"  # the operator has not seen the request for a retry
    played.statuses = [{**FAILED, "handledRetry": wish}]
    assert job.phase == "Failed"


def test_a_job_can_be_suspended_resumed_and_deleted(played: PlayedCluster) -> None:
    job = a_job().submit()
    job.suspend()
    assert played.jobs["team/rows"]["spec"]["suspend"] is True
    job.resume()
    assert played.jobs["team/rows"]["spec"]["suspend"] is False
    job.delete()
    assert played.jobs == {}
    job.delete()  # the job is gone already, which is no error


def a_pod(name: str, created: str, phase: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": created}, "status": {"phase": phase}}


def test_logs_are_those_of_all_pods_in_the_order_of_their_start(played: PlayedCluster) -> None:
    played.pods = [a_pod("work", "2026-01-01T00:00:02Z", "Failed"), a_pod("plan", "2026-01-01T00:00:01Z", "Succeeded")]
    played.logs = {"plan": b"planned\n", "work": b"line 1\nno \xff UTF-8"}
    job = a_job().submit()
    assert list(job.logs()) == ["plan: planned", "work: line 1", "work: no \\xff UTF-8"]
    assert next(job.logs(failed=True)) == "work: line 1"
    assert "labelSelector=dataprep.io/job-uid%3D1234" in played.requests[2]


def test_a_log_is_that_of_the_converter_not_of_a_sidecar(played: PlayedCluster) -> None:
    pod = a_pod("plan", "2026-01-01T00:00:01Z", "Succeeded")
    pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "dataprep"}
    played.pods, played.logs = [pod], {"plan": b"planned\n"}
    assert list(a_job().submit().logs()) == ["plan: planned"]
    assert played.requests[-1].endswith("/pods/plan/log?container=dataprep")


def test_a_follower_sees_pods_that_start_later(played: PlayedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep_io.jobs.submitted._NEXT_POD_SECONDS", 0.0)
    played.statuses = [{}, RUNNING, SUCCEEDED]
    played.pods, played.logs = [a_pod("plan", "2026-01-01T00:00:01Z", "Running")], {"plan": b"planned\n", "work": b"line 1\n"}
    lines = a_job().submit().logs(follow=True)
    assert next(lines) == "plan: planned"
    played.pods.append(a_pod("work", "2026-01-01T00:00:02Z", "Pending"))
    played.pods[1]["status"]["phase"] = "Running"
    assert list(lines) == ["work: line 1"]


def test_a_log_that_ends_early_is_an_error(played: PlayedCluster) -> None:
    played.pods, played.logs, played.cuts_logs = [a_pod("plan", "2026-01-01T00:00:01Z", "Running")], {"plan": b"planned\n"}, True
    lines = a_job().submit().logs()
    assert next(lines) == "plan: planned"
    with pytest.raises(dp.ClusterError, match="The connection to the log of the pod plan ended early"):
        next(lines)


def test_logs_of_a_job_that_is_gone_are_an_error(played: PlayedCluster) -> None:
    job = a_job().submit()
    played.jobs.clear()
    with pytest.raises(dp.JobNotFound):
        list(job.logs())


def test_pods_without_a_log_are_left_out(played: PlayedCluster) -> None:
    played.pods = [a_pod("gone", "2026-01-01T00:00:01Z", "Succeeded"), a_pod("later", "2026-01-01T00:00:02Z", "Pending")]
    assert list(a_job().submit().logs()) == []


def test_events_are_in_the_order_of_their_times(played: PlayedCluster) -> None:
    played.events = [
        {"type": "Warning", "reason": "Retry", "message": "task 3", "lastTimestamp": "2026-01-01T00:00:05Z", "count": 2, "metadata": {}},
        {"type": "Normal", "reason": "Planned", "message": "5 shards", "lastTimestamp": "2026-01-01T00:00:01Z", "metadata": {}},
    ]
    events = a_job().submit().events
    assert [(event.reason, event.count) for event in events] == [("Planned", 1), ("Retry", 2)]
    assert str(events[1]) == "00:00:05 Warning Retry: task 3"


def test_a_refusal_has_the_servers_message(played: PlayedCluster) -> None:
    played.refusal = (403, 'dataprepjobs.dataprep.io is forbidden: User "me" cannot create resource')
    with pytest.raises(dp.ClusterError, match='is forbidden: User "me" cannot create resource') as caught:
        a_job().submit()
    assert caught.value.status == 403


def test_a_server_that_can_not_be_reached_is_named(tmp_path: Path) -> None:
    with PlayedCluster() as played:
        file = played.kubeconfig(tmp_path)
    with pytest.raises(dp.ClusterError, match="The API server can't be reached: ClientConnectorError") as caught:
        a_job().submit(kubeconfig=str(file))
    assert caught.value.status is None


def test_without_a_cluster_the_error_says_what_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(dp.ClusterError, match="There is no kubeconfig ~/.kube/config, and this isn't a pod of a cluster"):
        a_job().submit()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "There is no kubeconfig .*/config"),
        ("", "The kubeconfig .*/config isn't usable"),
        ("clusters: [", "The kubeconfig .*/config isn't usable: while parsing"),
        ("- 1", "The kubeconfig .*/config isn't usable"),
        ("clusters: []", "The kubeconfig .*/config isn't usable: .*current-context"),
    ],
)
def test_a_kubeconfig_that_is_not_usable_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "config").write_text(text)
    with pytest.raises(dp.ClusterError, match=message):
        a_job().submit(kubeconfig=str(tmp_path / "config"))


def test_refused_credentials_are_named(played: PlayedCluster) -> None:
    played.refusal = (401, "Unauthorized")
    with pytest.raises(dp.ClusterError, match="The API server refuses the credentials: Unauthorized. They may have expired: log in again."):
        a_job().submit()


def test_the_coroutines_do_the_same(played: PlayedCluster) -> None:
    async def use() -> None:
        job = await dp.AsyncJob("rows", source={"csv": {"uris": ["s3://b/rows.csv"]}}, output={"uri": "s3://b/set"}).submit()
        played.statuses = [RUNNING, RUNNING, SUCCEEDED]
        assert (await job.progress()).percent == 40
        assert (await job.wait(poll=0)).records == 3
        played.pods, played.logs = [a_pod("plan", "2026-01-01T00:00:01Z", "Succeeded")], {"plan": b"planned\n"}
        assert [line async for line in job.logs()] == ["plan: planned"]
        again = await dp.AsyncJob.attach("rows")
        assert (await again.phase(), (await again.result()).records, await again.events()) == ("Succeeded", 3, [])
        await again.suspend()
        await again.resume()
        await again.delete()

    asyncio.run(use())


def test_a_job_can_be_used_while_an_event_loop_runs(played: PlayedCluster) -> None:
    played.statuses = [SUCCEEDED]

    async def cell() -> int:
        return a_job().submit().wait(poll=0).records

    assert asyncio.run(cell()) == 3
