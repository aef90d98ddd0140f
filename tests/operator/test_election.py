"""A leader's Lease is kept on a thread of its own, whatever the event loop is busy with."""

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.operator.test_lease import FakeLeases

from dataprep_operator import __main__ as program
from dataprep_operator.errors import LeaseLost
from dataprep_operator.informer.cache import Cache
from dataprep_operator.informer.streams import Streams
from dataprep_operator.leadership import election, lease, scope
from dataprep_operator.leadership.election import LeaderElector
from dataprep_operator.settings import Settings

PATIENCE_SECONDS = 60.0


class Leases(FakeLeases):
    """The Leases of a namespace, of which the first one that is renewed counts."""

    clock = staticmethod(lambda: datetime.now(UTC))

    def __init__(self) -> None:
        super().__init__()
        self.markers = FakeLeases()
        self.renewed = threading.Semaphore(0)
        self.closed = 0

    async def get(self, *asked: Any) -> dict[str, Any]:
        return await self.markers.get() if "scope" in asked[-1] else await super().get()

    async def create(self, resource: Any, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        if "scope" in body["metadata"]["name"]:
            return await self.markers.create(resource, namespace, body)
        return await super().create(resource, namespace, body)

    async def replace(self, resource: Any, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if "scope" in name:
            return await self.markers.replace(resource, namespace, name, body)
        stored = await super().replace(resource, namespace, name, body)
        self.renewed.release()
        return stored

    async def list(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        return []

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(scope, "RENEW_SECONDS", 0.01)


def an_election(leases: Leases, lost: list[BaseException]) -> LeaderElector:
    async def connect() -> Any:  # Any: what a Lease asks for
        return leases

    settings = Settings(lease_namespace="n", identity="one")
    return LeaderElector(connect=connect, settings=settings, clock=leases.clock, lost=lost.append)


def test_the_lease_is_renewed_while_the_event_loop_stands_still() -> None:
    leases, heard = Leases(), Streams(expected=frozenset(), cache=Cache(), enqueue=lambda _: None)

    async def leadership() -> None:
        # No other task has a turn meanwhile.
        for _ in range(5):
            assert leases.renewed.acquire(timeout=PATIENCE_SECONDS)

    async def lives() -> None:
        elector = an_election(leases, [])
        await program._lead_when_elected(leadership(), elector=elector, streams=heard, stop=asyncio.Event())
        assert elector.is_leader

    asyncio.run(lives())
    assert leases.body is not None
    assert leases.body["spec"]["holderIdentity"] == ""
    assert leases.closed == 1


def test_a_lease_that_another_has_taken_is_told_at_once() -> None:
    leases, told = Leases(), threading.Event()
    lost: list[BaseException] = []

    async def lives() -> None:
        election = an_election(leases, lost)

        def tell(error: BaseException) -> None:
            lost.append(error)
            told.set()

        election._lost = tell
        await election.begin()
        assert election.is_leader
        assert leases.body is not None
        leases._store(leases.body | {"spec": leases.body["spec"] | {"holderIdentity": "two"}})
        # The process would be gone by now.
        assert told.wait(PATIENCE_SECONDS)
        await election.end()

    asyncio.run(lives())
    assert [type(each) for each in lost] == [LeaseLost]


def test_an_event_loop_that_stands_still_for_long_loses_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(election, "_STANDS_STILL_SECONDS", 0.5)
    monkeypatch.setattr(election, "_BEAT_SECONDS", 0.01)
    told = threading.Event()
    lost: list[BaseException] = []

    async def lives() -> None:
        turn = an_election(Leases(), lost)

        def tell(error: BaseException) -> None:
            lost.append(error)
            told.set()

        turn._lost = tell
        await turn.begin()
        # Nobody else has a turn, and the process would be gone by now.
        assert told.wait(PATIENCE_SECONDS)
        await turn.end()

    asyncio.run(lives())
    assert [type(each) for each in lost] == [LeaseLost]
    assert "the event loop has not responded" in str(lost[0])


def test_an_election_that_has_not_begun_ends_without_the_lease() -> None:
    async def lives() -> None:
        leases = Leases()
        other = an_election(leases, [])
        await other.begin()
        waiting = an_election(leases, [])
        waiting._settings = Settings(lease_namespace="n", identity="two")
        begin = asyncio.create_task(waiting.begin())
        await asyncio.sleep(0.05)
        begin.cancel()
        await waiting.end()
        assert not waiting.is_leader
        assert leases.body is not None
        assert leases.body["spec"]["holderIdentity"] == "one"
        await other.end()
        await an_election(leases, []).end()

    asyncio.run(lives())
