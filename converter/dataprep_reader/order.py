"""Order: which records an epoch has, in which order, and which of them are whose. Pure: numbers in, numbers out.

The shards' records lie in *parts* that can be read alone. An epoch takes the parts one after another, each from its beginning to its end: in their own order, or
shuffled. Every rank has a stretch of that; and in a shuffled epoch each window of a stretch is shuffled once more, record by record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dataprep_converter.sampling.selection import mixed, permuted

Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """Consecutive records of shards, one run of them after another. Equally long arrays."""

    shards: Numbers
    numbers: Numbers
    """Which part of the shard."""
    firsts: Numbers
    """The first of the part's records that is taken."""
    counts: Numbers
    """How many are taken from there on."""

    def __len__(self) -> int:
        return len(self.counts)

    def at(self, places: "Numbers | slice") -> "Parts":
        """Some of them, in that order."""
        return Parts(self.shards[places], self.numbers[places], self.firsts[places], self.counts[places])

    def between(self, first: int, records: int) -> "Parts":
        """This many records from the given one on: the runs at both ends are cut."""
        ends = np.cumsum(self.counts)
        begins = ends - self.counts
        low, high = np.maximum(begins, first), np.minimum(ends, first + records)
        kept = np.flatnonzero(low < high)
        found = self.at(kept)
        return Parts(found.shards, found.numbers, found.firsts + low[kept] - begins[kept], high[kept] - low[kept])

    def shuffled(self, *, seed: int, epoch: int) -> "Parts":
        """All of them, in the epoch's order."""
        return self.at(permuted(np.arange(len(self)), size=len(self), seed=_seed(seed, epoch, 0)))


def parts_of(counts: Sequence[Numbers]) -> Parts:
    """All parts in order; `counts[n]` has the records of each part of shard n."""
    numbers = [np.arange(len(each), dtype=np.int64) for each in counts]
    shards = [np.full(len(each), shard, np.int64) for shard, each in enumerate(counts)]
    nothing = [np.empty(0, np.int64)]
    whole = np.concatenate(nothing + [np.asarray(each, np.int64) for each in counts])
    return Parts(np.concatenate(nothing + shards), np.concatenate(nothing + numbers), np.zeros(len(whole), np.int64), whole)


def window_order(records: int, *, seed: int, epoch: int, window: int) -> Numbers:
    """The order of a window's records: a permutation of 0 … records-1. `window` is its number within the rank's stretch."""
    return permuted(np.arange(records), size=records, seed=_seed(seed, epoch, window + 1))


def _seed(seed: int, epoch: int, number: int) -> int:
    found = 0
    for each in (seed, epoch, number):
        found = int(mixed(found + each + 1))
    return found


@dataclass(frozen=True)
class Share:
    """A rank's stretch of an epoch's order."""

    first: int
    records: int
    batches: int


def share(records: int, *, rank: int, world_size: int, batch_size: int, drop_remainder: bool) -> Share:
    """The stretch of one rank. Those of all ranks make up the epoch; with `drop_remainder` they are equally long, and the rest is left out."""
    if drop_remainder:
        each = records // world_size
        return Share(rank * each, each, each // batch_size)
    first, end = (records * number // world_size for number in (rank, rank + 1))
    return Share(first, end - first, -(-(end - first) // batch_size))
