"""Summaries of a feature's values. A worker fills a summary batch by batch, and the commit step merges the summaries of all shards.

The counts, the number of missing values, the minimum and the maximum cover all records. The other statistics (mean, deviation, histogram,
frequent values) are computed from a sample of about `enough` values of each shard. The sample is spread evenly: it consists of all records
of a small data set, or of every k-th record of a large one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_text_or_bytes
from dataprep_converter.core.lists import is_list, is_ragged, item_type, storage
from dataprep_converter.core.native import bounds
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, pc, to_arrow, to_numpy
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.statistics.histograms import Histogram
from dataprep_converter.statistics.top_values import LONGEST, TopValues

_ENOUGH: Final = (2**13, 2**16, 2**24)
"""Limits on the number of sampled values of a feature: the minimum and maximum in one shard, and the maximum in the complete job."""
_AS_FAST: Final = 16
"""Counting 8-bit integers is this many times as fast as describing other numbers. So their sample is larger by this factor."""
MOST_BUCKETS: Final = 256

TOGETHER: Final = 8192
"""The smallest number of values that are described in one step."""
_FEW: Final = 256
"""If the range of integers is smaller than this, each integer is counted separately."""
_MANY_OCTETS: Final = 2**19
_OCTETS: Final = ("int8", "uint8", "bool")
PLAIN: Final = frozenset(kind.id for kind, name in NUMPY_NAMES.items() if name not in _OCTETS)
"""The single-number column types that `PlainColumns` supports."""


@dataclass
class Moments:
    """The count, the mean and the sum of squared differences from the mean. Chan's formula is accurate for small deviations of large numbers."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, count: int, mean: float, squares: float) -> None:
        """Add the moments of other values."""
        if not count:
            return
        total = self.count + count
        apart = mean - self.mean
        self.squares += squares + apart * apart * self.count * count / total
        self.mean += apart * count / total
        self.count = total

    def deviation(self) -> float:
        """Return the standard deviation of exactly these values, not an estimate for a larger population."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0


@dataclass
class NumberSummary:
    """A summary of numbers."""

    histogram: Histogram = field(default_factory=lambda: Histogram(limit=MOST_BUCKETS))
    moments: Moments = field(default_factory=Moments)
    least: int | float | None = None
    greatest: int | float | None = None
    nan: int = 0
    infinite: int = 0
    """The number of infinities. NaN and infinities are counted, but don't affect the other statistics."""

    def bound(self, values: npt.NDArray[Any]) -> None:
        """Update only the minimum, the maximum, and the number of values that aren't finite."""
        if not values.size:
            return
        least, greatest = extremes(values)
        if values.dtype.kind == "f" and not (math.isfinite(least) and math.isfinite(greatest)):
            self.nan += int(np.isnan(values).sum())
            self.infinite += int(np.isinf(values).sum())
            values = values[np.isfinite(values)]
            if not values.size:
                return
            least, greatest = extremes(values)
        self.bound_by(least, greatest)

    def bound_by(self, least: float, greatest: float) -> None:
        """Update the bounds with the minimum and the maximum of other values. Both must be finite."""
        self.least = least if self.least is None else min(self.least, least)
        self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add one-dimensional values to all statistics except the counts and bounds."""
        wide = values.astype(np.float64)
        mean = float(wide.mean()) if wide.size else 0.0
        if not math.isfinite(mean):
            wide = wide[np.isfinite(wide)]
            mean = float(wide.mean()) if wide.size else 0.0
        if not wide.size:
            return
        self.histogram.add(wide)
        # If the squares overflow, report no deviation.
        with np.errstate(over="ignore", invalid="ignore"):
            wide -= mean
            # Don't use np.dot: for large arrays, its result depends on the processor, and its threads occupy all cores while they wait for
            # more work.
            self.moments.add(wide.size, mean, float(np.square(wide, out=wide).sum()))

    def add_counted(self, low: int, counts: npt.NDArray[np.int64]) -> None:
        """Add the integers low, low + 1, …. `counts` contains the exact number of occurrences of each value."""
        places = np.flatnonzero(counts)
        if not len(places):
            return
        times = counts[places]
        total = int(times.sum())
        # The mean is computed relative to the lowest integer, so that products fit into 64 bits.
        mean = low + int((places * times).sum()) / total
        values = (places + low).astype(np.float64)
        self.moments.add(total, mean, math.fsum((times * np.square(values - mean)).tolist()))
        self.histogram.add(values, times)

    def merge(self, other: "NumberSummary") -> None:
        """Add the statistics of another shard's numbers."""
        if other.least is not None and other.greatest is not None:
            self.bound_by(other.least, other.greatest)
        self.nan += other.nan
        self.infinite += other.infinite
        self.moments.add(other.moments.count, other.moments.mean, other.moments.squares)
        self.histogram.merge(other.histogram)

    def to_json(self, room: int) -> list[Any]:
        """Return a compact form for JSON, with at most `room` buckets."""
        moments = [self.moments.mean, self.moments.squares]
        finite = [value if math.isfinite(value) else None for value in moments]
        buckets = self.histogram.narrowed_to(room).to_json()
        return [buckets, self.moments.count, *finite, self.least, self.greatest, self.nan, self.infinite]

    @classmethod
    def from_json(cls, document: list[Any]) -> Self:
        """Rebuild a summary from the form that `to_json` returns."""
        buckets, count, mean, squares, least, greatest, nan, infinite = document
        moments = Moments(count, *(math.nan if value is None else value for value in (mean, squares)))
        return cls(Histogram.from_json(buckets, limit=MOST_BUCKETS), moments, least, greatest, nan, infinite)


@dataclass
class Summary:
    """The statistics of a feature in one shard, or in a split after shards are merged."""

    records: int = 0
    missing: int = 0
    """The number of records without a value."""
    values: int = 0
    every: int = 1
    """The sampling interval n: the statistics that don't cover all records use every nth record."""
    numbers: NumberSummary | None = None
    sizes: NumberSummary | None = None
    """The number of values in each record, if it varies."""
    lengths: NumberSummary | None = None
    """The lengths of byte strings in bytes."""
    top: TopValues | None = None

    def merge(self, other: "Summary") -> None:
        """Add the summary of another shard."""
        self.records += other.records
        self.missing += other.missing
        self.values += other.values
        self.every = max(self.every, other.every)
        for name in ("numbers", "sizes", "lengths", "top"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is None or theirs is None:
                setattr(self, name, mine or theirs)
            else:
                mine.merge(theirs)

    def to_json(self, room: int) -> dict[str, Any]:
        """Return a compact form for JSON, with at most `room` buckets and frequent values."""
        numbers = {
            name: summary.to_json(room) for name, summary in (("n", self.numbers), ("s", self.sizes), ("l", self.lengths)) if summary
        }
        top = {"t": self.top.cut_to(room).to_json()} if self.top is not None else {}
        return {"c": [self.records, self.missing, self.values, self.every], **numbers, **top}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Rebuild a summary from the form that `to_json` returns."""
        numbers, sizes, lengths = (NumberSummary.from_json(document[key]) if key in document else None for key in ("n", "s", "l"))
        top = TopValues.from_json(document["t"]) if "t" in document else None
        records, missing, values, every = document["c"]
        return cls(records, missing, values, every, numbers, sizes, lengths, top)


class Summariser:
    """Fills the summary of one feature of one shard."""

    def __init__(self, feature: FeatureSpec, *, records: int, enough: int | None) -> None:
        """Prepare for about `records` records in the shard. `enough` is the size of the sample, or None to use all values."""
        self.summary = Summary()
        self._records = records
        self._enough = enough
        self._every: int | None = None
        self._octets: npt.NDArray[np.int64] | None = None
        self._low = 0
        self._counts_values = math.prod(size for size in feature.shape if size > 0) == 1
        self._deferred: dict[str, list[Array]] = {}

    def add(self, column: Array) -> None:
        """Add the column of a batch, in any form that encoders accept."""
        summary = self.summary
        first = summary.records
        summary.records += len(column)
        summary.missing += column.null_count
        if isinstance(column.type, pa.DictionaryType):
            encoded: Any = column
            column = encoded.dictionary_decode()
        kind = item_type(column.type)
        if is_ragged(column.type):
            summary.sizes = summary.sizes or NumberSummary()
            sizes = pc.list_value_length(column).drop_null()
            summary.sizes.bound(sizes.to_numpy())
            self._defer("sizes", sizes)
        values = _values(column)
        summary.values += len(values)
        if len(column):
            self.settle(kind, rows=len(column), values=len(values))
        looked_at = values
        if self._every is not None and self._every > 1:
            looked_at = _values(_thin(column, first=-first % self._every, every=self._every))
        self._describe(kind, values, looked_at)

    def take_plain(self, count: int, least: float, greatest: float) -> None:
        """Add `count` records that have one plain number each, and the bounds that `PlainColumns` has found for them.

        If no bounds were found, `least` is greater than `greatest`.
        """
        self.summary.records += count
        self.summary.values += count
        if least <= greatest:
            self.numbers.bound_by(least, greatest)

    def describe_plain(self, looked_at: npt.NDArray[Any]) -> None:
        """Add sampled plain numbers to all statistics except the counts and bounds."""
        least, greatest = extremes(looked_at) if looked_at.dtype.kind == "i" else (0, math.inf)
        if greatest - least < _FEW:
            self.numbers.add_counted(least, np.bincount(looked_at - least))
        else:
            self.numbers.add(looked_at)
        if self._counts_values and looked_at.dtype.kind in "iu":
            self.summary.top = self.summary.top or TopValues()
            self.summary.top.add(to_arrow(looked_at))

    @property
    def numbers(self) -> NumberSummary:
        """The summary's `numbers`, a NumberSummary that is created when it is first used."""
        self.summary.numbers = self.summary.numbers or NumberSummary()
        return self.summary.numbers

    def settle(self, kind: pa.DataType, *, rows: int, values: int) -> int:
        """Return the sampling interval n: every nth record is sampled.

        The first batch determines the sampling interval. The size of the first batch follows from the plan, so all workers use the same
        interval.
        """
        if self._every is None:
            self._every = self.summary.every = self._thinning(kind, rows=rows, values=values)
        return self._every

    def finished(self) -> Summary:
        """Return the summary, after all batches."""
        for name in list(self._deferred):
            self._add_now(name)
        if self._octets is not None:
            self.numbers.add_counted(self._low, self._octets)
            self._octets = None
        return self.summary

    def _thinning(self, kind: pa.DataType, *, rows: int, values: int) -> int:
        if self._enough is None or not values:
            return 1
        enough = self._enough * (_AS_FAST if NUMPY_NAMES.get(kind) in _OCTETS else 1)
        return max(1, math.ceil(self._records * (values / rows) / enough))

    def _describe(self, kind: pa.DataType, values: Array, looked_at: Array) -> None:
        summary = self.summary
        if kind in NUMPY_NAMES:
            if NUMPY_NAMES[kind] in _OCTETS:
                self._count_octets(self.numbers, _numpy(values), _numpy(looked_at))
            else:
                self.numbers.bound(_numpy(values))
                self._defer("numbers", looked_at)
            if self._counts_values and pa.types.is_integer(kind):
                summary.top = summary.top or TopValues()
                self._defer("top", looked_at)
        elif is_text_or_bytes(kind):
            summary.lengths = summary.lengths or NumberSummary()
            summary.top = summary.top or TopValues()
            lengths = pc.binary_length(values)
            summary.lengths.bound(lengths.to_numpy())
            if looked_at is not values:
                lengths = pc.binary_length(looked_at)
            self._defer("lengths", lengths)
            if summary.lengths.least is not None and summary.lengths.least <= LONGEST:
                self._defer("top", looked_at.filter(pc.less_equal(lengths, LONGEST)))

    def _defer(self, name: str, values: Array) -> None:
        """Collect the values of small batches (files, images) and describe them together, to save function calls."""
        if not len(values):
            return
        if not self._deferred.get(name) and len(values) >= TOGETHER:
            self._take(name, values)
            return
        # Copy the rows, so that the rest of the batch isn't kept in memory.
        self._deferred.setdefault(name, []).append(pa.concat_arrays([values, values.slice(0, 0)]))
        if sum(map(len, self._deferred[name])) >= TOGETHER:
            self._add_now(name)

    def _add_now(self, name: str) -> None:
        arrays = self._deferred.pop(name)
        self._take(name, pa.concat_arrays(arrays))

    def _take(self, name: str, values: Array) -> None:
        target = getattr(self.summary, name)
        target.add(values if isinstance(target, TopValues) else _numpy(values))

    def _count_octets(self, numbers: NumberSummary, values: npt.NDArray[Any], looked_at: npt.NDArray[Any]) -> None:
        if not values.size:
            return
        limits = (0, 1) if values.dtype == np.bool_ else (np.iinfo(values.dtype).min, np.iinfo(values.dtype).max)
        # Pixels soon include the lowest and the highest value of their type. No further value can then change the bounds.
        if (numbers.least, numbers.greatest) != limits:
            numbers.bound(values)
        if values.dtype == np.int8:
            self._low, looked_at = -128, (looked_at.view(np.uint8) ^ np.uint8(128))
        counts = octet_counts(looked_at.view(np.uint8))
        self._octets = counts if self._octets is None else self._octets + counts


def extremes(values: npt.NDArray[Any]) -> tuple[Any, Any]:
    """Return (least, greatest) as Python numbers. If the values include NaN or an infinity, `least` or `greatest` isn't finite.

    For float16, calls `bounds`, which compares bits as integers: numpy compares float16 values one by one, which takes thirty times as
    long.
    """
    if values.dtype != np.float16:
        return values.min().item(), values.max().item()
    result = bounds([np.ascontiguousarray(values).reshape(-1)], first=0, every=values.size)
    return result.least.item(), result.greatest.item()


def enough(shards: int) -> int:
    """Return how many values of a feature to sample in each of `shards` shards."""
    least, most, together = _ENOUGH
    return max(least, min(most, together // shards))


def octet_counts(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the number of occurrences of each of the 256 possible byte values.

    The bytes of large arrays are counted in pairs, because counting a pair takes as long as counting a single byte.
    """
    if values.size < _MANY_OCTETS:
        return np.bincount(values, minlength=256).astype(np.int64, copy=False)
    even = values.size & ~1
    pairs: npt.NDArray[Any] = np.bincount(values[:even].view(np.uint16), minlength=65_536).reshape(256, 256)
    counts: npt.NDArray[Any] = pairs.sum(axis=0) + pairs.sum(axis=1)
    if even < values.size:
        counts[values[-1]] += 1
    return counts.astype(np.int64, copy=False)


def _thin(column: Array, *, first: int, every: int) -> Array:
    """Return every n-th row of a column, where n is `every`, beginning with row `first`."""
    if not column.null_count and (column.type in NUMPY_NAMES or is_tensor(column.type)):
        return to_arrow(to_numpy(column)[first::every])
    return column.take(to_arrow(np.arange(first, len(column), every)))


def _values(column: Array) -> Array:
    """Return all innermost values of a column as a flat array, without nulls."""
    while is_tensor(column.type) or is_list(column.type):
        lists: Any = storage(column)
        # For fixed-size lists without nulls, avoid `flatten`, which would copy the values.
        is_whole = pa.types.is_fixed_size_list(lists.type) and not lists.null_count
        size = lists.type.list_size if is_whole else 0
        column = lists.values.slice(lists.offset * size, len(lists) * size) if is_whole else lists.flatten()
    return column.drop_null() if column.null_count else column


def _numpy(values: Array) -> npt.NDArray[Any]:
    return values.to_numpy(zero_copy_only=not pa.types.is_boolean(values.type))
