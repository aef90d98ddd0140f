"""Compare splits, to find differences that matter if a model is trained on one split and evaluated on another.

Each split is compared with the training split, which is the split named `train` or else the first split. Small splits differ by chance
alone. So a shift is reported only if it is large, and is also unlikely to be due to chance (chi-square test of two samples, p < 0.001). The
size of a shift is the total variation distance: the share of one split's records that would have to change for the splits to match.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dataprep_api.dataset.report import Manifest
from dataprep_converter.statistics.class_counts import Class, ClassCounts
from dataprep_converter.statistics.statistics import SplitStatistics
from dataprep_converter.statistics.summaries import NumberSummary, Summary

MOST: Final = 100
"""The largest number of warnings for a data set."""
_CLASSES_APART: Final = 0.05
_VALUES_APART: Final = 0.1
_MISSING_APART: Final = 0.1
_GAPS: Final = 2
_BEYOND: Final = 0.1
"""Values are reported if they lie outside the training split's range by more than this share of that range."""
_PARTS: Final = 10
"""For the test, the training split's values are divided into this many parts of about equal size."""
_UNLIKELY: Final = 3.0902
"""The number of standard deviations for p = 0.001, one-sided."""
_SHOWN: Final = 5

Counts = npt.NDArray[np.float64]


def warnings(manifest: Manifest, statistics: Mapping[str, SplitStatistics]) -> list[str]:
    """Return one sentence for each difference between splits. Differences in classes come first."""
    splits = [split.name for split in manifest.splits if split.name in statistics and statistics[split.name].records]
    if len(splits) < 2:
        return []
    base = "train" if "train" in splits else splits[0]
    others = [name for name in splits if name != base]
    messages = [line for other in others for line in _compare_classes(manifest.labels, statistics, base=base, other=other)]
    messages += [line for other in others for line in _compare_values(manifest.features, statistics, base=base, other=other)]
    return messages[:MOST]


def _compare_classes(labels: Mapping[str, Sequence[str]], statistics: Mapping[str, SplitStatistics], *, base: str, other: str) -> list[str]:
    messages: list[str] = []
    for label in sorted(statistics[base].classes.keys() & statistics[other].classes.keys()):
        names = labels.get(label, [])
        mine, theirs = _counts(statistics[base].classes[label]), _counts(statistics[other].classes[label])
        for present, absent, split, other_split in ((mine, theirs, base, other), (theirs, mine, other, base)):
            lacking = [class_ for class_ in present if class_ not in absent]
            if lacking and absent:
                messages.append(
                    f"{label}: {_describe_classes(lacking, names)} of {split} {'is' if len(lacking) == 1 else 'are'} not in {other_split}."
                )
        classes = sorted({*mine, *theirs}, key=order)
        first, second = (np.array([counts.get(class_, 0) for class_ in classes], np.float64) for counts in (mine, theirs))
        apart = distance(first, second)
        if apart >= _CLASSES_APART and is_unlikely(first, second):
            shares = second / second.sum() - first / first.sum()
            most = classes[int(np.argmax(np.abs(shares)))]
            was, is_now = (counts.get(most, 0) / sum(counts.values()) for counts in (mine, theirs))
            messages.append(
                f"{label}: classes are spread differently in {base} and {other} (distance {apart:.2f});"
                f" {class_name(most, names)} is {was:.1%} of {base} and {is_now:.1%} of {other}."
            )
    return messages


def _compare_values(
    features: Sequence[Mapping[str, Any]], statistics: Mapping[str, SplitStatistics], *, base: str, other: str
) -> list[str]:
    messages: list[str] = []
    for feature in features:
        name = feature["name"]
        mine, theirs = statistics[base].features.get(name), statistics[other].features.get(name)
        if mine is None or theirs is None:
            continue
        messages += _compare_missing(name, mine, theirs, base=base, other=other)
        # Skip classes, which are compared separately, and text lengths, which reveal little.
        if mine.numbers is None or theirs.numbers is None or name in statistics[base].classes:
            continue
        if not _are_identifiers(mine, theirs):
            messages += _compare_ranges(name, mine.numbers, theirs.numbers, base=base, other=other)
            messages += _compare_distributions(name, mine, theirs, base=base, other=other)
    return messages


def _are_identifiers(mine: Summary, theirs: Summary) -> bool:
    """Return whether the values in both splits are distinct integers with no large gaps, such as row numbers.

    It would be meaningless to compare such values.
    """
    for summary in (mine, theirs):
        numbers, top = summary.numbers, summary.top
        if numbers is None or top is None or not top.mostly_different or numbers.least is None or numbers.greatest is None:
            return False
        if numbers.greatest - numbers.least > _GAPS * (mine.values + theirs.values):
            return False
    return True


def _compare_missing(name: str, mine: Summary, theirs: Summary, *, base: str, other: str) -> list[str]:
    first, second = (np.array([summary.missing, summary.records - summary.missing], np.float64) for summary in (mine, theirs))
    if distance(first, second) < _MISSING_APART or not is_unlikely(first, second):
        return []
    was, is_now = mine.missing / mine.records, theirs.missing / theirs.records
    return [f"{name}: {was:.1%} of the records of {base} have no value, and {is_now:.1%} of {other}."]


def _compare_ranges(name: str, mine: NumberSummary, theirs: NumberSummary, *, base: str, other: str) -> list[str]:
    if mine.least is None or mine.greatest is None or theirs.least is None or theirs.greatest is None:
        return []
    room = _BEYOND * (mine.greatest - mine.least)
    if theirs.least >= mine.least - room and theirs.greatest <= mine.greatest + room:
        return []
    return [
        f"{name}: values of {other} ({theirs.least:g} to {theirs.greatest:g}) lie outside those of {base} ({mine.least:g} to {mine.greatest:g})."
    ]


def _compare_distributions(name: str, mine: Summary, theirs: Summary, *, base: str, other: str) -> list[str]:
    if mine.numbers is None or theirs.numbers is None:
        return []
    first, second = _parts(mine.numbers, theirs.numbers)
    apart = distance(first, second)
    # Count each record as one independent sample, because the values within a record are similar: a complete image is dark or bright, for
    # example.
    independent = ((first, mine), (second, theirs))
    per_record = [counts * min(1.0, summary.records / max(1.0, float(counts.sum()) * summary.every)) for counts, summary in independent]
    if apart < _VALUES_APART or not is_unlikely(*per_record):
        return []
    means = f"the mean is {mine.numbers.moments.mean:.4g} in {base} and {theirs.numbers.moments.mean:.4g} in {other}"
    return [f"{name}: values are spread differently in {base} and {other} (distance {apart:.2f}); {means}."]


def _parts(mine: NumberSummary, theirs: NumberSummary) -> tuple[Counts, Counts]:
    """Divide the range of values into parts, and return both summaries' counts in each part.

    Each part contains about a tenth of the first summary's values.
    """
    shift = max(mine.histogram.shift, theirs.histogram.shift)
    one, two = mine.histogram.at(shift), theirs.histogram.at(shift)
    keys = sorted({*one, *two})
    first, second = (np.array([counts.get(key, 0) for key in keys], np.float64) for counts in (one, two))
    if not len(keys):
        return first, second
    ends = np.cumsum(first)
    part = np.minimum((ends - first / 2) * _PARTS / max(1.0, ends[-1]), _PARTS - 1).astype(np.int64)
    part_counts: tuple[Counts, Counts] = np.zeros(_PARTS), np.zeros(_PARTS)
    for parts, counts in zip(part_counts, (first, second), strict=True):
        np.add.at(parts, part, counts)
    return part_counts


def distance(first: Counts, second: Counts) -> float:
    """Return the total variation distance of two distributions, given by counts: 0 if they are equal, and 1 if they are disjoint."""
    if not first.sum() or not second.sum():
        return 0.0
    return float(np.abs(first / first.sum() - second / second.sum()).sum()) / 2


def is_unlikely(first: Counts, second: Counts) -> bool:
    """Return whether a chi-square test gives a probability below 0.001 that two samples of the same distribution differ this much.

    The quantile is computed by the approximation of Wilson and Hilferty: the cube root of (chi-square / degrees of freedom) is nearly normal.
    """
    occurs = (first + second) > 0
    first, second = first[occurs], second[occurs]
    degrees = len(first) - 1
    if degrees < 1 or not first.sum() or not second.sum():
        return False
    one, two = math.sqrt(second.sum() / first.sum()), math.sqrt(first.sum() / second.sum())
    chi_square = float(((one * first - two * second) ** 2 / (first + second)).sum())
    spread = 2 / (9 * degrees)
    return chi_square > degrees * (1 - spread + _UNLIKELY * math.sqrt(spread)) ** 3


def class_name(class_: Class, names: Sequence[str]) -> str:
    """Return a class in a readable form, such as `3 (frog)`."""
    if isinstance(class_, bytes):
        return repr(class_.decode(errors="backslashreplace"))
    return f"{class_} ({names[class_]})" if 0 <= class_ < len(names) else str(class_)


def _describe_classes(classes: Sequence[Class], names: Sequence[str]) -> str:
    if len(classes) == 1:
        return f"the class {class_name(classes[0], names)}"
    examples = ", ".join(class_name(class_, names) for class_ in sorted(classes, key=order)[:_SHOWN])
    more = f" and {len(classes) - _SHOWN} more" if len(classes) > _SHOWN else ""
    return f"the {len(classes)} classes {examples}{more}"


def order(class_: Class) -> tuple[bool, int, bytes]:
    """Return a sort key that puts numbers before byte strings."""
    return (True, 0, class_) if isinstance(class_, bytes) else (False, class_, b"")


def _counts(classes: ClassCounts) -> dict[Class, int]:
    return {class_: count for class_, count in classes.counts.items() if count}
