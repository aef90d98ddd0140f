"""Where the time of a conversion went, and what would have to be faster.

Reading and transforming are one thread, encoding and statistics another, and writing goes on beside both, so the slowest of the three sides decides;
what is slowest on it has the blame.
"""

from collections.abc import Mapping
from typing import Final

SIDES: Final = (("read", "transform"), ("encode", "statistics"), ("sink",))
"""Stages by thread."""
READ_WAIT: Final = "readWait"
"""Beside the stages: the seconds in which a shard's next batch was not there yet, so that nothing could be encoded."""
SHARD_BOUNDS: Final = (1, 5, 15, 60, 300, 900, 3600)
"""Seconds by which shards are counted: those that took at most as long, and, at the end, those that took longer."""
REFUSALS: Final = ("Unreadable", "Transform", "Feature")
"""Why records are bad, in few words: the source can't be read there, a step of `spec.transforms` can't take it, it doesn't fit its feature."""
_VERDICTS: Final = {
    "read": "source-bound",
    "transform": "CPU-bound: transforms",
    "encode": "CPU-bound: encoding",
    "statistics": "CPU-bound: statistics",
    "sink": "sink-bound",
}
LEAST_SECONDS: Final = 1.0
"""Of less work than this nothing can be told."""


def verdict(seconds: Mapping[str, float]) -> str | None:
    """`source-bound (read 71 %, transform 4 %, encode 18 %, statistics 2 %, sink 5 %)` of seconds by stage; None when there are too few."""
    known = {stage: seconds.get(stage, 0.0) for side in SIDES for stage in side}
    total = sum(known.values())
    if total < LEAST_SECONDS:
        return None
    slowest_side = max(SIDES, key=lambda side: sum(known[stage] for stage in side))
    slowest = max(slowest_side, key=lambda stage: known[stage])
    shares = ", ".join(f"{stage} {share:.0f} %" for stage, spent in known.items() if (share := 100 * spent / total) >= 0.5)
    return f"{_VERDICTS[slowest]} ({shares})"
