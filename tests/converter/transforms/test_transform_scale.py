from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataprep_api.spec import Transform
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import to_arrow, to_numpy
from dataprep_converter.records.batch import Batch, RejectedSample
from dataprep_converter.transforms.scale import ScaleStep


def scaled(column: Any, **options: Any) -> Batch:
    records = pa.record_batch({"x": column, "other": ["a"] * len(column), "_sample": pa.array(range(len(column)), pa.int64())})
    step = ScaleStep(Transform.model_validate({"scale": {"columns": ["x"], **options}}).member, records.schema)
    done = step.apply(Batch(records=records, bad=[], bytes_in=3))
    assert done.records.schema.equals(step.schema())
    return done


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32", "float64"])
def test_pixels_are_mapped_onto_zero_to_one(dtype: str) -> None:
    done = scaled(to_arrow(np.array([[0, 255], [51, 102]], dtype)))
    expected = np.array([[0, 1], [0.2, 0.4]], np.float32)
    np.testing.assert_array_equal(to_numpy(done.records.column("x")), expected)


def test_the_ranges_are_parameters() -> None:
    done = scaled(pa.array([0.0, 5.0, 10.0]), fromMin=0, fromMax=10, toMin=-1, toMax=1)
    assert done.records.column("x").to_pylist() == [-1.0, 0.0, 1.0]
    assert done.records.column("x").type == pa.float32()


def test_a_value_that_float32_cannot_hold_makes_its_sample_bad() -> None:
    done = scaled(pa.array([1e300, 0.0, float("inf")]), fromMax=1)
    assert done.bad == [RejectedSample(0, "x does not fit float32 after scale")]
    assert done.records.column("x").to_pylist() == [0.0, float("inf")]
    assert done.records.column("_sample").to_pylist() == [1, 2]


def test_text_is_refused_by_name() -> None:
    schema = pa.schema([("name", pa.string())])
    with pytest.raises(BadSpec, match="scale takes numbers, but the column 'name' is string"):
        ScaleStep(Transform.model_validate({"scale": {"columns": ["name"]}}).member, schema)


def test_an_unknown_column_is_refused_by_name() -> None:
    with pytest.raises(BadSpec, match=r"The transform scale: there is no column 'imge'\. Did you mean 'image'\?"):
        ScaleStep(Transform.model_validate({"scale": {"columns": ["imge"]}}).member, pa.schema([("image", pa.int64())]))
