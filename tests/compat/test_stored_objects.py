"""This release continues jobs that an earlier release's operator started. The jobs are stored as objects on a cluster."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.compat.stored_objects import at, children, without_summary
from tests.operator.world import NAMESPACE, World, retry

from dataprep_api.dataset.messages import RemoveResult
from dataprep_api.reasons import Reason
from dataprep_operator.informer.cache import Kind

STEPS = ["plan", "convert-1", "commit-1"]


MARK = "Mk7-hunter2-Zq9"


def with_a_key(text: str) -> str:
    """Return the objects with an access key in the output's URI. Earlier releases accepted such URIs."""
    return text.replace("s3://out/", f"s3://AKIA:{MARK}@out/")


def with_a_password(text: str) -> str:
    """Return the objects with a database as the source, whose URL contains the password. The URL is in the job and, as JSON within JSON, in
    the job's ConfigMap."""
    objects = json.loads(text)
    for plural, body in objects:
        document = json.loads(body["data"]["job.yaml"]) if plural == "configmaps" and "job.yaml" in body.get("data", {}) else body
        if "source" in document.get("spec", {}):
            document["spec"]["source"] = {"sql": {"url": f"postgresql://db/x?password={MARK}", "query": "SELECT 1 AS a", "orderBy": ["a"]}}
        if document is not body:
            body["data"]["job.yaml"] = json.dumps(document)
    return json.dumps(objects)


def seen_by_people(world: World) -> str:
    shown = [
        body.get("status") if plural == "dataprepjobs" else body
        for (plural, _, _), body in world.cluster.objects.items()
        if plural in ("dataprepjobs", "events")
    ]
    return json.dumps(shown)


def spec_maps_named(world: World) -> set[str]:
    volumes = [
        volume
        for (plural, _, _), body in world.cluster.objects.items()
        if plural == "jobs"
        for volume in body["spec"]["template"]["spec"]["volumes"]
    ]
    return {volume["configMap"]["name"] for volume in volumes if volume["name"] == "dataprep-spec"}


@pytest.mark.parametrize("moment", ["planning", "planning-again", "converting", "committing", "suspended"])
def test_nothing_is_created_beside_the_stored_objects(moment: str) -> None:
    world = at(moment)
    jobs, maps, phase = children(world), children(world, "configmaps"), world.status()["phase"]

    assert world.settle() == phase
    assert (children(world), children(world, "configmaps")) == (jobs, maps)
    assert world.created() == world.created("configmaps") == 0


@pytest.mark.parametrize("moment", ["planning", "converting", "committing", "suspended"])
def test_a_running_job_finishes_with_one_job_per_step(moment: str) -> None:
    world = at(moment)
    world.edit(suspend=False)
    world.settle()
    for step, end in (("plan", world.planned), ("convert-1", world.converted), ("commit-1", world.committed)):
        if not world.job(step).get("status", {}).get("conditions"):
            end(step)
            world.settle()

    assert world.status()["phase"] == "Succeeded"
    assert children(world) == sorted(f"mnist-0f1e2d-{step}" for step in STEPS)
    assert spec_maps_named(world) == {"mnist-0f1e2d-spec"} <= set(children(world, "configmaps"))


def test_a_child_missing_from_the_watch_is_not_created_again() -> None:
    world = at("planning")
    world.cache.drop(Kind.JOBS, world.job("plan"))

    assert world.settle() == "Planning"
    assert children(world) == ["mnist-0f1e2d-plan"]


def test_a_failed_job_is_retried_under_its_names() -> None:
    world = at("failed")

    assert retry(world) == "Running"
    assert "mnist-0f1e2d-convert-2" in children(world)
    assert spec_maps_named(world) == {"mnist-0f1e2d-spec"}


def test_the_end_of_a_removal_is_seen() -> None:
    world = at("leaving")
    assert world.settle() == "Succeeded"
    assert world.created() == 0
    removed: dict[str, Any] = {"files": 3, "bytes": 10}
    world.pod("cleanup", world.ended(0, RemoveResult.model_validate(removed)))
    world.complete("cleanup")

    assert world.settle() == "gone"


def test_a_finished_job_stays_as_it_is() -> None:
    world = at("succeeded")
    before = world.status()

    assert world.settle() == "Succeeded"
    assert without_summary(world.status()) == before
    assert world.condition("Ready") == ("True", "Completed")


@pytest.mark.parametrize("moment", ["planning", "planning-again", "converting", "committing", "suspended"])
@pytest.mark.parametrize("change", [with_a_key, with_a_password])
def test_a_job_with_a_key_in_a_uri_is_invalid_now_and_never_shows_the_key(moment: str, change: Callable[[str], str]) -> None:
    world = at(moment, changed=change)

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", Reason.INVALID_SPEC)
    expected = (
        "spec.output.uri: a URI can't contain a user, key or password" if change is with_a_key else "the password comes from a Secret"
    )
    assert expected in world.message()
    assert MARK not in seen_by_people(world)


@pytest.mark.parametrize(("moment", "phase"), [("succeeded", "Succeeded"), ("failed", "Failed"), ("leaving", "Succeeded")])
def test_a_finished_job_with_a_key_keeps_its_phase_and_loses_the_key(moment: str, phase: str) -> None:
    world = at(moment, changed=with_a_key)

    assert world.settle() == phase
    assert MARK not in seen_by_people(world)
    assert world.status()["output"]["uri"] == "s3://…@out/mnist"
    assert world.later(60) == phase


def test_a_job_that_reads_from_a_job_with_a_key_is_invalid() -> None:
    world = at("succeeded", changed=with_a_key)
    world.apply("next", source={"fromJob": {"name": "mnist"}}, output={"uri": "s3://out/next"})

    assert world.settle("next") == "Failed"
    assert world.condition("Failed", "next") == ("True", Reason.INVALID_SPEC)
    assert MARK not in json.dumps(world.status("next"))


def test_a_removal_of_an_output_with_a_key_ends() -> None:
    world = at("leaving", changed=with_a_key)
    world.settle()
    world.pod("cleanup", world.ended(0, RemoveResult(files=3, bytes=10)))
    world.complete("cleanup")

    assert world.settle() == "gone"
    assert MARK not in seen_by_people(world)


def test_children_of_a_new_job_have_ten_digits_of_the_uid(world: World) -> None:
    world.apply()
    world.settle()

    uid = world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")]["metadata"]["uid"].replace("-", "")
    assert world.status()["childPrefix"] == f"mnist-{uid[:10]}"
    assert children(world) == [f"mnist-{uid[:10]}-plan"]


def test_a_job_started_by_this_release_keeps_its_names_in_a_retry(world: World) -> None:
    world.running()
    world.fail("convert-1", "FailedIndexes", "Job has failed indexes", failedIndexes="2", completedIndexes="0-1,3")
    world.settle()
    world.restart()

    assert retry(world) == "Running"
    assert world.job("convert-2")["metadata"]["name"].startswith(world.status()["childPrefix"])
    assert world.condition("Failed")[1] == Reason.RETRYING


@pytest.fixture
def world() -> World:
    return World()
