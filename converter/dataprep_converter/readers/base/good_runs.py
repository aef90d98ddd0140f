"""Finding the rows that Arrow refuses: it names none reliably, so a refused run of rows is halved until they are alone."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")


def good_runs(first: int, end: int, *, read: Callable[[int, int], T], refuse: Callable[[int, pa.ArrowInvalid], None]) -> Iterator[T]:
    """What `read(low, high)` makes of rows `first` to `end` (not included), in runs that it takes, in order.

    `read` raises ArrowInvalid for a run with a row at fault; `refuse` is told of each such row and what was said about it.
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
