"""A namespace disappears only once all of its pods are gone.

Some of these pods are kept by their Jobs, so the operator deletes these Jobs.
"""

from datetime import timedelta

from tests.operator.world import NAMESPACE, World

from dataprep_operator.errors import Refused
from dataprep_operator.objects import times


def let_a_failed_pod_linger(world: World) -> None:
    """Create a pod that has ended and was deleted with its namespace, but is kept by the Job controller's finalizer."""
    world.running()
    deleted = {"deletionTimestamp": times.text(world.cluster.now), "finalizers": ["batch.kubernetes.io/job-tracking"]}
    world.pod("convert-1", world.ended(143, "stopped"), index=0, metadata=deleted)


def phase(world: World, phase: str) -> None:
    world.cluster.add("", NAMESPACE, {"metadata": {"name": ""}, "status": {"phase": phase}})
    if phase == "Terminating":
        why = f"unable to create new content in namespace {NAMESPACE} because it is being terminated"
        world.cluster.refusals |= {("create", plural): Refused(why) for plural in ("configmaps", "jobs", "events")}


def test_the_jobs_of_a_namespace_that_ends_are_deleted(world: World) -> None:
    let_a_failed_pod_linger(world)
    phase(world, "Terminating")
    world.settle()
    assert "convert-1" in world.jobs()
    assert world.wait is not None
    assert world.wait <= 11

    world.later(11)
    assert world.jobs() == []


def test_a_deleted_pod_in_a_living_namespace_changes_nothing(world: World) -> None:
    let_a_failed_pod_linger(world)
    phase(world, "Active")
    world.later(11)
    assert "convert-1" in world.jobs()


def test_a_pod_that_has_not_ended_is_no_reason_to_ask(world: World) -> None:
    world.running()
    world.pod("convert-1", world.scheduled(phase="Running"), index=0, metadata={"deletionTimestamp": times.text(world.cluster.now)})
    world.cluster.now += timedelta(seconds=30)
    phase(world, "Terminating")
    world.settle()
    assert "convert-1" in world.jobs()
