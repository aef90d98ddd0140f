"""The leader's Lease is renewed on a separate thread, even while the event loop is busy."""

import asyncio
import threading

import pytest
from tests.builders.leases import PATIENCE_SECONDS, Leases, an_election

from dataprep_operator import __main__ as program
from dataprep_operator.errors import LeaseLost, Overlap
from dataprep_operator.informer.cache import Cache
from dataprep_operator.informer.streams import Streams
from dataprep_operator.leadership import election, lease, scope
from dataprep_operator.settings import Settings


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(scope, "RENEW_SECONDS", 0.01)


def test_the_lease_is_renewed_while_the_event_loop_stands_still() -> None:
    leases, heard = Leases(), Streams(expected=frozenset(), cache=Cache(), enqueue=lambda _: None)

    async def leadership() -> None:
        # This blocks the event loop, so no other task can run in the meantime.
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

        election._on_lost = tell
        await election.begin()
        assert election.is_leader
        assert leases.body is not None
        leases._store(leases.body | {"spec": leases.body["spec"] | {"holderIdentity": "two"}})
        # Outside the test, the process would have exited by now.
        assert told.wait(PATIENCE_SECONDS)
        await election.end()

    asyncio.run(lives())
    assert [type(each) for each in lost] == [LeaseLost]


def test_an_event_loop_that_stands_still_for_long_loses_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(election, "_STALL_SECONDS", 0.5)
    monkeypatch.setattr(election, "_BEAT_SECONDS", 0.01)
    told = threading.Event()
    lost: list[BaseException] = []

    async def lives() -> None:
        turn = an_election(Leases(), lost)

        def tell(error: BaseException) -> None:
            lost.append(error)
            told.set()

        turn._on_lost = tell
        await turn.begin()
        # This blocks the event loop. Outside the test, the process would have exited by now.
        assert told.wait(PATIENCE_SECONDS)
        await turn.end()

    asyncio.run(lives())
    assert [type(each) for each in lost] == [LeaseLost]
    assert "the event loop has not responded" in str(lost[0])


def a_waiting_election(leases: Leases) -> election.LeaderElector:
    """Returns a replica that waits for a Lease that another replica holds."""
    leases._store(
        {
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "two", "leaseDurationSeconds": 600, "renewTime": "2100-01-01T00:00:00.000000Z"},
        }
    )
    return an_election(leases, [])


def test_the_markers_are_renewed_while_a_replica_waits_for_the_lease() -> None:
    """If the markers weren't renewed, they would expire, and another release would start."""

    async def lives() -> None:
        leases = Leases()
        turn = a_waiting_election(leases)
        begin = asyncio.create_task(turn.begin())
        renewals = set[str]()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(renewals) < 3:
                await asyncio.sleep(0.01)
                renewals |= {leases.markers.body["spec"]["renewTime"]} if leases.markers.body is not None else set()
        assert not turn.is_leader
        begin.cancel()
        await turn.end()

    asyncio.run(lives())


def test_a_release_that_is_refused_while_it_waits_for_the_lease_says_so() -> None:
    async def lives() -> None:
        leases = Leases()
        turn = a_waiting_election(leases)
        begin = asyncio.create_task(turn.begin())
        while leases.markers.body is None:
            await asyncio.sleep(0.01)
        while not begin.done():  # a concurrent renewal may overwrite the annotation
            marker = await leases.markers.get()
            marker["metadata"]["annotations"] = {scope.REFUSED_BY: "n/other"}
            leases.markers._store(marker)
            await asyncio.sleep(0.01)
        with pytest.raises(Overlap, match="The release n/other already manages all namespaces"):
            await begin
        await turn.end()
        assert leases.closed == 1

    asyncio.run(lives())


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
