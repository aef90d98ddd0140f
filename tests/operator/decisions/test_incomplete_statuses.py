"""Tests of jobs whose status is incomplete because the CRD is from an earlier release.

The API server drops all fields that this CRD doesn't define.
"""

from collections.abc import Callable

import pytest
from tests.operator.world import NAMESPACE, World, a_failure, retry

from dataprep_api.reasons import Reason


def scanning(world: World) -> None:
    world.scanning()


def merging(world: World) -> None:
    world.scanning()
    world.scanned()
    world.settle()


def shuffling(world: World) -> None:
    world.apply()
    world.settle()
    world.planned(shuffle_tasks=4)
    world.settle()


STEPS = [
    pytest.param(scanning, "scan", "scan-1", id="scan"),
    pytest.param(merging, "scan", "merge-1", id="merge"),
    pytest.param(shuffling, "shuffleTasks", "shuffle-1", id="shuffle"),
]


def dropped(world: World, begin: Callable[[World], None], field: str) -> str:
    """Bring a job to a step, drop a field of its status, and return the phase."""
    begin(world)
    del world.cluster.objects["dataprepjobs", NAMESPACE, "mnist"]["status"][field]
    world.restart()
    return world.settle()


@pytest.mark.parametrize(("begin", "field", "suffix"), STEPS)
def test_the_job_is_planned_again(world: World, begin: Callable[[World], None], field: str, suffix: str) -> None:
    assert dropped(world, begin, field) == "Planning"
    assert (world.status()["step"], world.status()["attempt"], world.status().get("runId")) == ("Plan", 2, None)
    assert world.job(suffix)["spec"]["suspend"] is True, "nothing runs beside the plan pod"
    messages = [body["message"] for (plural, _, _), body in world.cluster.objects.items() if plural == "events"]
    assert messages.count("Attempt 2 begins with the step Plan, because the status was incomplete.") == 1
    assert "FellBackToCPU" not in world.events()

    world.planned("plan-2")
    assert world.settle() == "Running"
    world.converted("convert-2")
    world.settle()
    world.committed("commit-2")
    assert world.settle() == "Succeeded"


@pytest.mark.parametrize(("begin", "field", "suffix"), STEPS)
def test_a_plan_that_fails_then_is_retried(world: World, begin: Callable[[World], None], field: str, suffix: str) -> None:
    dropped(world, begin, field)
    world.plan_fails(a_failure(Reason.STORE_UNREACHABLE, "the store is down", exit_code=4), "plan-2")
    assert world.settle() == "Failed"

    assert retry(world) == "Planning"
    assert (world.status()["step"], suffix in world.jobs()) == ("Plan", True)


def test_the_job_waits_in_its_queue_again() -> None:
    world = World(kueue=True)
    world.apply(labels={"kueue.x-k8s.io/queue-name": "research"})
    world.settle()
    world.cluster.change("jobs", world.job("queue-1")["metadata"]["name"], {"spec": {"suspend": False}})
    world.settle()
    world.scan_requested()
    world.settle()
    del world.cluster.objects["dataprepjobs", NAMESPACE, "mnist"]["status"]["scan"]
    world.restart()

    assert world.settle() == "Queued"
    assert (world.status()["step"], world.status()["attempt"]) == ("Plan", 2)
    assert "queue-2" in world.jobs()
