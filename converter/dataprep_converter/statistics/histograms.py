"""Histograms of numbers whose range isn't known in advance. The histograms' buckets are log-linear, as in HDR histograms and DDSketch.

    # A bucket's number:  the first 64 - shift bits of the value's float64, sign | exponent | first bits of the fraction

Each octave (a factor of two) has 2^(52 - shift) buckets of equal width. A histogram begins with very narrow buckets, and doubles their
width whenever more than `limit` buckets have values. So the buckets and counts depend only on the values, not on their order or on how they
are divided into batches. Merging is exact, but buckets may have to become wider to stay within the limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_NARROWEST: Final = 32
"""The shift of a new histogram. This shift leaves 20 bits of the fraction, so each integer below two million has its own bucket."""
_MAGNITUDE: Final = np.int64(2**63 - 1)
_DENSE: Final = 4
"""If there are at most this many possible buckets per value, counting in an array is faster than sorting."""

_FIRST: Final = 512
"""This many values are enough to estimate roughly how wide a histogram's buckets will become."""

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def _nothing() -> Integers:
    return np.empty(0, np.int64)


@dataclass
class Histogram:
    """The number of values in each bucket, in ascending bucket order. `add` and `merge` change the histogram in place."""

    limit: int
    """The largest number of buckets."""
    shift: int = _NARROWEST
    keys: Integers = field(default_factory=_nothing)
    counts: Integers = field(default_factory=_nothing)

    def add(self, values: Floats, counts: Integers | None = None) -> None:
        """Count a one-dimensional array of finite values. With `counts`, value n is counted `counts[n]` times."""
        if not len(values):
            return
        if counts is None and not len(self.keys) and len(values) > _FIRST:
            # The first values show roughly how wide the buckets will be. The remaining values are then counted in wide buckets, without
            # sorting.
            self.add(values[:_FIRST])
            values = values[_FIRST:]
        keys = _keys(values, self.shift)
        if counts is None:
            self._take(*_count_keys(keys))
        else:
            order = np.argsort(keys, kind="stable")
            self._take(*_add_up_equal(keys[order], counts[order]))

    def merge(self, other: "Histogram") -> None:
        """Add the counts of another histogram. The result's buckets are at least as wide as the wider buckets of the two histograms."""
        wider = max(self.shift, other.shift)
        self._widen(wider - self.shift)
        self._take(*_add_up_equal(other.keys >> (wider - other.shift), other.counts))

    def narrowed_to(self, limit: int) -> "Histogram":
        """Return this histogram's counts in at most `limit` buckets."""
        narrowed = Histogram(limit=limit, shift=self.shift)
        narrowed._take(self.keys, self.counts)
        return narrowed

    def at(self, shift: int) -> dict[int, int]:
        """Return the counts for another shift, keyed by bucket number. `shift` must be at least the histogram's own shift."""
        keys, counts = _add_up_equal(self.keys >> (shift - self.shift), self.counts)
        return dict(zip(keys.tolist(), counts.tolist(), strict=True))

    def total(self) -> int:
        """Return the number of counted values."""
        return int(self.counts.sum())

    def buckets(self) -> list[tuple[float, float, int]]:
        """Return (low, high, count) of every bucket with values.

        A bucket includes the bound that is nearer to zero: `low`, or `high` if both bounds are negative.
        """
        return list(zip(*_bounds(self.keys, self.shift), self.counts.tolist(), strict=True))

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Return the quantiles for the given shares, interpolated linearly within buckets. For an empty histogram, return an empty list."""
        if not len(self.counts):
            return []
        ends = np.cumsum(self.counts)
        ranks = np.array(shares) * int(ends[-1])
        places = np.minimum(np.searchsorted(ends, ranks), len(ends) - 1)
        within = (ranks - (ends - self.counts)[places]) / self.counts[places]
        buckets = zip(*_bounds(self.keys[places], self.shift), within.tolist(), strict=True)
        # The bucket of zero extends only to the smallest floats, so treat quantiles in this bucket as zero.
        return [0.0 if low == 0 or high == 0 else low + (high - low) * share for low, high, share in buckets]

    def to_json(self) -> list[Any]:
        """Return a compact form for JSON: the shift, the first key, the differences between consecutive keys, and the counts."""
        return [self.shift, self.keys[:1].tolist(), np.diff(self.keys).tolist(), self.counts.tolist()]

    @classmethod
    def from_json(cls, document: Sequence[Any], *, limit: int) -> "Histogram":
        """Rebuild a histogram from the form that `to_json` returns."""
        shift, first, steps, counts = document
        keys = np.cumsum(np.array([*first, *steps], np.int64))
        return cls(limit=limit, shift=shift, keys=keys, counts=np.array(counts, np.int64))

    def _take(self, keys: Integers, counts: Integers) -> None:
        """Add counts whose keys are in ascending order and have the histogram's shift."""
        if len(self.keys):
            both = np.concatenate((self.keys, keys))
            order = np.argsort(both, kind="stable")
            keys, counts = _add_up_equal(both[order], np.concatenate((self.counts, counts))[order])
        self.keys, self.counts = keys, counts
        while len(self.keys) > self.limit:
            self._widen(1)

    def _widen(self, bits: int) -> None:
        self.shift += bits
        self.keys, self.counts = _add_up_equal(self.keys >> bits, self.counts)


def _bounds(keys: Integers, shift: int) -> tuple[list[float], list[float]]:
    """Return the lower bounds and the upper bounds of the buckets."""
    below = keys < 0
    magnitudes = np.where(below, ~keys, keys)
    nearer, farther = _numbers(magnitudes, shift), _numbers(magnitudes + 1, shift)
    return np.where(below, -farther, nearer).tolist(), np.where(below, -nearer, farther).tolist()


def _numbers(magnitudes: Integers, shift: int) -> Floats:
    """Return the lower bounds of these buckets of positive numbers. A bound above the largest float is replaced by the largest float."""
    infinity = -(-(0x7FF << 52) >> shift)
    return np.where(magnitudes < infinity, (np.minimum(magnitudes, infinity) << shift).view(np.float64), np.finfo(np.float64).max)


def _keys(values: Floats, shift: int) -> Integers:
    # Adding zero makes a negative zero positive, so that both are in one bucket.
    bits = (values + 0.0).view(np.int64)
    keys = (bits & _MAGNITUDE) >> shift
    below = bits < 0
    return np.where(below, ~keys, keys) if below.any() else keys


def _count_keys(keys: Integers) -> tuple[Integers, Integers]:
    """Return the distinct keys in ascending order, and the number of occurrences of each."""
    lowest = keys.min()
    span = int(keys.max()) - int(lowest)
    if span > _DENSE * len(keys):
        distinct, counts = np.unique(keys, return_counts=True)
        return distinct, counts.astype(np.int64, copy=False)
    dense = np.bincount(keys - lowest)
    places = np.flatnonzero(dense)
    return places + lowest, dense[places].astype(np.int64, copy=False)


def _add_up_equal(keys: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Add up the counts of equal keys, which must be adjacent."""
    if not len(keys):
        return keys, counts
    starts = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), keys[1:] != keys[:-1])))
    return keys[starts], np.add.reduceat(counts, starts)
