"""Tests of deadlines, and of jobs that have to wait for the scheduler or for GPUs, in a queue, or because they are suspended."""

from typing import Any

import pytest
from tests.operator.world import World

from dataprep_operator.cluster.cluster import Body
from dataprep_operator.objects import times
from dataprep_operator.objects.child_jobs import QUEUE_LABEL

# --- scheduling and accelerators --------------------------------------------------------------------------------------------


def gpu_workers(policy: str, **rest: Any) -> Body:  # Any: fields of the spec
    return {"parallelism": 2, "accelerator": {"policy": policy, **rest}}


def test_unschedulable_pods_wait_until_the_start_deadline(world: World) -> None:
    world.apply(startDeadlineSeconds=120)
    world.settle()
    world.pod("plan", world.unschedulable("0/3 nodes are available: 3 Insufficient memory."))

    assert world.settle() == "Pending"
    assert world.condition("Running") == ("False", "Unschedulable")
    assert world.later(119) == "Pending"
    assert world.later(2) == "Failed"
    assert world.condition("Failed") == ("True", "StartDeadlineExceeded")


def test_required_gpus_are_waited_for(world: World) -> None:
    world.apply(workers=gpu_workers("Required"))
    world.settle()
    world.planned()
    world.settle()
    world.pod("convert-1", world.unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), index=0)

    assert world.later(3600) == "Pending"
    assert world.condition("Running") == ("False", "NoGPUNodes")
    assert "Insufficient nvidia.com/gpu" in world.message("Running")
    world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    assert world.settle() == "Running"


def test_preferred_gpus_are_given_up_after_a_while(world: World) -> None:
    world.apply(workers=gpu_workers("Preferred", fallbackAfterSeconds=60))
    world.settle()
    world.planned()
    world.settle()
    assert world.job("convert-1")["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    world.pod("convert-1", world.unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), index=0)

    assert world.later(59) == "Pending"
    assert world.later(2) == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is True
    assert world.job("convert-2")["spec"]["template"]["spec"]["containers"][0]["resources"] == {}
    assert "FellBackToCPU" in world.events()
    assert world.status()["effective"]["accelerator"] == "CPU"
    world.restart()
    world.settle()
    world.converted("convert-2")
    assert world.settle() == "Committing"


def test_preferred_stays_on_gpus_once_one_was_found(world: World) -> None:
    world.apply(workers=gpu_workers("Preferred", fallbackAfterSeconds=60))
    world.settle()
    world.planned()
    world.settle()
    world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    world.pod("convert-1", world.unschedulable("Insufficient nvidia.com/gpu"), index=1)

    assert world.later(300) == "Running"
    assert world.jobs() == ["convert-1", "plan"]


# --- suspension, scale, deadlines --------------------------------------------------------------------------------------------


def test_a_job_that_is_born_suspended_starts_when_it_is_resumed(world: World) -> None:
    world.apply(suspend=True)

    assert world.settle() == "Suspended"
    assert world.jobs() == []
    world.edit(suspend=False)
    assert world.settle() == "Planning"
    assert world.condition("Suspended") == ("False", "Resumed")


def test_suspension_stops_the_pods_and_resuming_goes_on(world: World) -> None:
    world.running()
    world.edit(suspend=True)

    assert world.settle() == "Suspended"
    assert world.job("convert-1")["spec"]["suspend"] is True
    assert world.condition("Running") == ("False", "Suspended")
    before = world.status()
    world.later(100)
    assert world.status() == before
    world.edit(suspend=False)
    assert world.settle() == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is False
    assert world.created("jobs") == 2


def test_a_change_of_parallelism_reaches_the_running_job(world: World) -> None:
    world.running()
    world.edit(workers={"parallelism": 3})

    world.settle()

    assert world.job("convert-1")["spec"]["parallelism"] == 3
    assert world.status()["effective"]["parallelism"] == 3
    assert "Rescaled" in world.events()


def test_no_more_pods_than_tasks(world: World) -> None:
    world.apply(workers={"parallelism": 50})
    world.settle()
    world.planned()
    world.settle()

    assert world.job("convert-1")["spec"]["parallelism"] == 4


def test_a_deadline_fails_the_job_and_stops_its_pods(world: World) -> None:
    world.apply(activeDeadlineSeconds=100)
    world.settle()
    world.planned()

    assert world.settle() == "Running"
    assert world.wait is not None
    assert world.wait <= 101
    assert world.later(101) == "Failed"
    assert world.condition("Failed") == ("True", "DeadlineExceeded")
    assert world.job("convert-1")["spec"]["suspend"] is True


def started(world: World, suffix: str) -> None:
    """Set the step's start time, as the Job controller does when it creates the first pod."""
    world.cluster.change("jobs", world.job(suffix)["metadata"]["name"], {"status": {"startTime": times.text(world.cluster.now)}})
    world.settle()


@pytest.mark.parametrize("step", ["plan", "convert", "commit"])
def test_a_step_that_takes_too_long_fails_the_job_by_its_name(world: World, step: str) -> None:
    world.apply(stepDeadlines={f"{step}Seconds": 100})
    world.settle()
    if step != "plan":
        world.later(500)
        world.planned()
        world.settle()
    if step == "commit":
        world.later(500)
        world.converted()
        world.settle()
    suffix = "plan" if step == "plan" else f"{step}-1"
    started(world, suffix)

    assert world.wait is not None
    assert world.wait <= 101
    assert world.later(99) in ("Planning", "Running", "Committing")
    assert world.later(2) == "Failed"
    assert world.condition("Failed") == ("True", "DeadlineExceeded")
    assert world.message() == f"The {step} step ran for longer than stepDeadlines.{step}Seconds (100 s)."
    assert world.job(suffix)["spec"]["suspend"] is True


def test_a_steps_deadline_may_be_raised_while_it_runs(world: World) -> None:
    world.apply(stepDeadlines={"planSeconds": 100})
    world.settle()
    started(world, "plan")
    world.edit(stepDeadlines={"planSeconds": 1000})

    assert world.later(500) == "Planning"
    assert world.later(501) == "Failed"


def test_a_suspended_job_has_no_deadline(world: World) -> None:
    world.apply(activeDeadlineSeconds=100)
    world.settle()
    world.edit(suspend=True)

    assert world.later(500) == "Suspended"
    world.edit(suspend=False)
    assert world.later(50) == "Planning"
    assert world.later(101) == "Failed"


# --- queues -----------------------------------------------------------------------------------------------------------------


def test_a_queue_holds_the_convert_job_back_and_starts_it(world: World) -> None:
    world.apply(labels={QUEUE_LABEL: "research"})
    world.settle()
    world.planned()

    assert world.settle() == "Queued"
    job = world.job("convert-1")
    assert job["metadata"]["labels"][QUEUE_LABEL] == "research"
    assert job["spec"]["suspend"] is True
    assert QUEUE_LABEL not in world.job("plan")["metadata"]["labels"]
    world.cluster.change("jobs", job["metadata"]["name"], {"spec": {"suspend": False}})
    assert world.settle() == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is False


def test_suspending_a_queued_job_takes_its_convert_job_away(world: World) -> None:
    world.apply(labels={QUEUE_LABEL: "research"})
    world.settle()
    world.planned()
    world.settle()
    world.edit(suspend=True)

    assert world.settle() == "Suspended"
    assert world.jobs() == ["plan"]
    world.edit(suspend=False)
    world.settle()
    assert world.later(6) == "Queued"
