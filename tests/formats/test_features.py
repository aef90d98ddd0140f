"""Features: which columns become which feature, and what happens to values that don't fit."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataprep_api.spec import Feature, LabelFeature
from dataprep_converter.encoders import FeatureSpec
from dataprep_converter.errors import BadSpec
from dataprep_converter.features import NOT_BY_DEFAULT, Projector, resolve
from dataprep_converter.readers import Bad, Batch
from dataprep_converter.tensors import to_arrow, to_numpy


def a_batch(**columns: Any) -> Batch:
    made = {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in columns.items()}
    rows = len(next(iter(made.values())))
    return Batch(records=pa.record_batch({**made, "_sample": pa.array(range(100, 100 + rows), pa.int64())}), bad=[], bytes_in=7)


def a_projector(batch: Batch, *, features: list[dict[str, Any]] | None = None, labels: list[dict[str, Any]] | None = None) -> Projector:
    return resolve(
        None if features is None else [Feature.model_validate(feature) for feature in features],
        None if labels is None else [LabelFeature.model_validate(label) for label in labels],
        schema=batch.records.schema,
        default_label="label",
    )


CSV = a_batch(**{str(n): [n + 0.5, n + 1.5] for n in range(5)}, **{"5": [0, 1]})


def test_without_features_and_labels_every_column_is_a_feature_and_the_default_label_the_label() -> None:
    batch = a_batch(b=["x"], label=[3], a=[1.5])
    projector = a_projector(batch)
    assert [(f.name, f.kind, f.label) for f in projector.features] == [
        ("a", "float", False),
        ("b", "bytes", False),
        ("label", "int64", True),
    ]
    assert projector.project(batch).records.schema.names == ["a", "b", "label"]


def test_a_column_left_out_by_default_is_written_when_it_is_named() -> None:
    note: pa.Field[Any] = pa.field("note", pa.string(), metadata=NOT_BY_DEFAULT)
    schema = pa.schema([pa.field("a", pa.int64())]).append(note)
    assert [f.name for f in resolve(None, None, schema=schema, default_label="label").features] == ["a"]
    named = resolve([Feature(name="note")], None, schema=schema, default_label="label")
    assert [f.name for f in named.features] == ["note"]


def test_the_columns_of_a_label_are_no_features() -> None:
    projector = a_projector(CSV, labels=[{"name": "label", "columns": ["5"]}])
    assert [f.name for f in projector.features] == ["0", "1", "2", "3", "4", "label"]


def test_a_default_label_that_a_feature_uses_is_not_written_twice() -> None:
    assert [f.label for f in a_projector(a_batch(label=[1]), features=[{"name": "label"}]).features] == [False]
    assert [f.name for f in a_projector(a_batch(label=[1]), features=[{"name": "y", "columns": ["label"]}]).features] == ["y"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(["0..4"], [0.5, 1.5, 2.5, 3.5, 4.5]), (["0..2"], [0.5, 1.5, 2.5]), (["3", "0"], [3.5, 0.5]), (["-2"], 4.5), (["1..-2"], [1.5, 2.5, 3.5, 4.5]),
     (["0..0"], [0.5]), (["2"], 2.5), (["-1", "0..1"], [0.0, 0.5, 1.5])],
)  # fmt: skip
def test_columns_are_names_positions_and_ranges(columns: list[str], expected: object) -> None:
    projector = a_projector(CSV, features=[{"name": "x", "columns": columns, "dtype": "float32"}])
    assert to_numpy(projector.project(CSV).records.column("x"))[0].tolist() == expected


def test_a_name_goes_before_a_position() -> None:
    batch = a_batch(**{"1": [10], "0": [20]})
    assert a_projector(batch, features=[{"name": "x", "columns": ["1"]}]).project(batch).records.column("x").to_pylist() == [10]


def test_features_stand_in_the_byte_order_of_their_names() -> None:
    batch = a_batch(b=[1], a=[2], ab=[3], Z=[4], é=[5])
    assert a_projector(batch).project(batch).records.schema.names == ["Z", "a", "ab", "b", "é"]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([{"name": "hieght"}], "The feature 'hieght': there is no column 'hieght'. Did you mean 'height'? The columns are height, text."),
        ([{"name": "x", "columns": ["7"]}], "'7' is outside the 2 columns: height, text"),
        ([{"name": "x", "columns": ["1..0"]}], "the range '1..0' of the 2 columns is empty"),
        ([{"name": "x", "columns": ["height", "text"]}], "text and numbers can't share a vector: height (int64), text (bytes)"),
        ([{"name": "text", "dtype": "float32"}], "text can't become float32; give the column a type of numbers in the source"),
        ([{"name": "height", "dtype": "bytes"}], "height can't become bytes; give it encoding: Raw"),
    ],
)
def test_what_cannot_be_is_refused_before_any_data_is_read(features: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        a_projector(a_batch(height=[1], text=["x"]), features=features)
    assert message in str(caught.value)


def test_a_column_of_a_type_that_records_cannot_hold_is_refused() -> None:
    with pytest.raises(BadSpec, match=r"the column 'when' is timestamp\[s\]"):
        a_projector(a_batch(when=pa.array([1], pa.timestamp("s"))))


def test_a_source_without_columns_has_nothing_to_write() -> None:
    with pytest.raises(BadSpec, match="There is nothing to write"):
        resolve(None, None, schema=pa.schema([]), default_label="label")


def test_a_feature_and_a_label_of_one_name_are_refused() -> None:
    with pytest.raises(BadSpec, match="The feature 'a' is also a label"):
        a_projector(a_batch(a=[1], b=[2]), labels=[{"name": "a", "columns": ["b"]}])


IMAGE = to_arrow(np.arange(8, dtype=np.uint8).reshape(2, 2, 2))
SPECS: dict[str, tuple[Any, dict[str, Any], FeatureSpec]] = {
    "scalar": ([1], {}, FeatureSpec("x", "int64", "int64", ())),
    "bool": ([True], {}, FeatureSpec("x", "int64", "bool", ())),
    "text": (["a"], {}, FeatureSpec("x", "bytes", "bytes", ())),
    "byte tensor": (IMAGE, {}, FeatureSpec("x", "bytes", "uint8", (2, 2), raw=True)),
    "byte tensor as values": (IMAGE, {"encoding": "Values"}, FeatureSpec("x", "int64", "uint8", (2, 2))),
    "float tensor": (IMAGE, {"dtype": "float32"}, FeatureSpec("x", "float", "float32", (2, 2))),
    "raw float64 tensor": (IMAGE, {"dtype": "float64", "encoding": "Raw"}, FeatureSpec("x", "bytes", "float64", (2, 2), raw=True)),
    "int64 tensor": (IMAGE, {"dtype": "int64"}, FeatureSpec("x", "int64", "int64", (2, 2))),
    "ragged": (pa.array([[1], [2, 3]]), {}, FeatureSpec("x", "int64", "int64", (-1,))),
}


@pytest.mark.parametrize(("column", "feature", "expected"), SPECS.values(), ids=SPECS.keys())
def test_type_and_encoding_follow_from_column_and_spec(column: Any, feature: dict[str, Any], expected: FeatureSpec) -> None:
    assert a_projector(a_batch(x=column), features=[{"name": "x", **feature}]).features == [expected]


def test_float64_is_stored_as_float32_with_a_warning() -> None:
    batch = a_batch(x=[1.1])
    projector = a_projector(batch)
    assert projector.features == [FeatureSpec("x", "float", "float32", ())]
    assert projector.project(batch).records.column("x").type == pa.float32()
    assert "'x' is stored as float32" in projector.warnings[0]


CONVERSIONS: dict[str, tuple[Any, str, list[Any], dict[int, str]]] = {
    "too large": ([255, 256, -1], "uint8", [255], {101: "x 256 does not fit uint8", 102: "x -1 does not fit uint8"}),
    "not whole": ([1.0, 1.5], "int64", [1], {101: "x 1.5 does not fit int64"}),
    "not finite": ([float("nan"), float("inf"), -3.0], "int32", [-3], {100: "x nan does not fit int32", 101: "x inf does not fit int32"}),
    "beyond int64": ([2.0**63, -(2.0**63)], "int64", [-(2**63)], {100: "x 9.223372036854776e+18 does not fit int64"}),
    "too large for float16": ([65504, 70000], "float16", [65504.0], {101: "x 70000 does not fit float16"}),
    "too large for float32": ([1e39, 1e-50], "float32", [0.0], {100: "x 1e+39 does not fit float32"}),
    "infinite stays": ([float("inf")], "float32", [float("inf")], {}),
    "bool": ([0, 1, 2], "bool", [False, True], {102: "x 2 does not fit bool"}),
    "no value": (pa.array([None, 4]), "int32", [4], {100: "x has no value"}),
}


@pytest.mark.parametrize(("column", "dtype", "kept", "bad"), CONVERSIONS.values(), ids=CONVERSIONS.keys())
def test_a_value_that_does_not_fit_makes_its_sample_bad(column: Any, dtype: str, kept: list[Any], bad: dict[int, str]) -> None:
    batch = a_batch(x=column, other=list(range(len(column))))
    done = a_projector(batch, features=[{"name": "x", "dtype": dtype}, {"name": "other"}]).project(batch)
    assert done.records.column("x").to_pylist() == kept
    assert {fault.sample: fault.reason for fault in done.bad} == bad
    assert done.records.column("other").to_pylist() == [row for row in range(len(column)) if 100 + row not in bad]
    assert done.bytes_in == 7


def test_one_value_that_does_not_fit_spoils_its_whole_tensor() -> None:
    batch = a_batch(x=to_arrow(np.array([[1, 2], [3, 400]])))
    done = a_projector(batch, features=[{"name": "x", "dtype": "uint8"}]).project(batch)
    assert to_numpy(done.records.column("x")).tolist() == [[1, 2]]
    assert done.bad == [Bad(sample=101, reason="x 400 does not fit uint8")]


@pytest.mark.parametrize("labels", [[0, 12, 9, -1], [0.0, 12.0, 9.0, -1.0]], ids=["int64", "float64"])
def test_a_label_outside_its_classes_makes_the_record_bad(labels: list[Any]) -> None:
    batch = a_batch(label=labels)
    done = a_projector(batch, labels=[{"name": "label", "numClasses": 10}]).project(batch)
    assert done.records.column("label").to_pylist() == [0, 9]
    assert done.bad == [Bad(101, "label 12 is outside 0..9"), Bad(103, "label -1 is outside 0..9")]


def test_a_one_hot_label_has_no_class_number_to_check() -> None:
    batch = a_batch(label=to_arrow(np.eye(3, dtype=np.float32)))
    assert a_projector(batch, labels=[{"name": "label", "numClasses": 3}]).project(batch).bad == []


def test_classes_of_text_are_refused() -> None:
    with pytest.raises(BadSpec, match="numClasses needs whole numbers, but it is bytes"):
        a_projector(a_batch(label=["a"]), labels=[{"name": "label", "numClasses": 3}])


def test_a_column_that_needs_nothing_is_passed_on_as_it_is() -> None:
    batch = a_batch(image=IMAGE)
    done = a_projector(batch).project(batch)
    assert np.shares_memory(to_numpy(done.records.column("image")), to_numpy(batch.records.column("image")))


def test_several_columns_of_text_become_lists() -> None:
    batch = a_batch(a=["x", "y"], b=["z", ""])
    done = a_projector(batch, features=[{"name": "t", "columns": ["a", "b"]}]).project(batch)
    assert done.records.column("t").to_pylist() == [[b"x", b"z"], [b"y", b""]]


def test_bad_samples_of_before_are_kept() -> None:
    batch = a_batch(x=[1, 300])
    batch = Batch(records=batch.records, bad=[Bad(5, "unreadable")], bytes_in=0)
    done = a_projector(batch, features=[{"name": "x", "dtype": "uint8"}]).project(batch)
    assert [fault.sample for fault in done.bad] == [5, 101]


def test_sources_name_the_column_behind_each_feature_of_one() -> None:
    projector = a_projector(CSV, features=[{"name": "x", "columns": ["0..4"]}], labels=[{"name": "y", "columns": ["-1"]}])
    assert projector.sources == {"y": "5"}
