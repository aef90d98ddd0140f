"""Column values as text, hashes and points in time."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.planning.column_values import as_text, check_bounds, check_type, hashes, in_range, moments

_arrow: Any = pa
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@given(values=st.lists(st.one_of(st.none(), st.text(max_size=8)), max_size=30), cut=st.integers(0, 30))
def test_equal_texts_have_equal_hashes_wherever_they_stand(values: list[str | None], cut: int) -> None:
    column = _arrow.array(values, pa.string())
    whole = hashes(column)
    parts = np.concatenate([hashes(column.slice(0, cut)), hashes(column.slice(cut))])
    assert whole.tolist() == parts.tolist()
    alone = [int(hashes(_arrow.array([value], pa.large_string()))[0]) for value in values]
    assert whole.tolist() == alone
    assert len(set(whole.tolist())) == len(set(values))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(pa.array([7, -1, None]), pa.array(["7", "-1", None]), id="a whole number and its text"),
        pytest.param(pa.array([7, 8], pa.int8()), pa.array([7, 8], pa.uint32()), id="widths of integers"),
        pytest.param(pa.array(["a", "b"]).dictionary_encode(), pa.array([b"a", b"b"]), id="dictionary and bytes"),
        pytest.param(pa.array([0.0, 1.5], pa.float32()), pa.array([-0.0, 1.5], pa.float64()), id="widths of floats, and the zeros"),
    ],
)
def test_the_hash_is_the_value_s_and_not_the_type_s(one: Any, other: Any) -> None:
    assert hashes(one).tolist() == hashes(other).tolist()


def test_text_of_numbers_truth_values_and_bytes() -> None:
    assert as_text(pa.array([1, None])).to_pylist() == ["1", None]
    assert as_text(pa.array([True, False])).to_pylist() == ["true", "false"]
    assert as_text(_arrow.array([b"a", b"\xff"])).to_pylist() == ["a", None]


OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))


@pytest.mark.slow
@given(st.datetimes(timezones=OFFSETS).filter(lambda moment: 1600 <= moment.year <= 2200))
def test_moments_are_those_of_python(moment: dt.datetime) -> None:
    found, valid = moments(_arrow.array([moment.isoformat(), moment.isoformat(sep=" ")]))
    assert valid.all()
    assert found.tolist() == [(moment - EPOCH) // dt.timedelta(microseconds=1)] * 2


@pytest.mark.parametrize("text", ["", "x", "2024-13-01", "2024-02-30", "24-01-01", "2024-01-01T25:00", "2024-01-01+02:00", "2024"])
def test_what_is_no_moment_is_told(text: str) -> None:
    assert moments(_arrow.array([text, "2024-01-01"]))[1].tolist() == [False, True]


def test_times_of_arrow_are_moments_too() -> None:
    day = dt.date(2024, 1, 1)
    expected = (dt.datetime(2024, 1, 1, tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)
    for column in (_arrow.array([day]), _arrow.array([day], pa.date64()), _arrow.array([day]).cast(pa.timestamp("s"))):
        assert moments(column)[0].tolist() == [expected]


@pytest.mark.parametrize(
    ("column", "since", "before", "expected"),
    [
        pytest.param(["2024-01-01", "2024-01-02", "x"], "2024-01-02", None, [False, True, False], id="since is inside"),
        pytest.param(["2024-01-01", "2024-01-02", None], None, "2024-01-02", [True, False, False], id="before is outside"),
        pytest.param([1, 5, 9, None], "5", "9", [False, True, False, False], id="whole numbers"),
        pytest.param([0.5, float("nan"), 2.5], "0.5", "2.5", [True, False, False], id="numbers"),
        pytest.param([2**53 + 1, 2**53], str(2**53 + 1), None, [True, False], id="beyond the whole numbers of a float"),
    ],
)
def test_ranges(column: list[Any], since: str | None, before: str | None, expected: list[bool]) -> None:
    assert in_range(_arrow.array(column), since=since, before=before, of="x").tolist() == expected


@pytest.mark.parametrize(
    ("kind", "since", "before", "message"),
    [
        pytest.param(pa.string(), "yesterday", None, "x must be a date or time such as 2024-01-31 .*, got 'yesterday'", id="no time"),
        pytest.param(
            pa.int64(), None, "2024-01-01", "x must be a number, because the column has numbers, got '2024-01-01'", id="no number"
        ),
        pytest.param(pa.string(), "2024-01-02", "2024-01-02", "since 2024-01-02 is not earlier than before 2024-01-02", id="empty"),
    ],
)
def test_a_range_that_can_not_be_is_refused(kind: pa.DataType, since: str | None, before: str | None, message: str) -> None:
    with pytest.raises(BadSpec, match=message):
        check_bounds(kind, since=since, before=before, of="x")


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), _arrow.fixed_shape_tensor(pa.uint8(), [2])])
def test_a_column_of_lists_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(BadSpec, match="x is of the type .*; use a column of text"):
        check_type(kind, of="x")
