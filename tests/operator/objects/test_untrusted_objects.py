"""Reconciles objects with arbitrary changes. Each reconcile must result in a status, or in an OperatorError, which is retried."""

import asyncio
import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.crons import KEY, Cron
from tests.builders.examples import examples
from tests.builders.foreign import VALUES, places
from tests.operator.world import NAMESPACE, START, World

from dataprep_operator.cluster.kueue import Kueue
from dataprep_operator.cluster.warning_events import WarningEvents
from dataprep_operator.errors import OperatorError
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.observed import Key

Body = dict[str, Any]  # the API's JSON


_SERVERS = ("creationTimestamp", "deletionTimestamp", "resourceVersion", "generation", "ownerReferences")
"""Fields that the API server sets or validates."""


def changed(body: Body, data: st.DataObject) -> Body:
    """Return the object with some of its values replaced by random values."""
    raw = copy.deepcopy(body)
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from([each for each in places(raw) if each[:1] != ("metadata",) or each[1] not in _SERVERS]))
        place: Any = raw  # JSON
        for step in path:
            place = place[step]
        place[last] = data.draw(VALUES)
    return raw


def a_world() -> World:
    """Return a World with jobs at several steps, a job that waits for another, a profile, and a queue."""
    world = World(kueue=True)
    world.cluster.add(
        "dataprepprofiles",
        NAMESPACE,
        {"metadata": {"name": "default"}, "spec": {"workers": {"image": "own:1"}, "stores": [{"uriPrefix": "s3://", "region": "r"}]}},
    )
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    world.apply(labels=labels, cleanup=[{"when": "Failed", "action": "DeletePods"}], retry={"memoryGrowth": 2, "maxMemory": "3Gi"})
    world.settle()
    world.cluster.change("jobs", world.job("queue-1")["metadata"]["name"], {"spec": {"suspend": False}})  # as Kueue does
    world.settle()
    world.planned()
    world.settle()
    world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    world.pod("convert-1", world.ended(137, reason="OOMKilled"), index=1)
    world.pod("convert-1", world.unschedulable("0/3 nodes are available"), index=2)
    world.settle()
    world.apply("later", source={"fromJob": {"name": "mnist"}}, output={"uri": "s3://out/later"})
    world.apply("rival", output={"uri": "s3://out/mnist"})
    for name in ("later", "rival"):
        world.settle(name)
    return world


KINDS = ["dataprepjobs", "jobs", "pods", "dataprepprofiles", "configmaps"]


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(75), deadline=None)
def test_no_object_lets_a_look_end_in_an_error_that_was_not_foreseen(data: st.DataObject) -> None:
    world = a_world()
    places_of = sorted(place for place in world.cluster.objects if place[0] in KINDS)
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from(places_of))
        world.cluster.objects[place] = changed(world.cluster.objects[place], data)
    world.restart()
    if data.draw(st.booleans()):
        world.cluster.now = world.cluster.now.replace(hour=23)

    for name in ("mnist", "later", "rival"):
        for _ in range(2):
            with contextlib.suppress(OperatorError):
                asyncio.run(world.reconciler.reconcile(Key(NAMESPACE, name)))


WORKLOAD = {
    "metadata": {"name": "job-convert", "namespace": NAMESPACE, "uid": "w", "labels": {"kueue.x-k8s.io/job-uid": "j"}},
    "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "no room"}, {"type": "Evicted", "message": "m"}]},
}
PENDING = {"items": [{"metadata": {"name": "job-convert"}, "positionInLocalQueue": 3}]}


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_no_workload_and_no_queue_stops_a_look(data: st.DataObject) -> None:
    class Queues:
        async def list(self, *_: Any, **__: Any) -> list[Any]:
            return [changed(WORKLOAD, data)] if data.draw(st.booleans()) else [WORKLOAD]

        async def document(self, _: str) -> Any:
            return changed(PENDING, data)

    cluster: Any = Queues()
    child = Child("c", NAMESPACE, "j", "o", "mnist", "convert", 1)
    found = asyncio.run(Kueue(cluster).admission(child, queue="q", now=START))

    assert found is None or (isinstance(found.message, str) and (found.position is None or type(found.position) is int))


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(75), deadline=None)
def test_no_schedule_and_none_of_its_jobs_lets_a_look_end_in_an_error_that_was_not_foreseen(data: st.DataObject) -> None:
    cron = Cron(concurrencyPolicy=data.draw(st.sampled_from(["Allow", "Forbid", "Replace"])), startingDeadlineSeconds=600)
    cron.at("12:10")
    cron.end("12:10")
    cron.at("12:20")
    world = cron.world
    places_of = sorted(place for place in world.cluster.objects if place[0] in ("dataprepcronjobs", "dataprepjobs"))
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from(places_of))
        world.cluster.objects[place] = changed(world.cluster.objects[place], data)
    world.restart()
    world.cluster.now = world.cluster.now.replace(minute=31)

    for _ in range(2):
        with contextlib.suppress(OperatorError):
            asyncio.run(world.crons.reconcile(KEY))


EVENT = {
    "metadata": {"name": "e", "namespace": NAMESPACE, "uid": "e", "creationTimestamp": "2026-01-31T12:00:00Z"},
    "involvedObject": {"uid": "p"},
    "type": "Warning",
    "reason": "FailedMount",
    "message": "m",
    "lastTimestamp": "2026-01-31T12:00:00Z",
}


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_no_event_stops_who_looks_for_one(data: st.DataObject) -> None:
    class Events:
        async def list(self, *_: Any, **__: Any) -> list[Any]:
            return [EVENT, changed(EVENT, data), changed(EVENT, data)]

    cluster: Any = Events()
    assert EVENT in asyncio.run(WarningEvents(cluster).about(NAMESPACE, "p", now=World().cluster.now))
