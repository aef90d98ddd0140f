"""Histograms of numbers whose range nobody knows before they come: log-linear buckets, as in HDR histograms and DDSketch.

    # A bucket's number:  the first 64 - shift bits of the value's float64, sign | exponent | first bits of the fraction

Each octave (a factor of two) has 2^(52 - shift) buckets of one width. A histogram begins with very narrow ones, and doubles their width
whenever more than `limit` hold a value. So the buckets and counts depend on the values alone, in whatever order and parts they come: merging
is exact, but for the last step to the limit that both sides share.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_NARROWEST: Final = 32
"""Leaves 20 bits of the fraction: integers below two million have buckets of their own."""
_MAGNITUDE: Final = np.int64(2**63 - 1)
_DENSE: Final = 4
"""Buckets for each value up to which counting in an array is faster than sorting."""

_FIRST: Final = 512
"""Values after which a histogram knows about how wide its buckets are."""

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def _nothing() -> Integers:
    return np.empty(0, np.int64)


@dataclass
class Histogram:
    """Counts by bucket, in ascending order. Changed by `add` and `merge`."""

    limit: int
    """Most buckets."""
    shift: int = _NARROWEST
    keys: Integers = field(default_factory=_nothing)
    counts: Integers = field(default_factory=_nothing)

    def add(self, values: Floats, counts: Integers | None = None) -> None:
        """Counts finite values, one-dimensional; with `counts`, each so many times."""
        if not len(values):
            return
        if counts is None and not len(self.keys) and len(values) > _FIRST:
            # They tell about how wide the buckets will be, so that the others are counted in wide ones, without sorting.
            self.add(values[:_FIRST])
            values = values[_FIRST:]
        keys = _keys(values, self.shift)
        if counts is None:
            self._take(*_counted(keys))
        else:
            order = np.argsort(keys, kind="stable")
            self._take(*_grouped(keys[order], counts[order]))

    def merge(self, other: "Histogram") -> None:
        """Adds another histogram's counts; buckets become as wide as the wider of both."""
        wider = max(self.shift, other.shift)
        self._widen(wider - self.shift)
        self._take(*_grouped(other.keys >> (wider - other.shift), other.counts))

    def narrowed_to(self, limit: int) -> "Histogram":
        """The same counts in at most so many buckets."""
        made = Histogram(limit=limit, shift=self.shift)
        made._take(self.keys, self.counts)
        return made

    def at(self, shift: int) -> dict[int, int]:
        """Counts by bucket number at a shift that is no smaller than the own."""
        keys, counts = _grouped(self.keys >> (shift - self.shift), self.counts)
        return dict(zip(keys.tolist(), counts.tolist(), strict=True))

    def total(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())

    def buckets(self) -> list[tuple[float, float, int]]:
        """(low, high, count) of every bucket that holds a value; low belongs to it, or high where both are negative."""
        return list(zip(*_bounds(self.keys, self.shift), self.counts.tolist(), strict=True))

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """The values that these shares of all values don't exceed, found within their buckets by a straight line; none of an empty histogram."""
        if not len(self.counts):
            return []
        ends = np.cumsum(self.counts)
        ranks = np.array(shares) * int(ends[-1])
        places = np.minimum(np.searchsorted(ends, ranks), len(ends) - 1)
        within = (ranks - (ends - self.counts)[places]) / self.counts[places]
        found = zip(*_bounds(self.keys[places], self.shift), within.tolist(), strict=True)
        # The bucket of zero reaches to the smallest of all floats.
        return [0.0 if low == 0 or high == 0 else low + (high - low) * share for low, high, share in found]

    def to_json(self) -> list[Any]:
        """Compact: shift, first key, steps between keys, counts."""
        return [self.shift, self.keys[:1].tolist(), np.diff(self.keys).tolist(), self.counts.tolist()]

    @classmethod
    def from_json(cls, found: Sequence[Any], *, limit: int) -> "Histogram":
        """The inverse of `to_json`."""
        shift, first, steps, counts = found
        keys = np.cumsum(np.array([*first, *steps], np.int64))
        return cls(limit=limit, shift=shift, keys=keys, counts=np.array(counts, np.int64))

    def _take(self, keys: Integers, counts: Integers) -> None:
        """Adds counts by ascending keys of the own shift."""
        if len(self.keys):
            both = np.concatenate((self.keys, keys))
            order = np.argsort(both, kind="stable")
            keys, counts = _grouped(both[order], np.concatenate((self.counts, counts))[order])
        self.keys, self.counts = keys, counts
        while len(self.keys) > self.limit:
            self._widen(1)

    def _widen(self, bits: int) -> None:
        self.shift += bits
        self.keys, self.counts = _grouped(self.keys >> bits, self.counts)


def _bounds(keys: Integers, shift: int) -> tuple[list[float], list[float]]:
    """The numbers between which each bucket lies: the low ones, and the high ones."""
    below = keys < 0
    magnitudes = np.where(below, ~keys, keys)
    nearer, farther = _numbers(magnitudes, shift), _numbers(magnitudes + 1, shift)
    return np.where(below, -farther, nearer).tolist(), np.where(below, -nearer, farther).tolist()


def _numbers(magnitudes: Integers, shift: int) -> Floats:
    """Where these buckets of positive numbers begin; the largest float stands for all beyond it."""
    infinity = -(-(0x7FF << 52) >> shift)
    return np.where(magnitudes < infinity, (np.minimum(magnitudes, infinity) << shift).view(np.float64), np.finfo(np.float64).max)


def _keys(values: Floats, shift: int) -> Integers:
    # Adding zero makes a negative zero positive, so that both are in one bucket.
    bits = (values + 0.0).view(np.int64)
    keys = (bits & _MAGNITUDE) >> shift
    below = bits < 0
    return np.where(below, ~keys, keys) if below.any() else keys


def _counted(keys: Integers) -> tuple[Integers, Integers]:
    """Different keys, ascending, and how often each is there."""
    lowest = keys.min()
    span = int(keys.max()) - int(lowest)
    if span > _DENSE * len(keys):
        found, counts = np.unique(keys, return_counts=True)
        return found, counts.astype(np.int64, copy=False)
    dense = np.bincount(keys - lowest)
    places = np.flatnonzero(dense)
    return places + lowest, dense[places].astype(np.int64, copy=False)


def _grouped(keys: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Sums of the counts of equal keys, which are adjacent."""
    if not len(keys):
        return keys, counts
    starts = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), keys[1:] != keys[:-1])))
    return keys[starts], np.add.reduceat(counts, starts)
