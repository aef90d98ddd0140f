"""The parts round the reconcile: queue, cache, streams, Lease, limits, settings, times."""

import asyncio
import inspect
import json
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kopf._cogs.clients import watching as kopf_watching
from kopf._core.reactor import queueing as kopf_queueing

from dataprep_api import names
from dataprep_api.dataset import messages
from dataprep_api.dataset.messages import FailureResult, ProgressReport, WorkResult
from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import Condition, RecordProgress
from dataprep_operator import settings
from dataprep_operator.cluster.cluster import _error
from dataprep_operator.cluster.ratelimit import TokenBucket
from dataprep_operator.deciding import conditions
from dataprep_operator.errors import AlreadyExists, Conflict, NotFound, Refused, Unavailable
from dataprep_operator.leading import leading
from dataprep_operator.objects import pods, ranges, times
from dataprep_operator.objects.observed import Key
from dataprep_operator.serving.probes import Health
from dataprep_operator.serving.progress import Board
from dataprep_operator.watching import streams, watching, workqueue
from dataprep_operator.watching.cache import Cache, Kind
from dataprep_operator.watching.streams import Streams
from dataprep_operator.watching.workqueue import WorkQueue

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


# --- ranges, times, conditions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2, 3, 7], "0-3,7"), ([7, 1, 2, 2], "1-2,7"), ([0, 2, 4], "0,2,4")],
    ids=["none", "one", "a run and one", "unsorted", "no runs"],
)
def test_indexes_are_written_as_ranges_and_read_back(indexes: list[int], text: str) -> None:
    assert ranges.write(indexes) == text
    assert ranges.parse(text, below=100) == sorted(set(indexes))


def test_shortened_ranges_still_parse() -> None:
    assert ranges.shortened("1,3-5,77", limit=6) == "1,3-5"
    assert ranges.shortened("1,3-5", limit=5) == "1,3-5"


@pytest.mark.parametrize(("seconds", "text"), [(45, "45s"), (80, "1m20s"), (7500, "2h05m"), (273_600, "3d04h")])
def test_durations_for_people(seconds: float, text: str) -> None:
    assert times.for_people(seconds) == text


def test_times_are_written_as_kubernetes_does_and_read_back() -> None:
    assert times.text(NOW) == "2026-01-31T12:00:00Z"
    assert times.parse("2026-01-31T12:00:00Z") == times.parse("2026-01-31T12:00:00.000000+00:00") == NOW
    assert times.parse(None) is None


def test_a_condition_keeps_its_time_until_its_status_or_reason_changes() -> None:
    def say(before: list[Condition], reason: Reason, message: str, now: datetime) -> list[Condition]:
        return conditions.changed(before, ConditionType.RUNNING, "True", reason=reason, message=message, now=now, generation=1)

    first = say([], Reason.PLANNING, "a", NOW)
    same = say(first, Reason.PLANNING, "b", NOW + timedelta(seconds=9))
    other = say(same, Reason.CONVERTING, "c", NOW + timedelta(seconds=10))

    assert [each[0].last_transition_time[-3:] for each in (first, same, other)] == ["00Z", "00Z", "10Z"]
    assert same[0].message == "b"


# --- work queue -----------------------------------------------------------------------------------------------------------------


async def until(condition: Any) -> None:  # Any: a callable without arguments
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came true")


def test_a_key_is_worked_on_once_at_a_time_and_again_when_it_was_added_meanwhile() -> None:
    async def lives() -> tuple[int, int]:
        queue, at_once, most, done = WorkQueue[str](), 0, 0, 0

        async def work(_: str) -> None:
            nonlocal at_once, most, done
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.01)
            at_once, done = at_once - 1, done + 1

        workers = [asyncio.create_task(queue.run(work)) for _ in range(4)]
        for _ in range(10):
            queue.add("a")
        await until(lambda: at_once)
        for _ in range(10):
            queue.add("a")
        await until(lambda: done == 2)
        await asyncio.sleep(0.03)
        for worker in workers:
            worker.cancel()
        return most, done

    assert asyncio.run(lives()) == (1, 2)


def test_a_failed_key_is_tried_again_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "FIRST_DELAY_SECONDS", 0.005)

    async def lives() -> list[str]:
        queue, tries = WorkQueue[str](), list[str]()

        async def work(key: str) -> None:
            tries.append(key)
            if key == "bad" and tries.count("bad") < 3:
                raise Unavailable("try later")

        worker = asyncio.create_task(queue.run(work))
        queue.add("bad")
        queue.add("good")
        await until(lambda: tries.count("bad") == 3)
        worker.cancel()
        return tries

    assert asyncio.run(lives()) == ["bad", "good", "bad", "bad"]


def test_the_urgent_ones_are_first_but_every_fourth_is_another() -> None:
    async def lives() -> str:
        queue, seen = WorkQueue[str](urgent=str.isupper), list[str]()

        async def work(key: str) -> None:
            seen.append(key)

        for key in "abcABCDEd":
            queue.add(key)
        worker = asyncio.create_task(queue.run(work))
        await until(lambda: len(seen) == 9)
        worker.cancel()
        return "".join(seen)

    assert asyncio.run(lives()) == "ABCaDEbcd"


def test_the_patient_ones_are_last_but_every_sixteenth_is_one_of_them() -> None:
    async def lives() -> list[str]:
        queue, seen = WorkQueue[str](urgent=str.isupper, patient=str.isdigit), list[str]()

        async def work(key: str) -> None:
            seen.append(key)

        for key in "123abcdefghijklmnopA":
            queue.add(key)
        worker = asyncio.create_task(queue.run(work))
        await until(lambda: len(seen) == 20)
        worker.cancel()
        return seen

    assert "".join(asyncio.run(lives())) == "Aabcdefghijklmn1op23"


def test_jobs_that_run_do_not_wait_for_all_that_have_ended() -> None:
    """The scan of once an hour, and who takes over, look at all: each look at a data set that is made takes a request."""
    cache = Cache()
    for number in range(40):
        cache.put(Kind.DATAPREPJOBS, a_job(f"made-{number}", uid=f"uid-{number}", status={"phase": "Succeeded"}))
    leaves = a_job("leaves", uid="uid-leaves", status={"phase": "Succeeded"})
    leaves["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    for each in (a_job("runs", uid="uid-runs", status={"phase": "Running"}), leaves):
        cache.put(Kind.DATAPREPJOBS, each)

    async def lives() -> list[str]:
        queue, seen = WorkQueue[Key](urgent=cache.is_new, patient=cache.is_made), list[str]()

        async def work(key: Key) -> None:
            seen.append(key.name)

        everyone = cache.keys()
        for key in everyone:
            queue.add(key)
        worker = asyncio.create_task(queue.run(work))
        await until(lambda: len(seen) == 42)
        worker.cancel()
        return seen

    assert asyncio.run(lives())[:2] == ["runs", "leaves"]


def test_a_job_is_new_until_it_has_a_phase() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, a_job("new", uid="uid-new"))
    cache.put(Kind.DATAPREPJOBS, a_job("runs", uid="uid-runs", status={"phase": "Running"}))
    cache.put(Kind.DATAPREPCRONJOBS, {"metadata": {"namespace": "default", "name": "daily", "uid": "uid-daily", "resourceVersion": "1"}})
    keys = cache.keys()
    assert {key.name: cache.is_new(key) for key in keys} == {"new": True, "runs": False, "daily": False}


def test_the_earlier_of_two_delays_counts() -> None:
    async def lives() -> None:
        queue, seen = WorkQueue[str](), list[str]()

        async def work(key: str) -> None:
            seen.append(key)

        worker = asyncio.create_task(queue.run(work))
        queue.add_after("a", 30)
        queue.add_after("a", 0.01)
        queue.add_after("a", 60)
        await until(lambda: seen)
        worker.cancel()
        queue.close()

    asyncio.run(lives())


@pytest.mark.parametrize(("failures", "seconds"), [(1, 0.5), (2, 1), (5, 8), (40, 30)])
def test_the_delay_doubles_up_to_a_limit(failures: int, seconds: float) -> None:
    assert workqueue.backoff_seconds(failures, chance=0) == seconds
    assert workqueue.backoff_seconds(failures, chance=1) == seconds / 2


def test_a_scan_takes_what_has_ended_once_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, scans = Cache(), list[list[str]]()
    cache.put(Kind.DATAPREPJOBS, a_job("done", uid="uid-done", status={"phase": "Succeeded"}))
    cache.put(Kind.DATAPREPJOBS, a_job("runs", uid="uid-runs", status={"phase": "Running"}))
    leaving = a_job("leaves", uid="uid-leaves", status={"phase": "Failed"})
    leaving["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    cache.put(Kind.DATAPREPJOBS, leaving)

    async def pause(seconds: float) -> None:
        assert seconds == 300
        if len(scans) == 12:
            raise asyncio.CancelledError
        scans.append([])

    monkeypatch.setattr(asyncio, "sleep", pause)
    queue = SimpleNamespace(add=lambda key: scans[-1].append(key.name))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(leading._scan(cache, queue, every_seconds=300))  # type: ignore[arg-type]  # only what it asks of a queue

    assert scans[:11] == [["runs", "leaves"]] * 11
    assert scans[11] == ["done", "runs", "leaves"]


def listed(cache: Cache) -> Streams:
    heard = Streams(expected=frozenset({(Kind.DATAPREPJOBS, None)}), cache=cache, concerns=lambda _: None)
    heard.hear((Kind.DATAPREPJOBS, None), kopf_watching.Bookmark.LISTED)
    return heard


def test_who_takes_over_looks_at_every_job_and_at_those_that_have_ended_last() -> None:
    cache, health, seen = Cache(), Health(age_limit_seconds=180), list[str]()
    heard = listed(cache)
    cache.put(Kind.DATAPREPJOBS, a_job("done", uid="uid-done", status={"phase": "Succeeded"}))
    cache.put(Kind.DATAPREPJOBS, a_job("runs", uid="uid-runs", status={"phase": "Running"}))

    async def look(key: Key) -> None:
        assert health.leading
        seen.append(key.name)

    async def lives() -> None:
        stop, given = asyncio.Event(), settings.Settings(workers=1)
        queue = WorkQueue[Key]()
        leads = asyncio.create_task(
            leading.lead(settings=given, cache=cache, heard=heard, queue=queue, look=look, health=health, stop=stop)
        )
        await until(lambda: len(seen) == 2)
        stop.set()
        await leads

    asyncio.run(lives())
    assert seen == ["runs", "done"]
    assert not health.leading


def test_nobody_is_looked_at_before_the_cache_is_whole() -> None:
    cache, seen = Cache(), list[str]()
    cache.put(Kind.DATAPREPJOBS, a_job("runs", uid="uid-runs", status={"phase": "Running"}))
    heard = Streams(expected=frozenset({(Kind.DATAPREPJOBS, None)}), cache=cache, concerns=lambda _: None)

    async def look(key: Key) -> None:
        seen.append(key.name)

    async def lives() -> None:
        stop, health = asyncio.Event(), Health(age_limit_seconds=180)
        leads = asyncio.create_task(
            leading.lead(
                settings=settings.Settings(), cache=cache, heard=heard, queue=WorkQueue[Key](), look=look, health=health, stop=stop
            )
        )
        await until(lambda: health.leading)
        await asyncio.sleep(0)
        stop.set()
        await leads

    asyncio.run(lives())
    assert seen == []


# --- rate limit and errors ------------------------------------------------------------------------------------------------------


def test_a_burst_is_free_and_the_rest_waits_its_turn() -> None:
    now = [0.0]
    bucket = TokenBucket(rate=10, burst=3, clock=lambda: now[0])

    assert [bucket.reserve() for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    now[0] = 10
    assert bucket.reserve() == 0


ANSWERS = {
    "missing": (404, b'{"message": "not found"}', NotFound),
    "there already": (409, b'{"reason": "AlreadyExists", "message": "exists"}', AlreadyExists),
    "changed": (409, b'{"reason": "Conflict", "message": "modified"}', Conflict),
    "invalid": (422, b'{"reason": "Invalid", "message": "spec.x: bad"}', Refused),
    "forbidden": (403, b'{"message": "no"}', Refused),
    "overloaded": (429, b"", Unavailable),
    "broken": (500, b"<html>", Unavailable),
}


@pytest.mark.parametrize(("status", "content", "expected"), ANSWERS.values(), ids=ANSWERS.keys())
def test_the_api_servers_answers_become_our_errors(status: int, content: bytes, expected: type[Exception]) -> None:
    assert type(_error("GET", "/x", status, content)) is expected


# --- cache -----------------------------------------------------------------------------------------------------------------------


def a_job(name: str = "a", *, uid: str = "uid-a", version: str = "5", **rest: Any) -> dict[str, Any]:  # Any: JSON
    metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"output": {"uri": "s3://o"}}} | rest


def a_child(uid: str = "job-1") -> dict[str, Any]:  # Any: JSON
    owner = {"kind": "DataPrepJob", "name": "a", "uid": "uid-a", "controller": True}
    labels = {names.LABEL_STEP: "plan", names.LABEL_ATTEMPT: "1"}
    return {"metadata": {"name": uid, "namespace": "n", "uid": uid, "resourceVersion": "1", "ownerReferences": [owner], "labels": labels}}


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, a_job(version="10", status={"phase": "Running"}))
    cache.put(Kind.DATAPREPJOBS, a_job(version="9"))

    assert cache.job(Key("n", "a")) == a_job(version="10", status={"phase": "Running"})


def test_a_job_is_kept_in_little_more_room_than_its_json_takes() -> None:
    cache, jobs = Cache(), 200
    features = [{"name": f"feature-{number}", "from": [f"column-{number}"], "dtype": "float32"} for number in range(40)]
    size = len(json.dumps({**a_job(), "spec": {"features": features}}, separators=(",", ":")))
    tracemalloc.start()
    try:
        for number in range(jobs):
            text = json.dumps({**a_job(f"job-{number:03}", uid=f"uid-{number:03}"), "spec": {"features": features}})
            cache.put(Kind.DATAPREPJOBS, json.loads(text))
        took = tracemalloc.get_traced_memory()[0] / jobs
    finally:
        tracemalloc.stop()
    assert size < took < size + 2048


def test_a_successor_of_the_same_name_replaces_its_predecessor() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, a_job())
    cache.put(Kind.DATAPREPJOBS, a_job(uid="uid-b", version="7"))
    cache.drop(Kind.DATAPREPJOBS, a_job())

    found = cache.job(Key("n", "a"))
    assert found is not None
    assert found["metadata"]["uid"] == "uid-b"


def test_what_a_listing_lacks_was_deleted_meanwhile() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, a_job())
    for uid in ("job-1", "job-2"):
        cache.put(Kind.JOBS, a_child(uid))
    known = cache.uids(Kind.JOBS, namespace=None)
    cache.put(Kind.JOBS, a_child("job-3"))

    concerned = cache.prune(Kind.JOBS, namespace=None, listed=["job-1"], known=known)

    assert concerned == [Key("n", "a")]
    assert {child.uid for child in cache.children_of("n", "uid-a")} == {"job-1", "job-3"}


def test_pods_with_our_label_and_another_owner_are_nobodys() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, a_job())
    cache.put(Kind.JOBS, a_child())
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "p", "labels": {names.LABEL_JOB_UID: "uid-a"}}, "status": {}}
    cache.put(Kind.PODS, pod)

    assert cache.pods_of("n", "job-1") == ()


# --- streams and probes -----------------------------------------------------------------------------------------------------------


def a_stream(cache: Cache, *, now: list[float]) -> tuple[Streams, list[Key]]:
    concerned: list[Key] = []
    expected: frozenset[streams.StreamName] = frozenset((kind, None) for kind in Kind)
    return Streams(expected=expected, cache=cache, concerns=concerned.append, clock=lambda: now[0]), concerned


def test_the_cache_is_whole_when_all_is_listed_and_handled() -> None:
    heard, _ = a_stream(Cache(), now=[0.0])
    heard.hear((Kind.JOBS, None), {"type": None, "object": a_child()})
    for kind in Kind:
        heard.hear((kind, None), kopf_watching.Bookmark.LISTED)

    assert not heard.complete
    heard.handled(Kind.JOBS, "job-1")
    assert heard.complete


def test_a_listing_after_a_gap_drops_what_is_gone() -> None:
    cache = Cache()
    heard, concerned = a_stream(cache, now=[0.0])
    cache.put(Kind.DATAPREPJOBS, a_job())
    cache.put(Kind.JOBS, a_child("job-1"))
    heard.hear((Kind.JOBS, None), kopf_watching.Bookmark.LISTED)

    assert cache.children_of("n", "uid-a") == ()
    assert concerned == [Key("n", "a")]


def test_a_silent_watch_is_found_by_its_age() -> None:
    now = [0.0]
    heard, _ = a_stream(Cache(), now=now)
    health = Health(age_limit_seconds=180, leading=True, streams=heard)
    now[0] = 170
    for kind in (Kind.JOBS, Kind.PODS):
        heard.hear((kind, None), {"type": "BOOKMARK", "object": {}})

    assert health.fault() is None
    now[0] = 190
    assert health.fault() == "a watch has heard nothing for 190 s"


def test_kopf_still_brings_every_event_through_the_function_that_is_wrapped() -> None:
    assert inspect.isasyncgenfunction(kopf_watching.infinite_watch)
    assert {"resource", "namespace", "settings"} <= set(inspect.signature(kopf_watching.infinite_watch).parameters)
    assert vars(kopf_queueing)["watching"] is kopf_watching


def test_the_wrapped_stream_passes_everything_on_and_is_taken_off_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [{"type": None, "object": a_child()}, kopf_watching.Bookmark.LISTED, {"type": "BOOKMARK", "object": {}}]

    async def infinite_watch(**_: Any) -> AsyncIterator[Any]:
        for each in given:
            yield each

    monkeypatch.setattr(kopf_watching, "infinite_watch", infinite_watch)
    heard, _ = a_stream(Cache(), now=[0.0])
    undo = streams.listen(heard)

    async def read() -> list[Any]:
        return [each async for each in kopf_watching.infinite_watch(resource=SimpleNamespace(plural="jobs"), namespace=None)]  # type: ignore[arg-type, call-arg]  # only these two are looked at

    assert asyncio.run(read()) == given
    assert "jobs in all namespaces" not in heard.unlisted
    undo()
    assert kopf_watching.infinite_watch is infinite_watch


def test_kopf_watches_only_what_is_ours_and_writes_nothing() -> None:
    chosen = watching.operator_settings(settings.Settings())

    assert chosen.scanning.disabled
    assert chosen.peering.standalone
    assert not chosen.posting.enabled
    selectors = chosen.watching.label_selectors
    assert (selectors["batch", "v1", "jobs"], selectors["", "v1", "pods"]) == (names.SELECTOR, names.SELECTOR)


def test_there_is_one_stream_for_each_kind_and_namespace() -> None:
    assert len(watching.expected_streams(settings.Settings(namespaces=("a", "b")))) == 10
    assert watching.expected_streams(settings.Settings()) == frozenset((kind, None) for kind in Kind)


# --- pods -------------------------------------------------------------------------------------------------------------------------


def a_failed_pod(exit_code: int, message: str = "", reason: str = "Error") -> pods.Pod:
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "message": message, "finishedAt": "2026-01-31T12:00:00Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "dataprep", "state": state}]}
    return pods.read({"metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {names.LABEL_STEP: "convert"}}, "status": status})


TOLD = messages.dump(FailureResult(reason=Reason.STORE_FULL, message="no space on /x", exit_code=4, index=3, shard="train-1"))
DEATHS = {
    "its own words": (a_failed_pod(4, TOLD), Reason.STORE_FULL, "no space on /x"),
    "bad spec without words": (a_failed_pod(2, "unknown field x"), Reason.INVALID_SPEC, "unknown field x"),
    "store without words": (a_failed_pod(4), Reason.STORE_UNREACHABLE, "exit code 4"),
    "out of memory": (a_failed_pod(137, reason="OOMKilled"), Reason.OUT_OF_MEMORY, "resources.limits.memory"),
    "killed": (a_failed_pod(137), Reason.BACKOFF_LIMIT_EXCEEDED, "was killed"),
    "crashed": (a_failed_pod(1, "Traceback\nKeyError: 7"), Reason.INTERNAL_ERROR, "KeyError: 7"),
    "our own defect": (a_failed_pod(70), Reason.INTERNAL_ERROR, "exit code 70"),
    "somebody else's message": (a_failed_pod(5, '{"kind": "plan"}'), Reason.NOT_PERMITTED, "exit code 5"),
}


@pytest.mark.parametrize(("pod", "reason", "words"), DEATHS.values(), ids=DEATHS.keys())
def test_why_a_pod_failed(pod: pods.Pod, reason: Reason, words: str) -> None:
    told = pods.failure(pod)

    assert told is not None
    assert told.reason == reason
    assert words in told.message


def test_a_pod_that_was_told_to_stop_has_not_failed() -> None:
    assert pods.failure(replace(a_failed_pod(143), disrupted_at=times.now())) is None
    assert pods.failure(replace(a_failed_pod(143), deletion_due=times.now())) is None


EVENTS = {
    "a missing Secret": ([{"reason": "FailedMount", "message": 'secret "x" not found'}], True),
    "a missing key": ([{"reason": "FailedMount", "message": "references non-existent secret key: a"}], True),
    "a slow disk": ([{"reason": "FailedMount", "message": "timed out waiting for the condition"}], False),
    "something else": ([{"reason": "Pulled", "message": "image not found in cache"}], False),
    "nothing": ([], False),
}


@pytest.mark.parametrize(("told", "missing"), EVENTS.values(), ids=EVENTS.keys())
def test_only_what_is_missing_for_good_is_a_missing_mount(told: list[dict[str, str]], missing: bool) -> None:
    assert (pods.missing_mount(told) is not None) == missing


# --- progress -----------------------------------------------------------------------------------------------------------------------


def a_report(index: int, sequence: int, records: int, *, attempt: int = 1) -> ProgressReport:
    done = RecordProgress(in_=records, out=records)
    return ProgressReport(job="a", attempt=attempt, index=index, sequence=sequence, records=done, shards_active=1)


def test_an_older_report_is_dropped() -> None:
    board = Board()
    board.take(a_report(0, 2, 200), job_uid="j", pod_uid="p", now=NOW)
    board.take(a_report(0, 1, 100), job_uid="j", pod_uid="p", now=NOW)

    assert board.live("j", results={}, attempt=1, now=NOW).records.in_ == 200


def test_a_task_that_two_pods_worked_on_counts_once() -> None:
    board = Board()
    board.take(a_report(0, 1, 300), job_uid="j", pod_uid="dead", now=NOW)
    board.take(a_report(0, 1, 100), job_uid="j", pod_uid="new", now=NOW)

    assert board.live("j", results={}, attempt=1, now=NOW).records.in_ == 300


def test_a_finished_task_counts_by_its_result() -> None:
    board = Board()
    board.take(a_report(0, 1, 300), job_uid="j", pod_uid="p", now=NOW)
    result = WorkResult(index=0, shards_done=2, shards_skipped=0, records=RecordProgress(in_=310, out=310), bytes_out=5)

    live = board.live("j", results={0: result}, attempt=1, now=NOW)

    assert (live.records.in_, live.shards_done, live.shards_active) == (310, 2, 0)


def test_a_silent_worker_is_not_active() -> None:
    board = Board()
    board.take(a_report(0, 1, 300), job_uid="j", pod_uid="p", now=NOW)

    assert board.live("j", results={}, attempt=1, now=NOW).shards_active == 1
    assert board.live("j", results={}, attempt=1, now=NOW + timedelta(seconds=61)).shards_active == 0


def test_the_rate_follows_and_never_falls_below_nothing() -> None:
    board = Board()
    for second, records in enumerate((0, 100, 200, 300, 0)):
        board.take(a_report(0, second, records), job_uid="j", pod_uid="p", now=NOW)
        live = board.live("j", results={}, attempt=1, now=NOW + timedelta(seconds=second))
        assert live.records_per_second is None if second == 0 else live.records_per_second is not None
        assert live.records_per_second is None or 0 <= live.records_per_second <= 100


def test_many_workers_are_asked_to_report_less_often() -> None:
    board = Board()
    for n in range(1000):
        board.take(a_report(n, 1, 1), job_uid="j", pod_uid=f"p{n}", now=NOW)

    assert board.next_report_seconds() == 10


# --- settings ----------------------------------------------------------------------------------------------------------------------


def test_settings_come_from_the_environment() -> None:
    given = {
        "DATAPREP_NAMESPACES": "a, b",
        "DATAPREP_IMAGE": "dataprep:2",
        "DATAPREP_GPU_NODE_SELECTOR": '{"gpu": "true"}',
        "DATAPREP_GPU_TOLERATIONS": '[{"key": "gpu", "operator": "Exists"}]',
        "DATAPREP_ALLOW_HOST_PATH": "true",
        "DATAPREP_QPS": "20",
        "DATAPREP_TOKEN_ISSUER": "",
        "POD_NAME": "operator-1",
    }
    found = settings.from_environment(given)

    assert found.namespaces == ("a", "b")
    assert (found.pods.image, found.pods.gpu_node_selector, found.pods.allow_host_path) == ("dataprep:2", {"gpu": "true"}, True)
    assert (found.qps, found.identity, found.token_issuer) == (20.0, "operator-1", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("QPS", "many"), ("GPU_NODE_SELECTOR", "{"), ("GPU_TOLERATIONS", "{}"), ("ALLOW_HOST_PATH", "yes")],
)
def test_a_setting_that_can_not_be_read_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"DATAPREP_{name}"):
        settings.from_environment({f"DATAPREP_{name}": value})
