"""Tests of the times at which jobs are due, including days on which the clock changes."""

from datetime import datetime, timedelta
from itertools import islice

import pytest

from dataprep_operator.decisions.schedules import BadSchedule, Schedule


def utc(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


# In 2026, Berlin's clocks are changed from 2:00 to 3:00 on March 29th, and from 3:00 to 2:00 on October 25th, both at 1:00 UTC.
CASES = {
    "UTC": ("30 2 * * *", None, "2026-03-28T12:00", ["2026-03-29T02:30", "2026-03-30T02:30"]),
    "zone": ("0 9 * * 1-5", "America/New_York", "2026-01-30T00:00", ["2026-01-30T14:00", "2026-02-02T14:00"]),
    "left out by the clock": ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
    "hourly over the gap": ("0 * * * *", "Europe/Berlin", "2026-03-29T00:30", ["2026-03-29T01:00", "2026-03-29T02:00"]),
    "comes twice": ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
    "between the two": ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:45", ["2026-10-26T01:30"]),
    "after the second": ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10", ["2026-10-26T01:30"]),
    "hourly when it comes twice": (
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-25T00:15",
        ["2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"],
    ),
    "leap day": ("0 0 29 2 *", None, "2026-01-01T00:00", ["2028-02-29T00:00"]),
    "last day of the month": ("0 0 L * *", None, "2026-01-30T00:00", ["2026-01-31T00:00", "2026-02-28T00:00"]),
}


@pytest.mark.parametrize(("text", "zone", "start", "expected"), CASES.values(), ids=CASES.keys())
def test_the_next_times(text: str, zone: str | None, start: str, expected: list[str]) -> None:
    schedule = Schedule.parse(text, zone)

    assert list(islice(schedule.after(utc(start)), len(expected))) == [utc(each) for each in expected]


@pytest.mark.parametrize("text", ["* * * * *", "*/10 * * * *", "30 2 * * *", "0 0 1 * *", "0 0 29 2 *"])
@pytest.mark.parametrize("until", ["2026-03-29T01:30", "2026-10-25T00:40", "2026-10-25T01:40", "2029-01-01T00:00"])
def test_the_last_time_is_the_last_of_all_times(text: str, until: str) -> None:
    schedule = Schedule.parse(text, "Europe/Berlin")
    end = utc(until)
    for back in (timedelta(minutes=5), timedelta(hours=5), timedelta(days=9)):
        all_of_them = [*_times(schedule, end - back, end)]

        assert schedule.last(after=end - back, until=end) == (all_of_them[-1] if all_of_them else None)


def _times(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    for each in schedule.after(start):
        if each > end:
            break
        found.append(each)
    return found


def test_the_last_time_of_a_rare_schedule_is_found_far_back() -> None:
    assert Schedule.parse("0 0 29 2 *", None).last(after=utc("2020-01-01T00:00"), until=utc("2027-12-31T00:00")) == utc("2024-02-29T00:00")


def test_times_are_counted_no_further_than_asked() -> None:
    schedule = Schedule.parse("* * * * *", None)
    start = utc("2026-01-01T00:00")

    assert not schedule.has_more(after=start, until=start + timedelta(minutes=100), than=100)
    assert schedule.has_more(after=start, until=start + timedelta(minutes=101), than=100)
    assert schedule.has_more(after=start, until=utc("2099-01-01T00:00"), than=100)


@pytest.mark.parametrize(
    ("text", "zone", "said"),
    [
        ("* * * *", None, "spec.schedule: expected five fields (minute, hour, day of month, month, day of week), got '* * * *'"),
        ("0 0 * * * *", None, "expected five fields"),
        ("@daily", None, "expected five fields"),
        ("0 24 * * *", None, "spec.schedule: bad hour in '0 24 * * *'"),
        ("0 0 30 2 *", None, "spec.schedule: bad day-of-month"),
        ("0 0 * * *", "Mars/Olympus", "spec.timeZone: unknown time zone 'Mars/Olympus'"),
        ("0 0 * * *", "/etc/passwd", "spec.timeZone: unknown time zone '/etc/passwd'"),
        ("0 0 * * *", "Europe", "spec.timeZone: unknown time zone 'Europe'"),
    ],
)
def test_what_can_t_be_understood_is_named(text: str, zone: str | None, said: str) -> None:
    with pytest.raises(BadSchedule) as caught:
        Schedule.parse(text, zone)

    assert said in str(caught.value)
