"""Prints a data set's statistics as a table on the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from dataprep_api.redaction import one_line
from dataprep_converter.tools.inspect.html_charts import percent, short

_ROWS: Final = 60
_TEXT: Final = 32
_WIDE: Final = 110
"""On a terminal narrower than this, the counts and the numbers are printed as two tables."""
_COUNTS: Final = ("count", "missing")
_NUMBERS: Final = ("min", "median", "mean", "deviation", "max")


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
        for table in _tables(rows, narrow=console.width < _WIDE):
            console.print(table)
    for warning in statistics["warnings"]:
        console.print(f"warning: {warning}", soft_wrap=True)


def _features(splits: Mapping[str, Any]) -> list[str]:
    return sorted({name for split in splits.values() for name in split["features"]})


def _tables(rows: list[tuple[str, str, Mapping[str, Any]]], *, narrow: bool) -> Iterator[Table]:
    """Yields one table or, for a narrow terminal, one table with the counts and one with the numbers."""
    of_counts: list[tuple[str, ...]] = []
    of_numbers: list[tuple[str, ...]] = []
    for name, split, feature in rows[:_ROWS]:
        measure, found = _numbers(feature)
        cells = [
            found.get("min"),
            found.get("quantiles", {}).get("0.5"),
            found.get("mean"),
            found.get("deviation"),
            found.get("max"),
        ]
        of_counts.append((one_line(name), split, f"{feature['count']:,}", _missing(feature), _frequent(feature)))
        of_numbers.append((one_line(name), split, measure, *map(short, cells)))
    if not narrow:
        whole = [
            (name, measure, split, count, missing, *numbers, frequent)
            for (name, split, count, missing, frequent), (_, _, measure, *numbers) in zip(of_counts, of_numbers, strict=True)
        ]
        yield _table("statistics", ("feature", "of", "split"), (*_COUNTS, *_NUMBERS), whole, last="most frequent", more=len(rows) - _ROWS)
        return
    yield _table("statistics", ("feature", "split"), _COUNTS, of_counts, last="most frequent", more=len(rows) - _ROWS)
    if any(any(cells[3:]) for cells in of_numbers):
        with_numbers = [cells for cells in of_numbers if any(cells[3:])]
        yield _table("numbers", ("feature", "split", "of"), _NUMBERS, with_numbers)


def _table(
    title: str, texts: Sequence[str], numbers: Sequence[str], rows: Sequence[Sequence[str]], *, last: str | None = None, more: int = 0
) -> Table:
    """Returns a table with text columns, then number columns, and then a last text column. Text wraps; numbers don't."""
    table = Table(title=title, title_justify="left")
    for column in texts:
        table.add_column(column, overflow="fold")
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    if last is not None:
        table.add_column(last, overflow="fold")
    for row in rows:
        table.add_row(*row)
    if more > 0:
        table.add_row(f"… and {more} more", *[""] * (len(table.columns) - 1))
    return table


def _numbers(feature: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the statistics to show: the statistics of the values or, for byte strings, of their lengths."""
    if "histogram" in feature:
        return "values", feature
    return ("bytes", feature["lengths"]) if "lengths" in feature else ("", {})


def _missing(feature: Mapping[str, Any]) -> str:
    """Returns the number of nulls and their share of all records."""
    missing, records = feature["missing"], feature["count"] + feature["missing"]
    return f"{missing:,} ({percent(missing / records)})" if missing else "0"


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
