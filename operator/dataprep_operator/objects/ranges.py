"""Reads and writes sets of indexes in the notation `0-3,7`, which Kubernetes and `dataprep work --tasks` use.

The text is untrusted and may name more indexes than fit in memory, so ranges are never expanded without a bound.
"""

from collections.abc import Iterable

from dataprep_operator.objects import untrusted


def runs(text: str | None) -> list[tuple[int, int]]:
    """Return the first and last index of each range, sorted and merged. Malformed parts are skipped."""
    ranges: list[tuple[int, int]] = []
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        first_index = untrusted.number(first, -1)
        last_index = untrusted.number(last, -1) if last else first_index
        if 0 <= first_index <= last_index:
            ranges.append((first_index, last_index))
    merged: list[tuple[int, int]] = []
    for first_index, last_index in sorted(ranges):
        if merged and first_index <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last_index))
        else:
            merged.append((first_index, last_index))
    return merged


def count(text: str | None) -> int:
    """Return the number of indexes in `text`."""
    return sum(last - first + 1 for first, last in runs(text))


def parse(text: str | None, *, below: int) -> list[int]:
    """Return the indexes in `text` that are less than `below`, in ascending order."""
    return [index for first, last in runs(text) for index in range(first, min(last + 1, below))]


def write(indexes: Iterable[int]) -> str:
    """Return the shortest notation for `indexes`."""
    merged: list[tuple[int, int]] = []
    for index in sorted(set(indexes)):
        if merged and merged[-1][1] == index - 1:
            merged[-1] = (merged[-1][0], index)
        else:
            merged.append((index, index))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in merged)


def shortened(text: str, *, limit: int) -> str:
    """Cut `text` to at most `limit` characters, at a comma, so that it can still be parsed."""
    return text if len(text) <= limit else text[: limit + 1].rpartition(",")[0]
