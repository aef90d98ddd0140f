"""Features: how columns become features, and what happens to values that don't fit."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_api.dataset.run_id import NullRule
from dataprep_api.spec import Feature, LabelFeature
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import to_arrow, to_numpy
from dataprep_converter.pipeline.features import Projector, resolve
from dataprep_converter.records.batch import SAMPLE, Batch, RejectedSample
from dataprep_converter.records.columns import IS_RECORD, IS_SEQUENCE, NOT_BY_DEFAULT, find_columns
from dataprep_converter.records.feature import FeatureSpec


def a_batch(**columns: Any) -> Batch:
    made = {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in columns.items()}
    rows = len(next(iter(made.values())))
    return Batch(records=pa.record_batch({**made, "_sample": pa.array(range(100, 100 + rows), pa.int64())}), bad=[], bytes_in=7)


def a_projector(
    batch: Batch,
    *,
    features: list[dict[str, Any]] | None = None,
    labels: list[dict[str, Any]] | None = None,
    nulls: NullRule = "Keep",
) -> Projector:
    return resolve(
        None if features is None else [Feature.model_validate(feature) for feature in features],
        None if labels is None else [LabelFeature.model_validate(label) for label in labels],
        schema=batch.records.schema,
        default_label="label",
        nulls=nulls,
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
        ([{"name": "x", "columns": ["7"]}], "there is no column at position '7'. The 2 columns are height, text"),
        ([{"name": "x", "columns": ["1..0"]}], "the range '1..0' contains none of the 2 columns. Write the smaller position first"),
        ([{"name": "x", "columns": ["height", "text"]}], "text and numbers can't share a vector: height (int64), text (bytes)"),
        (
            [{"name": "text", "dtype": "float32"}],
            "text can't become float32; turn the text into numbers with the transform vocabulary, or give the column a type of numbers in the source",
        ),
        ([{"name": "height", "dtype": "bytes"}], "height can't become bytes; set encoding: Raw"),
    ],
)
def test_what_cannot_be_is_refused_before_any_data_is_read(features: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        a_projector(a_batch(height=[1], text=["x"]), features=features)
    assert message in str(caught.value)


def test_names_are_found_without_a_list_of_all_columns_for_each() -> None:
    schema = pa.schema([("a", pa.int64()), ("0", pa.int64()), (SAMPLE, pa.int64())])

    class Unlisted:
        get_field_index = schema.get_field_index
        """The class doesn't define `names`, so the test fails if `find_columns` uses it."""

    unlisted: Any = Unlisted()
    assert find_columns(["0", "a"], unlisted, of="x") == find_columns(["0", "a"], schema, of="x") == ["0", "a"]
    assert find_columns(["0", "-1"], schema, of="x") == ["0", "0"]
    with pytest.raises(BadSpec, match="no column can have the name '_sample', which is reserved"):
        find_columns([SAMPLE], schema, of="x")


def test_a_column_of_a_type_that_records_cannot_hold_is_refused() -> None:
    with pytest.raises(BadSpec, match=r"the column 'when' is timestamp\[s\]"):
        a_projector(a_batch(when=pa.array([1], pa.timestamp("s"))))


def test_a_source_without_columns_has_nothing_to_write() -> None:
    with pytest.raises(BadSpec, match="There is nothing to write"):
        resolve(None, None, schema=pa.schema([]), default_label="label")


def test_a_feature_and_a_label_of_one_name_are_refused() -> None:
    with pytest.raises(BadSpec, match="The feature 'a' is also a label"):
        a_projector(a_batch(a=[1], b=[2]), labels=[{"name": "a", "columns": ["b"]}])


VECTORS = pa.array([[[1.5, 2.5], [3.5, 4.5]], []], pa.list_(pa.list_(pa.float64(), 2)))
IMAGE = to_arrow(np.arange(8, dtype=np.uint8).reshape(2, 2, 2))
SPECS: dict[str, tuple[Any, dict[str, Any], FeatureSpec]] = {
    "scalar": ([1], {}, FeatureSpec("x", "int64", "int64", ())),
    "bool": ([True], {}, FeatureSpec("x", "int64", "bool", ())),
    "text": (["a"], {}, FeatureSpec("x", "bytes", "bytes", (), text=True)),
    "byte tensor": (IMAGE, {}, FeatureSpec("x", "bytes", "uint8", (2, 2), raw=True)),
    "byte tensor as values": (IMAGE, {"encoding": "Values"}, FeatureSpec("x", "int64", "uint8", (2, 2))),
    "float tensor": (IMAGE, {"dtype": "float32"}, FeatureSpec("x", "float", "float32", (2, 2))),
    "raw float64 tensor": (IMAGE, {"dtype": "float64", "encoding": "Raw"}, FeatureSpec("x", "bytes", "float64", (2, 2), raw=True)),
    "int64 tensor": (IMAGE, {"dtype": "int64"}, FeatureSpec("x", "int64", "int64", (2, 2))),
    "ragged": (pa.array([[1], [2, 3]]), {}, FeatureSpec("x", "int64", "int64", (-1,))),
    "ragged float64": (pa.array([[1.5]]), {}, FeatureSpec("x", "float", "float32", (-1,))),
    "ragged small ints": (pa.array([[1]], pa.list_(pa.uint8())), {}, FeatureSpec("x", "int64", "uint8", (-1,))),
    "lists of one size": (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), {}, FeatureSpec("x", "int64", "int64", (2,))),
    "float16 scalar": ([1.5], {"dtype": "float16"}, FeatureSpec("x", "float", "float16", ())),
    "float16 tensor": (IMAGE, {"dtype": "float16"}, FeatureSpec("x", "bytes", "float16", (2, 2), raw=True)),
    "float16 tensor as values": (IMAGE, {"dtype": "float16", "encoding": "Values"}, FeatureSpec("x", "float", "float16", (2, 2))),
    "sequence of values": (pa.array([[1]]), {"sequence": True}, FeatureSpec("x", "int64", "int64", (-1,), sequence=True)),
    "sequence of vectors": (VECTORS, {"sequence": True}, FeatureSpec("x", "float", "float32", (-1, 2), sequence=True)),
    "sequence of lists": (pa.array([[["a"]]]), {"sequence": True}, FeatureSpec("x", "bytes", "bytes", (-1, -1), sequence=True, text=True)),
    "sequence of a tensor's rows": (
        to_arrow(np.zeros((1, 3, 2), np.float32)), {"sequence": True}, FeatureSpec("x", "float", "float32", (-1, 2), sequence=True),
    ),
    "sequence of frames": (
        to_arrow(np.zeros((1, 3, 2, 4), np.uint8)), {"sequence": True},
        FeatureSpec("x", "bytes", "uint8", (-1, 2, 4), raw=True, sequence=True),
    ),
}  # fmt: skip


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
    "no value": (pa.array([None, 4]), "int32", [None, 4], {}),
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
    assert done.bad == [RejectedSample(sample=101, reason="x 400 does not fit uint8", column="x")]


@pytest.mark.parametrize("labels", [[0, 12, 9, -1], [0.0, 12.0, 9.0, -1.0]], ids=["int64", "float64"])
def test_a_label_outside_its_classes_makes_the_record_bad(labels: list[Any]) -> None:
    batch = a_batch(label=labels)
    done = a_projector(batch, labels=[{"name": "label", "numClasses": 10}]).project(batch)
    assert done.records.column("label").to_pylist() == [0, 9]
    assert done.bad == [
        RejectedSample(101, "label 12 is outside 0..9", column="label"),
        RejectedSample(103, "label -1 is outside 0..9", column="label"),
    ]


def test_a_one_hot_label_has_no_class_number_to_check() -> None:
    batch = a_batch(label=to_arrow(np.eye(3, dtype=np.float32)))
    assert a_projector(batch, labels=[{"name": "label", "numClasses": 3}]).project(batch).bad == []


def test_classes_of_text_are_refused() -> None:
    with pytest.raises(BadSpec, match="numClasses needs whole numbers, but the label's type is bytes"):
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
    batch = Batch(records=batch.records, bad=[RejectedSample(5, "unreadable")], bytes_in=0)
    done = a_projector(batch, features=[{"name": "x", "dtype": "uint8"}]).project(batch)
    assert [fault.sample for fault in done.bad] == [5, 101]


def test_sources_name_the_column_behind_each_feature_of_one() -> None:
    projector = a_projector(CSV, features=[{"name": "x", "columns": ["0..4"]}], labels=[{"name": "y", "columns": ["-1"]}])
    assert projector.sources == {"y": "5"}


# --- nulls --------------------------------------------------------------------------------------------------------

NULLS: dict[str, tuple[Any, str, dict[NullRule, list[Any]]]] = {
    "as it is": (pa.array([None, 4]), "int64", {"Keep": [None, 4], "Dropped": [None, 4], "Bad": [4]}),
    "converted": (pa.array([None, 4]), "int32", {"Keep": [None, 4], "Dropped": [4], "Bad": [4]}),
    "text": (pa.array([None, "a"]), "bytes", {"Keep": [None, "a"], "Dropped": [None, "a"], "Bad": ["a"]}),
    "truth": (pa.array([None, True]), "float32", {"Keep": [None, 1.0], "Dropped": [1.0], "Bad": [1.0]}),
    "lists": (pa.array([None, [4]]), "int32", {"Keep": [None, [4]], "Dropped": [[4]], "Bad": [[4]]}),
}


@pytest.mark.parametrize("rule", ["Keep", "Dropped", "Bad"])
@pytest.mark.parametrize(("column", "dtype", "kept"), NULLS.values(), ids=NULLS.keys())
def test_a_null_stays_one_or_makes_its_sample_bad(column: Any, dtype: str, kept: dict[NullRule, list[Any]], rule: NullRule) -> None:
    batch = a_batch(x=column)
    done = a_projector(batch, features=[{"name": "x", "dtype": dtype}], nulls=rule).project(batch)
    assert done.records.column("x").to_pylist() == kept[rule]
    assert [(fault.sample, fault.reason) for fault in done.bad] == [(100, "x has no value")] * (2 - len(kept[rule]))


def test_a_tensor_without_a_value_stays_a_null_when_others_are_converted() -> None:
    tensors: Any = pa.fixed_shape_tensor(pa.int16(), (2,))
    storage = pa.array([[1, 2], None, [3, 4]], tensors.storage_type)
    batch = a_batch(x=pa.ExtensionArray.from_storage(tensors, storage))
    done = a_projector(batch, features=[{"name": "x", "dtype": "int64"}]).project(batch)
    column: Any = done.records.column("x")
    assert column.type == pa.fixed_shape_tensor(pa.int64(), (2,))
    assert column.storage.to_pylist() == [[1, 2], None, [3, 4]]


def test_a_value_that_does_not_fit_is_found_beside_nulls() -> None:
    batch = a_batch(x=pa.array([None, 300, 3]))
    done = a_projector(batch, features=[{"name": "x", "dtype": "uint8"}]).project(batch)
    assert done.records.column("x").to_pylist() == [None, 3]
    assert [(fault.sample, fault.reason) for fault in done.bad] == [(101, "x 300 does not fit uint8")]


# --- lists and sequences ------------------------------------------------------------------------------------------

LISTS: dict[str, tuple[Any, str, list[Any], dict[int, str]]] = {
    "narrowed": (pa.array([[0.5], [], [1e39, 1.0]]), "float32", [[0.5], []], {102: "x 1e+39 does not fit float32 (value 1 of 2)"}),
    "to int64": (pa.array([[1.0, 2.0], [3.0, 4.5]]), "int64", [[1, 2]], {101: "x 4.5 does not fit int64 (value 2 of 2)"}),
    "ints to floats": (pa.array([[1], [2, 3]]), "float32", [[1.0], [2.0, 3.0]], {}),
    "a null inside": (pa.array([["a"], ["b", None]]), "bytes", [["a"]], {101: "x has a null among its values (value 2 of 2)"}),
    "a null inside, converted": (pa.array([[1, None, 300], [1]]), "uint8", [[1]], {100: "x has a null among its values (value 2 of 3)"}),
    "no list": (pa.array([None, [1]]), "uint8", [None, [1]], {}),
}


@pytest.mark.parametrize(("column", "dtype", "kept", "bad"), LISTS.values(), ids=LISTS.keys())
def test_a_list_with_a_value_that_does_not_fit_makes_its_sample_bad(column: Any, dtype: str, kept: list[Any], bad: dict[int, str]) -> None:
    batch = a_batch(x=column)
    done = a_projector(batch, features=[{"name": "x", "dtype": dtype}]).project(batch)
    assert done.records.column("x").to_pylist() == kept
    assert {fault.sample: fault.reason for fault in done.bad} == bad


def test_a_list_that_needs_nothing_is_passed_on_as_it_is() -> None:
    batch = a_batch(x=pa.array([[1], None, [2, 3]]))
    assert a_projector(batch).project(batch).records.column("x").to_pylist() == [[1], None, [2, 3]]


def a_sequence_batch(**columns: Any) -> Batch:
    batch = a_batch(**columns)
    fields: list[pa.Field[Any]] = [
        pa.field(field.name, field.type, metadata=IS_SEQUENCE if field.name != "_sample" else None) for field in batch.records.schema
    ]
    return Batch(records=pa.record_batch(batch.records.columns, schema=pa.schema(fields)), bad=[], bytes_in=0)


def test_a_column_that_its_source_calls_a_sequence_is_one_unless_the_spec_says_no() -> None:
    batch = a_sequence_batch(x=pa.array([[1, 2]]))
    assert a_projector(batch).features == [FeatureSpec("x", "int64", "int64", (-1,), sequence=True)]
    assert a_projector(batch, features=[{"name": "x", "sequence": False}]).features == [FeatureSpec("x", "int64", "int64", (-1,))]


def test_several_sequences_become_one_of_vectors() -> None:
    batch = a_sequence_batch(a=pa.array([[1, 2], [], [3]]), b=pa.array([[0.5, 1.5], [], [2.5]]), c=VECTORS.take(pa.array([0, 1, 1])))
    projector = a_projector(batch, features=[{"name": "x", "columns": ["a", "b"]}])
    assert projector.features == [FeatureSpec("x", "float", "float32", (-1, 2), sequence=True)]
    assert projector.project(batch).records.column("x").to_pylist() == [[[1.0, 0.5], [2.0, 1.5]], [], [[3.0, 2.5]]]
    texts = a_sequence_batch(a=pa.array([["x", "y"]]), b=pa.array([["z", ""]]))
    done = a_projector(texts, features=[{"name": "t", "columns": ["a", "b"]}]).project(texts)
    assert done.records.column("t").to_pylist() == [[[b"x", b"z"], [b"y", b""]]]


def test_vectors_and_values_share_a_step() -> None:
    batch = a_sequence_batch(a=pa.array([[1, 2], []]), v=VECTORS)
    done = a_projector(batch, features=[{"name": "x", "columns": ["v", "a"]}]).project(batch)
    assert done.records.column("x").to_pylist() == [[[1.5, 2.5, 1.0], [3.5, 4.5, 2.0]], []]


def test_sequences_of_different_lengths_in_one_vector_make_the_sample_bad() -> None:
    batch = a_sequence_batch(a=pa.array([[1], [1, 2], [5]]), b=pa.array([[3], [4], [6]]))
    done = a_projector(batch, features=[{"name": "x", "columns": ["a", "b"]}]).project(batch)
    assert done.records.column("x").to_pylist() == [[[1, 3]], [[5, 6]]]
    assert done.bad == [RejectedSample(101, "a has 2 values, but b has 1", column="a")]


def test_frames_of_a_tensor_are_steps() -> None:
    frames = np.arange(24, dtype=np.uint8).reshape(1, 3, 2, 4)
    batch = a_batch(x=to_arrow(frames))
    done = a_projector(batch, features=[{"name": "x", "sequence": True}]).project(batch)
    assert done.records.column("x").to_pylist() == [frames.reshape(3, 8).tolist()]


def test_a_step_outside_its_classes_is_named() -> None:
    batch = a_sequence_batch(label=pa.array([[0, 1], [9, 3, 2], [0]]))
    done = a_projector(batch, labels=[{"name": "label", "numClasses": 3}]).project(batch)
    assert done.records.column("label").to_pylist() == [[0, 1], [0]]
    assert done.bad == [RejectedSample(101, "label 9 is outside 0..2 (step 1 of 3)", column="label", step=0)]


def test_steps_that_are_one_hot_have_no_class_number_to_check() -> None:
    batch = a_sequence_batch(label=VECTORS)
    projector = a_projector(batch, labels=[{"name": "label", "numClasses": 2}])
    assert projector.features == [FeatureSpec("label", "float", "float32", (-1, 2), label=True, sequence=True)]
    assert projector.project(batch).bad == []


def test_classes_in_lists_are_checked() -> None:
    batch = a_batch(label=pa.array([[1.0], [2.0, 1.5], [0.0, 7.0]]))
    done = a_projector(batch, labels=[{"name": "label", "numClasses": 3}]).project(batch)
    assert done.records.column("label").to_pylist() == [[1]]
    assert done.bad == [
        RejectedSample(101, "label 1.5 does not fit int64 (value 2 of 2)", column="label", step=1),
        RejectedSample(102, "label 7 is outside 0..2 (value 2 of 2)", column="label", step=1),
    ]


@pytest.mark.parametrize(
    ("columns", "feature", "message"),
    [
        ({"x": [1]}, {"sequence": True}, "the column 'x' is int64, but a sequence must be a column of lists or tensors"),
        ({"x": pa.array([[[1]]])}, {}, "records can't contain lists of lists. Set sequence: true if they are the steps of a sequence"),
        ({"x": pa.array([[[[1]]]])}, {"sequence": True}, "records can't contain lists of lists."),
        ({"x": pa.array([[1]])}, {"encoding": "Raw"}, "rows of different lengths can't be stored Raw"),
        ({"x": pa.array([[[1]]])}, {"encoding": "Raw", "sequence": True}, "steps of different lengths can't be stored Raw"),
        ({"x": [1], "y": pa.array([[1]])}, {"columns": ["x", "y"]}, "the column 'y' has lists of different lengths"),
    ],
)
def test_lists_that_records_cannot_hold_are_refused(columns: dict[str, Any], feature: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        a_projector(a_batch(**columns), features=[{"name": "x", **feature}])
    assert message in str(caught.value)


def test_a_sequence_and_a_plain_column_share_no_vector() -> None:
    fields: list[pa.Field[Any]] = [pa.field("a", pa.list_(pa.int64()), metadata=IS_SEQUENCE), pa.field("b", pa.list_(pa.int64()))]
    with pytest.raises(BadSpec, match="'b' isn't a sequence, so it can't share a vector with 'a'"):
        resolve([Feature(name="x", columns=["a", "b"])], None, schema=pa.schema(fields), default_label="label")


def test_a_column_of_whole_records_is_one_only_while_it_is_alone() -> None:
    fields: list[pa.Field[Any]] = [pa.field("record", pa.binary(), metadata=IS_RECORD), pa.field("a", pa.int64())]
    schema = pa.schema(fields)
    alone = resolve([Feature(name="record")], None, schema=schema, default_label="label").features
    assert alone == [FeatureSpec("record", "bytes", "bytes", (), record=True)]
    assert [f.record for f in resolve(None, None, schema=schema, default_label="label").features] == [False, False]


STEPS = st.lists(st.none() | st.integers(-3, 300), max_size=4)


@given(st.lists(STEPS, min_size=1, max_size=8), st.booleans(), st.integers(0, 3))
def test_only_lists_that_hold_what_does_not_fit_are_bad(lists: list[list[int | None]], sequence: bool, start: int) -> None:
    batch = a_batch(x=pa.array(lists, pa.list_(pa.int64())))
    part = Batch(records=batch.records.slice(start), bad=[], bytes_in=0)
    feature = {"name": "x", "dtype": "uint8", "sequence": sequence}
    done = a_projector(part, features=[feature]).project(part)
    fits = [all(value is not None and 0 <= value < 256 for value in values) for values in lists]
    assert done.records.column("x").to_pylist() == [values for values, good in zip(lists[start:], fits[start:], strict=True) if good]
    assert [fault.sample for fault in done.bad] == [100 + row for row in range(start, len(lists)) if not fits[row]]
