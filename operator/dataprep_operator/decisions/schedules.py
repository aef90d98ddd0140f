"""A schedule's times: when the next job is due, and which was due last. Pure; cronsim knows what a line of crontab means.

In a time zone whose clock is put forward, a job at a fixed time that is left out that day is due right after the gap; when the clock is put
back, it is due once, at the first of the two times. That is what Debian's cron does.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

# To find the last time before now, look this far back first: a schedule that comes round every minute has few times in an hour.
_LOOKS_BACK: Final = (timedelta(hours=2), timedelta(days=2), timedelta(days=62), timedelta(days=800))


class BadSchedule(ValueError):
    """The schedule or its time zone can't be understood."""


@dataclass(frozen=True)
class Schedule:
    """Five fields of crontab in a time zone."""

    text: str
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, time_zone: str | None) -> Self:
        """The schedule. Raises BadSchedule naming the field or the zone."""
        try:
            zone = ZoneInfo(time_zone or "UTC")
        except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
            raise BadSchedule(f"spec.timeZone: no time zone has the name {time_zone!r}; expected one such as Europe/Berlin") from exc
        if len(text.split()) != 5:
            raise BadSchedule(f"spec.schedule: expected five fields (minute, hour, day of month, month, day of week), got {text!r}")
        try:
            next(CronSim(text, datetime.now(UTC)))
        except CronSimError as exc:
            raise BadSchedule(f"spec.schedule: {str(exc).lower()} in {text!r}") from exc
        except StopIteration as exc:
            raise BadSchedule(f"spec.schedule: {text!r} names no day of the next 50 years") from exc
        return cls(text, zone)

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The times after a moment, in UTC, without end."""
        for each in CronSim(self.text, moment.astimezone(self.zone)):
            due = each.astimezone(UTC)
            # In the hour that comes twice cronsim may begin with a time of its first round.
            if due > moment:
                yield due

    def next(self, moment: datetime) -> datetime | None:
        """The first time after a moment."""
        return next(self.after(moment), None)

    def last(self, *, after: datetime, until: datetime) -> datetime | None:
        """The last time after one moment and not after another."""
        for back in _LOOKS_BACK:
            start = max(after, until - back)
            found = _last(itertools.takewhile(lambda due: due <= until, self.after(start)))
            if found is not None or start == after:
                return found
        return _last(itertools.takewhile(lambda due: due <= until, self.after(after)))

    def has_more(self, *, after: datetime, until: datetime, than: int) -> bool:
        """Whether there are more than so many times after one moment and not after another."""
        due = next(itertools.islice(self.after(after), than, None), None)
        return due is not None and due <= until


def _last(times: Iterator[datetime]) -> datetime | None:
    return next(iter(deque(times, maxlen=1)), None)
