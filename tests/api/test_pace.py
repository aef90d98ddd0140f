"""Tests of the arithmetic of request rates, and a simulation of senders that use this arithmetic."""

import math
from collections import deque

import pytest

from dataprep_api.pace import CHANCE_RATE, HIGHEST_RATE, LOWEST_RATE, Pace, may_be_chance, shares, wanted


def cut(rate: float = math.inf, *, accepted: float, by_chance: bool = False) -> float:
    pace = Pace(rate=rate, since=0.0)
    return pace.after_refusal(accepted=accepted, by_chance=by_chance, now=0.0).rate


def test_without_a_refusal_the_rate_is_unlimited() -> None:
    assert Pace().rate_at(1e9) == math.inf


@pytest.mark.parametrize(
    ("rate", "accepted", "expected"),
    [
        pytest.param(math.inf, 50.0, 46.0, id="first"),
        pytest.param(50.0, 50.0, 46.0, id="of a known rate"),
        pytest.param(10.0, 50.0, 9.2, id="never up"),
        pytest.param(math.inf, 0.0, 0.92, id="nothing accepted"),
        pytest.param(0.1, 0.0, LOWEST_RATE, id="never to nothing"),
    ],
)
def test_a_refusal_cuts_the_rate_below_what_was_accepted(rate: float, accepted: float, expected: float) -> None:
    assert cut(rate, accepted=accepted) == pytest.approx(expected)


def test_a_refusal_that_may_be_chance_leaves_a_quiet_sender_room() -> None:
    assert cut(accepted=2.0, by_chance=True) == pytest.approx(0.92 * CHANCE_RATE)
    assert cut(10.0, accepted=2.0, by_chance=True) == pytest.approx(9.2)


@pytest.mark.parametrize(("sent", "refused", "chance"), [(2, 1, True), (4, 3, False), (100, 10, True), (100, 11, False)])
def test_few_refusals_may_be_chance(sent: int, refused: int, chance: bool) -> None:
    assert may_be_chance(sent=sent, refused=refused) is chance


def test_the_rate_rises_by_one_percent_a_second_and_later_faster() -> None:
    pace = Pace(rate=100.0, since=10.0)

    assert pace.rate_at(10.9) == 100.0
    assert pace.rate_at(11.0) == pytest.approx(101.0)
    assert pace.rate_at(25.0) == pytest.approx(100 * 1.01**15)
    assert pace.rate_at(35.0) == pytest.approx(100 * 1.01**15 * 1.1**10)
    assert pace.rate_at(1e7) == HIGHEST_RATE


def test_a_rate_of_someone_else_is_continued() -> None:
    pace = Pace(rate=5.0, since=0.0, cut_at=0.0).adopted(20.0, now=9.0)

    assert (pace.rate_at(9.0), pace.cut_at) == (20.0, 0.0)


def test_a_rate_is_divided_by_what_senders_want() -> None:
    assert shares(40.0, {"a": math.inf, "b": math.inf}) == {"a": 20.0, "b": 20.0}
    assert shares(40.0, {"a": math.inf, "b": 10.0, "c": math.inf}) == {"a": 15.0, "b": 10.0, "c": 15.0}
    assert shares(40.0, {"a": 0.0, "b": math.inf}) == {"a": 5.0, "b": 35.0}, "an idle sender can begin at once"
    assert shares(40.0, {"a": 6.0, "b": 10.0}) == {"a": 18.0, "b": 22.0}
    assert wanted(per_second=8.0, is_waiting=False) == 10.0
    assert wanted(per_second=8.0, is_waiting=True) == math.inf


@pytest.mark.slow
def test_senders_together_stay_just_below_what_the_store_allows() -> None:
    allowed, seconds, paces = 50, 60, [Pace() for _ in range(4)]
    window: deque[float] = deque()
    last = [0.0] * len(paces)
    accepted: list[list[float]] = [[] for _ in paces]
    refused: list[float] = []
    for now in (millisecond / 1000 for millisecond in range(seconds * 1000)):
        for sender, pace in enumerate(paces):
            if now - last[sender] < max(0.005, 1 / pace.rate_at(now)):
                continue
            last[sender] = now
            while window and window[0] <= now - 1:
                window.popleft()
            if len(window) < allowed:
                window.append(now)
                accepted[sender].append(now)
                continue
            refused.append(now)
            if now >= pace.cut_at + 1:
                lately = sum(at > now - 1 for at in accepted[sender][-allowed:])
                paces[sender] = pace.after_refusal(accepted=lately, by_chance=False, now=now)

    later = [at for each in accepted for at in each if at >= 10]
    refused_later = [at for at in refused if at >= 10]
    assert len(refused_later) / (len(later) + len(refused_later)) < 0.05
    assert len(later) / (seconds - 10) > 0.85 * allowed
