"""Tests that the operator never deletes, overwrites or forgets an object because the state that it has observed is stale.

In each test, the watch is late, or delivers an event in the middle of a request. The tests use the `World` of `world.py`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kopf._cogs.clients import watching
from tests.builders.crons import Cron, named
from tests.builders.removals import finalizers, succeeded
from tests.builders.watched import child_object, job_object
from tests.operator.world import NAMESPACE, World, a_failure

from dataprep_api import CRON_KIND, names
from dataprep_api.reasons import Reason
from dataprep_operator import __main__ as program
from dataprep_operator.cluster.cluster import DATAPREPJOBS, PODS, KubernetesCluster
from dataprep_operator.decisions.action_kinds import DeleteSelf, FailPod, SetFinalizer
from dataprep_operator.errors import Conflict, NotFound, Unavailable
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.informer.streams import Streams
from dataprep_operator.leadership.election import LeaderElector
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key
from dataprep_operator.settings import Settings

KEY = Key(NAMESPACE, "mnist")


def deaf(world: World) -> None:
    """Make the watch deliver no more events."""
    world.cluster.watch = lambda *_: None


def uid_of(world: World, plural: str = "dataprepjobs", name: str = "mnist") -> str:
    return str(world.cluster.objects[(plural, NAMESPACE, name)]["metadata"]["uid"])


# --- deletions ------------------------------------------------------------------------------------------------------------------


def test_a_job_that_was_asked_to_try_again_is_not_removed_when_its_time_is_over(world: World) -> None:
    world.apply(ttlSecondsAfterFinished=60)
    world.settle()
    world.plan_fails(a_failure(Reason.STORE_UNREACHABLE, "nn", 4))
    assert world.settle() == "Failed"
    deaf(world)
    world.edit(annotations={names.ANNOTATION_RETRY: "1"})
    world.cluster.now += timedelta(seconds=61)

    with pytest.raises(Conflict):
        world.look()
    world.look()

    assert world.status()["attempt"] == 2


def test_a_job_goes_in_the_look_that_finds_it_complete(world: World) -> None:
    """The job's status is written first, which changes the job's resourceVersion. The test checks that this change doesn't prevent the
    job's deletion."""
    world.apply(ttlSecondsAfterFinished=0)
    world.settle()
    world.plan_fails(a_failure(Reason.STORE_UNREACHABLE, "nn", 4))

    assert world.settle() == "gone"
    assert [call for call in world.cluster.calls if call[:2] == ("delete", "dataprepjobs")] == [("delete", "dataprepjobs", "mnist")]


def test_a_failed_job_of_the_history_that_is_tried_again_stays() -> None:
    cron = Cron(failedJobsHistoryLimit=1)
    cron.at("12:10")
    cron.end("12:10", "Failed")
    cron.at("12:20")
    world = cron.world
    world.cluster.change("dataprepjobs", named("12:20"), {"status": {"phase": "Failed", "completionTime": times.text(world.cluster.now)}})
    deaf(world)
    world.cluster.change("dataprepjobs", named("12:10"), {"status": {"phase": "Running", "completionTime": None}})

    with pytest.raises(Conflict):
        cron.look()
    cron.settle()

    assert cron.jobs() == ["12:10", "12:20"]


def test_a_job_that_has_succeeded_is_not_replaced_as_if_it_ran() -> None:
    cron = Cron(concurrencyPolicy="Replace")
    cron.at("12:10")
    deaf(cron.world)
    done = {"phase": "Succeeded", "completionTime": times.text(cron.world.cluster.now)}
    cron.world.cluster.change("dataprepjobs", named("12:10"), {"status": done})

    assert cron.at("12:20") == ["12:10", "12:20"]


def sent_by(work: Callable[[KubernetesCluster], Coroutine[Any, Any, None]], *, status: int, content: bytes) -> list[Any]:
    """Run `work` against an API server that gives this response to every request, and return the request bodies."""
    bodies = []

    class Client:
        async def param_serialize(self, *_: object, body: object, **__: object) -> tuple[object]:
            bodies.append(body)
            return (body,)

        async def call_api(self, *_: object, **__: object) -> SimpleNamespace:
            async def read() -> bytes:
                return content

            return SimpleNamespace(status=status, headers={}, read=read)

    asyncio.run(work(KubernetesCluster(Client(), qps=100, burst=100)))  # type: ignore[arg-type]  # a fake with the methods that are called
    return bodies


def test_a_deletion_names_the_version_that_it_means() -> None:
    async def deletes(cluster: KubernetesCluster) -> None:
        await cluster.delete(PODS, "n", "p", uid="u")
        with pytest.raises(Conflict, match="modified"):
            await cluster.delete(DATAPREPJOBS, "n", "j", uid="u", resource_version="7")

    bodies = sent_by(deletes, status=409, content=b'{"reason": "Conflict", "message": "modified"}')

    assert [body["preconditions"] for body in bodies] == [{"uid": "u"}, {"uid": "u", "resourceVersion": "7"}]


# --- writes ----------------------------------------------------------------------------------------------------------------------


def test_a_pod_that_has_ended_after_all_is_not_declared_failed(world: World) -> None:
    world.running()
    due = times.text(world.cluster.now + timedelta(seconds=30))
    pod = world.pod("convert-1", world.scheduled(phase="Running"), index=0, metadata={"deletionTimestamp": due})
    world.settle()
    deaf(world)
    world.cluster.change("pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}})
    world.cluster.now += timedelta(seconds=120)

    with pytest.raises(Conflict):
        world.look()

    assert world.cluster.objects[("pods", NAMESPACE, pod["metadata"]["name"])]["status"]["phase"] == "Succeeded"


def test_the_finalizer_is_not_taken_away_by_what_the_policy_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy is changed to Retain.

    While the reconcile for Retain waits for a response, the policy is changed back to Delete. The test checks that the output is removed.
    """
    succeeded(world)
    world.edit(deletionPolicy="Retain")
    listing = world.cluster.list

    async def after_an_edit(*place: Any, **chosen: Any) -> Any:  # Any: a resource, names, and objects' JSON
        monkeypatch.undo()
        world.edit(deletionPolicy="Delete")
        return await listing(*place, **chosen)

    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    monkeypatch.setattr(world.cluster, "list", after_an_edit)
    with pytest.raises(Conflict):
        world.look()
    world.settle()

    assert finalizers(world) == [names.FINALIZER]
    assert "cleanup" in world.jobs()


@pytest.mark.parametrize("action", [SetFinalizer(on=True), DeleteSelf()], ids=["finalizer", "removal"])
def test_what_changes_the_job_itself_needs_the_version_that_was_looked_at(world: World, action: SetFinalizer | DeleteSelf) -> None:
    world.apply()
    world.settle()
    seen = asyncio.run(world.reconciler._observer.observe(KEY, now=world.cluster.now))
    assert seen is not None
    older = replace(seen, version=str(int(seen.version) - 1))

    with pytest.raises(Conflict):
        asyncio.run(world.reconciler._actuator.perform(action, observed=older, status=seen.status))

    assert finalizers(world) == []


def test_a_pod_is_given_up_under_the_version_that_was_looked_at(world: World) -> None:
    world.running()
    pod = world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    seen = asyncio.run(world.reconciler._observer.observe(KEY, now=world.cluster.now))
    assert seen is not None
    [of_convert] = [each for own in seen.pods.values() for each in own if each.name == pod["metadata"]["name"]]
    assert of_convert.version == pod["metadata"]["resourceVersion"]
    world.pod("convert-1", world.ended(0), index=0)

    with pytest.raises(Conflict):
        asyncio.run(world.reconciler._actuator.perform(FailPod(of_convert), observed=seen, status=seen.status))


@pytest.mark.parametrize("known", [[], [0]], ids=["no pod", "another pod"])
def test_a_job_fails_for_what_its_pod_said_although_the_watch_of_the_pods_is_late(world: World, known: list[int]) -> None:
    world.running()
    for index in known:
        world.pod("convert-1", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "nn", 4)), index=index)
        world.settle()
    told, world.cluster.watch = world.cluster.watch, lambda kind, *rest: None if kind == "pods" else told(kind, *rest)
    pod = world.pod("convert-1", world.ended(5, a_failure(Reason.INPUT_NOT_FOUND, "hdfs://nn/missing", 5)), index=1)
    world.fail("convert-1", "PodFailurePolicy", f"Container dataprep for pod {NAMESPACE}/{pod['metadata']['name']} failed with exit code 5")

    assert world.settle() == "Failed"

    assert world.condition("Failed") == ("True", "InputNotFound")
    assert "hdfs://nn/missing" in world.message()


# --- the contents of the cache ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["its own", "a rival's"])
def test_a_successor_that_comes_while_its_predecessor_is_looked_for_is_not_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """The API server responds that the job is gone. Before the response arrives, the watch delivers a new job with the same name."""
    world.apply("first", suspend=True)
    world.apply(suspend=True)
    gone = "mnist" if whose == "its own" else "first"
    get = world.cluster.get

    async def gone_and_back(*place: Any) -> Any:  # Any: a resource, names, and an object's JSON
        if place[2] != gone:
            return await get(*place)
        monkeypatch.undo()
        world.cluster.remove("dataprepjobs", NAMESPACE, gone)
        world.apply(gone, suspend=True)
        raise NotFound("gone")

    world.settle("first")
    if whose == "its own":
        world.cluster.remove("dataprepjobs", NAMESPACE, "first")
        world.cluster.refusals[("status", "dataprepjobs")] = NotFound("gone")
        monkeypatch.setattr(world.cluster, "get", gone_and_back)
        with pytest.raises(NotFound):
            world.look()
    else:
        monkeypatch.setattr(world.cluster, "get", gone_and_back)
        world.look()

    known = world.cache.job(Key(NAMESPACE, gone))
    assert known is not None
    assert known["metadata"]["uid"] == uid_of(world, name=gone)


def test_an_answer_that_comes_after_the_news_of_the_end_brings_nothing_back(world: World) -> None:
    """If somebody deletes the convert Job while it is being rescaled, the Job is created again."""
    world.running()
    world.edit(workers={"parallelism": 4})
    before = world.job("convert-1")["metadata"]
    patch = world.cluster.patch

    async def then_deleted(*place: Any, **rest: Any) -> Any:  # Any: a resource, names, and an object's JSON
        answer = await patch(*place, **rest)
        if place[2] == before["name"]:
            world.cluster.remove("jobs", NAMESPACE, before["name"])
        return answer

    world.cluster.patch = then_deleted  # type: ignore[method-assign]  # replaced for this test
    world.look()
    world.cluster.patch = patch  # type: ignore[method-assign]  # restored
    world.settle()
    world.later(6)

    assert world.job("convert-1")["metadata"]["uid"] != before["uid"]


def test_a_child_that_somebody_deleted_is_made_again_when_the_job_controller_has_forgotten_it(world: World) -> None:
    """The Job controller counts expected pods by the Job's name. A new Job that gets the same name too soon has no pods for minutes."""
    world.running()
    before = world.job("convert-1")["metadata"]
    world.cluster.remove("jobs", NAMESPACE, before["name"])

    assert world.settle() == "Running"
    assert world.jobs() == ["plan"]
    assert world.wait == pytest.approx(5.5)
    assert world.later(4.9) == "Running"
    assert world.jobs() == ["plan"]
    assert world.wait == pytest.approx(0.6)
    assert world.later(0.1) == "Running"
    assert world.job("convert-1")["metadata"]["uid"] != before["uid"]
    world.cluster.remove("jobs", NAMESPACE, before["name"])
    world.settle()
    assert world.jobs() == ["plan"], "recreated too early the second time"


def test_an_operator_that_takes_over_makes_a_missing_child_at_once(world: World) -> None:
    world.running()
    world.cluster.remove("jobs", NAMESPACE, world.job("convert-1")["metadata"]["name"])
    world.restart()

    assert world.settle() == "Running"
    assert world.jobs() == ["convert-1", "plan"]


def test_a_late_answer_about_a_predecessor_does_not_replace_its_successor() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, job_object(version="5"))
    cache.put(Kind.DATAPREPJOBS, job_object(uid="uid-b", version="9"))
    cache.put(Kind.DATAPREPJOBS, job_object(version="6"))
    cache.drop(Kind.DATAPREPJOBS, job_object(version="8"))

    known = cache.job(Key("n", "a"))
    assert known is not None
    assert known["metadata"]["uid"] == "uid-b"


def test_what_left_the_selection_of_a_watch_may_come_back() -> None:
    cache = Cache()
    child = child_object()
    cache.put(Kind.JOBS, child)
    cache.drop(Kind.JOBS, {**child, "metadata": child["metadata"] | {"resourceVersion": "3"}})
    cache.put(Kind.JOBS, {**child, "metadata": child["metadata"] | {"resourceVersion": "2"}})
    assert cache.children_of("n", "uid-a") == ()

    cache.put(Kind.JOBS, {**child, "metadata": child["metadata"] | {"resourceVersion": "4"}})

    assert [each.uid for each in cache.children_of("n", "uid-a")] == ["job-1"]


def test_a_child_whose_owner_was_edited_away_is_its_childs_no_more() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, job_object())
    child = child_object()
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "uid": "p",
            "resourceVersion": "1",
            "ownerReferences": [{"kind": "Job", "name": "job-1", "uid": "job-1", "controller": True}],
        }
    }
    for kind, body in ((Kind.JOBS, child), (Kind.PODS, pod)):
        cache.put(kind, body)
        orphan = {**body, "metadata": {**body["metadata"], "resourceVersion": "2", "ownerReferences": []}}
        cache.put(kind, orphan)
        cache.drop(kind, orphan)

    assert (cache.children_of("n", "uid-a"), cache.pods_of("n", "job-1")) == ((), ())


def test_a_job_that_was_taken_from_its_schedule_is_not_the_schedules_any_more() -> None:
    cache = Cache()
    owner = {"kind": CRON_KIND, "name": "nightly", "uid": "cron", "controller": True}
    made, freed = job_object(), job_object(version="6")
    made["metadata"]["ownerReferences"] = [owner]
    cache.put(Kind.DATAPREPJOBS, made)
    assert cache.jobs_of_cron("n", "cron") == [made]

    cache.put(Kind.DATAPREPJOBS, freed)
    assert cache.jobs_of_cron("n", "cron") == []
    cache.drop(Kind.DATAPREPJOBS, freed)
    assert cache.jobs_of_cron("n", "cron") == []


def test_nothing_is_remembered_of_a_job_that_was_deleted_in_the_middle(world: World) -> None:
    world.running()
    observer = world.reconciler._observer
    assert uid_of(world) in observer._frozen_specs
    world.cluster.remove("dataprepjobs", NAMESPACE, "mnist")
    world.look()

    assert (observer._frozen_specs, observer._spec_results, observer._refusals, observer._uids) == ({}, {}, {}, {})


# --- leadership ----------------------------------------------------------------------------------------------------------------------


def test_a_replica_that_can_not_ask_for_the_lease_does_not_lead() -> None:
    led = []

    class Failed:
        clock = staticmethod(times.now)

        async def get(self, *_: object) -> None:
            raise RuntimeError("not foreseen")

        async def close(self) -> None: ...

    async def leadership() -> None:
        led.append("leads")

    with pytest.raises(RuntimeError, match="not foreseen"):
        asyncio.run(in_turn(leadership(), Failed(), everything_listed()))
    assert led == []


def test_a_replica_that_has_not_listed_everything_leaves_the_lease_to_one_that_has() -> None:
    done = []

    class Leases:
        clock = staticmethod(times.now)

        async def get(self, *_: object) -> None:
            done.append("asks for the Lease")
            raise RuntimeError("enough")

        async def close(self) -> None: ...

    async def leadership() -> None:
        done.append("leads")

    async def soon_listed() -> None:
        heard = Streams(expected=frozenset({(Kind.JOBS, None)}), cache=Cache(), enqueue=lambda _: None)
        turn = asyncio.create_task(in_turn(leadership(), Leases(), heard))
        await asyncio.sleep(0.3)
        done.append("has listed")
        heard.observe((Kind.JOBS, None), watching.Bookmark.LISTED)
        with pytest.raises(RuntimeError, match="enough"):
            await turn

    asyncio.run(soon_listed())
    assert done == ["has listed", "asks for the Lease"]


def everything_listed() -> Streams:
    return Streams(expected=frozenset(), cache=Cache(), enqueue=lambda _: None)


# Any, because the cluster is a fake that has only the requests of one test.
async def in_turn(leadership: Coroutine[Any, Any, None], cluster: Any, heard: Streams) -> None:
    settings = Settings(lease_namespace="n", identity="one")

    async def connect() -> Any:  # Any: see above
        return cluster

    elector = LeaderElector(connect=connect, settings=settings, clock=cluster.clock, lost=lambda _: None)
    await program._lead_when_elected(leadership, elector=elector, streams=heard, stop=asyncio.Event())


def test_an_answer_that_is_not_json_is_one_to_try_again() -> None:
    async def asks(cluster: KubernetesCluster) -> None:
        with pytest.raises(Unavailable, match=r"HTTP 200, but the response isn't JSON; is there a proxy in between\?"):
            await cluster.get(DATAPREPJOBS, "n", "j")

    assert sent_by(asks, status=200, content=b"<html>") == [None]
