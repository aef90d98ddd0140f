"""The request budget: simulations of pods with and without an operator, and real threads."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.converter.runtime.throttled import Pod, Store, refused, run

from dataprep_converter.core.errors import Unreachable
from dataprep_converter.runtime.request_budget import RequestBudget
from dataprep_converter.runtime.retry import RetryPolicy, retrying


@pytest.fixture(autouse=True)
def same_jitter() -> None:
    random.seed(7)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 4, 20, 100])
def test_pods_that_report_are_rarely_refused_and_share_equally(number: int) -> None:
    pods, store = [Pod(starts=2.0 * index / number) for index in range(number)], Store(50)

    run(pods, store, seconds=60)

    assert refused(pods, 10, 60) <= 0.05
    assert sum(pod.rate(10, 60) for pod in pods) >= 30
    rates = [pod.rate(20, 60) for pod in pods]
    assert max(rates) < 3 * min(rates)


@pytest.mark.parametrize("number", [1, 4])
def test_processes_without_an_operator_slow_down_too(number: int) -> None:
    pods = [Pod() for _ in range(number)]

    run(pods, Store(50), seconds=60, shared=False)

    assert refused(pods, 10, 60) <= 0.05
    assert sum(pod.rate(10, 60) for pod in pods) >= 40


def test_a_pod_with_little_to_send_leaves_the_rest_to_the_others() -> None:
    slow, fast = Pod(threads=1, pause_seconds=1.0), Pod()

    run([slow, fast], Store(50), seconds=60)

    assert fast.rate(20, 60) > 35
    assert slow.rate(20, 60) > 0.8


def test_the_share_of_a_pod_that_has_ended_goes_to_the_others() -> None:
    ending, other = Pod(ends=20.0), Pod()

    run([ending, other], Store(50), seconds=60)

    assert other.rate(10, 20) < 30
    assert other.rate(40, 60) > 35


@pytest.mark.parametrize("shared", [True, False])
def test_the_limit_of_the_spec_is_for_all_pods_together(shared: bool) -> None:
    pods = [Pod(limit=30.0) for _ in range(4)]

    run(pods, Store(1000), seconds=40, shared=shared)

    assert 27 < sum(pod.rate(10, 40) for pod in pods) <= 30.5
    assert max(pod.rate(10, 40) for pod in pods) < 9


def test_an_only_refusal_hardly_slows_a_quiet_process() -> None:
    now = 0.0
    budget = RequestBudget(clock=lambda: now)
    budget.answered(503, sent_at=budget.wait_turn())

    now += 1 / 18
    assert budget.take_turn() == 0


def test_other_errors_change_nothing() -> None:
    budget = RequestBudget()
    for status in (200, 404, 500, 502):
        budget.answered(status, sent_at=budget.wait_turn())

    assert (budget.counts.sent, budget.counts.refused) == (4, 0)
    assert budget.take_turn() == 0


def test_threads_take_turns_at_the_limit() -> None:
    budget = RequestBudget(limit=100.0)
    begun = time.monotonic()

    with ThreadPoolExecutor(4) as threads:
        sent = sorted(threads.map(lambda _: budget.wait_turn(), range(21)))

    assert sent[-1] - begun >= 0.195
    assert max(sum(start <= at < start + 0.1 for at in sent) for start in sent) <= 16, "only short delays are made up for"


def test_processes_divide_the_limit() -> None:
    now = 0.0
    budget = RequestBudget(limit=10.0, clock=lambda: now)
    budget.share_among(5)

    budget.wait_turn()

    assert 0.25 <= budget.take_turn() <= 0.75, "2 a second, with jitter"


def test_a_share_without_a_limit_rises_until_the_next_report() -> None:
    now = [0.0]
    budget = RequestBudget(clock=lambda: now[0])
    budget.adopt(10.0)
    now[0] = 30.0

    assert budget.take_turn() == 0.0
    assert budget.take_turn() == pytest.approx(1 / (10 * 1.01**15 * 1.1**15))


def test_a_thread_that_wakes_up_a_little_late_delays_no_later_turn() -> None:
    now = [0.0]
    budget = RequestBudget(limit=10.0, clock=lambda: now[0])
    assert budget.take_turn() == 0.0

    now[0] = 0.13
    assert budget.take_turn() == 0.0
    assert budget.take_turn() == pytest.approx(0.2 - 0.13)


def test_the_time_of_waiting_for_a_turn_does_not_end_the_retries() -> None:
    budget = RequestBudget(limit=20.0)
    attempts = 0

    def attempt() -> None:
        nonlocal attempts
        attempts += 1
        budget.wait_turn()
        raise Unreachable("503")

    # Waiting for turns takes longer than `total_seconds`, but doesn't count towards this limit.
    with pytest.raises(Unreachable):
        retrying(attempt, what="a test", policy=RetryPolicy(attempts=6, total_seconds=0.1, first_delay_seconds=0.001))
    assert attempts == 6


def test_a_waiting_request_learns_that_its_turn_comes_earlier() -> None:
    budget = RequestBudget(limit=0.1)
    budget.wait_turn()
    waiting = threading.Thread(target=budget.wait_turn, daemon=True)
    waiting.start()
    while not budget.counts.is_waiting:
        time.sleep(0.001)

    budget.adopt(1000.0)

    waiting.join(timeout=5)
    assert not waiting.is_alive()
    assert budget.counts.sent == 2
