"""Tests of watches: when the cache has synced, when a watch is silent, and kopf's settings."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from kopf._cogs.clients import watching as kopf_watching
from kopf._core.reactor import queueing as kopf_queueing
from tests.builders.watched import child_object, job_object

from dataprep_api import names
from dataprep_operator import settings
from dataprep_operator.informer import handlers, streams
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.informer.streams import Streams
from dataprep_operator.objects.observed import Key
from dataprep_operator.server.probes import Health


def a_stream(cache: Cache, *, now: list[float]) -> tuple[Streams, list[Key]]:
    concerned: list[Key] = []
    expected: frozenset[streams.StreamName] = frozenset((kind, None) for kind in Kind)
    return Streams(expected=expected, cache=cache, enqueue=concerned.append, clock=lambda: now[0]), concerned


def test_the_cache_is_whole_when_all_is_listed_and_handled() -> None:
    heard, _ = a_stream(Cache(), now=[0.0])
    heard.observe((Kind.JOBS, None), {"type": None, "object": child_object()})
    for kind in Kind:
        heard.observe((kind, None), kopf_watching.Bookmark.LISTED)

    assert not heard.synced
    heard.mark_cached(Kind.JOBS, "job-1")
    assert heard.synced


def test_a_listing_after_a_gap_drops_what_is_gone() -> None:
    cache = Cache()
    heard, concerned = a_stream(cache, now=[0.0])
    cache.put(Kind.DATAPREPJOBS, job_object())
    cache.put(Kind.JOBS, child_object("job-1"))
    heard.observe((Kind.JOBS, None), kopf_watching.Bookmark.LISTED)

    assert cache.children_of("n", "uid-a") == ()
    assert concerned == [Key("n", "a")]


def test_a_silent_watch_is_found_by_its_age() -> None:
    now = [0.0]
    heard, _ = a_stream(Cache(), now=now)
    health = Health(age_limit_seconds=180, leading=True, streams=heard)
    now[0] = 170
    for kind in (Kind.JOBS, Kind.PODS):
        heard.observe((kind, None), {"type": "BOOKMARK", "object": {}})

    assert health.fault() is None
    now[0] = 190
    assert health.fault() == "a watch has received nothing for 190 s"


def test_kopf_still_brings_every_event_through_the_function_that_is_wrapped() -> None:
    assert inspect.isasyncgenfunction(kopf_watching.infinite_watch)
    assert {"resource", "namespace", "settings"} <= set(inspect.signature(kopf_watching.infinite_watch).parameters)
    assert vars(kopf_queueing)["watching"] is kopf_watching


def test_the_wrapped_stream_passes_everything_on_and_is_taken_off_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [{"type": None, "object": child_object()}, kopf_watching.Bookmark.LISTED, {"type": "BOOKMARK", "object": {}}]

    async def infinite_watch(**_: Any) -> AsyncIterator[Any]:
        for each in given:
            yield each

    monkeypatch.setattr(kopf_watching, "infinite_watch", infinite_watch)
    heard, _ = a_stream(Cache(), now=[0.0])
    undo = streams.wrap_kopf(heard)

    async def read() -> list[Any]:
        return [each async for each in kopf_watching.infinite_watch(resource=SimpleNamespace(plural="jobs"), namespace=None)]  # type: ignore[arg-type, call-arg]  # only these two fields are read

    assert asyncio.run(read()) == given
    assert "jobs in all namespaces" not in heard.unsynced
    undo()
    assert kopf_watching.infinite_watch is infinite_watch


def test_kopf_watches_only_what_is_ours_and_writes_nothing() -> None:
    chosen = handlers.operator_settings(settings.Settings())

    assert chosen.scanning.disabled
    assert chosen.peering.standalone
    assert not chosen.posting.enabled
    selectors = chosen.watching.label_selectors
    assert (selectors["batch", "v1", "jobs"], selectors["", "v1", "pods"]) == (names.SELECTOR, names.SELECTOR)


def test_there_is_one_stream_for_each_kind_and_namespace() -> None:
    assert len(handlers.expected_streams(settings.Settings(namespaces=("a", "b")))) == 10
    assert handlers.expected_streams(settings.Settings()) == frozenset((kind, None) for kind in Kind)
