"""Draws bars, and histograms that share one axis for all splits, as inline SVG without scripts. Tooltips are SVG titles."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dataprep_converter.tools.inspect.html_text import text

_BINS: Final = 40
_WIDTH: Final = 320
_HEIGHT: Final = 56
_MOST_LABELS: Final = 10
"""At most this many integers are labelled individually below the bars."""
_LONG: Final = 1e7
_BRIEF: Final = 1e5
_TAIL: Final = 30
"""The axis becomes logarithmic if the maximum is more than this many times the 95th percentile."""


@dataclass(frozen=True)
class Axis:
    """The x axis of a feature's histograms, shared by all splits."""

    low: float
    high: float
    bins: int
    is_log: bool = False
    is_whole: bool = False
    last: float = 0.0
    """The maximum value. If the values are integers, the last bin can extend beyond this maximum."""

    def position(self, value: float) -> float:
        """Returns a value's distance from the left end of the axis, in bins."""
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log(max(value, low)), math.log(low), math.log(high)
        # Halve the values first, because the difference between two floats can overflow.
        return self.bins * (value / 2 - low / 2) / (high / 2 - low / 2)

    def value(self, position: float) -> float:
        """Returns the value at this distance from the left end of the axis, in bins."""
        share = position / self.bins
        if self.is_log:
            return math.exp(math.log(self.low) * (1 - share) + math.log(self.high) * share)
        return self.low * (1 - share) + self.high * share


def axis(numbers: Sequence[Mapping[str, Any]], *, is_whole: bool) -> Axis | None:
    """Returns the axis for the numbers of all splits, or None if no split has numbers.

    The axis is logarithmic if a few large values would squash all others.
    """
    present = [each for each in numbers if each["min"] is not None and each["histogram"]]
    if not present:
        return None
    low, high = min(each["min"] for each in present), max(each["max"] for each in present)
    most = max(each["quantiles"]["0.95"] for each in present)
    least = min((bucket[0] for each in present for bucket in each["histogram"] if bucket[0] > 0), default=0.0)
    if low >= 0 and least > 0 and high > _TAIL * max(most, least):
        return Axis(low=least, high=high, bins=_BINS, is_log=True)
    if is_whole:
        # Each bin holds the same number of integers, so that no integer looks rarer than its neighbours.
        step = max(1, math.ceil((high - low + 1) / _BINS))
        bins = math.ceil((high - low + 1) / step)
        return Axis(low=low - 0.5, high=low - 0.5 + bins * step, bins=bins, is_whole=True, last=high)
    if high == low:
        room = abs(low) / 2 or 1.0
        return Axis(low=low - room, high=high + room, bins=_BINS + 1)
    return Axis(low=low, high=high, bins=_BINS)


def binned(histogram: Sequence[Sequence[float]], on: Axis) -> list[float]:
    """Returns the count for each bin of the axis. A bucket that spans several bins is spread evenly over these bins."""
    counts = [0.0] * on.bins
    for low, high, count in histogram:
        if on.is_whole:
            # Each integer in the bucket is one step wide.
            low, high = math.ceil(low) - 0.5, max(math.ceil(low), math.ceil(high) - 1) + 0.5
        first, last = (min(max(on.position(end), 0.0), float(on.bins)) for end in (low, high))
        if last - first < 1e-9:
            counts[min(int(first), on.bins - 1)] += count
            continue
        for place in range(int(first), min(math.ceil(last), on.bins)):
            counts[place] += count * (min(last, place + 1) - max(first, place)) / (last - first)
    return counts


def histogram(counts: Sequence[float], on: Axis, *, color: int, name: str) -> str:
    """Returns one split's histogram as SVG."""
    total, most = sum(counts) or 1.0, max(counts, default=0.0) or 1.0
    step = _WIDTH / on.bins
    gap = 1.0 if step > 4 else 0.5
    bars: list[str] = []
    for place, count in enumerate(counts):
        if count <= 0:
            continue
        # Even the smallest bar must be visible.
        height = max(1.5, (_HEIGHT - 2) * count / most)
        ends = f"{short(on.value(place))} to {short(on.value(place + 1))}"
        if on.is_whole:
            first, last = math.ceil(on.value(place)), math.floor(on.value(place + 1) - 1e-9)
            ends = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        bars.append(
            f'<rect x="{place * step:.2f}" y="{_HEIGHT - height:.2f}" width="{max(0.5, step - gap):.2f}" height="{height:.2f}" rx="{min(1.5, step / 4):.2f}">'
            f"<title>{text(ends)}: {count:,.0f} ({count / total:.1%})</title></rect>"
        )
    label = text(f"Histogram of {name}")
    return (
        f'<svg class="histogram c{color}" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(bars)}</svg>"
    )


def scale(on: Axis) -> str:
    """Returns the labels below histograms: every integer if there are few integers, otherwise the ends and the middle of the axis."""
    if on.is_whole and on.bins <= _MOST_LABELS and on.last - on.low < on.bins:
        marks = [math.ceil(on.low) + place for place in range(on.bins)]
        return f'<div class="scale each">{"".join(f"<span>{short(mark)}</span>" for mark in marks)}</div>'
    ends = [on.value(on.bins * share) for share in (0, 0.5, 1)]
    if on.is_whole:
        ends = [math.ceil(on.low), math.floor((on.low + on.last) / 2), math.floor(on.last)]
    note = '<div class="note">logarithmic axis</div>' if on.is_log else ""
    return f'<div class="scale">{"".join(f"<span>{brief(end)}</span>" for end in ends)}</div>{note}'


def bar(share: float, *, color: int, title: str) -> str:
    """Returns a horizontal bar that fills this share of the space."""
    return (
        f'<svg class="bar c{color}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<title>{text(title)}</title><rect class="room" width="100" height="10" rx="1"/>'
        f'<rect width="{max(0.6 if share else 0.0, 100 * share):.2f}" height="10" rx="1"/></svg>'
    )


def stacked(parts: Sequence[tuple[str, float]]) -> str:
    """Returns one bar for all splits. Each split's part is as wide as its share."""
    total = sum(value for _, value in parts) or 1.0
    bars: list[str] = []
    x = 0.0
    for number, (name, value) in enumerate(parts):
        width = 1000 * value / total
        title = text(f"{name}: {value:,.0f} ({value / total:.1%})")
        bars.append(f'<rect class="c{number % 6}" x="{x:.2f}" width="{max(0.0, width - 2):.2f}" height="14"><title>{title}</title></rect>')
        x += width
    return f'<svg class="stacked" viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label="Shares of the splits">{"".join(bars)}</svg>'


def short(value: float | None) -> str:
    """Formats a number with four significant digits, or an integer with all its digits: `1,234`, `0.0123`, `1.2e9`."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < _LONG:
        return f"{int(value):,}"
    if 1000 <= abs(value) < _LONG:
        return f"{value:,.0f}"
    rounded = f"{value:.4g}"
    number, _, power = rounded.partition("e")
    return f"{number}e{int(power)}" if power else rounded


def brief(value: float | None) -> str:
    """Formats a number like `short`, but with fewer characters: `296.6k`, `2.09M`."""
    if value is None or not _BRIEF <= abs(value) < 1e15:
        return short(value)
    power = int(math.log10(abs(value)) // 3)
    return f"{value / 1000**power:.4g}{'kMGT'[power - 1]}"


def percent(share: float) -> str:
    """Formats a share, such as `12.5%`, `<0.1%` or `>99.9%`. Only exactly 0 and 1 become `0%` and `100%`."""
    if share in (0, 1):
        return f"{share:.0%}"
    return "<0.1%" if share < 0.001 else ">99.9%" if share > 0.999 else f"{share:.1%}"
