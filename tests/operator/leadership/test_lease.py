"""The Lease: one replica leads, and another takes over when the leader is silent."""

import asyncio

import pytest
from tests.builders.leases import FakeLeases, a_lease

from dataprep_operator.errors import LeaseLost
from dataprep_operator.leadership import lease as lease_module


def test_one_of_two_replicas_leads_and_the_other_takes_over_when_it_is_silent() -> None:
    leases, now = FakeLeases(), [0.0]
    one, two = a_lease(leases, "one", now), a_lease(leases, "two", now)

    async def lives() -> None:
        assert await one.try_once()
        assert not await two.try_once()
        now[0] = 9.0
        assert await one.try_once()
        now[0] = 11.0
        assert not await two.try_once()
        now[0] = 22.5
        assert not await two.try_once()
        now[0] = 23.5
        assert await two.try_once()
        assert not await one.try_once()

    asyncio.run(lives())


def test_a_standby_asks_at_the_moment_that_the_lease_of_a_dead_leader_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    leases, now = FakeLeases(), [0.0]
    one, two = a_lease(leases, "one", now), a_lease(leases, "two", now)

    async def passing(seconds: float) -> None:
        now[0] += seconds

    async def lives() -> None:
        assert await one.try_once()
        monkeypatch.setattr(asyncio, "sleep", passing)
        await two.acquire()

    asyncio.run(lives())
    assert 12 < now[0] < 12.2


def test_a_lease_is_given_up_before_another_can_take_it() -> None:
    assert lease_module.RENEW_DEADLINE_SECONDS + lease_module.RETRY_SECONDS < lease_module.DURATION_SECONDS


def test_a_standby_goes_by_the_duration_that_an_older_leader_has_written() -> None:
    leases, now = FakeLeases(), [0.0]
    one, two = a_lease(leases, "one", now), a_lease(leases, "two", now)

    async def lives() -> None:
        assert await one.try_once()
        assert leases.body is not None
        leases.body["spec"]["leaseDurationSeconds"] = 15
        assert not await two.try_once()
        now[0] = 14.0
        assert not await two.try_once()
        now[0] = 15.5
        assert await two.try_once()

    asyncio.run(lives())


def test_a_released_lease_is_free_at_once() -> None:
    leases, now = FakeLeases(), [0.0]
    one, two = a_lease(leases, "one", now), a_lease(leases, "two", now)

    async def lives() -> None:
        await one.try_once()
        await one.release()
        assert await two.try_once()

    asyncio.run(lives())


def test_a_leader_that_can_not_renew_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    leases, now = FakeLeases(), [0.0]
    lease = a_lease(leases, "one", now)

    async def passing(seconds: float) -> None:
        now[0] += seconds

    async def lives() -> None:
        await lease.try_once()
        leases.down = True
        monkeypatch.setattr(asyncio, "sleep", passing)
        with pytest.raises(LeaseLost):
            await lease.hold()

    asyncio.run(lives())
    assert 9 <= now[0] < 12


def test_a_leader_that_is_not_answered_once_asks_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    leases, now, pauses = FakeLeases(), [0.0], list[float]()
    lease = a_lease(leases, "one", now)

    async def passing(seconds: float) -> None:
        now[0] += seconds
        pauses.append(seconds)
        leases.down = len(pauses) == 2
        if len(pauses) == 5:
            raise asyncio.CancelledError

    async def lives() -> None:
        await lease.try_once()
        monkeypatch.setattr(asyncio, "sleep", passing)
        with pytest.raises(asyncio.CancelledError):
            await lease.hold()

    asyncio.run(lives())
    assert pauses == [2.0, 2.0, 0.5, 2.0, 2.0]
