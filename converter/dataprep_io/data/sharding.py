"""Divides a stream of rows into shards, and lets several threads write them.

A shard's rows are collected before a thread writes them. So memory holds one growing shard for each split, and the shards that the threads
are writing.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

import pyarrow as pa

from dataprep_api.spec.splits import MOST_SPLITS
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.tensors import pc
from dataprep_io.data.streams import Stream

DEFAULT_BYTES: Final = 128 << 20
_T = TypeVar("_T")
_arrow: Any = pa  # the stubs don't know slices by a mask


@dataclass(frozen=True)
class Limits:
    """The limits at which a shard is full."""

    records: int | None = None
    size: int = DEFAULT_BYTES
    """The number of bytes that the shard's rows take in memory."""

    def even(self, size: int | None) -> "Limits":
        """Returns limits that divide a stream of this size into shards of equal size. The size doesn't include the column of splits."""
        if size is None or size <= self.size:
            return self
        return Limits(self.records, -(-size // max(1, -(-size // self.size))))


class _Collected:
    """The rows of the next shard of a split."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._batches: list[pa.RecordBatch] = []
        self._records, self._bytes = 0, 0

    def add(self, batch: pa.RecordBatch) -> Iterator[list[pa.RecordBatch]]:
        """Adds rows, and yields the rows of each shard that is full."""
        while batch.num_rows:
            count = min(batch.num_rows, self._room(batch))
            self._batches.append(batch.slice(0, count))
            self._records += count
            self._bytes += batch.nbytes * count // batch.num_rows
            batch = batch.slice(count)
            if self._bytes >= self._limits.size or self._records == self._limits.records:
                yield from self.rest()

    def rest(self) -> Iterator[list[pa.RecordBatch]]:
        """Yields the rows that aren't in a shard yet, if there are any."""
        if self._batches:
            yield self._batches
        self._batches, self._records, self._bytes = [], 0, 0

    def _room(self, batch: pa.RecordBatch) -> int:
        """Returns how many rows of the batch fit into the shard, but at least 1."""
        of_bytes = -(-(self._limits.size - self._bytes) * batch.num_rows // max(1, batch.nbytes))
        return max(1, of_bytes if self._limits.records is None else min(of_bytes, self._limits.records - self._records))


def shards_of(stream: Stream, limits: Limits, *, split_column: str | None = None) -> Iterator[list[pa.RecordBatch]]:
    """Yields the rows of each shard. With `split_column`, all rows of a shard belong to one split. The rows of a split keep their order.

    Raises BadData for a row without a split, and BadSpec as soon as there are too many splits.
    """
    limits = limits.even(stream.size)
    collected: dict[str, _Collected] = {}
    for batch in stream.batches:
        for split, rows in _of_splits(batch, split_column):
            if split not in collected and len(collected) == MOST_SPLITS:
                raise BadSpec(
                    f"The column {split_column!r} has more than {MOST_SPLITS} names of splits ({', '.join(islice(collected, 3))}, …), but a data set "
                    f"can have at most {MOST_SPLITS} splits."
                )
            yield from collected.setdefault(split, _Collected(limits)).add(rows)
    for each in collected.values():
        yield from each.rest()


def _of_splits(batch: pa.RecordBatch, column: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Divides a batch into the rows of each split. The names stay in the column."""
    if column is None:
        yield "", batch
        return
    named: Any = batch.column(column)
    if named.null_count:
        raise BadData(f"The column {column!r} has no value in some rows, so these rows have no split.")
    splits = pc.unique(named).to_pylist()
    if len(splits) == 1:
        yield splits[0], batch
        return
    for split in splits:
        rows: Any = batch
        yield split, rows.filter(pc.equal(named, split))


def written_by_threads(
    shards: Iterator[list[pa.RecordBatch]],
    write: Callable[[int, int, list[pa.RecordBatch]], _T],
    *,
    workers: int,
    watch: Callable[[int, int], None] = lambda *_: None,
) -> list[_T]:
    """Calls `write` in several threads, with each shard's number, the number of records before it, and its rows. Returns what the calls
    returned, in the shards' order. After submitting a shard, calls `watch` in this thread with the total numbers of submitted
    shards and records.

    Raises the first error, but only after all writes in progress have ended.
    """
    futures: list[Future[_T]] = []
    with ThreadPoolExecutor(workers, thread_name_prefix="dataprep-write") as pool:
        try:
            running: set[Future[_T]] = set()
            first = 0
            for number, rows in enumerate(shards):
                future = pool.submit(write, number, first, rows)
                first += sum(batch.num_rows for batch in rows)
                del rows
                watch(number + 1, first)
                futures.append(future)
                running.add(future)
                if len(running) >= workers:
                    done, running = wait(running, return_when="FIRST_COMPLETED")
                    for each in done:
                        each.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]
