"""kstatus's own library, which Flux uses, and Argo CD's Lua runtime read the status of every phase."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.builders.crons import Cron
from tests.builders.health import health_of
from tests.operator.world import NAMESPACE, World

from dataprep_api import names
from dataprep_api.generate import crd
from dataprep_api.resources.status import Phase

pytestmark = pytest.mark.interop


def planned(world: World) -> None:
    world.settle()
    world.planned()
    world.settle()


def converted(world: World) -> None:
    planned(world)
    world.converted()
    world.settle()


def failed(world: World) -> None:
    world.settle()
    world.fail("plan", "BackoffLimitExceeded")
    world.settle()


def invalid(world: World) -> None:
    world.edit(output={"uri": "s3://out/${place}"})
    world.settle()


def changed(world: World, **spec: Any) -> None:
    world.edit(**spec)
    world.settle()


STATES: dict[str, tuple[Callable[[World], object], Phase | None, tuple[str, str]]] = {
    "not seen yet": (lambda _: None, None, ("InProgress", "Progressing")),
    "waiting for another job": (lambda world: changed(world, runAfter=["another"]), "Pending", ("InProgress", "Progressing")),
    "planning": (World.settle, "Planning", ("InProgress", "Progressing")),
    "running": (planned, "Running", ("InProgress", "Progressing")),
    "committing": (converted, "Committing", ("InProgress", "Progressing")),
    "suspended": (lambda world: changed(world, suspend=True), "Suspended", ("InProgress", "Suspended")),
    "succeeded": (World.succeed, "Succeeded", ("Current", "Healthy")),
    "failed": (failed, "Failed", ("Failed", "Degraded")),
    "invalid": (invalid, "Failed", ("Failed", "Degraded")),
}


def reach(state: str) -> World:
    world = World()
    world.apply()
    STATES[state][0](world)
    return world


def job(world: World) -> dict[str, object]:
    return {"status": crd.job_schema()["properties"]["status"]["default"]} | world.cluster.objects["dataprepjobs", NAMESPACE, "mnist"]


def test_every_phase_is_read_as_what_it_is() -> None:
    worlds = {state: reach(state) for state in STATES}

    assert {state: world.status().get("phase") for state, world in worlds.items()} == {
        state: phase for state, (_, phase, _) in STATES.items()
    }
    answers = health_of([job(world) for world in worlds.values()])
    assert dict(zip(worlds, answers, strict=True)) == {state: expected for state, (_, _, expected) in STATES.items()}


def test_a_retried_job_is_in_progress_again_and_an_edited_one_until_the_operator_has_seen_it() -> None:
    retried, edited = reach("failed"), reach("invalid")
    retried.edit(annotations={names.ANNOTATION_RETRY: "1"})
    retried.settle()
    edited.edit(output={"uri": "s3://out/mended"})

    assert health_of([job(retried), job(edited)]) == [("InProgress", "Progressing")] * 2


def test_a_finished_job_stays_current_when_its_time_to_live_changes() -> None:
    world = reach("succeeded")
    world.edit(ttlSecondsAfterFinished=86_400)
    world.settle()

    assert health_of([job(world)]) == [("Current", "Healthy")]


def test_a_cron_is_current_while_its_spec_is_valid() -> None:
    valid, invalid = Cron(), Cron(schedule="nonsense")
    valid.at("12:30")
    invalid.at("12:30")

    assert health_of([cron_body(valid), cron_body(invalid)]) == [("Current", "Healthy"), ("Failed", "Degraded")]


def cron_body(cron: Cron) -> dict[str, object]:
    return cron.world.cluster.objects["dataprepcronjobs", NAMESPACE, "nightly"]
