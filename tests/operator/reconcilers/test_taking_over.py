"""Tests of an operator that takes over from another operator.

The new operator must send few requests, and must not act on outdated watches.
"""

import copy
import json

import pytest
from tests.operator.world import NAMESPACE, World, a_failure, retry

from dataprep_api import canonical, names
from dataprep_api.reasons import Reason
from dataprep_operator.children import jobs
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.errors import SpecUnreadable
from dataprep_operator.objects.child_jobs import ANNOTATION_SPEC
from dataprep_operator.reconcilers.observer import StatusUnreadable


def asked(world: World) -> list[tuple[str, str]]:
    """Return the read requests that the new operator has sent."""
    return [(verb, plural) for verb, plural, _ in world.cluster.calls if verb in ("get", "list")]


def taken_over(world: World) -> None:
    world.restart()
    world.cluster.calls.clear()
    world.look()


def read_spec(world: World) -> Body:
    [stored] = [body for (plural, _, _), body in world.cluster.objects.items() if plural == "configmaps"]
    return jobs.read_spec(stored)


def test_every_child_has_the_digest_of_the_spec_that_its_pods_get(world: World) -> None:
    world.running()
    world.converted()
    world.settle()

    told = {name: world.job(name)["metadata"]["annotations"][ANNOTATION_SPEC] for name in ("plan", "convert-1", "commit-1")}
    assert set(told.values()) == {canonical.sha256(read_spec(world))}


def test_who_takes_over_asks_for_nothing_of_a_job_that_runs(world: World) -> None:
    world.running()
    taken_over(world)

    assert world.cluster.calls == []
    assert world.status()["phase"] == "Running"


def test_one_with_a_profile_is_no_exception(world: World) -> None:
    world.cluster.add("dataprepprofiles", NAMESPACE, {"metadata": {"name": "default"}, "spec": {"workers": {"image": "own:1"}}})
    world.running()
    taken_over(world)
    assert world.cluster.calls == []

    world.cluster.change("dataprepprofiles", "default", {"spec": {"workers": {"image": "own:2"}}})
    taken_over(world)
    assert asked(world) == [("get", "configmaps")]
    world.converted()
    world.settle()
    assert world.job("commit-1")["spec"]["template"]["spec"]["containers"][0]["image"] == "own:1"


def test_a_job_that_was_edited_is_what_its_config_map_says(world: World) -> None:
    world.running()
    world.edit(allowEmpty=True)
    taken_over(world)

    assert asked(world) == [("get", "configmaps")]
    spec = world.reconciler._observer._frozen_specs[world.cluster.objects["dataprepjobs", NAMESPACE, "mnist"]["metadata"]["uid"]]
    assert "allowEmpty" not in spec


def test_a_job_whose_children_an_older_operator_made_is_what_its_config_map_says(world: World) -> None:
    world.running()
    for name in ("plan", "convert-1"):
        del world.job(name)["metadata"]["annotations"][ANNOTATION_SPEC]
    taken_over(world)

    assert asked(world) == [("get", "configmaps")]


def test_children_that_do_not_agree_are_not_believed(world: World) -> None:
    world.running()
    world.job("plan")["metadata"]["annotations"][ANNOTATION_SPEC] = "0" * 64
    taken_over(world)

    assert asked(world) == [("get", "configmaps")]


def test_the_digest_is_of_the_fields_and_not_of_their_order() -> None:
    one, other = {"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 2]}, "a": 1}
    assert canonical.sha256(one) == canonical.sha256(other) != canonical.sha256({"a": 1})


def test_nothing_is_done_on_the_word_of_a_watch_that_is_behind(world: World) -> None:
    """The previous leader has begun the second attempt, but the standby's watch still shows that the first attempt failed."""
    world.apply()
    world.settle()
    world.plan_fails(a_failure(Reason.STORE_UNREACHABLE, "nn", 4))
    assert world.settle() == "Failed"
    before = copy.deepcopy(world.cluster.objects["dataprepjobs", NAMESPACE, "mnist"])
    retry(world)
    assert world.jobs() == ["plan", "plan-2"]
    now = world.cluster.objects["dataprepjobs", NAMESPACE, "mnist"]
    world.cluster.objects["dataprepjobs", NAMESPACE, "mnist"] = before
    world.restart()
    world.cluster.objects["dataprepjobs", NAMESPACE, "mnist"] = now
    world.cluster.calls.clear()
    world.settle()

    assert asked(world) == [("get", "dataprepjobs")]
    assert not world.job("plan-2")["spec"].get("suspend")
    assert world.status()["attempt"] == 2


@pytest.mark.parametrize("deed", ["its Job is deleted", "its Job is suspended"])
def test_who_takes_over_asks_once_before_it_does_something(world: World, deed: str) -> None:
    world.running()
    name = world.job("convert-1")["metadata"]["name"]
    if deed == "its Job is suspended":
        asked = {"metadata": {"annotations": {"dataprep.io/suspend": "true"}}, "spec": {"suspend": True}}
        world.cluster.change("jobs", name, asked)
    else:
        world.cluster.remove("jobs", NAMESPACE, name)
    world.restart()
    world.cluster.calls.clear()
    world.settle()
    world.settle()

    assert world.cluster.calls.count(("get", "dataprepjobs", "mnist")) == 1
    assert not world.job("convert-1")["spec"].get("suspend")
    assert json.dumps(world.status()).count("Failed") == 0
    assert world.job("convert-1")["metadata"]["labels"][names.LABEL_JOB] == "mnist"


def test_a_status_that_a_newer_operator_has_written_is_read_without_what_it_added(world: World) -> None:
    world.running()
    status = world.status()
    status |= {"aNewField": {"x": 1}, "progress": status["progress"] | {"aNewCount": 7}}
    world.restart()
    world.converted()
    world.settle()
    world.committed()

    assert world.settle() == "Succeeded"
    assert "aNewField" not in world.status()


def test_a_condition_that_a_newer_operator_has_added_is_kept_and_passed_over(world: World) -> None:
    world.running()
    added = {"type": "ANewType", "status": "True", "reason": "ANewReason", "message": "m", "lastTransitionTime": "2026-01-31T12:00:00Z"}
    world.status()["conditions"].append(added)
    world.restart()
    world.converted()
    world.settle()
    world.committed()

    assert world.settle() == "Succeeded"
    assert world.status()["conditions"][-1]["type"] == "ANewType"


def test_a_config_map_that_holds_no_spec_is_named(world: World) -> None:
    world.running()
    (name,) = [name for plural, _, name in world.cluster.objects if plural == "configmaps"]
    world.cluster.change("configmaps", name, {"data": {"job.yaml": "["}})
    world.edit(output={"uri": "s3://elsewhere"})
    world.restart()

    with pytest.raises(
        SpecUnreadable,
        match=f"the ConfigMap {name} contains no spec in job.yaml; delete the ConfigMap, so that the operator can recreate it",
    ):
        world.look()


def test_a_status_that_a_newer_operator_means_otherwise_is_left_alone(world: World) -> None:
    world.running()
    world.status()["step"] = "ANewStep"
    world.restart()
    world.cluster.calls.clear()

    with pytest.raises(StatusUnreadable, match="the stored status can't be read: .*step"):
        world.look()
    assert world.cluster.calls == []
