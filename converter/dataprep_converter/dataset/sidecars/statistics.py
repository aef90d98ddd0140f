"""`_dataprep/statistics.json`: statistics of each split's features, the balance of its classes, and differences between the splits."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made
from dataprep_converter.statistics import comparison
from dataprep_converter.statistics.class_counts import Class, ClassCounts
from dataprep_converter.statistics.statistics import SplitStatistics
from dataprep_converter.statistics.summaries import NumberSummary, Summary
from dataprep_converter.statistics.top_values import TopValues

STATISTICS: Final = f"{names.SIDE}/statistics.json"
_SHOWN_VALUES: Final = 20
_QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
_DIGITS: Final = 12
"""The number of significant digits of floats. The last digits of a sum depend on the boundaries of batches."""


def make(finished: FinishedDataSet) -> Made:
    """Yields the file."""
    manifest = finished.manifest
    kinds = {feature["name"]: feature for feature in manifest.features}
    by_split = {split.name: finished.statistics.get(split.name, SplitStatistics()) for split in manifest.splits}
    document = {
        "version": 1,
        "extent": finished.spec.output.statistics,
        "splits": {name: _split(split, kinds, manifest.labels) for name, split in by_split.items()},
        "warnings": comparison.warnings(manifest, finished.statistics),
    }
    yield STATISTICS, _to_json(document).encode() + b"\n"


class _Json(str):
    """A value that is already JSON text."""

    __slots__ = ()


def _to_json(value: Any, indent: str = "\n") -> str:
    """Returns JSON text. Each entry of a dict that contains other dicts is written on its own line. All other values are on one line.

    This function doesn't use json's `indent`: the json module would then format each value in Python code instead of C. For 22 features,
    that would take longer than converting 200,000 records.
    """
    if isinstance(value, _Json):
        return value
    if not isinstance(value, dict) or not any(isinstance(entry, dict) for entry in value.values()):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    below = f"{indent} "
    entries = (f"{below}{json.dumps(name, ensure_ascii=False)}: {_to_json(entry, below)}" for name, entry in value.items())
    return f"{{{','.join(entries)}{indent}}}"


def read_statistics(manifest: Manifest, folder: OutputFolder) -> dict[str, Any] | None:
    """Returns the statistics of a finished data set, or None if an older version of dataprep made the data set.

    Raises NotWhole if the file was changed or is missing.
    """
    entry = next((file for file in manifest.metadata if file.file == STATISTICS), None)
    if entry is None:
        return None
    content = folder.read(STATISTICS)
    if content is None or hashlib.sha256(content).hexdigest() != entry.sha256:
        raise NotWhole(f"{folder.at(STATISTICS)} is {'missing' if content is None else 'not the file that the manifest names'}.")
    document: dict[str, Any] = json.loads(content)
    return document


def _split(split: SplitStatistics, kinds: Mapping[str, Mapping[str, Any]], labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        "records": split.records,
        "features": {name: _feature(summary, kinds[name]) for name, summary in sorted(split.features.items()) if name in kinds},
        "classes": {name: _balance(counts, labels.get(name, [])) for name, counts in sorted(split.classes.items())},
    }


def _feature(summary: Summary, feature: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "dtype": feature["dtype"],
        "shape": feature["shape"],
        "count": summary.records - summary.missing,
        "missing": summary.missing,
        "values": summary.values,
        "sampledEvery": summary.every,
    }
    if summary.missing:
        # Write this key only for features with nulls, so that a data set without nulls is byte for byte the same as in earlier releases.
        fields["missingShare"] = _rounded(summary.missing / summary.records)
    if summary.numbers is not None:
        fields |= _numbers(summary.numbers, is_whole=not feature["dtype"].startswith("float"))
    for name, numbers in (("sizes", summary.sizes), ("lengths", summary.lengths)):
        if numbers is not None:
            fields[name] = _numbers(numbers, is_whole=True)
    return fields | (_top(summary.top) if summary.top is not None else {})


def _numbers(numbers: NumberSummary, *, is_whole: bool) -> dict[str, Any]:
    moments, histogram = numbers.moments, numbers.histogram
    # The outermost buckets extend beyond the minimum and the maximum, so clip their boundaries.
    least, greatest = numbers.least, numbers.greatest
    buckets = (
        [] if least is None or greatest is None else [(max(low, least), min(high, greatest), n) for low, high, n in histogram.buckets()]
    )
    quantiles = [_clipped(value, least, greatest) for value in histogram.quantiles(_QUANTILES)]
    return {
        "nan": numbers.nan,
        "infinite": numbers.infinite,
        "min": _rounded(least),
        "max": _rounded(greatest),
        "mean": _rounded(moments.mean) if moments.count else None,
        "deviation": _rounded(moments.deviation()) if moments.count else None,
        "quantiles": {
            str(share): math.floor(value) if is_whole else _rounded(value) for share, value in zip(_QUANTILES, quantiles, strict=False)
        },
        "histogram": _histogram(buckets),
    }


def _histogram(buckets: Sequence[tuple[float, float, int]]) -> _Json:
    """Returns the JSON text of a histogram.

    Most bucket boundaries belong to two buckets. Each boundary is formatted only once, because there may be thousands.
    """
    ends = {end for low, high, _ in buckets for end in (low, high)}
    texts = {end: f"{end:.{_DIGITS}g}" if isinstance(end, float) else str(end) for end in ends}
    return _Json(f"[{', '.join(f'[{texts[low]}, {texts[high]}, {count}]' for low, high, count in buckets)}]")


def _top(top: TopValues) -> dict[str, Any]:
    exact = not top.mostly_different and not top.error
    return {
        "different": len(top.counts) if exact else None,
        "mostlyDifferent": top.mostly_different,
        "top": [
            {"value": value.decode(errors="backslashreplace") if isinstance(value, bytes) else value, "count": count}
            for value, count in top.most(_SHOWN_VALUES)
        ],
        "topError": top.error,
    }


def _balance(counts: ClassCounts, classes: Sequence[str]) -> list[dict[str, Any]]:
    """Returns every class that has a name or a record, in the order of class numbers."""
    totals: Counter[Class] = Counter(counts.counts)
    totals.update(dict.fromkeys(range(len(classes)), 0))
    total = sum(totals.values())
    balance: list[dict[str, Any]] = []
    for value in sorted(totals, key=comparison.order):
        row: dict[str, Any] = {"class": value.decode(errors="backslashreplace") if isinstance(value, bytes) else value}
        if isinstance(value, int) and 0 <= value < len(classes):
            row["name"] = classes[value]
        balance.append(row | {"count": totals[value], "share": _rounded(totals[value] / total) if total else 0})
    return balance


def _clipped(value: float, least: float | None, greatest: float | None) -> float:
    return value if least is None or greatest is None else min(max(value, least), greatest)


def _rounded(value: float | None) -> int | float | None:
    """Returns a float with `_DIGITS` digits, or None for NaN and the infinities, which JSON can't represent."""
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
