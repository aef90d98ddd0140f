"""Tests of which watch events trigger a reconcile.

Many events don't, because they change no field that the operator reads, or because the operator's own writes caused them.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.builders.watched import child_object, job_object
from tests.operator.world import World

from dataprep_api import names
from dataprep_operator.informer import handlers
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects.observed import Key

KEY = Key("n", "a")


def concerned(cache: Cache, kind: Kind, event: str, raw: Any) -> list[Key]:  # Any: an object's JSON
    found: list[Key] = []
    handlers._handle(
        kind,
        {"type": event, "object": raw},
        cache=cache,
        streams=SimpleNamespace(mark_cached=lambda *_: None),  # type: ignore[arg-type]  # only this method is called
        enqueue=lambda key, _: found.append(key),
    )
    return found


def a_pod(version: str, **status: Any) -> Any:  # Any: the API's JSON
    owner = {"kind": "Job", "name": "job-1", "uid": "job-1", "controller": True}
    labels = {names.LABEL_STEP: "convert", names.LABEL_JOB_UID: "uid-a"}
    metadata = {"name": "p", "namespace": "n", "uid": "p", "resourceVersion": version, "ownerReferences": [owner], "labels": labels}
    return {"metadata": metadata, "status": {"phase": "Running", **status}}


def at(version: str, raw: Any, **status: Any) -> Any:  # Any: as above
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": version}, "status": status}


def test_a_child_is_looked_at_for_what_is_read_of_it() -> None:
    cache, child = Cache(), child_object()
    assert concerned(cache, Kind.JOBS, "ADDED", child) == [KEY]
    assert concerned(cache, Kind.JOBS, "MODIFIED", at("2", child, active=1)) == [KEY]

    assert concerned(cache, Kind.JOBS, "MODIFIED", at("3", child, active=1, ready=1, uncountedTerminatedPods={})) == []

    assert concerned(cache, Kind.JOBS, "MODIFIED", at("4", child, active=0)) == [KEY]
    assert concerned(cache, Kind.JOBS, "DELETED", at("5", child, active=0)) == [KEY]


def test_a_pod_is_looked_at_for_what_is_read_of_it() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, job_object())
    assert concerned(cache, Kind.PODS, "ADDED", a_pod("1")) == [KEY]

    assert concerned(cache, Kind.PODS, "MODIFIED", a_pod("2", conditions=[{"type": "Ready", "status": "True"}])) == []

    assert cache.pods_of("n", "job-1")[0].version == "2"
    assert concerned(cache, Kind.PODS, "MODIFIED", a_pod("3", phase="Failed")) == [KEY]


@pytest.mark.parametrize("event", ["ADDED", None], ids=["made", "listed again"])
def test_who_is_listed_is_looked_at(event: Any) -> None:
    """The event for an added or listed object triggers a reconcile even if the cache already has the object.

    This matters after a watch has been interrupted. It also matters for a child that is already in the cache because the operator created
    it.
    """
    cache, child = Cache(), child_object()
    cache.put(Kind.JOBS, child)

    assert concerned(cache, Kind.JOBS, event, child) == [KEY]


def test_a_status_of_our_own_is_no_news_but_to_those_who_wait_for_it() -> None:
    cache = Cache()
    waiting = job_object("b", uid="uid-b")
    waiting["spec"] = {"runAfter": ["a"]}
    cache.put(Kind.DATAPREPJOBS, job_object())
    cache.put(Kind.DATAPREPJOBS, waiting)
    written = job_object(version="9", status={"phase": "Succeeded"})
    cache.put_status_response(written)

    assert concerned(cache, Kind.DATAPREPJOBS, "MODIFIED", written) == [Key("n", "b")]
    assert concerned(cache, Kind.DATAPREPJOBS, "MODIFIED", job_object(version="10", status={"phase": "Succeeded"})) == [KEY, Key("n", "b")]


def test_what_was_read_past_the_watch_is_still_news() -> None:
    """The event triggers a reconcile, even though the cache already has this version of the job.

    The operator had read the job directly, because another job depends on it.
    """
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, job_object())
    edited = job_object(version="9")
    cache.put(Kind.DATAPREPJOBS, edited)

    assert concerned(cache, Kind.DATAPREPJOBS, "MODIFIED", edited) == [KEY]


def test_a_look_leaves_nothing_for_the_echo_of_its_status(world: World) -> None:
    """A status write's own watch event triggers no reconcile. So once a reconcile has written the status, nothing must be left to do."""

    for step in (world.apply, world.planned, world.converted, world.committed):
        step()
        world.look()
        before = world.cluster._version
        world.look()
        assert world.cluster._version == before

    assert world.status()["phase"] == "Succeeded"


def test_what_is_kept_of_an_object_is_what_somebody_reads() -> None:
    cache, raw, copy_of_it = Cache(), job_object(), "kubectl.kubernetes.io/last-applied-configuration"
    raw["metadata"] |= {"managedFields": [{}], "annotations": {copy_of_it: "{}", names.ANNOTATION_RETRY: "1"}}

    cache.put_status_response(raw)

    kept = cache.job(KEY)
    assert kept is not None
    assert "managedFields" not in kept["metadata"]
    assert kept["metadata"]["annotations"] == {names.ANNOTATION_RETRY: "1"}
    assert copy_of_it in raw["metadata"]["annotations"]  # the original object belongs to kopf and must not change


@pytest.mark.parametrize(
    ("step", "is_immediate"), [("plan", True), ("scan", False), ("merge", True), ("convert", False), ("commit", False)]
)
def test_the_end_of_a_pod_that_plans_is_looked_at_immediately(step: str, *, is_immediate: bool) -> None:
    pod = a_pod("1", phase="Succeeded")
    pod["metadata"]["labels"][names.LABEL_STEP] = step

    assert handlers._ends_the_plan(pod) is is_immediate
