"""Finds the rows that Arrow rejects: it doesn't name them reliably, so a rejected run of rows is halved until they are isolated."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")


def good_runs(first: int, end: int, *, read: Callable[[int, int], T], refuse: Callable[[int, pa.ArrowInvalid], None]) -> Iterator[T]:
    """The results of `read(low, high)` for the rows from `first` up to `end` (exclusive), in order, in runs that it accepts.

    `read` raises ArrowInvalid for a run with a faulty row; `refuse` is called with each such row and the error's message.
    """
    waiting = [(first, end)] if first < end else []
    while waiting:
        low, high = waiting.pop()
        try:
            found = read(low, high)
        except pa.ArrowInvalid as exc:
            if high - low == 1:
                refuse(low, exc)
            else:
                middle = (low + high) // 2
                waiting += [(middle, high), (low, middle)]
        else:
            yield found
