"""Prints the statistics of a data set as a table on the terminal."""

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from dataprep_api.redaction import one_line
from dataprep_converter.tools.html_charts import short

_ROWS: Final = 60
_TEXT: Final = 32


def show(console: Console, statistics: Mapping[str, Any]) -> None:
    """Prints a row for each feature and split, and the warnings."""
    splits = statistics["splits"]
    rows = [
        (name, split, splits[split]["features"][name])
        for name in _features(splits)
        for split in splits
        if name in splits[split]["features"]
    ]
    if rows:
        console.print(_table(rows))
    for warning in statistics["warnings"]:
        console.print(f"warning: {warning}", soft_wrap=True)


def _features(splits: Mapping[str, Any]) -> list[str]:
    return sorted({name for split in splits.values() for name in split["features"]})


def _table(rows: list[tuple[str, str, Mapping[str, Any]]]) -> Table:
    table = Table(title="statistics", title_justify="left")
    for column in ("feature", "of", "split"):
        table.add_column(column)
    for column in ("count", "missing", "min", "median", "mean", "deviation", "max"):
        table.add_column(column, justify="right")
    table.add_column("most frequent")
    for name, split, feature in rows[:_ROWS]:
        measure, numbers = _numbers(feature)
        cells = [
            numbers.get("min"),
            numbers.get("quantiles", {}).get("0.5"),
            numbers.get("mean"),
            numbers.get("deviation"),
            numbers.get("max"),
        ]
        table.add_row(
            one_line(name), measure, split, f"{feature['count']:,}", f"{feature['missing']:,}", *map(short, cells), _frequent(feature)
        )
    if len(rows) > _ROWS:
        table.add_row(f"… and {len(rows) - _ROWS} more", *[""] * 10)
    return table


def _numbers(feature: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the statistics to show: those of the values or, for byte strings, those of their lengths."""
    if "histogram" in feature:
        return "values", feature
    return ("bytes", feature["lengths"]) if "lengths" in feature else ("", {})


def _frequent(feature: Mapping[str, Any]) -> str:
    """Returns the three most frequent values, if any value occurs more than once."""
    top = feature.get("top", [])[:3]
    if not top or top[0]["count"] < 2:
        return ""
    each = feature["sampledEvery"]
    values = (f"{one_line(_shorten(str(value['value'])))} ({value['count'] * each / max(1, feature['values']):.0%})" for value in top)
    return ", ".join(values)


def _shorten(value: str) -> str:
    return value if len(value) <= _TEXT else value[: _TEXT - 1] + "…"
