"""Tasks and steps that ran out of memory are run again with more memory."""

from typing import Any

import pytest
from tests.operator.world import World, retry

GROWTH = {"memoryGrowth": 2, "maxMemory": "3Gi"}
WORKERS = {"parallelism": 2, "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}


def out_of_memory(world: World, suffix: str, *, failed: str, done: str = "") -> None:
    """End the Job as the Job controller does if tasks run out of memory."""
    world.pod(suffix, world.ended(137, reason="OOMKilled"), index=int(failed[0]))
    world.fail(suffix, "FailedIndexes", "Job has failed indexes", failedIndexes=failed, completedIndexes=done)


def converting(world: World, **spec: Any) -> None:  # Any: fields of the spec
    world.apply(workers=WORKERS, **spec)
    world.settle()
    world.planned()
    world.settle()


def container(world: World, suffix: str) -> Any:
    return world.job(suffix)["spec"]["template"]["spec"]["containers"][0]


def test_only_what_is_left_runs_again_and_gets_more(world: World) -> None:
    converting(world, retry=GROWTH)
    assert container(world, "convert-1")["resources"] == WORKERS["resources"]
    out_of_memory(world, "convert-1", failed="2", done="0-1,3")

    assert world.settle() == "Running"
    assert container(world, "convert-2")["resources"] == {"requests": {"cpu": "1", "memory": "2048Mi"}, "limits": {"memory": "2048Mi"}}
    assert world.job("convert-2")["spec"]["completions"] == 1
    assert container(world, "convert-2")["args"][-2:] == ["--tasks", "2"]
    assert world.status()["effective"]["memory"] == "2048Mi"
    assert "MemoryRaised" in world.events()

    world.restart()
    world.settle()
    world.converted("convert-2", indexes="0")
    assert world.settle() == "Committing"


def test_the_bound_holds_and_then_the_job_fails_with_the_reason(world: World) -> None:
    converting(world, retry=GROWTH)
    out_of_memory(world, "convert-1", failed="2", done="0-1,3")
    world.settle()
    out_of_memory(world, "convert-2", failed="0")
    assert world.settle() == "Running"
    assert container(world, "convert-3")["resources"]["limits"] == {"memory": "3072Mi"}
    out_of_memory(world, "convert-3", failed="0")

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "OutOfMemory")
    assert "limits.memory" in world.message()


def test_a_retry_by_hand_keeps_what_was_learned(world: World) -> None:
    converting(world, retry=GROWTH | {"maxMemory": "2Gi"})
    out_of_memory(world, "convert-1", failed="2", done="0-1,3")
    world.settle()
    out_of_memory(world, "convert-2", failed="0")
    assert world.settle() == "Failed"

    assert retry(world) == "Running"
    assert container(world, "convert-3")["resources"]["limits"] == {"memory": "2048Mi"}


def test_without_the_field_nothing_grows(world: World) -> None:
    converting(world)
    out_of_memory(world, "convert-1", failed="2", done="0-1,3")
    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "OutOfMemory")


def test_the_plan_and_commit_steps_have_resources_of_their_own_which_grow(world: World) -> None:
    planning = {"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1536Mi", "ephemeral-storage": "9Gi"}}}
    world.apply(workers=WORKERS, planning=planning, retry=GROWTH)
    world.settle()
    assert container(world, "plan")["resources"] == planning["resources"]
    assert {"name": "dataprep-tmp", "emptyDir": {"sizeLimit": "9Gi"}} in world.job("plan")["spec"]["template"]["spec"]["volumes"]
    world.pod("plan", world.ended(137, reason="OOMKilled"))
    world.fail("plan", "BackoffLimitExceeded")
    assert world.settle() == "Planning"
    assert container(world, "plan-2")["resources"]["limits"]["memory"] == "3072Mi"

    world.planned("plan-2")
    world.settle()
    assert container(world, "convert-2")["resources"] == WORKERS["resources"]
    world.converted("convert-2")
    assert world.settle() == "Committing"
    assert container(world, "commit-2")["resources"] == planning["resources"]


@pytest.mark.parametrize(("step", "field"), [("plan", "planning"), ("convert-1", "workers")])
def test_the_message_names_the_field_to_raise(world: World, step: str, field: str) -> None:
    world.apply(workers=WORKERS)
    world.settle()
    if step != "plan":
        world.planned()
        world.settle()
    world.pod(step, world.ended(137, reason="OOMKilled"), index=0 if step != "plan" else None)
    world.fail(step, "BackoffLimitExceeded")
    assert world.settle() == "Failed"
    assert f"raise {field}.resources.limits.memory" in world.message()


@pytest.mark.parametrize("limit", ["1e9", "1000000000.", "1000000000000m"])
def test_every_form_of_a_limit_grows(world: World, limit: str) -> None:
    world.apply(workers={"resources": {"limits": {"memory": limit}}}, retry=GROWTH)
    world.settle()
    world.pod("plan", world.ended(137, reason="OOMKilled"))
    world.fail("plan", "BackoffLimitExceeded")
    assert world.settle() == "Planning"
    assert container(world, "plan-2")["resources"]["limits"]["memory"] == "1907Mi"


def test_without_a_limit_there_is_nothing_to_raise(world: World) -> None:
    world.apply(retry=GROWTH)
    world.settle()
    world.planned()
    world.settle()
    out_of_memory(world, "convert-1", failed="2", done="0-1,3")
    assert world.settle() == "Failed"


def step_out_of_memory(world: World, suffix: str) -> None:
    """End a single-pod Job, as the Job controller does when the pod runs out of memory."""
    world.pod(suffix, world.ended(137, reason="OOMKilled"))
    world.fail(suffix, "BackoffLimitExceeded", "Job has reached the specified backoff limit")


def test_a_plan_grows_by_the_same_rule_and_the_conversion_begins_with_its_own(world: World) -> None:
    world.apply(workers=WORKERS, retry=GROWTH)
    world.settle()
    step_out_of_memory(world, "plan")

    assert world.settle() == "Planning"
    assert container(world, "plan-2")["resources"] == {"requests": {"cpu": "1", "memory": "2048Mi"}, "limits": {"memory": "2048Mi"}}
    assert world.status()["effective"] == {"planMemory": "2048Mi"}
    assert "MemoryRaised" in world.events()

    world.restart()
    world.planned("plan-2")
    assert world.settle() == "Running"
    assert container(world, "convert-2")["resources"] == WORKERS["resources"]
    out_of_memory(world, "convert-2", failed="2", done="0-1,3")
    world.settle()
    assert (world.status()["effective"]["planMemory"], world.status()["effective"]["memory"]) == ("2048Mi", "2048Mi")


def test_a_plan_that_may_have_no_more_fails_with_the_reason(world: World) -> None:
    world.apply(workers=WORKERS, retry=GROWTH | {"maxMemory": "2Gi"})
    world.settle()
    step_out_of_memory(world, "plan")
    world.settle()
    step_out_of_memory(world, "plan-2")
    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "OutOfMemory")

    assert retry(world) == "Planning"
    assert container(world, "plan-3")["resources"]["limits"] == {"memory": "2048Mi"}


def test_a_commit_grows_by_the_same_rule(world: World) -> None:
    converting(world, retry=GROWTH)
    world.converted()
    world.settle()
    step_out_of_memory(world, "commit-1")

    assert world.settle() == "Committing"
    assert container(world, "commit-2")["resources"]["limits"] == {"memory": "2048Mi"}
    assert world.status()["effective"]["commitMemory"] == "2048Mi"
    world.restart()
    world.committed("commit-2")
    assert world.settle() == "Succeeded"


def test_without_the_field_neither_plan_nor_commit_grows(world: World) -> None:
    world.apply(workers=WORKERS)
    world.settle()
    step_out_of_memory(world, "plan")
    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "OutOfMemory")


def test_what_fetches_the_code_grows_with_the_pod_that_needs_it(world: World) -> None:
    world.apply(workers=WORKERS, retry=GROWTH, code={"git": {"url": "https://git.example/code.git", "ref": "main"}})
    world.settle()
    step_out_of_memory(world, "plan")
    world.settle()
    fetching = world.job("plan-2")["spec"]["template"]["spec"]["initContainers"][0]
    assert fetching["resources"]["limits"] == {"memory": "2048Mi"}
