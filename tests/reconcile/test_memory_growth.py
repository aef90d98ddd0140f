"""Tasks that ran out of memory run again with more of it."""

from typing import Any

from tests.reconcile.world import World, retry

GROWTH = {"memoryGrowth": 2, "maxMemory": "3Gi"}
WORKERS = {"parallelism": 2, "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}


def out_of_memory(world: World, suffix: str, *, failed: str, done: str = "") -> None:
    """As the Job controller ends a Job with such tasks."""
    world.pod(suffix, world.ended(137, reason="OOMKilled"), index=int(failed[0]))
    world.fail(suffix, "FailedIndexes", "Job has failed indexes", failedIndexes=failed, completedIndexes=done)


def converting(world: World, **spec: Any) -> None:  # Any: the spec as YAML has it
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


def test_without_a_limit_there_is_nothing_to_raise(world: World) -> None:
    world.apply(retry=GROWTH)
    world.settle()
    world.planned()
    world.settle()
    out_of_memory(world, "convert-1", failed="2", done="0-1,3")
    assert world.settle() == "Failed"
