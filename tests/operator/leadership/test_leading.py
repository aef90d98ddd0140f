"""The leader reconciles all jobs when it takes over, and again from time to time."""

import asyncio
from types import SimpleNamespace

import pytest
from kopf._cogs.clients import watching as kopf_watching
from tests.builders.watched import job_object, until

from dataprep_operator import settings
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.informer.streams import Streams
from dataprep_operator.informer.workqueue import WorkQueue
from dataprep_operator.leadership import controller
from dataprep_operator.objects.observed import Key
from dataprep_operator.server.probes import Health


def test_a_scan_takes_what_has_ended_once_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, scans = Cache(), list[list[str]]()
    cache.put(Kind.DATAPREPJOBS, job_object("done", uid="uid-done", status={"phase": "Succeeded"}))
    cache.put(Kind.DATAPREPJOBS, job_object("runs", uid="uid-runs", status={"phase": "Running"}))
    leaving = job_object("leaves", uid="uid-leaves", status={"phase": "Failed"})
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
        asyncio.run(controller._resync(cache, queue, every_seconds=300))  # type: ignore[arg-type]  # a fake with the methods that are called

    assert scans[:11] == [["runs", "leaves"]] * 11
    assert scans[11] == ["done", "runs", "leaves"]


def listed(cache: Cache) -> Streams:
    heard = Streams(expected=frozenset({(Kind.DATAPREPJOBS, None)}), cache=cache, enqueue=lambda _: None)
    heard.observe((Kind.DATAPREPJOBS, None), kopf_watching.Bookmark.LISTED)
    return heard


def test_who_takes_over_looks_at_every_job_and_at_those_that_have_ended_last() -> None:
    cache, health, seen = Cache(), Health(age_limit_seconds=180), list[str]()
    heard = listed(cache)
    cache.put(Kind.DATAPREPJOBS, job_object("done", uid="uid-done", status={"phase": "Succeeded"}))
    cache.put(Kind.DATAPREPJOBS, job_object("runs", uid="uid-runs", status={"phase": "Running"}))

    async def look(key: Key) -> None:
        assert health.leading
        seen.append(key.name)

    async def lives() -> None:
        stop, given = asyncio.Event(), settings.Settings(workers=1)
        queue = WorkQueue[Key]()
        leads = asyncio.create_task(
            controller.lead(settings=given, cache=cache, streams=heard, queue=queue, reconcile=look, health=health, stop=stop)
        )
        await until(lambda: len(seen) == 2)
        stop.set()
        await leads

    asyncio.run(lives())
    assert seen == ["runs", "done"]
    assert not health.leading


def test_nobody_is_looked_at_before_the_cache_is_whole() -> None:
    cache, seen = Cache(), list[str]()
    cache.put(Kind.DATAPREPJOBS, job_object("runs", uid="uid-runs", status={"phase": "Running"}))
    heard = Streams(expected=frozenset({(Kind.DATAPREPJOBS, None)}), cache=cache, enqueue=lambda _: None)

    async def look(key: Key) -> None:
        seen.append(key.name)

    async def lives() -> None:
        stop, health = asyncio.Event(), Health(age_limit_seconds=180)
        leads = asyncio.create_task(
            controller.lead(
                settings=settings.Settings(), cache=cache, streams=heard, queue=WorkQueue[Key](), reconcile=look, health=health, stop=stop
            )
        )
        await until(lambda: health.leading)
        await asyncio.sleep(0)
        stop.set()
        await leads

    asyncio.run(lives())
    assert seen == []
