"""Reading ahead in a thread: items keep their order, errors are raised, and the thread ends in every case."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from dataprep_converter.runtime.prefetch import prefetched


def endless(seen: list[int]) -> Iterator[int]:
    while True:
        seen.append(len(seen))
        yield seen[-1]


def producers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_items_come_in_order_and_a_few_ahead() -> None:
    seen: list[int] = []
    items = prefetched(endless(seen), depth=2)
    assert [next(items) for _ in range(100)] == list(range(100))
    items.close()
    assert len(seen) <= 104
    assert producers() == []


def test_the_error_of_the_producer_comes_in_its_place() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    items = prefetched(failing())
    assert next(items) == 1
    with pytest.raises(LookupError, match="no more"):
        next(items)
    assert producers() == []


def test_what_the_items_hold_open_is_let_go_at_the_end() -> None:
    held = ["a file"]

    def reading() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            held.clear()

    items = prefetched(reading())
    kept = [items, next(items)]
    items.close()
    assert held == []
    assert kept[1] == 0


def test_an_interrupt_while_the_thread_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(prefetched(endless([])))
    assert producers() == []
