"""Tests of jobs in a queue whose input is scanned by several pods."""

from dataclasses import replace
from typing import Any

import pytest
from tests.operator.decisions.queues import active, admit, change, evict, pod_of, queued, run, stopped
from tests.operator.world import NAMESPACE, World

from dataprep_api import names
from dataprep_operator.objects import owners
from dataprep_operator.objects.child_jobs import QUEUE_LABEL


@pytest.fixture
def world() -> World:
    return World(kueue=True)


def scanning(world: World, **spec: Any) -> None:  # Any: fields of the spec
    """Bring a queued job to the scan of its input, which has four parts."""
    queued(world, **spec)
    admit(world)
    world.scan_requested()
    assert world.settle() == "Planning"


def test_a_scan_runs_within_the_quota_where_the_queue_admits_it(world: World) -> None:
    scanning(world, workers={"parallelism": 3})
    assert {"name": names.MAY_SCAN, "value": "true"} in pod_of(world, "plan")["containers"][0]["env"]
    job = world.job("scan-1")
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (2, 4), "the queue has admitted two pods"
    assert not job["spec"]["suspend"]
    assert pod_of(world, "scan-1")["nodeSelector"] == {"pool": "spot"}
    assert not any("kueue" in key for key in job["metadata"]["labels"])
    assert owners.controller(job)["uid"] == world.job("queue-1")["metadata"]["uid"]

    world.scanned()
    assert world.settle() == "Planning"
    assert owners.controller(world.job("merge-1"))["uid"] == world.job("queue-1")["metadata"]["uid"]
    world.planned("merge-1")
    assert world.settle() == "Running"
    assert active(world) == 2


@pytest.mark.parametrize("suffix", ["scan-1", "merge-1"])
def test_a_preempted_scan_stops_and_goes_on_when_it_is_admitted_again(world: World, suffix: str) -> None:
    scanning(world)
    if suffix == "merge-1":
        world.scanned()
        world.settle()
    run(world, suffix)
    assert evict(world) == "Queued"
    assert world.job(suffix)["spec"]["suspend"] is True
    assert active(world) == 2
    stopped(world, suffix)
    assert active(world) == 0

    assert admit(world) == "Planning"
    assert world.job(suffix)["spec"]["suspend"] is False


def test_a_scan_that_is_admitted_to_other_nodes_is_made_again_there(world: World) -> None:
    scanning(world)
    evict(world)
    admit(world, template={"nodeSelector": {"pool": "on-demand"}})

    assert world.later(6) == "Planning"
    assert pod_of(world, "scan-1")["nodeSelector"] == {"pool": "on-demand"}


def test_a_scan_that_leaves_the_queue_while_it_is_suspended_keeps_its_progress(world: World) -> None:
    scanning(world)
    change(world, "scan-1", {"status": {"completedIndexes": "0-2"}})
    world.later(10)
    assert world.status()["progress"]["summary"] == "3/4"
    world.edit(suspend=True)
    world.settle()
    world.edit(suspend=False)
    world.later(6)
    admit(world)

    assert world.later(10) == "Planning"
    assert "completedIndexes" not in world.job("scan-1").get("status", {}), "it is another Job"
    assert world.status()["progress"]["summary"] == "3/4", "the parts are in the store"


def test_a_scan_that_was_allowed_runs_without_kueue_enabled_like_a_conversion(world: World) -> None:
    queued(world)
    admit(world)
    world.settings = replace(world.settings, kueue=False)
    world.restart()
    assert world.settle() == "Planning"
    world.scan_requested()

    assert world.settle() == "Queued"
    assert world.job("scan-1")["metadata"]["labels"][QUEUE_LABEL] == "research"
    change(world, "scan-1", {"spec": {"suspend": False}})
    assert world.settle() == "Planning"
    world.scanned()
    assert world.settle() == "Planning"
    world.planned("merge-1")
    assert world.settle() == "Queued", "the convert Job waits"


def test_the_scan_of_a_job_with_gpus_stays_off_their_nodes(world: World) -> None:
    scanning(world, workers={"parallelism": 2, "accelerator": {"policy": "Required", "count": 1}})

    assert "spot" not in str(pod_of(world, "scan-1").get("nodeSelector"))
    assert "nvidia.com/gpu" not in str(pod_of(world, "scan-1")["containers"][0]["resources"])


def test_a_job_that_enters_a_queue_while_it_is_scanned_waits_there(world: World) -> None:
    world.scanning()
    world.cluster.change("dataprepjobs", "mnist", {"metadata": {"labels": {QUEUE_LABEL: "research"}}})
    world.cluster.remove("jobs", NAMESPACE, world.job("scan-1")["metadata"]["name"])
    world.settle()

    assert world.later(6) == "Queued"
    assert world.job("scan-1")["metadata"]["labels"][QUEUE_LABEL] == "research"
    assert world.job("scan-1")["spec"]["suspend"] is True
