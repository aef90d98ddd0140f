"""Tests of the ConfigMap that a finished job provides for training, and of the history of its attempts."""

import json
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, SHA, World, a_failure, retry

from dataprep_api.reasons import Reason
from dataprep_operator.errors import Refused, Unavailable
from dataprep_operator.reconcilers.actuator import ForeignChild

SPLITS = [{"name": "train", "records": 900, "shards": 7, "bytes": 3600}, {"name": "hold-out", "records": 90, "shards": 1, "bytes": 400}]


def ready_to_commit(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed(splits=SPLITS)


def committed(world: World, **changes: Any) -> str:  # Any: fields of CommitResult
    world.running()
    world.converted()
    world.settle()
    world.committed(splits=SPLITS, **changes)
    return world.settle()


def test_a_finished_job_leaves_a_config_map_with_its_name(world: World) -> None:
    assert committed(world) == "Succeeded"
    made = world.cluster.objects[("configmaps", NAMESPACE, "mnist")]

    assert made["immutable"] is True
    assert made["metadata"]["ownerReferences"][0]["name"] == "mnist"
    assert {name: value for name, value in made["data"].items() if name != "dataset.json"} == {
        "DATAPREP_OUTPUT_URI": "s3://out/mnist",
        "DATAPREP_FORMAT": "tfrecord",
        "DATAPREP_RUN_ID": "0123abcd",
        "DATAPREP_MANIFEST_URI": "s3://out/manifest.json",
        "DATAPREP_MANIFEST_SHA256": SHA,
        "DATAPREP_FILES": "8",
        "DATAPREP_RECORDS": "990",
        "DATAPREP_SPLITS": "train,hold-out",
        "DATAPREP_RECORDS_TRAIN": "900",
        "DATAPREP_RECORDS_HOLD_OUT": "90",
    }
    document = json.loads(made["data"]["dataset.json"])
    assert document["output"]["uri"] == "s3://out/mnist"
    assert [split["records"] for split in document["splits"]] == [900, 90]


def test_a_version_is_handed_over_by_the_uri_of_its_own(world: World) -> None:
    world.apply(output={"uri": "s3://out/mnist", "version": "v1"})
    assert world.succeed() == "Succeeded"
    assert world.status()["output"]["uri"] == "s3://out/mnist/v1"
    made = world.cluster.objects[("configmaps", NAMESPACE, "mnist")]
    assert made["data"]["DATAPREP_OUTPUT_URI"] == "s3://out/mnist/v1"


def test_sagemakers_channels_are_handed_over(world: World) -> None:
    prefixes = {"train": "s3://out/mnist/train/", "hold-out": "s3://out/mnist/hold-out/"}
    committed(world, channels={"contentType": "application/x-tfrecord", "compressionType": "None", "prefixes": prefixes})
    made = world.cluster.objects[("configmaps", NAMESPACE, "mnist")]
    assert [channel["DataSource"]["S3DataSource"]["S3Uri"] for channel in json.loads(made["data"]["input_data_config.json"])] == list(
        prefixes.values()
    )


def test_the_folder_of_each_split_is_handed_over_where_it_holds_data_alone(world: World) -> None:
    world.apply(output={"uri": "s3://out/mnist", "format": "fileBatch"})
    world.settle()
    world.committing()
    world.committed(splits=SPLITS[:1])
    assert world.settle() == "Succeeded"
    data = world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"]
    assert data["DATAPREP_FOLDER_TRAIN"] == "s3://out/mnist/train"
    assert json.loads(data["dataset.json"])["folders"] == {"train": "s3://out/mnist/train"}


def test_it_is_there_before_the_job_is_complete(world: World) -> None:
    committed(world)
    made = world.cluster.calls.index(("create", "configmaps", "mnist"))
    statuses = [number for number, call in enumerate(world.cluster.calls) if call[0] == "status"]
    assert made < statuses[-1]


def test_a_map_of_someone_else_is_left_alone_and_told(world: World) -> None:
    world.cluster.add("configmaps", NAMESPACE, {"metadata": {"name": "mnist"}, "data": {"mine": "yes"}})
    assert committed(world) == "Succeeded"
    assert world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"] == {"mine": "yes"}
    assert "NotHandedOver" in world.events()


def test_the_map_of_a_job_that_was_replaced_is_waited_for(world: World) -> None:
    owner = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "name": "mnist", "uid": "uid-before", "controller": True}
    world.cluster.add("configmaps", NAMESPACE, {"metadata": {"name": "mnist", "ownerReferences": [owner]}, "data": {"old": "yes"}})
    world.running()
    world.converted()
    world.settle()
    world.committed()
    with pytest.raises(
        ForeignChild, match="belongs to a deleted DataPrepJob with the same name as this DataPrepJob; waiting until it is deleted too"
    ):
        world.look()
    assert world.status()["phase"] == "Committing"
    world.cluster.remove("configmaps", NAMESPACE, "mnist")

    assert world.settle() == "Succeeded"
    assert "old" not in world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"]


def test_a_refused_map_does_not_fail_the_job_and_the_status_says_so(world: World) -> None:
    ready_to_commit(world)
    world.cluster.refusals[("create", "configmaps")] = Refused("exceeded quota: configmaps=10")
    assert world.settle() == "Succeeded"

    assert world.condition("HandedOver") == ("False", "NotHandedOver")
    assert "exceeded quota: configmaps=10" in world.message("HandedOver")
    assert "NotHandedOver" in world.events()


def test_a_refused_map_is_tried_again_with_longer_pauses_until_it_is_made(world: World) -> None:
    ready_to_commit(world)
    world.cluster.refusals[("create", "configmaps")] = Refused("exceeded quota: configmaps=10")
    world.settle()
    waits = []
    for _ in range(12):
        assert world.wait is not None
        waits.append(world.wait)
        world.later(world.wait)
    assert waits[:4] == pytest.approx([10.5, 10.5, 21.5, 42.5], abs=1.5)
    assert max(waits) == waits[-1] == 600.5
    assert world.events().count("NotHandedOver") == 1

    del world.cluster.refusals[("create", "configmaps")]
    world.restart()
    assert world.later(600) == "Succeeded"
    assert world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"]["DATAPREP_RECORDS"] == "990"
    assert world.condition("HandedOver") == ("", "")
    assert "HandedOver" in world.events()


def test_a_webhook_that_does_not_answer_keeps_no_job_from_being_complete(world: World) -> None:
    ready_to_commit(world)
    message = 'POST /configmaps: HTTP 500: Internal error occurred: failed calling webhook "policy.example": connection refused'
    world.cluster.refusals[("create", "configmaps")] = Unavailable(message)
    assert world.settle() == "Succeeded"
    assert "failed calling webhook" in world.message("HandedOver")


def test_a_server_that_does_not_answer_is_asked_again_before_the_job_is_complete(world: World) -> None:
    ready_to_commit(world)
    world.cluster.refusals[("create", "configmaps")] = Unavailable("no route")
    with pytest.raises(Unavailable):
        world.look()
    assert world.status()["phase"] == "Committing"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_deleted_map_is_made_again(world: World, restarted: bool) -> None:
    committed(world)
    before = world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"]
    world.cluster.remove("configmaps", NAMESPACE, "mnist")
    if restarted:
        world.restart()
    world.settle()
    assert world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"] == before


def test_it_is_looked_after_the_more_seldom_the_longer_the_job_is_finished(world: World) -> None:
    committed(world)
    waits = []
    while world.wait is not None:
        waits.append(world.wait)
        world.later(world.wait)
    assert waits == pytest.approx([60.5, 61, 122, 244, 488, 976, 1952])
    assert world.created("configmaps") == 2


def test_a_map_is_made_again_from_the_spec_of_the_run(world: World) -> None:
    world.cluster.add("dataprepprofiles", NAMESPACE, {"metadata": {"name": "default"}, "spec": {"workers": {"image": "own:1"}}})
    committed(world)
    before = world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"]
    world.edit(output={"uri": "s3://elsewhere"})
    world.cluster.remove("configmaps", NAMESPACE, "mnist")
    world.restart()
    world.settle()
    assert world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"] == before


def test_a_map_is_not_made_from_a_spec_that_holds_no_spec_or_was_edited(world: World) -> None:
    committed(world)
    (kept,) = [name for plural, _, name in world.cluster.objects if plural == "configmaps" and name != "mnist"]
    world.cluster.change("configmaps", kept, {"data": {"job.yaml": "["}})
    world.edit(output={"uri": "s3://elsewhere"})
    world.cluster.remove("configmaps", NAMESPACE, "mnist")
    world.restart()
    world.settle()
    assert f"the ConfigMap {kept} contains no spec in job.yaml" in world.message("HandedOver")

    world.cluster.remove("configmaps", NAMESPACE, kept)
    world.restart()
    world.settle()
    assert "the spec that the run used is gone, and the job's current spec has another output" in world.message("HandedOver")
    assert ("configmaps", NAMESPACE, "mnist") not in world.cluster.objects

    world.edit(output={"uri": world.status()["output"]["uri"]})
    world.later(60)
    assert "DATAPREP_RECORDS" in world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"]


def test_the_map_of_a_deleted_job_is_not_made_again(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.succeed()
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    world.cluster.remove("configmaps", NAMESPACE, "mnist")
    world.settle()
    assert ("configmaps", NAMESPACE, "mnist") not in world.cluster.objects


@pytest.mark.parametrize("replaced", [False, True])
def test_the_map_of_a_job_that_is_gone_unseen_is_not_made_again(world: World, replaced: bool) -> None:
    committed(world)
    world.cluster.watch = lambda *_: None
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    if replaced:
        world.apply()
    world.settle()
    assert ("configmaps", NAMESPACE, "mnist") not in world.cluster.objects


def test_a_map_that_came_into_someone_elses_hands_is_told_and_waited_for(world: World) -> None:
    committed(world)
    world.cluster.remove("configmaps", NAMESPACE, "mnist")
    world.cluster.add("configmaps", NAMESPACE, {"metadata": {"name": "mnist"}, "data": {"mine": "yes"}})
    world.settle()
    assert "already exists and doesn't belong to this DataPrepJob" in world.message("HandedOver")

    world.cluster.remove("configmaps", NAMESPACE, "mnist")
    world.later(60)
    assert "DATAPREP_RECORDS" in world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"]


def test_the_history_keeps_the_last_five_attempts(world: World) -> None:
    world.apply()
    world.settle()
    world.plan_fails(a_failure(Reason.INPUT_NOT_FOUND, "s3://in/images was not found."))
    assert world.settle() == "Failed"
    for attempt in range(2, 8):
        world.cluster.now = world.cluster.now.replace(minute=attempt)
        retry(world, str(attempt))
        world.plan_fails(a_failure(Reason.INPUT_NOT_FOUND, f"still missing, {attempt}"), suffix=f"plan-{attempt}")
        assert world.settle() == "Failed"

    runs = world.status()["runs"]
    assert [run["attempt"] for run in runs] == [7, 6, 5, 4, 3]
    assert [run["message"] for run in runs] == [f"still missing, {attempt}" for attempt in (7, 6, 5, 4, 3)]
    assert runs[0] == {
        "attempt": 7,
        "phase": "Failed",
        "reason": "InputNotFound",
        "message": "still missing, 7",
        "startedAt": "2026-01-31T12:07:00Z",
        "endedAt": "2026-01-31T12:07:00Z",
    }


def test_a_success_ends_the_history(world: World) -> None:
    committed(world)
    run = world.status()["runs"][0]
    assert (run["attempt"], run["phase"], run["reason"], run["runId"]) == (1, "Succeeded", "Completed", "0123abcd")
    assert run["startedAt"] == world.status()["startTime"]


def test_the_status_says_what_the_conversion_waited_for(world: World) -> None:
    committed(world, seconds={"read": 8, "encode": 2})
    assert world.status()["timings"]["bottleneck"] == "source-bound (read 80 %, encode 20 %)"
    assert "readWaitSeconds" not in world.status()["timings"], "of a converter that doesn't say it"


def test_the_status_says_how_long_encoding_waited_for_reading(world: World) -> None:
    committed(world, seconds={"read": 8, "encode": 2, "readWait": 6.25})
    assert world.status()["timings"]["readWaitSeconds"] == 6.25
    assert world.status()["timings"]["bottleneck"] == "source-bound (read 80 %, encode 20 %)"
