"""The operator handles any values in the labels, annotations, statuses and messages of objects."""

import copy
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.builders.foreign import VALUES, places

from dataprep_api import CRON_KIND, KIND, names
from dataprep_operator.decisions import steps
from dataprep_operator.informer import handlers
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.informer.streams import Streams
from dataprep_operator.objects import pods, ranges, times
from dataprep_operator.objects.child_jobs import ANNOTATION_TASKS, Child
from dataprep_operator.objects.observed import Key
from dataprep_operator.settings import Settings

Body = dict[str, Any]  # the API's JSON


def an_object(kind: Kind) -> Body:
    """Return an object of this kind with all fields that the operator reads."""
    owner = {Kind.JOBS: KIND, Kind.PODS: "Job", Kind.DATAPREPJOBS: CRON_KIND}.get(kind, "Other")
    labels = {names.LABEL_JOB_UID: "uid-1", names.LABEL_STEP: "convert", names.LABEL_ATTEMPT: "1", "kueue.x-k8s.io/queue-name": "q"}
    annotations = {pods.INDEX_ANNOTATION: "0", ANNOTATION_TASKS: "0-3", names.ANNOTATION_SCRIPT: "true", names.ANNOTATION_RETRY: "1"}
    container = {
        "name": pods.CONTAINER,
        "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "m", "finishedAt": "2026-01-31T12:00:00Z"}},
    }
    waiting = {"name": pods.CODE_CONTAINER, "state": {"waiting": {"reason": "ErrImagePull", "message": "m"}}}
    condition = {"type": "Failed", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-31T12:00:00Z"}
    return {
        "metadata": {
            "namespace": "n",
            "name": "a",
            "uid": "uid-1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": labels,
            "annotations": annotations,
            "finalizers": [names.FINALIZER],
            "ownerReferences": [{"controller": True, "kind": owner, "name": "a", "uid": "uid-0"}],
        },
        "spec": {
            "output": {"uri": "s3://b/${X}", "version": "1"},
            "params": {"X": "x"},
            "stores": [{"uriPrefix": "s3://b/", "endpoint": "http://store"}],
            "workers": {
                "env": [{"name": "AWS_ENDPOINT_URL", "value": "http://other"}],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "volumeMounts": [{"name": "v", "mountPath": "/b", "subPath": "c"}],
            },
            "runAfter": ["b"],
            "source": {"fromJob": {"name": "c"}},
            "suspend": False,
            "parallelism": 1,
            "completions": 4,
        },
        "status": {
            "phase": "Failed",
            "startTime": "2026-01-31T12:00:00Z",
            "runId": "r",
            "progress": {"recordsPerSecond": 1.5},
            "conditions": [condition, {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}],
            "containerStatuses": [container],
            "initContainerStatuses": [waiting],
            "active": 1,
            "completedIndexes": "0-1",
            "failedIndexes": "2",
        },
    }


@pytest.mark.slow
@given(kind=st.sampled_from(list(Kind)), type_=st.sampled_from([None, "ADDED", "MODIFIED", "DELETED"]), data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_no_object_stops_the_operator(kind: Kind, type_: str | None, data: st.DataObject) -> None:
    raw = an_object(kind)
    for _ in range(data.draw(st.integers(1, 4))):
        *path, last = data.draw(st.sampled_from(places(raw)))
        place: Any = raw  # JSON
        for step in path:
            place = place[step]
        place[last] = data.draw(VALUES)
    cache, concerned = Cache(), list[Key]()
    defaults = {"stores": [{"uriPrefix": "s3://", "region": "r"}], "workers": {"image": "own:1"}}
    cache.put(Kind.DATAPREPPROFILES, {"metadata": {"name": "default", "namespace": "n", "uid": "uid-p"}, "spec": defaults})
    streams = Streams(expected=handlers.expected_streams(Settings()), cache=cache, enqueue=concerned.append)
    cache.put(
        Kind.DATAPREPJOBS,
        an_object(Kind.DATAPREPJOBS) | {"metadata": an_object(Kind.DATAPREPJOBS)["metadata"] | {"name": "other", "uid": "uid-9"}},
    )

    handlers._handle(
        kind, {"type": type_, "object": copy.deepcopy(raw)}, cache=cache, streams=streams, enqueue=lambda key, _: concerned.append(key)
    )

    key = Key("n", "a")
    for looked_up in (cache.rival_of, cache.removing, cache.wait_cycle, cache.waiters):
        looked_up(key)
    cache.output_user_of(key, runs=["r"])
    cache.records_per_second()
    cache.phases()
    for pod in cache.pods_of("n", "uid-0"):
        assert pod.failure is None or pod.failure.pod == pod.name[:256]
        pod.stuck_creating(times.now())
        pod.stuck_terminating(times.now())
    for child in cache.children_of("n", "uid-0"):
        steps.completed_tasks(child, tasks=4)
        steps.failed_tasks(child, tasks=4)


@given(
    events=st.lists(
        st.fixed_dictionaries({}, optional={"reason": st.one_of(VALUES, st.just("FailedMount")), "message": VALUES}), max_size=3
    )
)
@settings(max_examples=examples(50), deadline=None)
def test_no_event_stops_the_operator(events: list[Body]) -> None:
    pods.missing_mount(events)
    pods.pod_creation_error(events)


def test_an_index_in_digits_of_another_kind_is_none() -> None:
    raw = an_object(Kind.PODS)
    raw["metadata"]["annotations"][pods.INDEX_ANNOTATION] = "²"

    assert pods.read(raw).index == 0


def test_an_object_that_can_not_be_read_is_not_waited_for() -> None:
    cache = Cache()
    streams = Streams(expected=frozenset({(Kind.PODS, None)}), cache=cache, enqueue=lambda _: None)
    raw = an_object(Kind.PODS)
    streams.observe((Kind.PODS, None), {"type": None, "object": raw})
    broken = {**raw, "metadata": {"uid": "uid-1"}}
    with pytest.raises(KeyError):
        handlers._handle(Kind.PODS, {"type": None, "object": broken}, cache=cache, streams=streams, enqueue=lambda _, __: None)

    assert not streams._uncached_uids[(Kind.PODS, None)]


# --- indexes --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["0-99999999999", "0-5000000", ",".join(["0-99999"] * 10_000)], ids=["one run", "less", "many that overlap"]
)
def test_tasks_in_an_annotation_take_no_more_room_than_the_plan_has_tasks(text: str) -> None:
    child = Child("c", "n", "u", "o", "j", "convert", 1, completions=4, completed_indexes=text, failed_indexes=text, tasks=text)
    tracemalloc.start()
    try:
        assert steps.tasks_of(child, tasks=4) == [0, 1, 2, 3]
        assert steps.completed_tasks(child, tasks=4) == steps.failed_tasks(child, tasks=4) == {0, 1, 2, 3}
        assert ranges.count(text) == ranges.runs(text)[0][1] + 1
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "runs"),
    [("3-1", []), ("a", []), ("1-b,2", [(2, 2)]), ("²", []), ("7,1-2,3", [(1, 3), (7, 7)]), ("-5", []), ("1,,", [(1, 1)])],
)
def test_what_is_no_index_is_passed_over(text: str, runs: list[tuple[int, int]]) -> None:
    assert ranges.runs(text) == runs
