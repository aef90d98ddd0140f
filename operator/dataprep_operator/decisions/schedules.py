"""Computes the times of a schedule with cronsim. All functions are pure.

The start and end of daylight saving time are handled as in Debian's cron. A job at a fixed time in the skipped hour is due right after
that hour. If a time occurs twice, the job is due at the first occurrence.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

# How far to look back for the last scheduled time. The shortest span is tried first, because it is enough for frequent schedules.
_LOOKBACKS: Final = (timedelta(hours=2), timedelta(days=2), timedelta(days=62), timedelta(days=800))


class BadSchedule(ValueError):
    """The schedule or its time zone is invalid."""


@dataclass(frozen=True)
class Schedule:
    """A five-field crontab expression in a time zone."""

    text: str
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, time_zone: str | None) -> Self:
        """Parse a schedule. Raises BadSchedule, naming the invalid field or the time zone."""
        try:
            zone = ZoneInfo(time_zone or "UTC")
        except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
            raise BadSchedule(f"spec.timeZone: unknown time zone {time_zone!r}; expected a name such as Europe/Berlin") from exc
        if len(text.split()) != 5:
            raise BadSchedule(f"spec.schedule: expected five fields (minute, hour, day of month, month, day of week), got {text!r}")
        try:
            next(CronSim(text, datetime.now(UTC)))
        except CronSimError as exc:
            raise BadSchedule(f"spec.schedule: {str(exc).lower()} in {text!r}") from exc
        except StopIteration as exc:
            raise BadSchedule(f"spec.schedule: {text!r} matches no day in the next 50 years") from exc
        return cls(text, zone)

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield all scheduled times after `moment`, in UTC."""
        for local_time in CronSim(self.text, moment.astimezone(self.zone)):
            due = local_time.astimezone(UTC)
            # If `moment` is in the second pass of a repeated hour, cronsim may start with a time in the first pass.
            if due > moment:
                yield due

    def next(self, moment: datetime) -> datetime | None:
        """Return the first scheduled time after `moment`."""
        return next(self.after(moment), None)

    def last(self, *, after: datetime, until: datetime) -> datetime | None:
        """Return the last scheduled time in the interval (`after`, `until`]."""
        for lookback in _LOOKBACKS:
            start = max(after, until - lookback)
            latest = _last(itertools.takewhile(lambda due: due <= until, self.after(start)))
            if latest is not None or start == after:
                return latest
        return _last(itertools.takewhile(lambda due: due <= until, self.after(after)))

    def has_more(self, *, after: datetime, until: datetime, than: int) -> bool:
        """Return whether the interval (`after`, `until`] contains more than `than` scheduled times."""
        due = next(itertools.islice(self.after(after), than, None), None)
        return due is not None and due <= until


def _last(times: Iterator[datetime]) -> datetime | None:
    return next(iter(deque(times, maxlen=1)), None)
