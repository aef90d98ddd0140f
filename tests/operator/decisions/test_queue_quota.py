"""Tests of the quota that queue Jobs ask for: pods, and memory, which increases after a failure."""

import pytest
from tests.operator.decisions.queues import active, admit, evict, pod_of, queued, run, stopped
from tests.operator.world import World, a_failure, retry

from dataprep_api.reasons import Reason
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.objects.child_jobs import ANNOTATION_LEAST, QUEUE_LABEL


@pytest.fixture
def world() -> World:
    return World(kueue=True)


def test_fewer_admitted_pods_are_the_parallelism(world: World) -> None:
    queued(world, workers={"parallelism": 4})
    admit(world, parallelism=3)
    world.planned()
    world.settle()
    assert world.job("convert-1")["spec"]["parallelism"] == 3
    assert not [call for call in world.cluster.calls if call[:2] == ("patch", "jobs")]  # the Job's parallelism was never above 3
    assert world.status()["effective"]["parallelism"] == 3

    world.edit(workers={"parallelism": 2})
    world.settle()
    assert world.job("convert-1")["spec"]["parallelism"] == 2
    world.edit(workers={"parallelism": 8})
    world.settle()
    assert world.job("convert-1")["spec"]["parallelism"] == 3
    assert world.job("queue-1")["spec"]["parallelism"] == 3


def test_a_waiting_job_asks_for_as_many_pods_as_it_needs(world: World) -> None:
    queued(world)
    world.edit(workers={"parallelism": 5})
    world.settle()
    assert world.job("queue-1")["spec"]["parallelism"] == 5

    admit(world, parallelism=5)
    world.planned(tasks=3)
    world.settle()
    assert world.job("queue-1")["spec"]["parallelism"] == 5
    evict(world)
    assert world.job("queue-1")["spec"]["parallelism"] == 3


def test_a_stopped_job_asks_for_another_number_only_when_its_pods_have_ended(world: World) -> None:
    """Until the job's pods have ended, Kueue counts the earlier number of pods against the quota."""
    queued(world)
    admit(world)
    run(world, "plan")
    evict(world)
    world.edit(workers={"parallelism": 5})
    world.settle()
    assert (active(world), world.job("queue-1")["spec"]["parallelism"]) == (2, 2)

    stopped(world, "plan")
    world.settle()
    assert (active(world), world.job("queue-1")["spec"]["parallelism"]) == (0, 5)


def test_kueues_least_number_of_pods_stays_possible(world: World) -> None:
    world.apply(labels={QUEUE_LABEL: "research"}, workers={"parallelism": 6})
    world.edit(annotations={"kueue.x-k8s.io/job-min-parallelism": "4"})
    world.settle()
    admit(world, parallelism=5)
    world.planned(tasks=2)
    world.settle()
    evict(world)
    assert world.job("queue-1")["spec"]["parallelism"] == 4


@pytest.mark.parametrize(("least", "kept"), [("2", False), ("7", False), ("1", True), ("many", True)])
def test_a_least_number_that_allows_no_fewer_pods_is_left_out(world: World, least: str, *, kept: bool) -> None:
    """If the minimum isn't below the parallelism, the operator leaves the annotation out, because Kueue's webhook would refuse the Job.

    If the value isn't a number, the operator keeps the annotation, and Kueue refuses and reports the value.
    """
    world.apply(labels={QUEUE_LABEL: "research"}, workers={"parallelism": 2})
    world.edit(annotations={"kueue.x-k8s.io/job-min-parallelism": least})
    world.settle()
    assert ("kueue.x-k8s.io/job-min-parallelism" in world.job("queue-1")["metadata"].get("annotations", {})) is kept


def test_a_new_attempt_gets_its_own_place_in_the_queue(world: World) -> None:
    queued(world)
    admit(world)
    world.plan_fails(a_failure(Reason.INPUT_NOT_FOUND, "gone"))
    assert world.settle() == "Failed"
    assert retry(world) == "Queued"
    assert admit(world, "queue-2") == "Planning"
    assert world.job("plan-2")["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "spot"}


def test_an_attempt_with_more_memory_asks_for_more_and_its_commit_for_one_pod_only(world: World) -> None:
    limits = {"parallelism": 2, "resources": {"limits": {"memory": "1Gi"}}}
    queued(world, workers=limits, retry={"maxMemory": "4Gi", "memoryGrowth": 2})
    admit(world)
    world.committing()
    world.pod("commit-1", world.ended(137, reason="OOMKilled"))
    world.fail("commit-1", "BackoffLimitExceeded")

    assert world.settle() == "Queued"
    assert "queue-1" not in world.jobs()
    [container] = pod_of(world, "queue-2")["containers"]
    assert (container["resources"]["requests"]["memory"], world.job("queue-2")["spec"]["parallelism"]) == ("2048Mi", 1)


@pytest.mark.parametrize(
    ("parallelism", "annotations", "requests", "limits"),
    [
        pytest.param(1, {}, {"cpu": "2000m", "memory": str(6 << 30)}, {"memory": str(6 << 30)}, id="one pod"),
        pytest.param(3, {}, {"cpu": "1", "memory": str(2 << 30)}, {"memory": "2Gi"}, id="three pods share it"),
        pytest.param(8, {}, {"cpu": "1", "memory": "1Gi"}, {"memory": "2Gi"}, id="the workers need more"),
        pytest.param(8, {ANNOTATION_LEAST: "2"}, {"cpu": "1", "memory": str(3 << 30)}, {"memory": str(3 << 30)}, id="it may be two pods"),
    ],
)
def test_the_quota_of_the_workers_suffices_for_the_plan_and_commit_steps(
    world: World, parallelism: int, annotations: dict[str, str], requests: Body, limits: Body
) -> None:
    workers = {"parallelism": parallelism, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}}
    planning = {"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "6Gi", "nvidia.com/gpu": 1}}}
    world.apply(labels={QUEUE_LABEL: "research"}, annotations=annotations, workers=workers, planning=planning)
    assert world.settle() == "Queued"
    [container] = pod_of(world, "queue-1")["containers"]
    assert container["resources"] == {"requests": requests, "limits": limits}


def requests_of(world: World, suffix: str) -> tuple[int, str]:
    """Return the number of pods that a queue Job asks for, and the memory of each."""
    [container] = pod_of(world, suffix)["containers"]
    return world.job(suffix)["spec"]["parallelism"], container["resources"]["requests"]["memory"]


LARGE_PLAN: Body = {
    "workers": {"parallelism": 8, "resources": {"requests": {"memory": "2Gi"}}},
    "planning": {"resources": {"limits": {"memory": "32Gi"}}},
}


def test_memory_that_grows_changes_the_quota_of_its_own_step_only(world: World) -> None:
    queued(world, **LARGE_PLAN, retry={"maxMemory": "128Gi", "memoryGrowth": 2})
    assert requests_of(world, "queue-1") == (8, str(4 << 30))
    admit(world, parallelism=8)
    run(world, "plan")
    world.pod("plan", world.ended(137, reason="OOMKilled"))
    world.fail("plan", "BackoffLimitExceeded")
    assert world.settle() == "Queued"
    assert requests_of(world, "queue-2") == (8, str(8 << 30))


def test_the_quota_still_suffices_for_a_small_plan_pod_that_grows(world: World) -> None:
    planning = {"resources": {"limits": {"memory": "1Gi"}}}
    workers = {"parallelism": 4, "resources": {"limits": {"memory": "16Gi"}}}
    queued(world, workers=workers, planning=planning, retry={"maxMemory": "64Gi", "memoryGrowth": 2})
    admit(world, parallelism=4)
    run(world, "plan")
    world.pod("plan", world.ended(137, reason="OOMKilled"))
    world.fail("plan", "BackoffLimitExceeded")
    assert world.settle() == "Queued"
    [container] = pod_of(world, "queue-2")["containers"]
    assert container["resources"] == {"limits": {"memory": "16Gi"}}


@pytest.mark.parametrize(("parallelism", "memory"), [(1, str(32 << 30)), (4, str(8 << 30)), (32, "2Gi")])
def test_a_job_that_asks_for_another_number_of_pods_shares_its_plan_out_again(world: World, parallelism: int, memory: str) -> None:
    queued(world, **LARGE_PLAN)
    world.edit(workers=LARGE_PLAN["workers"] | {"parallelism": parallelism})
    world.settle()
    assert world.later(6) == "Queued"
    assert requests_of(world, "queue-1") == (parallelism, memory)


def test_a_plan_that_fits_into_any_worker_keeps_its_place_in_the_queue(world: World) -> None:
    queued(world, workers={"parallelism": 8}, planning={})
    first = world.job("queue-1")["metadata"]["uid"]
    world.edit(workers={"parallelism": 3})
    assert world.settle() == "Queued"
    assert (world.job("queue-1")["metadata"]["uid"], world.job("queue-1")["spec"]["parallelism"]) == (first, 3)
