"""Retries are limited by the number of attempts and by the total time, and depend on the kind of error."""

from collections.abc import Callable

import pytest

from dataprep_converter.core.errors import NotFound, Unreachable
from dataprep_converter.runtime.retry import RetryPolicy, add_wait, retrying, with_deadline


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def failing(times: int, error: Exception, answer: str = "answer") -> tuple[list[int], Callable[[], str]]:
    calls: list[int] = []

    def call() -> str:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return answer

    return calls, call


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_an_unreachable_store_is_asked_again(clock: Clock) -> None:
    calls, call = failing(3, Unreachable("down"))

    assert retrying(call, what="reading", sleep=clock.sleep, clock=clock) == "answer"
    assert len(calls) == 4


def test_delays_double_with_jitter_up_to_a_longest_one(clock: Clock) -> None:
    _, call = failing(99, Unreachable("down"))
    patience = RetryPolicy(attempts=8, total_seconds=1000, first_delay_seconds=1, longest_delay_seconds=8)

    with pytest.raises(Unreachable):
        retrying(call, what="reading", policy=patience, sleep=clock.sleep, clock=clock)

    assert len(clock.slept) == 7
    for slept, longest in zip(clock.slept, [1, 2, 4, 8, 8, 8, 8], strict=True):
        assert longest / 2 <= slept <= longest


def test_no_attempt_begins_after_the_total_time(clock: Clock) -> None:
    _, call = failing(99, Unreachable("down"))

    with pytest.raises(Unreachable, match="down"):
        retrying(call, what="reading", policy=RetryPolicy(attempts=99, total_seconds=10), sleep=clock.sleep, clock=clock)

    assert sum(clock.slept) <= 10


def test_other_errors_are_raised_at_once(clock: Clock) -> None:
    calls, call = failing(99, NotFound("nothing there"))

    with pytest.raises(NotFound):
        retrying(call, what="reading", sleep=clock.sleep, clock=clock)
    assert len(calls) == 1


def test_a_limit_around_it_wins() -> None:
    calls, call = failing(99, Unreachable("down"))

    with with_deadline(seconds=0), pytest.raises(Unreachable):
        retrying(call, what="reading")
    assert len(calls) == 1


def test_the_wait_for_a_turn_does_not_count(clock: Clock) -> None:
    calls: list[int] = []

    def call() -> str:
        calls.append(1)
        clock.now += 60
        add_wait(60)
        if len(calls) < 4:
            raise Unreachable("refused")
        return "answer"

    assert retrying(call, what="it", sleep=clock.sleep, clock=clock) == "answer"
