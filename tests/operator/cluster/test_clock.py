"""The operator uses the API server's time, and a replica that isn't certain that it is the leader sends no writes."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration
from tests.builders.leases import FakeLeases, a_lease

from dataprep_operator.cluster.clock import Clock
from dataprep_operator.cluster.cluster import JOBS, LEASES, KubernetesCluster
from dataprep_operator.errors import Unavailable

HERE = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("date", "took", "expected"),
    [
        pytest.param("Sat, 31 Jan 2026 10:00:00 GMT", 0.1, HERE - timedelta(hours=2), id="ahead"),
        pytest.param("Sat, 31 Jan 2026 14:00:00 GMT", 0.1, HERE + timedelta(hours=2), id="behind"),
        pytest.param("Sat, 31 Jan 2026 12:00:04 GMT", 0.1, HERE, id="as good as right"),
        pytest.param("Sat, 31 Jan 2026 10:00:00 GMT", 60.0, HERE, id="an answer that waited"),
        pytest.param("nonsense", 0.1, HERE, id="not a date"),
        pytest.param(None, 0.1, HERE, id="no date"),
    ],
)
def test_the_clock_follows_the_api_servers(date: str | None, took: float, expected: datetime) -> None:
    clock = Clock(lambda: HERE)
    clock.observe(date, took_seconds=took)
    assert clock() == expected


def test_a_clock_that_is_set_right_is_believed_again(caplog: pytest.LogCaptureFixture) -> None:
    local = [HERE]
    clock = Clock(lambda: local[0])
    with caplog.at_level(logging.WARNING):
        clock.observe("Sat, 31 Jan 2026 10:00:00 GMT", took_seconds=0.1)
        clock.observe("Sat, 31 Jan 2026 10:00:01 GMT", took_seconds=0.1)
    assert caplog.messages == ["this machine's clock differs from the API server's clock by +7200 s; using the API server's clock"]
    local[0] = HERE - timedelta(hours=2)
    clock.observe("Sat, 31 Jan 2026 10:00:00 GMT", took_seconds=0.1)
    assert clock() == local[0]


class FakeClient:
    """A client that responds to every request with an empty object."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    async def param_serialize(self, method: str, target: str, **_: Any) -> tuple[str, str]:  # Any: the other arguments of a request
        return method, target

    async def call_api(self, method: str, target: str, **_: Any) -> Any:  # Any: a response of aiohttp
        self.sent.append((method, target))

        async def read() -> bytes:
            return b"{}"

        return SimpleNamespace(status=200, headers={}, read=read)


def test_a_replica_that_was_paused_writes_nothing_before_it_has_asked_for_the_lease() -> None:
    async def paused() -> list[tuple[str, str]]:
        now = [0.0]
        lease = a_lease(FakeLeases(), "one", now)
        client = FakeClient()
        cluster = KubernetesCluster(client, qps=100, burst=100)  # type: ignore[arg-type]  # a fake with the methods that are called
        cluster.may_write = lambda: lease.is_valid
        assert await lease.try_once()
        await cluster.create(JOBS, "n", {})
        now[0] = 30.0
        with pytest.raises(Unavailable, match="the Lease was not renewed in time"):
            await cluster.create(JOBS, "n", {})
        await cluster.get(JOBS, "n", "a")
        await cluster.replace(LEASES, "n", "l", {})
        assert await lease.try_once()
        await cluster.delete(JOBS, "n", "a", uid="u")
        return client.sent

    assert [method for method, _ in asyncio.run(paused())] == ["POST", "GET", "PUT", "DELETE"]


def test_a_replica_that_is_paused_while_it_connects_sends_nothing_when_it_wakes() -> None:
    async def woken() -> list[str]:
        met: list[str] = []

        async def answer(request: web.Request) -> web.Response:
            met.append(request.method)
            return web.json_response({})

        server = TestServer(web.Application())
        server.app.router.add_route("*", "/{path:.*}", answer)
        async with server:
            cluster = KubernetesCluster.of(Configuration(host=str(server.make_url(""))), qps=100, burst=100)
            # When the request begins, the replica is still certain to be the leader. When the request's bytes are sent, it is no longer
            # certain.
            sure = iter([True, False])
            cluster.may_write = lambda: next(sure)
            with pytest.raises(Unavailable, match="POST /apis/batch/v1/namespaces/n/jobs"):
                await cluster.create(JOBS, "n", {})
            cluster.may_write = lambda: True
            await cluster.create(JOBS, "n", {})
            cluster.may_write = lambda: False
            await cluster.get(JOBS, "n", "a")
            await cluster.replace(LEASES, "n", "l", {})
            await cluster.close()
        return met

    assert asyncio.run(woken()) == ["POST", "GET", "PUT"]
