"""A `map` plug-in that takes 18 ms for each record and notes when it ran."""

import time
from typing import Any

_COMPUTING = 0.018
_spans: list[tuple[float, float]] = []


def slowly(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the record unchanged, 18 ms later."""
    began = time.perf_counter()
    time.sleep(_COMPUTING)
    _spans.append((began, time.perf_counter()))
    return record


def span(records: int) -> float:
    """Returns the seconds that the last `records` calls took together, from the first start to the last end. Earlier calls are ignored,
    because they belong to planning."""
    return _spans[-1][1] - _spans[-records][0]
