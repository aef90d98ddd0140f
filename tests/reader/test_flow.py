"""Threads that read ahead: the order of items, the limits, errors at the right position, and reading during computations."""

import gc
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_reader.flow import Run, ahead, cut, in_order

PATIENCE_SECONDS = 60
"""If nothing has happened for this long, the test fails. This limit has nothing to do with performance."""


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("dataprep-")]


def rows(numbers: range) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(1, 4))
def test_runs_come_in_order_whatever_the_threads(sizes: list[int], count: int) -> None:
    runs = [partial(iter, [(run, item) for item in range(size)]) for run, size in enumerate(sizes)]
    assert list(in_order(runs, threads=count)) == [(run, item) for run, size in enumerate(sizes) for item in range(size)]
    assert threads() == []


def test_as_many_runs_are_read_at_once_as_there_are_threads() -> None:
    together = threading.Barrier(3)

    def run(number: int) -> Iterator[int]:
        if number < 3:
            together.wait(PATIENCE_SECONDS)
        yield number

    assert list(in_order([partial(run, number) for number in range(6)], threads=3)) == list(range(6))


def test_runs_are_begun_only_as_far_as_threads_go() -> None:
    begun: list[int] = []

    def run(number: int) -> Iterator[int]:
        begun.append(number)
        yield number

    items = in_order((partial(run, number) for number in range(100)), threads=2)
    assert [next(items) for _ in range(5)] == list(range(5))
    assert max(begun) <= 6
    items.close()  # type: ignore[attr-defined]  # a generator, but the type doesn't say so
    assert threads() == []


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_of_a_run_comes_in_its_place(count: int) -> None:
    def failing() -> Iterator[int]:
        yield 2
        raise LookupError("no more")

    runs: list[Run[int]] = [partial(iter, [0, 1]), failing, partial(iter, [3])]
    items = in_order(runs, threads=count)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(LookupError, match="no more"):
        next(items)
    assert threads() == []


class Tracked:
    """An object that is counted while it is in memory."""


def test_no_more_batches_are_in_memory_than_the_depth_and_the_one_in_use() -> None:
    alive: weakref.WeakSet[Tracked] = weakref.WeakSet()
    most = 0

    def made() -> Iterator[Tracked]:
        nonlocal most
        for _ in range(50):
            made = Tracked()
            alive.add(made)
            most = max(most, len(alive))
            yield made
            del made

    gc.collect()
    for batch in ahead(made(), depth=2):
        assert batch in alive
        del batch
    assert most <= 3


def test_an_error_of_what_is_made_ahead_comes_in_its_place() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    items = ahead(failing(), depth=2)
    assert next(items) == 1
    with pytest.raises(LookupError, match="no more"):
        next(items)
    assert threads() == []


N, READ_MS, COMPUTE_MS = 50, 2, 18


@pytest.mark.parametrize("depth", [1, 2])
def test_reading_goes_on_while_the_other_computes(depth: int) -> None:
    """Reading an item takes 2 ms, and computing with it takes 18 ms. So 50 items take about 900 ms if the computation waits only for the
    first read, and 1,000 ms if it waits for every read."""
    was_read = [threading.Event() for _ in range(N)]

    def slow(item: int) -> Iterator[int]:
        was_read[item].set()
        yield item

    waited = 0
    for item in ahead(in_order((partial(slow, item) for item in range(N)), threads=1), depth=depth):
        # The next item must be read during this computation. If it were read only on request, this wait would time out.
        if item + 1 < N and not was_read[item + 1].wait(PATIENCE_SECONDS):
            waited += 1
    waited += 1  # the first item is always waited for
    assert waited == 1
    assert waited * READ_MS / (waited * READ_MS + N * COMPUTE_MS) <= 0.02


@given(st.lists(st.integers(0, 12), max_size=9), st.lists(st.integers(1, 12), max_size=9))
def test_batches_are_cut_to_their_sizes(pieces: list[int], sizes: list[int]) -> None:
    ends = [sum(pieces[: number + 1]) for number in range(len(pieces))]
    found = [
        batch.column("n").to_pylist()
        for batch in cut((rows(range(end - size, end)) for size, end in zip(pieces, ends, strict=True)), sizes)
    ]
    flat = [value for batch in found for value in batch]
    assert [len(batch) for batch in found] == sizes[: len(found)]
    assert flat == list(range(len(flat)))
    assert len(found) == len(sizes) or sum(pieces) < sum(sizes[: len(found) + 1])
