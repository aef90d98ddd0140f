"""Tests of the time that a job waits for a problem to be fixed. After this time, the job fails."""

from datetime import timedelta
from typing import Any

import pytest
from tests.operator.world import World, a_failure, retry

from dataprep_api.reasons import Reason
from dataprep_operator.errors import Refused

LATE = 'secret "oss-key" not found'
TOO_MANY = "failed to pull image: 429 Too Many Requests: toomanyrequests"


def committing(world: World, *, after_seconds: float, **spec: Any) -> None:  # Any: fields of the spec
    """Bring a job to its commit step, after a convert step that took `after_seconds`."""
    world.apply(**spec)
    world.settle()
    world.planned()
    world.settle()
    name = world.job("convert-1")["metadata"]["name"]
    world.cluster.change("jobs", name, {"status": {"startTime": "2026-01-31T12:00:00Z"}})
    world.cluster.now += timedelta(seconds=after_seconds)
    ended = world.cluster.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    complete = [{"type": "Complete", "status": "True", "lastTransitionTime": ended}]
    world.cluster.change("jobs", name, {"status": {"conditions": complete, "completionTime": ended, "completedIndexes": "0-3"}})
    assert world.settle() == "Committing"


def test_a_secret_that_comes_late_is_waited_for_as_long_as_the_job_has_worked(world: World) -> None:
    committing(world, after_seconds=7200)
    world.pod("commit-1", world.waiting("CreateContainerConfigError", LATE))
    assert world.settle() == "Pending"

    assert world.later(7000) == "Pending"
    assert world.condition("Running") == ("False", "ConfigMissing")
    world.committed()
    assert world.settle() == "Succeeded"


def test_patience_has_an_end(world: World) -> None:
    committing(world, after_seconds=7200)
    world.pod("commit-1", world.waiting("CreateContainerConfigError", LATE))
    world.settle()

    assert world.later(7230) == "Failed"
    assert world.condition("Failed") == ("True", "ConfigMissing")
    assert world.message().startswith(f"CreateContainerConfigError: {LATE} The job waited for 72")


def test_patience_is_six_hours_at_most(world: World) -> None:
    committing(world, after_seconds=400_000)
    world.pod("commit-1", world.waiting("CreateContainerConfigError", LATE))
    world.settle()

    assert world.later(21_599) == "Pending"
    assert world.later(2) == "Failed"


def test_a_job_that_has_done_nothing_fails_soon(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.waiting("CreateContainerConfigError", LATE))
    world.settle()

    assert world.later(29) == "Pending"
    assert world.later(2) == "Failed"
    assert world.message() == f"CreateContainerConfigError: {LATE}"


def test_shards_that_are_done_are_at_stake_too(world: World) -> None:
    world.running()
    world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    world.cluster.change("jobs", world.job("convert-1")["metadata"]["name"], {"status": {"completedIndexes": "0-1"}})
    world.later(3600)
    assert world.status()["progress"]["shards"]["done"] > 0
    world.cluster.remove("pods", "team-a", f"{world.job('convert-1')['metadata']['name']}-0-pod")
    world.pod("convert-1", world.waiting("CreateContainerConfigError", LATE), index=1)
    world.settle()

    assert world.later(3000) == "Pending"
    assert world.later(1000) == "Failed"


@pytest.mark.parametrize("step", ["scan", "shuffle"])
def test_parts_and_slices_that_are_done_are_at_stake_too(world: World, step: str) -> None:
    growth = {"memoryGrowth": 2, "maxMemory": "8Gi"}
    world.apply(retry=growth, workers={"parallelism": 2, "resources": {"limits": {"memory": "1Gi"}}})
    world.settle()
    if step == "scan":
        world.scan_requested()
    else:
        world.planned(shuffle_tasks=4)
    world.settle()
    world.later(3600)
    world.pod(f"{step}-1", world.ended(137, reason="OOMKilled"), index=3)
    world.fail(f"{step}-1", "FailedIndexes", completedIndexes="0-2", failedIndexes="3")
    world.settle()
    world.pod(f"{step}-2", world.waiting("ErrImagePull", "manifest unknown"), index=0)
    assert world.settle() == "Pending"

    assert world.later(3500) == "Pending"
    assert world.later(200) == "Failed"


@pytest.mark.parametrize("reason", ["ErrImagePull", "RegistryUnavailable"])
def test_a_registry_that_refuses_for_now_gets_ten_minutes(world: World, reason: str) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.waiting(reason, TOO_MANY))
    world.settle()

    assert world.later(599) == "Pending"
    assert world.condition("Running") == ("False", "ImagePullFailed")
    assert world.later(2) == "Failed"
    assert world.message() == f"{reason}: {TOO_MANY} The job waited for 600 s."


def test_between_two_tries_the_cause_is_not_forgotten(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.waiting("ErrImagePull", TOO_MANY))
    world.settle()
    world.pod("plan", world.waiting("ImagePullBackOff", 'Back-off pulling image "x"'))

    assert world.later(60) == "Pending"
    assert world.message("Running") == f"ErrImagePull: {TOO_MANY}"


def test_an_image_that_is_not_there_fails_soon(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.waiting("ErrImagePull", "manifest unknown"))
    world.settle()

    assert world.later(31) == "Failed"
    assert world.message() == "ErrImagePull: manifest unknown"


def test_the_spec_says_how_long_it_waits(world: World) -> None:
    world.apply(blockedDeadlineSeconds=120)
    world.settle()
    world.pod("plan", world.waiting("CreateContainerConfigError", LATE))
    world.settle()
    assert world.later(119) == "Pending"

    world.edit(blockedDeadlineSeconds=300)
    assert world.later(100) == "Pending"
    assert world.later(100) == "Failed"
    assert world.message() == f"CreateContainerConfigError: {LATE} The job waited for 300 s."


def test_a_quota_of_jobs_is_waited_for(world: World) -> None:
    full = 'jobs.batch "x" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=5, limited: count/jobs.batch=5'
    world.cluster.refusals[("create", "jobs")] = Refused(full)
    world.apply()
    world.settle()

    assert world.later(3600) == "Pending"
    assert world.condition("Running") == ("False", "PodRefused")
    assert world.message("Running") == full
    del world.cluster.refusals[("create", "jobs")]
    assert world.settle() == "Planning"


def test_a_quota_of_jobs_is_waited_for_until_the_start_deadline(world: World) -> None:
    world.cluster.refusals[("create", "jobs")] = Refused("exceeded quota: q")
    world.apply(startDeadlineSeconds=60)
    world.settle()

    assert world.later(61) == "Failed"
    assert world.condition("Failed") == ("True", "StartDeadlineExceeded")


def test_what_is_refused_for_good_fails_soon(world: World) -> None:
    world.cluster.refusals[("create", "jobs")] = Refused("denied by policy")
    world.apply()
    world.settle()

    assert world.later(31) == "Failed"
    assert world.message() == "denied by policy"


@pytest.mark.parametrize("length", [256, 257, 5000])
def test_one_value_of_any_length_is_one_retry(world: World, length: int) -> None:
    world.apply()
    world.settle()
    world.plan_fails(a_failure(Reason.NO_INPUT, "nothing", 3))
    world.settle()
    assert retry(world, "x" * length) == "Planning"
    world.plan_fails(a_failure(Reason.NO_INPUT, "nothing", 3), "plan-2")
    assert world.settle() == "Failed"
    assert world.status()["attempt"] == 2

    assert retry(world, "x" * (length - 1) + "y") == "Planning"
