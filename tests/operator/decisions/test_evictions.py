"""Evictions are counted and shown in the status, and the job pauses after an eviction.

A pod that ended in a similar way without being evicted counts as failed.
"""

from datetime import timedelta
from typing import Any

import pytest
from tests.builders.children import a_convert_job, a_spec
from tests.builders.watched import disrupted
from tests.operator.world import NAMESPACE, World, retry

from dataprep_operator.children import pod_template
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.objects import times
from dataprep_operator.settings import PodDefaults


def evict(world: World, number: int, suffix: str = "convert-1", **rest: Any) -> None:  # Any: as in `disrupted`
    world.pod(suffix, disrupted(world, **rest), name=f"evicted-{number}", index=0)


def runs(world: World, index: int = 0) -> None:
    world.pod("convert-1", world.scheduled(phase="Running"), name=f"runs-{index}", index=index)


# --- counted ----------------------------------------------------------------------------------------------------------------


def test_evictions_are_counted_and_told(world: World) -> None:
    world.running()
    runs(world)
    evict(world, 1)
    evict(world, 2)
    world.settle()
    evict(world, 3)
    world.settle()
    world.cluster.now += timedelta(seconds=5)
    evict(world, 4, reason="TerminationByKubelet")
    world.settle()

    found = world.status()["evictions"]
    assert (found["count"], found["reason"]) == (4, "TerminationByKubelet")
    assert "Evicted" in world.events()
    assert world.status().get("failures", []) == []


def test_an_eviction_is_counted_once_whatever_comes_of_its_pod(world: World) -> None:
    world.running()
    runs(world)
    evict(world, 1, phase="Running")
    world.settle()
    evict(world, 1)
    world.settle()
    world.restart()
    world.settle()
    world.cluster.remove("pods", NAMESPACE, "evicted-1")
    world.settle()
    world.cluster.now += timedelta(seconds=5)
    evict(world, 2)
    world.settle()

    assert world.status()["evictions"]["count"] == 2


def test_a_pod_of_a_lost_node_is_one_eviction(world: World) -> None:
    world.running()
    runs(world)
    gone = {"deletionTimestamp": times.text(world.cluster.now)}
    world.pod("convert-1", disrupted(world, phase="Running"), name="lost", index=0, metadata=gone)
    world.settle()
    world.later(61)

    assert world.cluster.objects[("pods", NAMESPACE, "lost")]["status"]["phase"] == "Failed"
    assert world.status()["evictions"]["count"] == 1


# --- paused -----------------------------------------------------------------------------------------------------------------


def test_evictions_in_a_row_are_followed_by_pauses_that_grow(world: World) -> None:
    world.running()
    pauses = []
    for number in range(8):
        for each in range(2):
            evict(world, 2 * number + each)
        assert world.settle() == "Pending"
        assert world.condition("Running") == ("False", "Evicted")
        assert world.job("convert-1")["spec"]["suspend"] is True
        assert world.wait is not None
        pauses.append(round(world.wait))
        assert world.later(world.wait) == "Running"
        assert world.job("convert-1")["spec"]["suspend"] is False

    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600]
    assert "Pods were evicted 16 times without a finished shard. Last cause: PreemptionByScheduler" not in world.message("Running")


def test_a_pause_stops_no_pod_that_runs(world: World) -> None:
    world.running()
    runs(world)
    for number in range(9):
        evict(world, number)

    assert world.settle() == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is False


def test_shards_that_get_finished_end_the_row(world: World) -> None:
    world.running()
    for number in range(8):
        evict(world, number)
    world.settle()
    assert world.status()["evictions"]["inARow"] == 8
    world.later(600)
    world.cluster.change("jobs", world.job("convert-1")["metadata"]["name"], {"status": {"completedIndexes": "0-1"}})
    world.settle()
    evict(world, 9)

    assert world.settle() == "Running"
    assert (world.status()["evictions"]["count"], world.status()["evictions"]["inARow"]) == (9, 1)


def test_evictions_of_the_plan_hold_the_conversion_off_no_longer(world: World) -> None:
    world.apply(workers={"parallelism": 1})
    world.settle()
    for number in range(5):
        evict(world, number, suffix="plan")
    assert world.settle() == "Pending"
    assert world.status()["evictions"]["inARow"] == 5
    world.planned()

    assert world.settle() == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is False
    evict(world, 5)
    assert world.settle() == "Pending"
    assert world.wait is not None
    assert round(world.wait) == 10


def test_a_queue_starts_its_job_itself(world: World) -> None:
    world.apply(labels={"kueue.x-k8s.io/queue-name": "q"})
    world.settle()
    for name in [name for plural, _, name in world.cluster.objects if plural == "jobs"]:
        world.cluster.change("jobs", name, {"spec": {"suspend": False}})
    world.planned()
    world.settle()
    world.cluster.change("jobs", world.job("convert-1")["metadata"]["name"], {"spec": {"suspend": False}})
    for number in range(9):
        evict(world, number)

    assert world.settle() == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is False


# --- limited ----------------------------------------------------------------------------------------------------------------


def test_there_is_no_limit_unless_the_spec_has_one(world: World) -> None:
    world.running()
    runs(world)
    for number in range(500):
        evict(world, number)

    assert world.settle() == "Running"


def test_a_limit_fails_the_job_and_a_retry_counts_anew(world: World) -> None:
    world.apply(maxEvictions=2)
    world.settle()
    world.planned()
    world.settle()
    runs(world)
    for number in range(3):
        evict(world, number)

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "TooManyEvictions")
    assert world.message() == "Pods were evicted 3 times, but maxEvictions is 2. Last cause: PreemptionByScheduler."
    assert world.job("convert-1")["spec"]["suspend"] is True
    assert retry(world) == "Running"
    assert world.status()["evictions"]["count"] == 0


# --- 143 --------------------------------------------------------------------------------------------------------------------


def test_an_end_with_143_that_nobody_asked_for_is_a_failure(world: World) -> None:
    world.apply(backoffLimitPerIndex=1)
    world.settle()
    world.planned()
    world.settle()
    world.pod("convert-1", world.ended(143, "bye"), name="one", index=2)
    assert world.settle() == "Running"
    assert world.status()["failures"][0]["exitCode"] == 143

    world.pod("convert-1", world.ended(143, "bye"), name="two", index=2)
    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InternalError")
    said = "ended with exit code 143, as if it had been told to stop, but it was neither evicted nor deleted: bye"
    assert world.message() == f"The task of index 2 failed 2 times; last failure: The container {said}"
    assert world.job("convert-1")["spec"]["suspend"] is True


def test_a_script_that_ends_with_143_has_failed(world: World) -> None:
    world.apply(source=None, script={"image": "i", "command": ["x"], "outputs": ["x"]}, backoffLimitPerIndex=0)
    world.settle()
    world.planned(tasks=1, shards=0)
    world.settle()
    pod = world.ended(143, "bye")
    world.pod(
        "convert-1", pod, index=0, metadata={"annotations": {"dataprep.io/script": "true", "batch.kubernetes.io/job-completion-index": "0"}}
    )

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "ScriptFailed")


@pytest.mark.parametrize("step", ["plan", "commit-1"])
def test_other_steps_count_143_as_well(world: World, step: str) -> None:
    world.apply(backoffLimit=1)
    world.settle()
    if step != "plan":
        world.committing()
    for number in range(2):
        world.pod(step, world.ended(143), name=f"p{number}")

    assert world.settle() == "Failed"
    assert world.message().startswith(
        f"The {step.partition('-')[0]} step failed 2 times; last failure: The container ended with exit code 143"
    )


def test_pods_that_a_suspension_or_somebody_deletes_are_no_failures(world: World) -> None:
    world.running()
    deleted = {"deletionTimestamp": times.text(world.cluster.now)}
    for number in range(9):
        world.pod("convert-1", world.ended(143), name=f"p{number}", index=0, metadata=deleted)

    assert world.settle() == "Running"
    assert world.status().get("failures", []) == []


# --- sizes ------------------------------------------------------------------------------------------------------------------


def test_a_full_spool_is_a_failure_that_says_so(world: World) -> None:
    world.running()
    full = 'Usage of EmptyDir volume "dataprep-tmp" exceeds the limit "20Gi". '
    world.pod("convert-1", {"phase": "Failed", "reason": "Evicted", "message": full}, index=0)
    world.settle()

    assert world.status()["failures"][0]["message"] == f"The kubelet ended the pod: {full}"
    assert world.status().get("evictions") is None


@pytest.mark.parametrize(
    ("limits", "tmp_size", "expected"),
    [(None, None, {}), (None, "20Gi", {"sizeLimit": "20Gi"}), ({"ephemeral-storage": "2Gi"}, "20Gi", {"sizeLimit": "2Gi"})],
    ids=["no limit", "the chart's", "the job's"],
)
def test_the_spool_has_a_size(limits: Body | None, tmp_size: str | None, expected: Body) -> None:
    spec = a_spec(workers={"resources": {"limits": limits}} if limits else {})
    pod = a_convert_job(spec, defaults=PodDefaults(tmp_size=tmp_size))["spec"]["template"]["spec"]

    assert pod_template.tmp_size(spec, PodDefaults(tmp_size=tmp_size), step="convert") == expected.get("sizeLimit")
    assert next(each["emptyDir"] for each in pod["volumes"] if each["name"] == "dataprep-tmp") == expected
