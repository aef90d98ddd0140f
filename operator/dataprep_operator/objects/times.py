"""Parses and formats Kubernetes timestamps (RFC 3339, UTC, whole seconds), and formats durations."""

from datetime import UTC, datetime
from typing import Final

_FIRST_YEAR: Final = 1900
_LAST_YEAR: Final = 9000


def now() -> datetime:
    """Return the current time. The modules in `decisions` don't call this function, but take the time as an argument."""
    return datetime.now(UTC)


def text(moment: datetime) -> str:
    """Format a time as in `2026-01-31T12:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(value: str | None) -> datetime | None:
    """Return the time in `value`, or None when the time is absent or malformed."""
    if not isinstance(value, str) or not value:
        return None
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    # Years near datetime.min and datetime.max are rejected, because arithmetic and time zone conversions overflow there.
    utc_moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return utc_moment if _FIRST_YEAR <= moment.year <= _LAST_YEAR else None


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds from `start` to `end`, or 0 if `end` is earlier. Return None if either time is unknown."""
    if start is None or end is None:
        return None
    return max(0.0, (end - start).total_seconds())


def for_people(seconds: float) -> str:
    """Format a duration as in `45s`, `1m20s`, `2h05m` or `3d04h`."""
    whole_seconds = int(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds}s"
    if whole_seconds < 3600:
        return f"{whole_seconds // 60}m{whole_seconds % 60:02d}s"
    if whole_seconds < 86_400:
        return f"{whole_seconds // 3600}h{whole_seconds % 3600 // 60:02d}m"
    return f"{whole_seconds // 86_400}d{whole_seconds % 86_400 // 3600:02d}h"
