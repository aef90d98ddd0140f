import threading
import time
from collections.abc import Iterator

import pytest

from dataprep_converter.runtime.ahead import continue_alone, end_if_not_needed, mapped_ahead

MOST = 4


def test_the_results_come_in_order() -> None:
    waits = {0: threading.Event(), 1: threading.Event()}

    def call(item: int) -> int:
        if item == 0:
            assert waits[1].wait(timeout=60)  # the second call ends before the first one
        if item == 1:
            waits[1].set()
        return item * 10

    assert list(mapped_ahead(call, range(20), most=MOST)) == [item * 10 for item in range(20)]


def test_so_many_calls_run_at_the_same_time() -> None:
    meeting = threading.Barrier(MOST, timeout=60)

    def call(item: int) -> int:
        meeting.wait()
        return item

    assert list(mapped_ahead(call, range(2 * MOST), most=MOST)) == list(range(2 * MOST))


def test_items_are_taken_when_they_are_needed() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = mapped_ahead(str, items(), most=MOST)
    assert (next(results), taken) == ("0", [0, 1, 2, 3])
    assert (next(results), taken) == ("1", [0, 1, 2, 3, 4])
    results.close()
    assert taken == [0, 1, 2, 3, 4]


def test_an_error_is_raised_when_its_result_is_due() -> None:
    def call(item: int) -> int:
        if item == 2:
            raise ValueError("two")
        return item

    results = mapped_ahead(call, range(10), most=MOST)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)


def test_closing_waits_for_calls_that_have_begun_and_begins_no_others() -> None:
    begun: list[int] = []
    ended: list[int] = []
    second_has_begun = threading.Event()

    def call(item: int) -> int:
        begun.append(item)
        if item == 1:
            second_has_begun.set()
            threading.Event().wait(0.1)
        ended.append(item)
        return item

    results = mapped_ahead(call, range(10), most=2)
    assert next(results) == 0
    assert second_has_begun.wait(timeout=60)
    results.close()
    assert sorted(begun) == sorted(ended)
    assert begun[-1] <= 2


def test_an_error_of_the_items_comes_after_the_results_and_errors_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(2)
        raise KeyError("no more items")

    def call(item: int) -> int:
        if item == fails:
            raise ValueError("a bad item")
        return item

    fails = -1
    results = mapped_ahead(call, items(), most=MOST)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(KeyError, match="no more items"):
        next(results)
    fails = 1
    with pytest.raises(ValueError, match="a bad item"):
        list(mapped_ahead(call, items(), most=MOST))


def test_a_long_call_ends_early_if_its_result_is_not_needed() -> None:
    begun, ended = threading.Event(), threading.Event()

    def call(item: int) -> int:
        if item == 0:
            begun.wait(60)
            raise ValueError("the first fails")
        begun.set()
        try:
            while True:
                end_if_not_needed()
                time.sleep(0.001)
        finally:
            ended.set()

    with pytest.raises(ValueError, match="the first fails"):
        list(mapped_ahead(call, range(2), most=2))
    assert ended.is_set()


def test_a_call_outside_of_any_is_needed() -> None:
    end_if_not_needed()


def test_work_that_takes_much_memory_is_repeated_by_the_thread_that_takes_the_results() -> None:
    def call(item: int) -> tuple[int, bool]:
        if item % 2:
            continue_alone()
        return item, threading.current_thread().name.startswith("ahead")

    assert list(mapped_ahead(call, range(6), most=2)) == [(item, not item % 2) for item in range(6)]
    assert call(5) == (5, False)
