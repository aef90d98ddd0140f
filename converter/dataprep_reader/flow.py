"""Flow: passes items from reading threads to the computing thread. The number of items in progress is always bounded."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa

Item = TypeVar("Item")
Run: TypeAlias = Callable[[], Iterator[Item]]
"""A function that starts to read a sequence of items. Only one thread at a time reads a sequence."""

_END: Final[Any] = object()  # marks the end of the items
_arrow: Any = pa  # the stubs lack some functions


def in_order(runs: Iterable[Run[Item]], *, threads: int) -> Iterator[Item]:
    """Yields the items of all runs, one run after another. Reads `threads` runs at the same time, and one item of each run in advance.

    If a run fails, its error is raised in place of the run's next item. Closing the generator waits for the items that are being read.
    """
    unstarted = iter(runs)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="dataprep-read")
    reading: deque[tuple[Iterator[Item], Future[Item]]] = deque()

    def begin() -> None:
        for run in itertools.islice(unstarted, threads - len(reading)):
            items = run()
            reading.append((items, pool.submit(next, items, _END)))

    try:
        begin()
        while reading:
            items, coming = reading[0]
            item = coming.result()
            if item is _END:
                reading.popleft()
                begin()
                continue
            reading[0] = (items, pool.submit(next, items, _END))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)


def ahead(items: Iterator[Item], *, depth: int) -> Iterator[Item]:
    """Yields the items, which a separate thread makes in advance. At most `depth` items are in progress or waiting for the caller."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="dataprep-ahead")
    try:
        coming = deque(pool.submit(next, items, _END) for _ in range(depth))
        while (item := coming.popleft().result()) is not _END:
            coming.append(pool.submit(next, items, _END))
            yield item
            del item  # otherwise this item would stay in memory until the next item arrives
    finally:
        pool.shutdown(cancel_futures=True)


def cut(pieces: Iterable[pa.RecordBatch], sizes: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of `pieces` in batches of the given sizes. Each size is at least 1, and the sizes need not cover all rows."""
    sizes_left = iter(sizes)
    size = next(sizes_left, None)
    slices: list[pa.RecordBatch] = []
    rows = 0
    for piece in pieces:
        used = 0
        while size is not None and rows + piece.num_rows - used >= size:
            slices.append(piece.slice(used, size - rows))
            used += size - rows
            batch, slices, rows = _join(slices), [], 0
            yield batch
            del batch
            size = next(sizes_left, None)
        if size is None:
            return
        if used < piece.num_rows:
            slices.append(piece.slice(used))
            rows += piece.num_rows - used


def _join(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    batch: pa.RecordBatch = pieces[0] if len(pieces) == 1 else _arrow.concat_batches(pieces)
    return batch
