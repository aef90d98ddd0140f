"""Order: which records an epoch has, in which order, and which rank reads each record. All functions are pure.

The shards consist of *parts*, each of which can be read alone. An epoch takes the parts one after another, each from its beginning to its
end, in the stored order or in a shuffled order. Each rank reads one contiguous section of this sequence, the rank's *stretch*. In a
shuffled epoch, a stretch is divided into windows, and the records within each window are also shuffled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dataprep_converter.sampling.selection import mix_one, permuted

Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """A sequence of runs. Each run consists of consecutive records of one part. All arrays have an entry for each run."""

    shards: Numbers
    numbers: Numbers
    """The number of the part within its shard."""
    firsts: Numbers
    """The first record that is taken from the part."""
    counts: Numbers
    """The number of records that are taken, starting with the record in `firsts`."""

    def __len__(self) -> int:
        return len(self.counts)

    def at(self, places: "Numbers | slice") -> "Parts":
        """Returns some of the runs, in the given order."""
        return Parts(self.shards[places], self.numbers[places], self.firsts[places], self.counts[places])

    def between(self, first: int, records: int) -> "Parts":
        """Returns `records` records, starting with record number `first`. The first and the last run are shortened to fit."""
        ends = np.cumsum(self.counts)
        begins = ends - self.counts
        low, high = np.maximum(begins, first), np.minimum(ends, first + records)
        inside = np.flatnonzero(low < high)
        parts = self.at(inside)
        return Parts(parts.shards, parts.numbers, parts.firsts + low[inside] - begins[inside], high[inside] - low[inside])

    def shuffled(self, *, seed: int, epoch: int) -> "Parts":
        """Returns all runs, in the epoch's order."""
        return self.at(permuted(np.arange(len(self)), size=len(self), seed=_seed(seed, epoch, 0)))


def parts_of(counts: Sequence[Numbers]) -> Parts:
    """Returns all parts in order. `counts[n]` contains the number of records in each part of shard n."""
    numbers = [np.arange(len(shard_counts), dtype=np.int64) for shard_counts in counts]
    shards = [np.full(len(shard_counts), shard, np.int64) for shard, shard_counts in enumerate(counts)]
    nothing = [np.empty(0, np.int64)]
    all_counts = np.concatenate(nothing + [np.asarray(shard_counts, np.int64) for shard_counts in counts])
    return Parts(np.concatenate(nothing + shards), np.concatenate(nothing + numbers), np.zeros(len(all_counts), np.int64), all_counts)


def window_order(records: int, *, seed: int, epoch: int, window: int) -> Numbers:
    """Returns the order of a window's records: a permutation of 0 … records-1.

    `window` is the window's number within the rank's stretch.
    """
    return permuted(np.arange(records), size=records, seed=_seed(seed, epoch, window + 1))


def _seed(seed: int, epoch: int, number: int) -> int:
    mixed_seed = 0
    for each in (seed, epoch, number):
        mixed_seed = int(mix_one(mixed_seed + each + 1))
    return mixed_seed


@dataclass(frozen=True)
class Share:
    """A rank's stretch of an epoch's records."""

    first: int
    records: int
    batches: int


def share(records: int, *, rank: int, world_size: int, batch_size: int, drop_remainder: bool) -> Share:
    """Returns the stretch of one rank. The stretches of all ranks together cover the epoch.

    If `drop_remainder` is set, all stretches have the same length, and the remaining records are left out.
    """
    if drop_remainder:
        per_rank = records // world_size
        return Share(rank * per_rank, per_rank, per_rank // batch_size)
    first, end = (records * number // world_size for number in (rank, rank + 1))
    return Share(first, end - first, -(-(end - first) // batch_size))
