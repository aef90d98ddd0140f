"""Tests of status writes: conflicts with newer objects, progress, size, and Events."""

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, START, World, a_failure

from dataprep_api.dataset.messages import ProgressReport, WorkResult
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import RecordProgress
from dataprep_operator.cluster.cluster import CONFIG_MAPS, DATAPREPJOBS, EVENTS, JOBS, PODS
from dataprep_operator.errors import Conflict, Refused, Unavailable
from dataprep_operator.objects import times

# --- conflicts and lost nodes -------------------------------------------------------------------------------------------------


def test_a_status_is_not_written_over_a_newer_object(world: World) -> None:
    world.apply(suspend=True)
    world.cluster.watch = lambda *_: None
    world.edit(suspend=False)

    with pytest.raises(Conflict):
        world.look()
    assert world.status() == {}
    world.look()

    assert world.status()["phase"] == "Planning"


def test_a_status_is_not_written_over_an_object_that_changed_while_its_job_was_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reconcile asks the API server about a rival. While it waits for the response, the watch delivers a newer version of the job."""
    world.apply("rival", suspend=True)
    world.apply(suspend=True)
    get = world.cluster.get

    async def after_an_edit(*place: Any) -> Any:  # Any: a resource, names, and an object's JSON
        monkeypatch.undo()
        world.edit(suspend=False)
        world.cluster.end("dataprepjobs", NAMESPACE, "rival")
        return await get(*place)

    monkeypatch.setattr(world.cluster, "get", after_an_edit)
    with pytest.raises(Conflict):
        world.look()

    assert world.status() == {}


def test_no_child_is_made_before_the_status_says_so(world: World) -> None:
    world.cluster.refusals[("status", "dataprepjobs")] = Conflict("modified")
    world.apply()
    with pytest.raises(Conflict):
        world.look()

    assert world.jobs() == []


def test_a_pod_on_a_dead_node_is_declared_failed(world: World) -> None:
    world.running()
    due = times.text(world.cluster.now + timedelta(seconds=30))
    pod = world.pod("convert-1", world.scheduled(phase="Running"), index=0, metadata={"deletionTimestamp": due})
    world.settle()
    assert world.wait is not None

    world.later(89)
    assert world.cluster.objects[("pods", NAMESPACE, pod["metadata"]["name"])]["status"]["phase"] == "Running"
    world.later(2)
    status = world.cluster.objects[("pods", NAMESPACE, pod["metadata"]["name"])]["status"]
    assert status["phase"] == "Failed"
    assert ("DisruptionTarget", "True") in {(c["type"], c["status"]) for c in status["conditions"]}
    assert world.status()["phase"] == "Running"
    assert not world.status().get("failures")


# --- progress ----------------------------------------------------------------------------------------------------------------


def report(world: World, index: int, sequence: int, records: int, **rest: Any) -> None:  # Any: fields of ProgressReport
    uid = world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")]["metadata"]["uid"]
    told = ProgressReport(
        job="mnist", attempt=1, index=index, sequence=sequence, records=RecordProgress(in_=records, out=records), shards_active=1, **rest
    )
    world.progress_store.record(told, job_uid=uid, pod_uid=f"pod-{index}", now=world.cluster.now)


def test_progress_rises_with_the_reports(world: World) -> None:
    world.running()
    world.cluster.change("jobs", world.job("convert-1")["metadata"]["name"], {"status": {"startTime": times.text(START), "active": 1}})
    shown = []
    for second in range(6, 60, 6):
        report(world, 0, second, second * 10, bytes_out=second * 100)
        world.later(6)
        shown.append(world.status()["progress"])

    assert [each["percent"] for each in shown] == [6, 12, 18, 24, 30, 36, 42, 48, 54]
    assert shown[-1]["records"]["in"] == 540
    assert shown[-1]["recordsPerSecond"] == pytest.approx(10, abs=0.5)
    assert shown[-1]["estimatedSecondsRemaining"] == pytest.approx(46, abs=3)
    assert shown[-1]["eta"] == f"{shown[-1]['estimatedSecondsRemaining']}s"
    assert "estimatedSecondsRemaining" not in shown[0] or shown[0]["percent"] >= 5
    assert world.status()["phase"] == "Running"


def test_progress_is_not_written_more_often_than_allowed(world: World) -> None:
    world.running()
    before = sum(call[0] == "status" for call in world.cluster.calls)
    for tenth in range(100):
        report(world, 0, tenth, tenth)
        world.cluster.now += timedelta(milliseconds=100)
        world.look()

    assert sum(call[0] == "status" for call in world.cluster.calls) - before <= 3


def test_without_reports_progress_follows_the_completed_tasks(world: World) -> None:
    world.running()
    world._job_status("convert-1", {"completedIndexes": "0-1", "active": 2})

    world.later(6)

    progress = world.status()["progress"]
    assert (progress["percent"], progress["summary"]) == (50, "4/8")


def test_finished_tasks_count_by_their_own_results(world: World) -> None:
    world.running()
    done = WorkResult(index=1, shards_done=1, shards_skipped=1, records=RecordProgress(in_=250, out=250), bytes_out=900)
    world.pod("convert-1", world.ended(0, done), index=1)
    world._job_status("convert-1", {"completedIndexes": "1", "active": 2})
    world.restart()

    world.later(6)

    progress = world.status()["progress"]
    assert (progress["records"]["in"], progress["shards"]["done"], progress["bytesOut"]) == (250, 2, 900)


# --- size and events -----------------------------------------------------------------------------------------------------------


def test_a_status_stays_below_64_kilobytes(world: World) -> None:
    world.running()
    for n in range(200):
        result = a_failure(Reason.BAD_RECORDS, f"{n} " + "x" * 1500, 3, index=n, shard="s" * 250, input="u" * 1500)
        world.pod("convert-1", world.ended(3, result), index=n, name=f"pod-{n}")
    world.fail("convert-1", "FailedIndexes", failedIndexes=",".join(str(n) for n in range(0, 4, 2)))
    world.settle()

    assert world.status()["phase"] == "Failed"
    assert len(json.dumps(world.status())) < 64_000
    assert len(world.status()["failures"]) <= 20


def test_each_change_of_phase_is_told_once(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed()
    world.settle()
    world.restart()
    world.later(100)

    assert world.events() == ["Planning", "Planned", "Converting", "Committing", "Completed"]


def test_pods_do_not_wait_for_events(world: World) -> None:
    world.apply()
    world.look()

    assert [what for verb, what, _ in world.cluster.calls if verb in ("status", "create")] == [
        "dataprepjobs",
        "configmaps",
        "jobs",
        "events",
    ]


def test_what_was_decided_is_told_although_nothing_could_be_made(world: World) -> None:
    world.apply()
    world.cluster.refusals[("create", "jobs")] = Unavailable("etcd is away")

    with pytest.raises(Unavailable):
        world.look()

    assert world.events() == ["Planning"]


def test_an_event_that_is_refused_holds_nothing_up(world: World) -> None:
    world.cluster.refusals[("create", "events")] = Refused("events is forbidden")
    world.apply()

    assert world.settle() == "Planning"
    assert world.events() == []


def test_kinds_of_the_seam_have_the_api_servers_paths() -> None:
    assert JOBS.path("a b", "x", subresource="status") == "/apis/batch/v1/namespaces/a%20b/jobs/x/status"
    assert [each.path("n") for each in (DATAPREPJOBS, PODS, CONFIG_MAPS, EVENTS)] == [
        "/apis/dataprep.io/v1alpha1/namespaces/n/dataprepjobs",
        "/api/v1/namespaces/n/pods",
        "/api/v1/namespaces/n/configmaps",
        "/api/v1/namespaces/n/events",
    ]
