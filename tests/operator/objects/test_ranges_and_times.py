"""Tests of index ranges, times, and conditions in statuses."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import Condition
from dataprep_operator.decisions import conditions
from dataprep_operator.objects import ranges, times

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2, 3, 7], "0-3,7"), ([7, 1, 2, 2], "1-2,7"), ([0, 2, 4], "0,2,4")],
    ids=["none", "one", "a run and one", "unsorted", "no runs"],
)
def test_indexes_are_written_as_ranges_and_read_back(indexes: list[int], text: str) -> None:
    assert ranges.write(indexes) == text
    assert ranges.parse(text, below=100) == sorted(set(indexes))


def test_shortened_ranges_still_parse() -> None:
    assert ranges.shortened("1,3-5,77", limit=6) == "1,3-5"
    assert ranges.shortened("1,3-5", limit=5) == "1,3-5"


@pytest.mark.parametrize(("seconds", "text"), [(45, "45s"), (80, "1m20s"), (7500, "2h05m"), (273_600, "3d04h")])
def test_durations_for_people(seconds: float, text: str) -> None:
    assert times.for_people(seconds) == text


def test_times_are_written_as_kubernetes_does_and_read_back() -> None:
    assert times.text(NOW) == "2026-01-31T12:00:00Z"
    assert times.parse("2026-01-31T12:00:00Z") == times.parse("2026-01-31T12:00:00.000000+00:00") == NOW
    assert times.parse(None) is None


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    def replace(before: list[Condition], status: Literal["True", "False"], reason: Reason, seconds: int) -> list[Condition]:
        now = NOW + timedelta(seconds=seconds)
        return conditions.replace(before, ConditionType.RUNNING, status, reason=reason, message=str(seconds), now=now, generation=1)

    first = replace([], "True", Reason.PLANNING, 0)
    other_reason = replace(first, "True", Reason.CONVERTING, 9)
    other_status = replace(other_reason, "False", Reason.CONVERTING, 10)

    assert [each[0].last_transition_time[-3:] for each in (first, other_reason, other_status)] == ["00Z", "00Z", "10Z"]
    assert (other_reason[0].reason, other_reason[0].message) == ("Converting", "9")
