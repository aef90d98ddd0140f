"""The operator continues as soon as the plan pod has reported the plan.

It doesn't wait until the Job controller has counted the finished pod.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, World, a_commit, a_plan

from dataprep_api import names
from dataprep_operator.informer import handlers
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects.observed import Key


def told(world: World, **changes: Any) -> None:  # Any: fields of PlanResult
    world.apply()
    world.settle()
    world.pod("plan", world.ended(0, a_plan(**changes)))
    world.settle()


def test_the_workers_are_made_as_soon_as_the_plan_is_told(world: World) -> None:
    told(world)

    assert world.status()["phase"] == "Running"
    assert world.jobs() == ["convert-1", "plan"]


def test_the_status_says_how_many_files_are_ignored_and_which_classes_there_are(world: World) -> None:
    label = {"feature": "label", "numClasses": 201, "classes": [f"class {number}" for number in range(201)]}
    told(world, ignored=3, labels=[label])

    assert world.status()["ignoredFiles"] == 3
    assert world.status()["labels"] == [label]


def test_the_plan_job_is_left_to_its_controller(world: World) -> None:
    told(world)
    world.later(60)
    world.complete("plan")
    world.later(60)

    assert [call for call in world.cluster.calls if call[0] in ("patch", "delete") and call[1] == "jobs"] == []
    assert world.jobs() == ["convert-1", "plan"]


def test_a_found_data_set_is_complete_at_once(world: World) -> None:
    told(world, reused=True, commit=a_commit())

    assert world.status()["phase"] == "Succeeded"
    assert [call for call in world.cluster.calls if call[0] in ("patch", "delete") and call[1] == "jobs"] == []


def test_a_plan_job_that_failed_or_is_being_deleted_has_told_nothing(world: World) -> None:
    world.apply()
    world.settle()
    name = world.job("plan")["metadata"]["name"]
    world.cluster.change("jobs", name, {"metadata": {"deletionTimestamp": "2026-01-31T12:00:00Z"}})
    world.pod("plan", world.ended(0, a_plan()))

    assert world.settle() == "Planning"


def test_a_pod_that_says_something_else_is_judged_when_its_job_ends(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(0, "hello"))
    assert world.settle() == "Planning"

    world.complete("plan")
    assert world.settle() == "Failed"
    assert "message was not written by dataprep: hello" in world.message()


@pytest.mark.parametrize(
    ("step", "phase", "seconds"),
    [("plan", "Succeeded", 0.0), ("plan", "Running", 0.2), ("convert", "Succeeded", 0.2)],
)
def test_only_the_end_of_a_plans_pod_is_looked_at_now(step: str, phase: str, seconds: float) -> None:
    concerned: list[tuple[Key | None, float]] = []
    cache = Cache()
    cache._keys_by_uid["job-uid"] = Key(NAMESPACE, "mnist")
    labels = {names.LABEL_STEP: step, names.LABEL_JOB_UID: "job-uid"}
    pod = {"metadata": {"name": "p", "namespace": NAMESPACE, "uid": "u", "labels": labels}, "status": {"phase": phase}}
    handlers._handle(
        Kind.PODS,
        {"type": "ADDED", "object": pod},
        cache=cache,
        streams=SimpleNamespace(mark_cached=lambda *_: None),  # type: ignore[arg-type]  # only this method is called
        enqueue=lambda key, wait: concerned.append((key, wait)),
    )

    assert concerned == [(Key(NAMESPACE, "mnist"), seconds)]
