"""Tests of jobs with many pods. The operator doesn't read each finished pod, but decides as if it had read all pods."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.builders.watched import disrupted
from tests.operator.world import NAMESPACE, World

from dataprep_api.dataset.messages import ProgressReport, WorkResult
from dataprep_api.resources.status import RecordProgress
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.decisions import actions
from dataprep_operator.decisions.status.next_status import next_status
from dataprep_operator.objects import pods, times
from dataprep_operator.objects.finished_tasks import SucceededWorker
from dataprep_operator.objects.observed import Key, Observed
from dataprep_operator.objects.pods import Pod

KEY = Key(NAMESPACE, "mnist")


def a_result(task: int) -> WorkResult:
    return WorkResult(index=task, shards_done=2, shards_skipped=0, records=RecordProgress(in_=100, out=90, bad=10), bytes_out=500)


def converting(world: World, *, tasks: int, **spec: Any) -> None:  # Any: fields of the spec
    world.apply(**spec)
    world.settle()
    world.planned(tasks=tasks, shards=2 * tasks, records=100 * tasks)
    world.settle()


def worker(world: World, task: int, status: Body) -> Body:
    return world.pod("convert-1", status, index=task)


def succeeded(world: World, task: int) -> None:
    worker(world, task, world.ended(0, a_result(task)))


def observed(world: World) -> Observed:
    found = asyncio.run(world.reconciler._observer.observe(KEY, now=world.cluster.now))
    assert found is not None
    return found


@pytest.mark.parametrize("kind", [Pod, SucceededWorker])
def test_a_look_reads_no_more_fields_of_pods_if_more_pods_have_finished(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def fields_read(*, finished: int) -> int:
        world, count = World(), 0
        converting(world, tasks=finished + 2)
        for task in range(finished):
            succeeded(world, task)
        for task in range(finished, finished + 2):
            worker(world, task, world.scheduled(phase="Running"))
        world.settle()
        succeeded(world, finished)

        def read(pod: Any, name: str) -> Any:  # Any: a field
            nonlocal count
            count += 1
            return object.__getattribute__(pod, name)

        with monkeypatch.context() as patched:
            patched.setattr(kind, "__getattribute__", read)
            world.later(10)
        assert world.status()["progress"]["shards"]["done"] == 2 * finished + 2
        return count

    assert fields_read(finished=3) == fields_read(finished=20)


def test_a_restarted_operator_comes_to_the_same_status() -> None:
    world = World()
    converting(world, tasks=6)
    for task in range(3):
        succeeded(world, task)
    worker(world, 3, world.ended(4, "the store timed out"))
    worker(world, 4, world.scheduled(phase="Running"))
    worker(world, 5, disrupted(world))
    world.settle()
    world.later(10)
    status, before = world.status(), observed(world)
    assert (status["progress"]["shards"]["done"], status["progress"]["records"]["in"]) == (6, 300)
    world.restart()

    after = observed(world)
    assert (after.pods, set(after.succeeded_workers[world.job("convert-1")["metadata"]["uid"]])) == (
        before.pods,
        set(before.succeeded_workers[world.job("convert-1")["metadata"]["uid"]]),
    )
    assert (after.live_progress.shards_done, after.live_progress.records) == (
        before.live_progress.shards_done,
        before.live_progress.records,
    )
    world.cluster.calls.clear()
    world.look()
    assert world.status() == status
    assert [call for call in world.cluster.calls if call[0] not in ("get", "list")] == []


def test_a_report_of_a_finished_task_does_not_count_in_addition() -> None:
    world = World()
    converting(world, tasks=4)
    job_uid = observed(world).uid
    for task in (0, 1):
        report = ProgressReport(job="mnist", attempt=1, index=task, sequence=1, records=RecordProgress(in_=40, out=40), shards_active=1)
        world.progress_store.record(report, job_uid=job_uid, pod_uid=f"p{task}", now=world.cluster.now)
    succeeded(world, 0)

    assert observed(world).live_progress.records.in_ == 140
    assert observed(world).live_progress.shards_active == 1


def test_a_pod_that_the_kubelet_rejected_does_not_keep_a_job_from_falling_back_to_the_cpu() -> None:
    world = World()
    converting(world, tasks=2, workers={"accelerator": {"policy": "Preferred", "fallbackAfterSeconds": 60}})
    world.pod(
        "convert-1", {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"}, index=0, name="rejected"
    )
    for task in (0, 1):
        world.pod("convert-1", world.unschedulable("0/3 nodes are available: insufficient nvidia.com/gpu"), index=task)
    world.settle()
    world.later(61)
    assert world.status()["attempt"] == 2


def test_a_cleanup_rule_deletes_each_pod_once() -> None:
    world = World()
    converting(world, tasks=4, cleanup=[{"when": "Succeeded", "action": "DeletePods", "afterSeconds": 60}])
    for task in range(4):
        succeeded(world, task)
    deleted = worker(world, 0, world.ended(0, a_result(0)))
    world.cluster.change("pods", deleted["metadata"]["name"], {"metadata": {"deletionTimestamp": times.text(world.cluster.now)}})
    world.converted()
    world.settle()
    world.committed()
    assert world.settle() == "Succeeded"
    convert_pods = {name for plural, _, name in world.cluster.objects if plural == "pods" and "convert" in name}
    world.cluster.calls.clear()
    world.cluster.now = world.cluster.now.replace(minute=30)
    world.look()

    removed = [name for verb, plural, name in world.cluster.calls if (verb, plural) == ("delete", "pods") and "convert" in name]
    assert sorted(removed) == sorted(convert_pods - {deleted["metadata"]["name"]})


STATES: dict[str, Callable[[World, int], Body]] = {
    "running": lambda world, _: world.scheduled(phase="Running"),
    "succeeded": lambda world, task: world.ended(0, a_result(task)),
    "succeeded without a result": lambda world, _: world.ended(0),
    "failed": lambda world, _: world.ended(4, "the store timed out"),
    "evicted": lambda world, _: disrupted(world),
    "succeeded when it was evicted": lambda world, task: world.ended(0, a_result(task)) | {"conditions": disrupted(world)["conditions"]},
    "unschedulable": lambda world, _: world.unschedulable("0/3 nodes are available"),
    "without its image": lambda world, _: world.waiting("ImagePullBackOff", "not found"),
}


@pytest.mark.slow
@given(
    states=st.lists(st.sampled_from(sorted(STATES)), max_size=5),
    deleted=st.sets(st.integers(0, 4)),
    minutes=st.sampled_from([0, 2]),
    gpus=st.booleans(),
)
@example(states=["succeeded", "unschedulable"], deleted=set(), minutes=2, gpus=False)
@example(states=["succeeded", "unschedulable"], deleted=set(), minutes=2, gpus=True)
@example(states=["succeeded"], deleted=set(), minutes=2, gpus=False)
@settings(max_examples=examples(200), deadline=None)
def test_decisions_are_those_of_a_look_at_all_pods(states: list[str], deleted: set[int], minutes: int, gpus: bool) -> None:
    world = World()
    workers = {"accelerator": {"policy": "Preferred", "fallbackAfterSeconds": 60}} if gpus else {}
    converting(world, tasks=5, workers={"parallelism": 5} | workers)
    for task, state in enumerate(states):
        pod = worker(world, task, STATES[state](world, task))
        if task in deleted:
            world.cluster.change("pods", pod["metadata"]["name"], {"metadata": {"deletionTimestamp": times.text(world.cluster.now)}})
    world.cluster.now = world.cluster.now.replace(minute=minutes)
    reduced = observed(world)
    every_pod = [pods.read(body) for (plural, _, _), body in sorted(world.cluster.objects.items()) if plural == "pods"]
    whole = replace(
        reduced,
        pods={child.uid: tuple(pod for pod in every_pod if pod.owner_uid == child.uid) for child in reduced.children},
        succeeded_workers={},
    )

    now, defaults = world.cluster.now, world.settings.pods
    status = next_status(reduced, now=now, defaults=defaults)
    assert status == next_status(whole, now=now, defaults=defaults)
    assert actions.decide(reduced, status, now=now, defaults=defaults) == actions.decide(whole, status, now=now, defaults=defaults)
