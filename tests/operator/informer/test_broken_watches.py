"""Tests of watches that break in ways that kopf doesn't handle, with kopf's own client and a stub of an API server."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import kopf
import pytest
from kopf._cogs.clients import auth, errors
from kopf._cogs.clients import watching as kopf_watching
from kopf._cogs.structs import credentials, references
from tests.operator.stub_api import Piece, StubApi

from dataprep_operator.informer import handlers, streams
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.informer.streams import Streams
from dataprep_operator.objects.observed import Key
from dataprep_operator.settings import Settings

RESOURCE = references.Resource("dataprep.io", "v1alpha1", "dataprepjobs", namespaced=True)
LISTED = kopf_watching.Bookmark.LISTED


def a_job(name: str = "a", *, namespace: str = "n", said: str = "") -> dict[str, Any]:  # Any: the API's JSON
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-{name}", "resourceVersion": "5", "annotations": {"said": said}}
    return {"metadata": metadata | {"creationTimestamp": "2026-01-31T12:00:00Z"}, "spec": {}}


# The line has characters of one, two, three and four bytes.
LINE = json.dumps({"type": "MODIFIED", "object": a_job(said='a é 端 😀 \\ " \n')}, ensure_ascii=False).encode() + b"\n"


@pytest.fixture
def api() -> Iterator[StubApi]:
    with StubApi() as stub:
        yield stub


async def heard(
    api: StubApi, *, until: Any, namespace: str | None = None, follower: Streams | None = None
) -> list[Any]:  # Any: kopf's events
    """Collect one stream's events until all expected events have arrived."""
    vault = credentials.Vault()
    await vault.populate({"stub": kopf.ConnectionInfo(server=api.address)})
    auth.vault_var.set(vault)
    chosen = handlers.operator_settings(Settings())
    chosen.watching.reconnect_backoff = 0
    chosen.networking.error_backoffs = ()
    expected = handlers.expected_streams(Settings(namespaces=(namespace,) if namespace else ()))
    undo = streams.wrap_kopf(
        follower or Streams(expected=expected, cache=Cache(), enqueue=lambda _: None), again_seconds=0, refused_seconds=0
    )
    found: list[Any] = []
    try:
        async with asyncio.timeout(20):
            stream = kopf_watching.infinite_watch(
                settings=chosen, resource=RESOURCE, namespace=references.NamespaceName(namespace) if namespace else None
            )
            async for event in stream:
                found.append(event)
                if until(found):
                    return found
    finally:
        undo()
        await vault.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("is_reset", [False, True], ids=["the stream ends", "the connection breaks"])
def test_a_cut_line_is_a_cut_stream(api: StubApi, is_reset: bool) -> None:
    """The stream is cut after every byte of the line in turn, including bytes in the middle of a character."""

    api.pieces["dataprepjobs"] = [*(Piece(LINE[:length], is_reset=is_reset) for length in range(len(LINE) - 1)), Piece(LINE)]

    found = asyncio.run(heard(api, until=lambda events: events[-1] is not LISTED))

    assert found[-1] == json.loads(LINE)
    assert api.pieces["dataprepjobs"] == []


def test_after_a_cut_line_all_is_listed_again(api: StubApi) -> None:
    api.pieces["dataprepjobs"] = [Piece(LINE[:50])]

    found = asyncio.run(heard(api, until=lambda events: events.count(LISTED) == 2))

    assert found == [LISTED, LISTED]
    assert api.listed["dataprepjobs"] == 2


@pytest.mark.parametrize(
    "content",
    [
        b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd event received with PrevKv=nil"}}\n',
        b'{"type":"ERROR","object":{}}\n',
        b"null\n",
        b"[]\n",
        b'"upstream connect error"\n',
        b"<html>502 Bad Gateway</html>\n",
        b'{"kind":"Status"}\n',
        b'{"type":"MODIFIED","object":null}\n',
        b"[" * 200_000 + b"\n",
        b"\xff\xfe\n",
    ],
    ids=["an error", "an error without a code", "null", "a list", "text", "a page", "no event", "no object", "depths", "no UTF-8"],
)
def test_what_is_no_event_ends_one_stream_and_not_the_operator(api: StubApi, content: bytes) -> None:
    api.pieces["dataprepjobs"] = [Piece(content), Piece(LINE)]

    found = asyncio.run(heard(api, until=lambda events: events[-1] is not LISTED))

    assert found == [LISTED, LISTED, json.loads(LINE)]


def test_half_a_listing_does_not_count_for_the_next() -> None:
    cache = Cache()
    follower = Streams(expected=handlers.expected_streams(Settings()), cache=cache, enqueue=lambda _: None)
    name = (Kind.DATAPREPJOBS, None)
    for each in ("a", "b"):
        cache.put(Kind.DATAPREPJOBS, a_job(each))
    follower.observe(name, {"type": None, "object": a_job("a")})
    follower.reset(name)
    follower.observe(name, {"type": None, "object": a_job("b")})
    follower.observe(name, LISTED)

    assert cache.keys() == [Key("n", "b")]


# --- namespaces -------------------------------------------------------------------------------------------------------------------


def two_namespaces(cache: Cache, now: list[float], concerned: list[Key]) -> Streams:
    expected = handlers.expected_streams(Settings(namespaces=("gone", "n")))
    return Streams(expected=expected, cache=cache, enqueue=concerned.append, clock=lambda: now[0])


def test_a_namespace_that_is_gone_is_alone_in_that(api: StubApi) -> None:
    now, cache = [0.0], Cache()
    follower = two_namespaces(cache, now, [])
    api.refused.add("gone")

    def until(_: object) -> bool:
        return True

    async def both() -> None:
        asking = asyncio.create_task(heard(api, until=until, namespace="gone", follower=follower))
        while "dataprepjobs in gone" in follower.unsynced:
            await asyncio.sleep(0.01)
        assert not asking.done()
        api.refused.discard("gone")
        assert await asking == [LISTED]

    asyncio.run(both())
    assert "dataprepjobs in gone" not in follower.unsynced


def test_the_others_are_served_while_one_namespace_can_not_be_read() -> None:
    now, cache, concerned = [0.0], Cache(), list[Key]()
    follower = two_namespaces(cache, now, concerned)
    cache.put(Kind.DATAPREPJOBS, a_job("a", namespace="gone"))
    for kind in Kind:
        follower.observe((kind, "n"), LISTED)
    assert not follower.synced
    why = errors.APIForbiddenError("no rights", status=403, headers={})
    for kind in Kind:
        follower.mark_forbidden((kind, "gone"), why)

    assert follower.synced
    assert (follower.is_synced("n"), follower.is_synced("gone")) == (True, False)
    assert follower.unsynced == []

    now[0] = 200.0
    for kind in Kind:
        follower.observe((kind, "n"), {"type": "BOOKMARK", "object": {}})
        follower.mark_forbidden((kind, "gone"), why)
    assert follower.age_seconds == 0
    assert cache.keys() == []


def test_a_namespace_that_can_be_read_again_is_served_when_all_of_it_is_listed() -> None:
    now, cache, concerned = [0.0], Cache(), list[Key]()
    follower = two_namespaces(cache, now, concerned)
    cache.put(Kind.DATAPREPJOBS, a_job("a", namespace="gone"))
    for kind in Kind:
        follower.mark_forbidden((kind, "gone"), "no rights")
    for kind in Kind:
        assert not follower.is_synced("gone")
        if kind is Kind.DATAPREPJOBS:
            follower.observe((kind, "gone"), {"type": None, "object": a_job("a", namespace="gone")})
        follower.observe((kind, "gone"), LISTED)

    assert not follower.is_synced("gone")
    follower.mark_cached(Kind.DATAPREPJOBS, "uid-a")
    assert follower.is_synced("gone")
    assert Key("gone", "a") in concerned
