"""`fillNulls`: replaces nulls with values, and adds masks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.jobs import output_of
from tests.builders.specs import parse_job

from dataprep_api.spec.transforms.columns import FillNulls
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import masked, to_arrow
from dataprep_converter.formats.nested.descriptions import nested_field
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.transforms.fill_nulls import FillNullsStep
from dataprep_reader import open as open_data_set

COLUMNS: dict[str, Any] = {
    "n": pa.array([1, None, 3], pa.int16()),
    "x": pa.array([0.5, None, float("nan")], pa.float32()),
    "h": pa.array([np.float16(0.5), None, np.float16(2)], pa.float16()),
    "b": pa.array([True, None, False]),
    "s": pa.array(["a", None, ""]),
    "d": pa.array(["a", None, "b"]).dictionary_encode(),
    "raw": pa.array([b"\xff", None, b""], pa.large_binary()),
    "l": pa.array([[1], None, []], pa.large_list(pa.int64())),
    "t": masked(to_arrow(np.arange(12, dtype=np.float32).reshape(3, 2, 2)), np.array([False, True, False])),
    "whole": pa.array([1, 2, 3]),
}


def filled(names: list[str], **options: Any) -> pa.RecordBatch:
    """The columns after the step."""
    records = pa.RecordBatch.from_pydict({name: COLUMNS[name] for name in names} | {SAMPLE: pa.array(range(3), pa.int64())})
    schema = records.schema.remove(len(names))
    step = FillNullsStep(FillNulls.model_validate({"columns": names, **options}), schema)
    after = step.apply(Batch(records=records, bad=[], bytes_in=0)).records
    assert after.schema.names == [*step.schema().names, SAMPLE]
    assert after.schema.types[:-1] == step.schema().types
    return after


def test_a_null_is_zero_or_empty_by_default() -> None:
    after = filled(["n", "h", "b", "s", "d", "raw", "l", "whole"])
    assert {name: after.column(name).to_pylist() for name in after.schema.names[:-1]} == {
        "n": [1, 0, 3], "h": [0.5, 0, 2], "b": [True, False, False], "s": ["a", "", ""], "d": ["a", "", "b"], "raw": [b"\xff", b"", b""],
        "l": [[1], [], []], "whole": [1, 2, 3],
    }  # fmt: skip


def test_nan_beside_a_null_stays() -> None:
    assert str(filled(["x"]).column("x").to_pylist()) == "[0.5, 0.0, nan]"


def test_a_null_tensor_has_the_value_everywhere() -> None:
    tensors: Any = filled(["t"], value="-1.5").column("t")
    assert tensors.to_numpy_ndarray().tolist() == [[[0, 1], [2, 3]], [[-1.5, -1.5], [-1.5, -1.5]], [[8, 9], [10, 11]]]


@pytest.mark.parametrize(("name", "value", "expected"), [
    ("n", "-7", -7), ("x", "2", 2.0), ("b", "true", True), ("s", "none", "none"), ("raw", "none", b"none"), ("d", "c", "c"),
])  # fmt: skip
def test_a_null_has_the_given_value(name: str, value: str, expected: Any) -> None:
    assert filled([name], value=value).column(name)[1].as_py() == expected


def test_each_mask_follows_its_column() -> None:
    after = filled(["n", "s", "whole"], masks=True)
    assert after.schema.names == ["n", "n_missing", "s", "s_missing", "whole", "whole_missing", SAMPLE]
    masks = [after.column(f"{name}_missing").to_pylist() for name in ("n", "s", "whole")]
    assert masks == [[False, True, False], [False, True, False], [False, False, False]]


@pytest.mark.parametrize(("names", "options", "reason"), [
    (["n"], {"value": "1.5"}, "the value '1.5' of the column 'n' is not a number of the type int16"),
    (["n"], {"value": "99999"}, "the value '99999' of the column 'n' is not a number of the type int16"),
    (["n"], {"value": "true"}, "the value 'true' of the column 'n' is not a number of the type int16"),
    (["b"], {"value": "0"}, "the value '0' of the column 'b' is not true or false"),
    (["x"], {"value": "none"}, "the value 'none' of the column 'x' is not a number of the type float"),
    (["l"], {"value": "[]"}, "a null in the list column 'l' always becomes an empty list, so value can't be set; remove value"),
    (["m"], {}, "m"),
])  # fmt: skip
def test_a_value_of_another_type_is_refused(names: list[str], options: dict[str, Any], reason: str) -> None:
    schema = pa.schema([(name, column.type) for name, column in COLUMNS.items()])
    with pytest.raises(BadSpec, match=reason):
        FillNullsStep(FillNulls.model_validate({"columns": names, **options}), schema)


NESTED = nested_field("n", pa.list_(pa.struct([("a", pa.int64())])))


@pytest.mark.parametrize(("options", "expected"), [({}, "[]"), ({"value": ' [{"a": 7}]'}, '[{"a":7}]')])
def test_a_nested_null_is_empty_or_has_the_given_json(options: dict[str, Any], expected: str) -> None:
    step = FillNullsStep(FillNulls.model_validate({"columns": ["n"], **options}), pa.schema([NESTED]))
    records = pa.RecordBatch.from_arrays([pa.array([None, '[{"a":1}]'], pa.large_string()), pa.array([0, 1])], names=["n", SAMPLE])
    assert step.apply(Batch(records=records, bad=[], bytes_in=0)).records.column("n").to_pylist() == [expected, '[{"a":1}]']


@pytest.mark.parametrize("value", ["[7]", "{", "null", "", "[" * 1024])
def test_a_value_that_is_not_the_json_of_the_nested_column_is_refused(value: str) -> None:
    with pytest.raises(BadSpec, match=r"of the column 'n' is not the JSON of list<item: struct<a: int64>>: "):
        FillNullsStep(FillNulls(columns=["n"], value=value), pa.schema([NESTED]))


def test_a_mask_with_the_name_of_a_column_is_refused() -> None:
    schema = pa.schema([("n", pa.int64()), ("n_missing", pa.int64())])
    with pytest.raises(BadSpec, match="the mask of 'n' would have the same name as the column 'n_missing'; rename that column"):
        FillNullsStep(FillNulls(columns=["n"], masks=True), schema)


@pytest.mark.parametrize("format_", ["mds", "npz", "tfrecord"])
def test_a_format_without_nulls_has_the_value_and_the_mask(tmp_path: Path, format_: str) -> None:
    rows = [{"fare": 1.5, "seats": 2}, {"fare": None, "seats": None}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = {
        "source": {"jsonl": {"uris": [str(tmp_path / "rows.jsonl")]}},
        "transforms": [{"fillNulls": {"columns": ["fare", "seats"], "masks": True}}],
        "output": {"uri": str(tmp_path / "out"), "format": format_},
    }
    (found,) = open_data_set(str(output_of(parse_job(spec))), split="train")
    batch: Any = found
    assert {name.rpartition("/")[2]: values.tolist() for name, values in batch.items()} == {
        "fare": [1.5, 0], "fare_missing": [False, True], "seats": [2, 0], "seats_missing": [False, True],
    }  # fmt: skip
