"""Finds the rows that Arrow rejects. Arrow's errors don't name faulty rows reliably, so each rejected range of rows is halved until the
faulty rows are isolated."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")


def good_runs(first: int, end: int, *, read: Callable[[int, int], T], refuse: Callable[[int, pa.ArrowInvalid], None]) -> Iterator[T]:
    """Yields the results of `read(low, high)` for ranges of good rows, in order. Together, these ranges contain all good rows from `first`
    to `end` (exclusive).

    `read` must raise ArrowInvalid for a range that contains a faulty row. For each faulty row, `refuse` is called with the row's number and
    the error.
    """
    runs = [(first, end)] if first < end else []
    while runs:
        low, high = runs.pop()
        try:
            result = read(low, high)
        except pa.ArrowInvalid as exc:
            if high - low == 1:
                refuse(low, exc)
            else:
                middle = (low + high) // 2
                runs += [(middle, high), (low, middle)]
        else:
            yield result
