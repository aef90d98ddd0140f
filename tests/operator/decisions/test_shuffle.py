"""Jobs that have a shuffle step. It comes between planning and the convert step, and divides the records among the convert tasks."""

from typing import Any

import pytest
from tests.builders.children import DEFAULTS, SHA, a_job, a_spec, container_of, exit_rules
from tests.operator.world import NAMESPACE, World, a_failure, retry

from dataprep_api import names
from dataprep_api.reasons import Reason
from dataprep_operator.children import jobs

WORKERS = {"parallelism": 2, "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}


def shuffling(world: World, **spec: Any) -> None:  # Any: fields of the spec
    """Bring a job to its shuffle step, which divides the input into four slices."""
    world.apply(workers=WORKERS, **spec)
    world.settle()
    world.planned(shuffle_tasks=4)
    assert world.settle() == "Running"


def test_which_pods_may_plan_a_first_round() -> None:
    def variables_of(body: Any) -> set[str]:  # Any: JSON
        return {variable["name"] for variable in container_of(body)["env"]}

    spec = a_spec()
    assert names.TWO_ROUNDS in variables_of(jobs.plan_job(a_job(), spec, attempt=1, defaults=DEFAULTS))
    assert names.TWO_ROUNDS in variables_of(jobs.merge_job(a_job(), spec, scan="feed" * 4, attempt=1, defaults=DEFAULTS))
    assert names.TWO_ROUNDS not in variables_of(jobs.plan_job(a_job(), spec, attempt=1, may_divide=False, defaults=DEFAULTS))


def test_the_job_has_an_index_for_each_slice_and_the_resources_of_workers() -> None:
    spec = a_spec(
        workers=WORKERS | {"accelerator": {"policy": "Required", "count": 1}}, planning={"resources": {"limits": {"memory": "9Gi"}}}
    )
    body = jobs.shuffle_job(
        a_job(), spec, run_id="0123abcd", plan_sha256=SHA, slices=10, only=[2, 3], attempt=2, memory=None, defaults=DEFAULTS
    )
    container = container_of(body)
    assert (body["metadata"]["name"], body["spec"]["completions"], body["spec"]["completionMode"]) == (
        "mnist-0f1e2d3c00-shuffle-2",
        2,
        "Indexed",
    )
    places = ["--job", "/etc/dataprep/job.yaml", "--run", "0123abcd", "--plan-sha256", SHA]
    assert container["args"] == ["shuffle", *places, "--tasks", "2-3"]
    assert container["resources"] == WORKERS["resources"]
    assert exit_rules(body) == {"Ignore": [143], "FailJob": [2, 3, 5]}


def test_a_job_is_planned_divided_and_converted(world: World) -> None:
    shuffling(world)
    assert (world.status()["step"], world.status()["shuffleTasks"], world.status()["progress"]["summary"]) == ("Shuffle", 4, "0/4")
    assert world.message("Running") == "Pods divide the records of the shuffle among the convert tasks."
    world.complete("shuffle-1", completedIndexes="0-3")
    assert world.settle() == "Running"
    assert (world.status()["step"], world.status()["progress"]["summary"]) == ("Convert", "0/8")
    world.converted()
    assert world.settle() == "Committing"
    assert world.status()["timings"]["runningSeconds"] == 20.0, "the sum of two Jobs of ten seconds"


def test_a_second_conversion_after_lost_files_is_counted_only_once(world: World) -> None:
    shuffling(world)
    world.complete("shuffle-1", completedIndexes="0-3")
    world.settle()
    world.converted()
    world.settle()
    world.plan_fails(a_failure(Reason.OUTPUT_MISSING, "train-00001 is gone", 5), "commit-1")
    world.settle()
    assert retry(world) == "Running"
    world.converted("convert-2")
    assert world.settle() == "Committing"
    assert world.status()["timings"]["runningSeconds"] == 20.0, "the shuffle and the last conversion"


def test_a_plan_without_a_first_round_is_converted_at_once(world: World) -> None:
    world.apply()
    world.settle()
    world.planned()
    assert world.settle() == "Running"
    assert world.jobs() == ["convert-1", "plan"]


@pytest.mark.parametrize("stop_at", range(3))
def test_a_restart_at_any_step_loses_nothing(world: World, stop_at: int) -> None:
    def nothing() -> None:
        pass

    def divided() -> None:
        world.complete("shuffle-1", completedIndexes="0-3")

    shuffling(world)
    for number, step in enumerate((nothing, divided, world.converted)):
        step()
        if number == stop_at:
            world.restart()
        world.settle()
    assert world.status()["step"] == "Commit"
    assert world.jobs() == ["commit-1", "convert-1", "plan", "shuffle-1"]


def test_a_failed_slice_fails_the_job_and_a_retry_divides_what_is_left(world: World) -> None:
    shuffling(world)
    failure = a_failure(Reason.STORE_UNREACHABLE, "the store is down")
    world.pod("shuffle-1", world.ended(4, failure), index=2)
    world.fail("shuffle-1", "FailedIndexes", completedIndexes="0-1,3", failedIndexes="2")
    assert world.settle() == "Failed"
    assert "the store is down" in world.message()
    assert retry(world) == "Running"
    assert (world.status()["step"], container_of(world.job("shuffle-2"))["args"][-2:]) == ("Shuffle", ["--tasks", "2"])
    world.complete("shuffle-2", completedIndexes="0")
    world.settle()
    assert container_of(world.job("convert-2"))["args"][0] == "work"


def test_a_slice_that_needs_more_memory_is_repeated_with_more(world: World) -> None:
    shuffling(world, retry={"memoryGrowth": 2, "maxMemory": "3Gi"})
    world.pod("shuffle-1", world.ended(137, reason="OOMKilled"), index=1)
    world.fail("shuffle-1", "FailedIndexes", completedIndexes="0,2-3", failedIndexes="1")
    assert world.settle() == "Running"
    assert container_of(world.job("shuffle-2"))["resources"]["limits"]["memory"] == "2048Mi"
    assert world.status()["effective"]["memory"] == "2048Mi"


def test_a_shuffle_job_that_is_made_again_keeps_the_finished_slices(world: World) -> None:
    shuffling(world)
    name = world.job("shuffle-1")["metadata"]["name"]
    world.cluster.change("jobs", name, {"status": {"completedIndexes": "0-2"}})
    world.later(10)
    assert world.status()["progress"]["summary"] == "3/4"
    world.cluster.remove("jobs", NAMESPACE, name)
    world.settle()
    world.later(10)
    assert "shuffle-1" in world.jobs()
    assert world.status()["progress"]["summary"] == "3/4", "the slices are in the store"


def test_a_suspended_job_stops_and_goes_on(world: World) -> None:
    shuffling(world)
    world.edit(suspend=True)
    assert world.settle() == "Suspended"
    assert world.job("shuffle-1")["spec"]["suspend"] is True
    world.edit(suspend=False)
    assert world.later(6) == "Running"
    assert world.job("shuffle-1")["spec"]["suspend"] is False
