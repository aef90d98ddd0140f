"""Selection: finds a sample's number from its rank in a split, and a sample's rank from its number.

A split consists of ranges of sample numbers. A split by fraction contains only the samples whose hash is in the split's interval; a split
by code contains only the samples with the split's code. A shuffle is a keyed bijection of the ranks. Selections and shuffles are arithmetic
on arrays, so any worker can compute any part of the order, in constant memory.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from dataprep_api.dataset.plan import HASH_BLOCK, SplitPlan
from dataprep_api.dataset.run_id import PARTS
from dataprep_api.spec.splits import MOST_SPLITS
from dataprep_converter.sampling.split_assignments import SplitAssignments
from dataprep_converter.sampling.units import Units

Samples = npt.NDArray[np.int64]
SHUFFLE: Final = PARTS["shuffle"].version

_CACHED_BLOCKS = 512
_ROUNDS = 6
_SORTED = 65_536
"""Up to this many numbers are shuffled by sorting: a Feistel network shuffles fairly only if its halves are large."""
_TABLE_BITS = 16
_GOLDEN = 0x9E3779B97F4A7C15


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Applies SplitMix64's finaliser, a bijection of 64-bit numbers that spreads every bit (Steele, Lea, Flood 2014)."""
    x = values.copy()
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def mix_one(value: int) -> np.uint64:
    """Applies the finaliser to the lowest 64 bits of one number."""
    return np.uint64(mix(np.array([value & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64))[0])


def hashes(units: Units, samples: Samples, *, seed: int) -> npt.NDArray[np.uint64]:
    """Returns a 64-bit hash of each sample, computed from its file's key and its row.

    The hash is the same on every store and for any number of workers.
    """
    keys, rows = units.hash_inputs(samples)
    return mix(keys ^ mix(rows.astype(np.uint64) * np.uint64(_GOLDEN) ^ mix_one(seed + 1)))


def permuted(ranks: npt.NDArray[np.int64], *, size: int, seed: int, version: int = SHUFFLE) -> npt.NDArray[np.int64]:
    """Applies a seeded permutation of 0 … size-1 to `ranks`. `version` is the version of the shuffle rules.

    Version 1 used a network of four rounds for every size. For few ranks, four rounds make some orders more likely than others.
    """
    if size <= 1:
        return ranks.copy()
    if version == 1:
        return _apply_network(ranks, size=size, seed=seed, rounds=4)
    if size <= _SORTED:
        images: npt.NDArray[np.int64] = _sort_by_hash(size, seed)[ranks]
        return images
    return _apply_network(ranks, size=size, seed=seed, rounds=_ROUNDS)


def unpermuted(images: npt.NDArray[np.int64], *, size: int, seed: int, version: int = SHUFFLE) -> npt.NDArray[np.int64]:
    """Applies the inverse of `permuted`: returns the ranks that `permuted` maps to `images`."""
    if size <= 1:
        return images.copy()
    if version == 1:
        return _apply_network(images, size=size, seed=seed, rounds=4, inverse=True)
    if size <= _SORTED:
        ranks: npt.NDArray[np.int64] = _inverse_order(size, seed)[images]
        return ranks
    return _apply_network(images, size=size, seed=seed, rounds=_ROUNDS, inverse=True)


@lru_cache(maxsize=4)
def _sort_by_hash(size: int, seed: int) -> npt.NDArray[np.int64]:
    """Returns the numbers 0 … size-1 in the order of their seeded hashes. All orders are equally likely."""
    numbers = np.arange(size, dtype=np.uint64) * np.uint64(_GOLDEN)
    order = np.argsort(mix(mix(numbers) ^ mix_one(seed + 1)), kind="stable")
    order.flags.writeable = False
    return order


@lru_cache(maxsize=MOST_SPLITS)
def _inverse_order(size: int, seed: int) -> npt.NDArray[np.int64]:
    """Returns the position of each number 0 … size-1 in the order of the seeded hashes.

    The positions are cached for all splits, because reading a batch in the order of the input needs the positions of all splits.
    """
    order = _sort_by_hash(size, seed)
    positions = np.empty_like(order)
    positions[order] = np.arange(size)
    positions.flags.writeable = False
    return positions


def _apply_network(ranks: npt.NDArray[np.int64], *, size: int, seed: int, rounds: int, inverse: bool = False) -> npt.NDArray[np.int64]:
    """Applies a balanced Feistel network over the next even number of bits, or the inverse of the network.

    If a value falls outside the range, the network is applied again, until the value is inside the range (Black and Rogaway 2002). On
    average, a value needs fewer than four applications. The inverse passes through the same values in the opposite direction, so it also
    ends inside the range.
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    functions = _rounds(half, seed, rounds)
    images = ranks.astype(np.uint64)
    outside = np.arange(len(images))
    while len(outside):
        left, right = images[outside] >> np.uint64(half), images[outside] & np.uint64((1 << half) - 1)
        for apply in reversed(functions) if inverse else functions:
            left, right = (right ^ apply(left), left) if inverse else (right, left ^ apply(right))
        images[outside] = left << np.uint64(half) | right
        outside = outside[images[outside] >= np.uint64(size)]
    return images.astype(np.int64)


@lru_cache(maxsize=4)
def _rounds(half: int, seed: int, rounds: int) -> list[Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.uint64]]]:
    """Returns one function for each round of the Feistel network. Each function maps `half` bits to `half` bits.

    If `half` is small, the functions look values up in tables, which all shards share.
    """
    mask = np.uint64((1 << half) - 1)

    def function(key: np.uint64) -> Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.uint64]]:
        def computed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
            return mix(values ^ key) & mask

        return computed(np.arange(1 << half, dtype=np.uint64)).take if half <= _TABLE_BITS else computed

    return [function(mix_one(seed * rounds + number + 1)) for number in range(rounds)]


class Selection:
    """Finds the samples of one split by their rank, and the ranks of samples."""

    def __init__(
        self,
        split: SplitPlan,
        units: Units,
        *,
        shuffle_seed: int | None,
        shuffle_version: int = SHUFFLE,
        codes: SplitAssignments | None = None,
    ) -> None:
        self._split = split
        self._units = units
        self._codes = codes
        self._shuffle_seed = shuffle_seed
        self._shuffle_version = shuffle_version
        self._starts = np.array([start for start, _ in split.ranges], dtype=np.int64)
        lengths = np.array([stop - start for start, stop in split.ranges], dtype=np.int64)
        self._before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        self._ranks_before_block = np.concatenate(
            [np.zeros(1, dtype=np.int64), np.cumsum(np.array(split.block_counts or [], dtype=np.int64))]
        )
        self._blocks: OrderedDict[int, npt.NDArray[np.uint16]] = OrderedDict()

    def chunks(self, first: int, records: int, *, size: int) -> Iterator[Samples]:
        """Yields the numbers of the samples with ranks first … first+records-1, in order, in arrays of at most `size`."""
        for start in range(first, first + records, size):
            ranks = np.arange(start, min(start + size, first + records), dtype=np.int64)
            if self._shuffle_seed is not None:
                ranks = permuted(ranks, size=self._split.records, seed=self._shuffle_seed, version=self._shuffle_version)
            yield self.samples(ranks)

    def samples(self, ranks: npt.NDArray[np.int64]) -> Samples:
        """Returns the number of the sample at each rank. The ranks can be in any order."""
        is_whole = self._split.hash is None and self._split.code is None
        return self._at(ranks if is_whole else self._positions(ranks))

    def ranks(self, samples: Samples) -> npt.NDArray[np.int64]:
        """Returns each sample's rank in the order of `chunks`, or -1 for a sample that isn't in the split."""
        ranks = np.full(len(samples), -1, np.int64)
        if not self._split.records:
            return ranks
        which = np.searchsorted(self._starts, samples, side="right") - 1
        inside = np.flatnonzero(which >= 0)
        positions = self._before[which[inside]] + samples[inside] - self._starts[which[inside]]
        is_member = positions < self._before[which[inside] + 1]
        inside, positions = inside[is_member], positions[is_member]
        if self._split.hash is not None or self._split.code is not None:
            found = self._ranks_of(positions)
            inside, positions = inside[found >= 0], found[found >= 0]
        if self._shuffle_seed is not None:
            positions = unpermuted(positions, size=self._split.records, seed=self._shuffle_seed, version=self._shuffle_version)
        ranks[inside] = positions
        return ranks

    def _ranks_of(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the rank of the sample at each position in the concatenated ranges, or -1 if the split has no such sample."""
        ranks = np.full(len(positions), -1, np.int64)
        block = positions // HASH_BLOCK
        for number in np.unique(block).tolist():
            members = self._members(number)
            if not len(members):
                continue
            inside = np.flatnonzero(block == number)
            within = positions[inside] - number * HASH_BLOCK
            places = np.minimum(np.searchsorted(members, within), len(members) - 1)
            is_member = members[places] == within
            ranks[inside[is_member]] = self._ranks_before_block[number] + places[is_member]
        return ranks

    def _at(self, positions: npt.NDArray[np.int64]) -> Samples:
        """Returns the numbers of the samples at the given positions in the concatenated ranges."""
        which = np.searchsorted(self._before, positions, side="right") - 1
        samples: Samples = self._starts[which] + positions - self._before[which]
        return samples

    def _positions(self, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        block = np.searchsorted(self._ranks_before_block, ranks, side="right") - 1
        positions = np.empty_like(ranks)
        for number in np.unique(block):
            is_inside = block == number
            positions[is_inside] = (
                int(number) * HASH_BLOCK + self._members(int(number)).astype(np.int64)[ranks[is_inside] - self._ranks_before_block[number]]
            )
        return positions

    def _members(self, block: int) -> npt.NDArray[np.uint16]:
        """Returns the positions, within a block, of the samples that belong to the split. The positions are cached."""
        if block in self._blocks:
            self._blocks.move_to_end(block)
            return self._blocks[block]
        members = self.members(block)
        self._blocks[block] = members
        if len(self._blocks) > _CACHED_BLOCKS:
            self._blocks.popitem(last=False)
        return members

    def members(self, block: int) -> npt.NDArray[np.uint16]:
        """Finds the samples of a block that belong to the split, and returns their positions within the block."""
        interval = self._split.hash
        if self._codes is not None and self._split.code is not None:
            return np.flatnonzero(self._codes.block(self._split.first_block + block) == self._split.code).astype(np.uint16)
        if interval is None:
            raise ValueError("only a split by fraction or by code has blocks")
        stop = min((block + 1) * HASH_BLOCK, int(self._before[-1]))
        samples = self._at(np.arange(block * HASH_BLOCK, stop, dtype=np.int64))
        hashed = hashes(self._units, samples, seed=interval.seed)
        if interval.low == interval.high:
            return np.empty(0, dtype=np.uint16)
        # Compare with the last number in the interval. The number after it can be 2^64, which doesn't fit in 64 bits.
        inside = (hashed >= np.uint64(interval.low)) & (hashed <= np.uint64(interval.high - 1))
        return np.flatnonzero(inside).astype(np.uint16)
