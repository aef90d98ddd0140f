from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.converter.transforms.image_batches import applied, pixels, schema_after, tensors

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import to_numpy
from dataprep_converter.records.batch import Batch, RejectedSample


def cast(values: Any, dtype: str) -> Batch:
    records = pa.record_batch({"x": values, "_sample": pa.array(range(len(values)), pa.int64())})
    return applied(Batch(records=records, bad=[], bytes_in=3), {"cast": {"columns": ["x"], "dtype": dtype}})


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (pa.array([1, 255], pa.int64()), "uint8", [1, 255]),
        (pa.array([1.0, -2.0], pa.float64()), "int64", [1, -2]),
        (pa.array([0.1, 65504.0], pa.float64()), "float16", [np.float16(0.1), 65504.0]),
        (pa.array([2**53 + 1], pa.int64()), "float64", [2.0**53]),
        (pa.array([0, 1], pa.uint8()), "bool", [False, True]),
        (pa.array([True, False]), "float32", [1.0, 0.0]),
        (pa.array([-(2.0**63)]), "int64", [-(2**63)]),
    ],
    ids=str,
)
def test_a_value_that_fits_is_converted(values: Any, dtype: str, expected: list[Any]) -> None:
    done = cast(values, dtype)
    assert done.bad == []
    assert done.records.column("x").to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "dtype", "shown"),
    [
        (pa.array([256], pa.int64()), "uint8", "256"),
        (pa.array([-1], pa.int64()), "uint8", "-1"),
        (pa.array([2**31], pa.uint32()), "int32", "2147483648"),
        (pa.array([-1], pa.int8()), "uint8", "-1"),
        (pa.array([0.5]), "int64", "0.5"),
        (pa.array([float("nan")]), "int32", "nan"),
        (pa.array([2.0**63]), "int64", r"9.223372036854776e+18"),
        (pa.array([1e300]), "float32", "1e+300"),
        (pa.array([65_520.0]), "float16", "65520.0"),
        (pa.array([2], pa.uint8()), "bool", "2"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_makes_its_sample_bad(values: Any, dtype: str, shown: str) -> None:
    assert cast(values, dtype).bad == [RejectedSample(0, f"x {shown} does not fit {dtype}")]


def test_infinity_and_no_number_stay_what_they_are_in_a_float() -> None:
    found = to_numpy(cast(pa.array([float("inf"), float("nan")]), "float16").records.column("x"))
    np.testing.assert_array_equal(found, np.array([np.inf, np.nan], np.float16))


def test_a_missing_value_is_bad() -> None:
    assert cast(pa.array([None, 1], pa.int64()), "float32").bad == [RejectedSample(0, "x has no value")]


def test_tensors_keep_their_shape() -> None:
    done = applied(tensors(np.arange(6.0).reshape(2, 3), np.full((2, 3), 300.0)), {"cast": {"columns": ["image"], "dtype": "uint8"}})
    assert done.bad == [RejectedSample(11, "image 300.0 does not fit uint8")]
    np.testing.assert_array_equal(pixels(done), np.arange(6, dtype=np.uint8).reshape(1, 2, 3))


def test_text_is_refused_by_name() -> None:
    with pytest.raises(BadSpec, match="The transform cast takes numbers, but the column 'name' is string"):
        schema_after(pa.schema([("name", pa.string())]), {"cast": {"columns": ["name"], "dtype": "int64"}})
