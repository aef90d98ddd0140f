"""Passes: reads the batches that a reader's `for` loops yield, starting at any position. Threads read the records in `order.py`'s order."""

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import cached_property, partial
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import StoreSettings
from dataprep_reader import flow, order, position
from dataprep_reader.dataset import DataSet
from dataprep_reader.options import Options
from dataprep_reader.order import Parts, Share
from dataprep_reader.position import Place, Segment
from dataprep_reader.shards import PART_BYTES, RECORDS, Shard, ShardLayout

WINDOW_BYTES: Final = 64 << 20
"""By default, a window of a shuffled epoch contains the records in about this many bytes of the files."""


class Passes:
    """The batches of a data set in the order that the options determine. This object has no position, and can be pickled."""

    def __init__(self, data_set: DataSet, *, columns: tuple[str, ...] | None, settings: Sequence[StoreSettings], options: Options) -> None:
        self._data_set = data_set
        self._columns = columns
        self._settings = tuple(settings)
        self._options = options

    def batches(self, start: Place) -> Iterator[tuple[Place, pa.RecordBatch]]:
        """Yields (position after the batch, batch) for every batch from `start` on."""
        size = self._options.batch_size
        shares = ((self._share_of(start, epoch), skipped) for epoch, skipped in self._epochs(start))
        sizes = (min(size, share.records - number * size) for share, skipped in shares for number in range(skipped, share.batches))
        batches = flow.cut(self._pieces(start), sizes)
        for epoch, skipped in self._epochs(start):
            count = self._share_of(start, epoch).batches
            for number in range(skipped, count):
                batch = next(batches)
                is_last = number + 1 == count
                place = replace(start, epoch=epoch + 1, batch=0) if is_last else replace(start, epoch=epoch, batch=number + 1)
                yield place, batch
                del batch

    def after(self, start: Place, batches: int) -> Place:
        """Returns the position after this number of batches of a pass. Raises ValueError if the pass has fewer batches."""
        if batches < 0:
            raise ValueError(f"batches must be at least 0; got {batches}.")
        place = start
        left = batches
        for epoch, skipped in self._epochs(start):
            count = self._share_of(start, epoch).batches - skipped
            if left < count:
                return replace(start, epoch=epoch, batch=skipped + left)
            place, left = replace(start, epoch=epoch + 1, batch=0), left - count
        if left:
            raise ValueError(f"batches must be at most {batches - left}, the number of batches that the loop has left; got {batches}.")
        return place

    def _epochs(self, start: Place) -> Iterator[tuple[int, int]]:
        """Yields (number, number of batches to skip) for every epoch of the pass."""
        epochs, has_some = self._options.epochs, self.share.batches > 0
        after = None if epochs is None else start.first + epochs
        for epoch in itertools.count(start.epoch):
            if (after is not None and epoch >= after) or not (has_some or start.rests_from(epoch)):
                return
            yield epoch, start.batch if epoch == start.epoch else 0

    def _pieces(self, start: Place) -> Iterator[pa.RecordBatch]:
        """Yields the epochs' records in order, in pieces of any size."""
        chunks = flow.in_order(self._runs(start), threads=self._options.threads)
        if self._options.shuffle is None:
            return chunks
        # While the records of one window are used, the next window is read.
        return self._shuffled(start, flow.ahead(chunks, depth=self._chunks_of_a_window), self._options.shuffle)

    def _runs(self, start: Place) -> Iterator[flow.Run[pa.RecordBatch]]:
        """Yields the shard parts to read, one after another."""
        seed = self._options.shuffle
        for epoch, segment in self._segments(start):
            if seed is None:
                mine = self._parts.between(segment.first + segment.done, segment.size)
            else:
                # Complete windows are read, because the records of a window are shuffled together.
                begin = segment.done // self.window * self.window
                end = min(segment.records, -(-(segment.done + segment.size) // self.window) * self.window)
                mine = self._parts.shuffled(seed=seed, epoch=epoch).between(segment.first + begin, end - begin)
            for shard, *run in zip(*(column.tolist() for column in (mine.shards, mine.numbers, mine.firsts, mine.counts)), strict=True):
                yield partial(self._shards[shard].read, *run)

    def _shuffled(self, start: Place, chunks: Iterator[pa.RecordBatch], seed: int) -> Iterator[pa.RecordBatch]:
        """Yields the epochs' records, shuffled within each window."""
        step, size = self._options.batch_size, self.window

        def windows_of(segment: Segment) -> Iterator[tuple[int, int]]:
            """Yields the number and the rows of each window that contains records of the segment."""
            for number in range(segment.done // size, -(-(segment.done + segment.size) // size)):
                yield number, min(size, segment.records - number * size)

        windows = flow.cut(chunks, (rows for _, segment in self._segments(start) for _, rows in windows_of(segment)))
        for epoch, segment in self._segments(start):
            for number, rows in windows_of(segment):
                window = next(windows)
                first, end = max(0, segment.done - number * size), segment.done + segment.size - number * size
                places = order.window_order(rows, seed=seed, epoch=epoch, window=number)[first:end]
                for at in range(0, len(places), step):
                    yield window.take(to_arrow(places[at : at + step]))
                del window

    def _segments(self, start: Place) -> Iterator[tuple[int, Segment]]:
        """Yields the records of this rank's batches, epoch after epoch."""
        size = self._options.batch_size
        for epoch, skipped in self._epochs(start):
            own = position.own_segments(asdict(self._options), start.rest_of(epoch), records=self._data_set.records)
            share = self._share_of(start, epoch)
            for segment in position.between(own, skipped * size, min(share.records, share.batches * size) - skipped * size):
                yield epoch, segment

    def _share_of(self, start: Place, epoch: int) -> Share:
        """Returns this rank's share of an epoch, or of the epoch's unread records."""
        rest = start.rest_of(epoch)
        return self.share if rest is None else self._shared(rest.records)

    @cached_property
    def share(self) -> Share:
        """This rank's share of a whole epoch."""
        return self._shared(self._data_set.records)

    def _shared(self, records: int) -> Share:
        mine = self._options
        return order.share(
            records, rank=mine.rank, world_size=mine.world_size, batch_size=mine.batch_size, drop_remainder=mine.drop_remainder
        )

    @cached_property
    def window(self) -> int:
        """Number of records that are shuffled together."""
        return self._options.shuffle_window or max(1, WINDOW_BYTES * self._data_set.records // max(1, self._bytes))

    @cached_property
    def _bytes(self) -> int:
        return sum(file.size for file in self._data_set.files)

    @property
    def _chunks_of_a_window(self) -> int:
        rows = max(1, min(RECORDS, PART_BYTES * self._data_set.records // max(1, self._bytes)))
        return -(-self.window // rows)

    @cached_property
    def _shards(self) -> list[Shard]:
        return ShardLayout(self._data_set, Access(self._settings), self._columns).shards()

    @cached_property
    def _parts(self) -> Parts:
        with ThreadPoolExecutor(self._options.threads, thread_name_prefix="dataprep-read") as pool:
            return order.parts_of(list(pool.map(lambda shard: shard.parts, self._shards)))

    def __getstate__(self) -> dict[str, Any]:
        cached = ("_shards", "_parts")
        return {name: value for name, value in self.__dict__.items() if name not in cached}
