"""Tests of the annotation that requests another attempt."""

from tests.operator.world import World, a_commit, a_failure, retry

from dataprep_api.reasons import Reason
from dataprep_operator.objects.child_jobs import ANNOTATION_TASKS


def test_a_retry_after_a_failed_plan_plans_again(world: World) -> None:
    world.apply()
    world.settle()
    world.plan_fails(a_failure(Reason.STORE_UNREACHABLE, "nn", 4))
    world.settle()

    assert retry(world) == "Planning"
    assert world.jobs() == ["plan", "plan-2"]
    assert world.condition("Failed") == ("False", "Retrying")
    assert "Retrying" in world.events()
    world.planned("plan-2")
    assert world.settle() == "Running"
    assert world.jobs() == ["convert-2", "plan", "plan-2"]


def test_a_retry_of_the_conversion_makes_only_what_is_missing(world: World) -> None:
    world.running()
    world.pod("convert-1", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "host", 4, index=1)), index=1)
    world.fail("convert-1", "FailedIndexes", completedIndexes="0,2", failedIndexes="1,3")
    world.settle()

    assert retry(world) == "Running"
    job = world.job("convert-2")
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--tasks") + 1] == "1,3"
    assert arguments[arguments.index("--attempt") + 1] == "2"
    assert (job["spec"]["completions"], job["metadata"]["annotations"][ANNOTATION_TASKS]) == (2, "1,3")
    assert world.created("jobs") == 3
    world.fail("convert-2", "FailedIndexes", completedIndexes="0", failedIndexes="1")
    world.settle()
    assert world.status()["failedIndexes"] == "3"
    retry(world, "2")
    assert world.job("convert-3")["metadata"]["annotations"][ANNOTATION_TASKS] == "3"
    world.converted("convert-3", "0")
    assert world.settle() == "Committing"


def test_a_retry_after_a_failed_commit_commits_again(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.pod("commit-1", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "host", 4)))
    world.fail("commit-1", "BackoffLimitExceeded")
    world.settle()

    assert retry(world) == "Committing"
    assert world.jobs() == ["commit-1", "commit-2", "convert-1", "plan"]


def test_a_retry_after_lost_files_converts_again(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.plan_fails(a_failure(Reason.OUTPUT_MISSING, "train-00001 is gone", 5), "commit-1")
    world.settle()

    assert retry(world) == "Running"
    assert ANNOTATION_TASKS not in world.job("convert-2")["metadata"]["annotations"]


def test_one_value_is_one_retry(world: World) -> None:
    world.apply()
    world.settle()
    for suffix in ("plan", "plan-2"):
        world.plan_fails(a_failure(Reason.STORE_UNREACHABLE, "nn", 4), suffix)
        world.settle()
        retry(world)

    assert world.status()["phase"] == "Failed"
    assert world.status()["attempt"] == 2
    assert retry(world, "2") == "Planning"


def test_a_retry_that_was_asked_for_before_the_failure_is_none(world: World) -> None:
    world.apply()
    retry(world)
    world.plan_fails(a_failure(Reason.NO_INPUT, "nothing", 3))

    assert world.settle() == "Failed"
    assert world.later(10) == "Failed"


def test_a_succeeded_job_is_not_retried(world: World) -> None:
    world.apply()
    world.settle()
    world.planned(reused=True, commit=a_commit())
    world.settle()

    assert retry(world) == "Succeeded"
    assert world.jobs() == ["plan"]
