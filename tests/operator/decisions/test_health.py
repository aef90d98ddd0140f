"""Tests of the parts of a status that other tools read: `Ready`, `Stalled`, transition times, `waitingSince` and `observedGeneration`."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.builders.crons import Cron
from tests.operator.world import NAMESPACE, World

from dataprep_api import names


def fail(world: World) -> None:
    world.settle()
    world.fail("plan", "BackoffLimitExceeded")
    world.settle()


def change(world: World, **spec: Any) -> None:
    world.edit(**spec)
    world.settle()


def condition(world: World, kind: str) -> dict[str, str]:
    found: dict[str, str] = next((each for each in world.status()["conditions"] if each["type"] == kind), {})
    return found


PHASES: dict[str, tuple[Callable[[World], object], tuple[str, str], bool]] = {
    "Planning": (World.settle, ("False", "Planning"), False),
    "Suspended": (lambda world: change(world, suspend=True), ("False", "Suspended"), False),
    "Pending": (lambda world: change(world, runAfter=["another"]), ("False", "WaitingForJob"), False),
    "Succeeded": (World.succeed, ("True", "Completed"), False),
    "Failed": (fail, ("False", "BackoffLimitExceeded"), True),
}


@pytest.mark.parametrize("phase", PHASES)
def test_ready_is_true_only_for_a_complete_data_set_and_stalled_only_for_a_failure(world: World, phase: str) -> None:
    reach, ready, stalled = PHASES[phase]
    world.apply()

    reach(world)

    assert world.status()["phase"] == phase
    assert world.condition("Ready") == ready
    assert world.message("Ready") == world.message("Running")
    assert (condition(world, "Stalled").get("status") == "True") is stalled


def test_a_retry_removes_stalled(world: World) -> None:
    world.apply()
    fail(world)
    world.edit(annotations={names.ANNOTATION_RETRY: "1"})
    world.settle()

    assert condition(world, "Stalled") == {}
    assert world.condition("Ready") == ("False", "Planning")


def test_a_changed_reason_keeps_the_transition_time_and_restarts_the_wait(world: World) -> None:
    world.apply(profile="p", runAfter=["another"])
    world.settle()
    began = condition(world, "Running")
    world.later(60)
    assert condition(world, "Running") == began
    assert world.status()["waitingSince"] == began["lastTransitionTime"]
    profile = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepProfile", "metadata": {"name": "p"}, "spec": {}}
    world.cluster.add("dataprepprofiles", NAMESPACE, profile)
    world.later(60)

    assert (began["reason"], condition(world, "Running")["reason"]) == ("ProfileNotFound", "WaitingForJob")
    assert condition(world, "Running")["lastTransitionTime"] == began["lastTransitionTime"]
    assert world.status()["waitingSince"] > began["lastTransitionTime"]


def test_a_wait_that_an_earlier_release_began_goes_on(world: World) -> None:
    world.apply(runAfter=["another"], startDeadlineSeconds=100)
    world.settle()
    world.cluster.change("dataprepjobs", "mnist", {"status": {"waitingSince": None}})
    world.restart()

    assert world.later(99) == "Pending"
    assert world.later(2) == "Failed"


def test_a_job_at_work_waits_for_nothing(world: World) -> None:
    world.apply()
    world.settle()

    assert "waitingSince" not in world.status()


def test_an_edit_after_the_end_is_observed(world: World) -> None:
    world.apply()
    world.succeed()
    before = world.status()
    world.edit(ttlSecondsAfterFinished=86_400)
    world.settle()

    assert (before["observedGeneration"], world.status()["observedGeneration"]) == (1, 2)
    assert condition(world, "Ready") == before["conditions"][0] | {"observedGeneration": 2}
    assert world.status()["completionTime"] == before["completionTime"]


def test_a_job_that_an_earlier_release_finished_gets_the_conditions_with_the_time_of_its_end(world: World) -> None:
    world.apply()
    fail(world)
    final = world.status()
    kept = [each for each in final["conditions"] if each["type"] not in ("Ready", "Stalled")]
    world.cluster.change("dataprepjobs", "mnist", {"status": {"conditions": kept}})
    world.restart()
    world.later(3600)

    assert world.status() == final
    assert condition(world, "Stalled")["lastTransitionTime"] == final["completionTime"]


def test_scale_can_find_the_converter_pods(world: World) -> None:
    world.apply()
    world.settle()
    world.planned()
    world.settle()
    labels = world.job("convert-1")["spec"]["template"]["metadata"]["labels"]

    assert all(labels[key] == value for key, value in (each.split("=") for each in world.status()["selector"].split(",")))


# --- a job that never started may be edited ---------------------------------------------------------------------------------


def test_an_invalid_job_starts_after_its_spec_is_mended(world: World) -> None:
    world.apply(output={"uri": "s3://out/${place}"})
    assert world.settle() == "Failed"
    world.later(60)
    assert world.jobs() == []
    world.edit(output={"uri": "s3://out/mended"})

    assert world.settle() == "Planning"
    assert world.jobs() == ["plan"]
    assert world.condition("Validated") == ("True", "Accepted")
    assert world.condition("Failed") == ("False", "Edited")
    assert condition(world, "Stalled") == {}
    assert world.status()["output"]["uri"] == "s3://out/mended"
    assert "failures" not in world.status()


def test_an_invalid_job_that_is_edited_and_still_invalid_names_the_new_fault(world: World) -> None:
    world.apply(output={"uri": "s3://out/${place}"})
    world.settle()
    world.edit(output={"uri": "s3://out/${other}"})

    assert world.settle() == "Failed"
    assert "${other}" in world.message()
    assert "${other}" in world.message("Ready")


def test_only_an_edit_of_a_frozen_field_validates_a_failed_job_again(world: World) -> None:
    world.apply(output={"uri": "s3://out/${place}"})
    world.settle()
    before = world.status()
    world.later(60)
    change(world, ttlSecondsAfterFinished=86_400, suspend=True, workers={"parallelism": 3})

    assert world.status()["completionTime"] == before["completionTime"]
    assert world.status()["phase"] == "Failed"


def test_a_job_that_an_earlier_release_failed_before_its_start_needs_a_retry(world: World) -> None:
    world.apply(runAfter=["another"], startDeadlineSeconds=1)
    world.settle()
    world.later(2)
    world.cluster.change("dataprepjobs", "mnist", {"status": {"rejectedSpec": None}})
    world.restart()
    change(world, runAfter=None)
    assert world.status()["phase"] == "Failed"

    change(world, annotations={names.ANNOTATION_RETRY: "1"})
    assert world.status()["phase"] == "Planning"


def test_a_deleted_job_is_not_validated_again(world: World) -> None:
    world.apply(output={"uri": "s3://out/${place}"})
    world.settle()
    metadata = {"deletionTimestamp": "2026-01-31T12:00:00Z", "finalizers": ["foregroundDeletion"]}
    world.cluster.change("dataprepjobs", "mnist", {"metadata": metadata, "spec": {"output": {"uri": "s3://out/mended"}}})

    assert world.settle() == "Failed"


def test_the_status_names_the_output_of_the_edited_spec(world: World) -> None:
    world.apply(suspend=True)
    world.settle()
    change(world, output={"uri": "s3://out/another"})
    assert world.status()["output"] == {"uri": "s3://out/another", "files": 0, "records": 0, "bytes": 0}

    change(world, suspend=False)
    assert world.status()["output"]["uri"] == "s3://out/another"


def test_a_second_fault_has_an_event_of_its_own(world: World) -> None:
    world.apply(output={"uri": "s3://out/${place}"})
    world.settle()
    world.cluster.now += timedelta(seconds=1)
    change(world, output={"uri": "s3://out/${other}"})
    messages = [body["message"] for (plural, _, _), body in world.cluster.objects.items() if plural == "events"]

    assert ["${other}" in message for message in messages] == [False, True]


def test_a_job_that_failed_after_its_start_stays_failed_when_it_is_edited(world: World) -> None:
    world.apply()
    fail(world)
    world.edit(workers={"parallelism": 3})

    assert world.settle() == "Failed"


# --- a job of another controller ------------------------------------------------------------------------------------------------


def test_a_job_of_another_controller_is_left_alone(world: World) -> None:
    world.apply(managedBy="kueue.x-k8s.io/multikueue")
    before = len(world.cluster.calls)
    world.look()

    assert world.status() == {}
    assert world.cluster.calls[before:] == []


def test_the_operators_own_name_means_the_operator(world: World) -> None:
    world.apply(managedBy="dataprep.io/operator")

    assert world.settle() == "Planning"


# --- DataPrepCronJobs ---------------------------------------------------------------------------------------------------------


def test_a_cron_with_an_invalid_schedule_is_stalled_until_it_is_mended() -> None:
    cron = Cron(schedule="nonsense")
    cron.at("12:30")
    assert (cron.said("Ready")[0], cron.said("Stalled")[0]) == ("False", "True")
    cron.edit(schedule="*/10 * * * *")
    cron.at("12:40")

    assert cron.said("Ready")[0] == "True"
    assert [each["type"] for each in cron.status["conditions"] if each["type"] == "Stalled"] == []
