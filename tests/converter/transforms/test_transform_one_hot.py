from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataprep_api.spec import Transform
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import to_numpy
from dataprep_converter.records.batch import Batch, RejectedSample
from dataprep_converter.transforms.one_hot import OneHotStep


def one_hot(column: Any, classes: int, **options: bool) -> Batch:
    records = pa.record_batch({"_sample": pa.array(range(len(column)), pa.int64()), "y": column})
    step = OneHotStep(Transform.model_validate({"oneHot": {"columns": ["y"], "numClasses": classes, **options}}).member, records.schema)
    done = step.apply(Batch(records=records, bad=[], bytes_in=3))
    assert done.records.schema.equals(step.schema())
    return done


@pytest.mark.parametrize("dtype", [pa.int64(), pa.uint8()])
def test_each_class_has_its_place(dtype: pa.DataType) -> None:
    done = one_hot(pa.array([2, 0], dtype), 3)
    np.testing.assert_array_equal(to_numpy(done.records.column("y")), np.array([[0, 0, 1], [1, 0, 0]], np.float32))


def test_a_class_outside_the_range_makes_its_sample_bad() -> None:
    done = one_hot(pa.array([12, 9, -1]), 10)
    assert done.bad == [RejectedSample(0, "y 12 is outside 0..9"), RejectedSample(2, "y -1 is outside 0..9")]
    assert to_numpy(done.records.column("y"))[0].tolist() == [0.0] * 9 + [1.0]


def test_a_sample_without_a_class_is_bad() -> None:
    assert one_hot(pa.array([None, 1], pa.int64()), 2).bad == [RejectedSample(0, "y has no value")]


def test_background_has_the_last_place_and_is_not_the_unknown() -> None:
    # ImageNet's detection set has 200 classes, so vectors with a background class have 201 values.
    done = one_hot(pa.array([7, None, 200], pa.int64()), 200, background=True)
    vectors = to_numpy(done.records.column("y"))
    assert vectors.shape == (2, 201)
    assert vectors.argmax(axis=1).tolist() == [7, 200]
    assert vectors.sum(axis=1).tolist() == [1.0, 1.0]
    assert done.bad == [RejectedSample(2, "y 200 is outside 0..199")]


def test_the_unknown_is_background_when_asked() -> None:
    done = one_hot(pa.array([7, None, 200, -1], pa.int64()), 200, background=True, unknownIsBackground=True)
    assert to_numpy(done.records.column("y")).argmax(axis=1).tolist() == [7, 200, 200, 200]
    assert done.bad == []


def test_unknown_as_background_needs_background() -> None:
    with pytest.raises(ValueError, match="unknownIsBackground needs background: true"):
        one_hot(pa.array([1]), 2, unknownIsBackground=True)


def test_a_column_of_floats_is_refused_by_name() -> None:
    schema = pa.schema([("y", pa.float32())])
    with pytest.raises(BadSpec, match="oneHot takes whole numbers, but the column 'y' is float"):
        OneHotStep(Transform.model_validate({"oneHot": {"columns": ["y"], "numClasses": 2}}).member, schema)
