"""A job starts with its spec as stored in the API server, not as delivered by the watch.

A watch that was opened before the CustomResourceDefinition was upgraded omits the new fields.
"""

import copy
import json
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, World, a_failure, retry

from dataprep_api import names
from dataprep_api.reasons import Reason
from dataprep_operator.children.pod_template import JOB_FILE
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.errors import Unavailable

ASKED = ("get", "dataprepjobs", "mnist")


def pruned(world: World, field: str) -> None:
    """Make the watch omit this field of the spec."""

    def event(plural: str, body: Body, gone: bool) -> None:
        told = copy.deepcopy(body)
        if plural == "dataprepjobs":
            told["spec"].pop(field, None)
        world._event(plural, told, gone)

    world.cluster.watch = event


def test_a_job_with_a_field_that_the_watch_leaves_out_waits(world: World) -> None:
    pruned(world, "ofANewerRelease")
    world.apply(ofANewerRelease="yes")

    assert world.settle() == "Pending"
    assert world.condition("Running") == ("False", "OperatorOutdated")
    assert "doesn't support spec.ofANewerRelease" in world.message("Running")
    assert (world.jobs(), world.created("configmaps")) == ([], 0)
    for _ in range(3):
        assert world.later(300) == "Pending"


@pytest.mark.parametrize(
    ("field", "value", "phase"),
    [("suspend", True, "Suspended"), ("profile", "team", "Pending"), ("runAfter", ["first"], "Pending")],
)
def test_a_start_is_decided_by_the_field(world: World, field: str, value: Any, phase: str) -> None:  # Any, because fields have many types
    pruned(world, field)
    world.apply(**{field: value})

    assert world.settle() == phase
    assert world.jobs() == []


def test_a_failure_is_decided_by_the_field(world: World) -> None:
    """The watch omits `output`. Without this field, the job would be invalid, and its failure would be final."""
    pruned(world, "output")
    world.apply()

    assert world.settle() == "Planning"
    assert world.jobs() == ["plan"]


def test_what_it_begins_with_is_what_the_pods_get(world: World) -> None:
    pruned(world, "allowEmpty")
    world.apply(allowEmpty=True)
    world.settle()

    [config_map] = [body for (plural, _, _), body in world.cluster.objects.items() if plural == "configmaps"]
    assert json.loads(config_map["data"][JOB_FILE])["spec"]["allowEmpty"] is True


def test_a_job_is_asked_for_once(world: World) -> None:
    world.running()
    world.restart()
    world.converted()
    world.settle()
    world.committed()
    assert world.settle() == "Succeeded"
    for _ in range(3):
        world.later(300)

    assert world.cluster.calls.count(ASKED) == 1
    # The limit for a complete job is 30 requests, including those for its progress and for problems with its pods.
    assert len(world.cluster.calls) <= 20


def test_a_retry_goes_by_what_it_began_with_and_asks_for_nothing(world: World) -> None:
    world.apply()
    world.settle()
    world.plan_fails(a_failure(Reason.INPUT_NOT_FOUND, "s3://in/images: not found"))
    assert world.settle() == "Failed"
    retry(world)

    assert world.cluster.calls.count(ASKED) == 1


def test_a_job_that_is_gone_meanwhile_is_left_alone(world: World) -> None:
    world.apply()
    world.cluster.watch = lambda *_: None
    world.cluster.remove("dataprepjobs", NAMESPACE, "mnist")

    assert world.settle() == "gone"
    assert [call for call in world.cluster.calls if call[0] in ("create", "status")] == []


def test_a_job_that_was_made_again_meanwhile_is_begun_as_the_new_one(world: World) -> None:
    world.apply()
    world.cluster.watch = lambda *_: None
    world.cluster.remove("dataprepjobs", NAMESPACE, "mnist")
    world.apply(suspend=True)

    assert world.settle() == "Suspended"
    assert world.jobs() == []


def test_no_child_is_made_while_the_job_can_t_be_read(world: World) -> None:
    world.apply()
    world.cluster.refusals[("get", "dataprepjobs")] = Unavailable("503")
    world.settle()
    assert (world.status(), world.jobs()) == ({}, [])

    world.cluster.refusals.clear()
    assert world.settle() == "Planning"


def test_an_operator_that_died_between_status_and_child_asks_again(world: World) -> None:
    world.cluster.refusals[("create", "configmaps")] = Unavailable("503")
    world.apply()
    world.settle()
    assert (world.status()["phase"], world.jobs()) == ("Planning", [])
    world.cluster.refusals.clear()
    world.restart()
    before = world.cluster.calls.count(ASKED)

    assert world.settle() == "Planning"
    assert world.cluster.calls.count(ASKED) == before + 1
    assert world.job("plan")["metadata"]["labels"][names.LABEL_JOB] == "mnist"
