"""Finds the stage that limits the speed of a conversion.

Three groups of stages work in parallel. One thread reads and transforms, a second thread encodes and computes statistics, and the third
group writes. The slowest group limits the speed, and the slowest stage of that group is the bottleneck.
"""

from collections.abc import Mapping
from typing import Final

SIDES: Final = (("read", "transform"), ("encode", "statistics"), ("sink",))
"""The stages, grouped by the thread that runs them."""
READ_WAIT: Final = "readWait"
"""The key for the seconds that the encoder spent waiting for a shard's next batch. It is stored beside the keys of the stages."""
SHARD_BOUNDS: Final = (1, 5, 15, 60, 300, 900, 3600)
"""Upper bounds, in seconds, of the histogram of shard durations.

An additional bucket counts the shards that took longer than the last bound.
"""
REFUSALS: Final = ("Unreadable", "Transform", "Feature")
"""Why a record is bad: its source can't be read, a step of `spec.transforms` can't process it, or it doesn't fit its feature."""
_VERDICTS: Final = {
    "read": "source-bound",
    "transform": "CPU-bound: transforms",
    "encode": "CPU-bound: encoding",
    "statistics": "CPU-bound: statistics",
    "sink": "sink-bound",
}
LEAST_SECONDS: Final = 1.0
"""If all stages together took fewer seconds than this, the measurements are too short to name a bottleneck."""


def verdict(seconds: Mapping[str, float]) -> str | None:
    """Name the bottleneck, given the seconds spent in each stage. Returns None if the total is too short to judge.

    Example: `source-bound (read 71 %, transform 4 %, encode 18 %, statistics 2 %, sink 5 %)`.
    """
    stage_seconds = {stage: seconds.get(stage, 0.0) for side in SIDES for stage in side}
    total = sum(stage_seconds.values())
    if total < LEAST_SECONDS:
        return None
    slowest_side = max(SIDES, key=lambda side: sum(stage_seconds[stage] for stage in side))
    slowest = max(slowest_side, key=lambda stage: stage_seconds[stage])
    shares = ", ".join(f"{stage} {share:.0f} %" for stage, spent in stage_seconds.items() if (share := 100 * spent / total) >= 0.5)
    return f"{_VERDICTS[slowest]} ({shares})"
