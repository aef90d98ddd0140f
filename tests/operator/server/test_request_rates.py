"""The division of a job's requests among its pods. The rates themselves are tested with simulated pods, in the converter's tests."""

import time

import pytest

from dataprep_api.dataset.messages import MOST_STORES, RequestCounts
from dataprep_operator.server.request_rates import RequestRates


def counts(sent: int, refused: int = 0, *, limit: float | None = None, seconds: float = 1.0) -> dict[str, RequestCounts]:
    return {"0": RequestCounts(seconds=seconds, sent=sent, refused=refused, is_waiting=True, limit=limit)}


def test_without_a_limit_and_refusals_there_are_no_shares() -> None:
    rates = RequestRates()

    assert rates.shares(counts(100), pod_uid="a", now=0, interval=2) == {}
    assert rates.shares(counts(200), pod_uid="a", now=2, interval=2) == {}


def test_a_refusal_slows_all_pods() -> None:
    rates = RequestRates()
    rates.shares(counts(25), pod_uid="a", now=0, interval=2)
    rates.shares(counts(25), pod_uid="b", now=0, interval=2)

    first = rates.shares(counts(25 + 80, 30), pod_uid="a", now=2, interval=2)
    second = rates.shares(counts(25 + 50), pod_uid="b", now=2, interval=2)

    # The store accepted 25 requests per second from each pod.
    assert first == second == {"0": 23.0}


def test_refusals_from_before_all_pods_knew_of_a_cut_do_not_cut_again() -> None:
    rates = RequestRates()
    for pod in ("a", "b"):
        rates.shares(counts(50), pod_uid=pod, now=0, interval=2)
    [cut] = rates.shares(counts(150, 30), pod_uid="a", now=2, interval=2).values()

    [after] = rates.shares(counts(150, 30), pod_uid="b", now=3, interval=2).values()

    assert after >= 0.9 * cut


def test_a_limit_is_divided_among_the_pods_that_report() -> None:
    rates = RequestRates()

    assert rates.shares(counts(1, limit=30.0), pod_uid="a", now=0, interval=2) == {"0": 30.0}
    rates.shares(counts(1, limit=30.0), pod_uid="b", now=1, interval=2)
    assert rates.shares(counts(60, limit=30.0), pod_uid="a", now=2, interval=2) == {"0": 15.0}
    assert rates.shares(counts(20, limit=30.0), pod_uid="b", now=3, interval=2) == {"0": 15.0}
    assert rates.shares(None, pod_uid="a", now=4, interval=2) == {}
    assert rates.shares(counts(50, limit=30.0), pod_uid="b", now=5, interval=2) == {"0": 30.0}


def test_what_another_pod_still_holds_is_not_given_away_except_for_a_little() -> None:
    rates = RequestRates()
    assert rates.shares(counts(40, limit=40.0), pod_uid="a", now=0, interval=2) == {"0": 40.0}

    # Half of the 40 requests are meant for pod b, but pod a still sends all 40 until it reports again. So pod b gets only a few at first.
    assert rates.shares(counts(1, limit=40.0), pod_uid="b", now=1, interval=2) == {"0": 5.0}
    assert rates.shares(counts(120, limit=40.0), pod_uid="a", now=2, interval=2) == {"0": 20.0}
    assert rates.shares(counts(11, limit=40.0), pod_uid="b", now=3, interval=2) == {"0": 20.0}


def test_a_report_that_follows_at_once_is_not_measured() -> None:
    rates = RequestRates()
    rates.shares(counts(100), pod_uid="a", now=0, interval=2)
    assert rates.shares(counts(110, 10), pod_uid="a", now=0, interval=2) == {}

    [share] = rates.shares(counts(140, 20), pod_uid="a", now=2, interval=2).values()
    assert share == pytest.approx(0.92 * (140 - 100 - 20) / 2)


def test_a_silent_pod_loses_its_share() -> None:
    rates = RequestRates()
    for pod in ("a", "b"):
        rates.shares(counts(1, limit=30.0), pod_uid=pod, now=0, interval=2)

    assert rates.shares(counts(99, limit=30.0), pod_uid="a", now=11, interval=2) == {"0": 30.0}


def test_counts_that_begin_again_are_those_of_a_new_process() -> None:
    rates = RequestRates()
    rates.shares(counts(500, 100), pod_uid="a", now=0, interval=2)

    assert rates.shares(counts(8), pod_uid="a", now=2, interval=2) == {}
    [share] = rates.shares(counts(28, 10), pod_uid="a", now=4, interval=2).values()
    assert share == pytest.approx(0.92 * (28 - 8 - 10) / 2)


def test_counts_that_begin_again_take_nothing_from_those_of_other_pods() -> None:
    rates = RequestRates()
    for pod in ("a", "b"):
        rates.shares(counts(500), pod_uid=pod, now=0, interval=2)
    rates.shares(counts(10), pod_uid="a", now=2, interval=2)

    shares = rates.shares(counts(500 + 100, 20), pod_uid="b", now=2, interval=2)
    # In its first second, pod a sent 10 requests, and the store accepted 40 requests per second from pod b.
    assert shares == {"0": pytest.approx(0.92 * (10 + 40) / 2)}


def test_made_up_stores_take_no_memory() -> None:
    rates = RequestRates()
    for number in range(10 * MOST_STORES):
        rates.shares({str(number): RequestCounts(sent=1, limit=5.0)}, pod_uid="a", now=number, interval=2)

    assert len(rates._stores) == MOST_STORES


@pytest.mark.slow
def test_a_rate_is_divided_among_many_pods_in_time() -> None:
    rates, pods = RequestRates(), 1000
    for report in range(2):
        begun = time.process_time()
        given = {
            pod: rates.shares(counts(report, limit=500.0), pod_uid=str(pod), now=10 * report + pod / 100, interval=10)["0"]
            for pod in range(pods)
        }
        assert (time.process_time() - begun) / pods < 0.002

    assert sum(given.values()) == pytest.approx(500.0, rel=0.03)
