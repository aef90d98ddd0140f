"""The blocks of a task become batches that all have the same columns, in Arrow's own types."""

from typing import Any

import pyarrow as pa
import pytest
from tests.builders.played_ray import Objects, RaggedTensors, Tensors, tensors

from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_ray import blocks
from dataprep_ray.blocks import batches_of, native_schema

_any: Any = pa


def rows(tables: list[Any], schema: pa.Schema | None = None) -> list[dict[str, Any]]:
    """Return the rows of all batches, after checking that the batches have the same columns."""
    batches = list(batches_of([_any.table(table) for table in tables], schema))
    assert len({str(batch.schema) for batch in batches}) <= 1
    return [row for batch in batches for row in batch.to_pylist()]


def test_empty_blocks_have_no_say_in_the_columns() -> None:
    assert rows([{"x": pa.nulls(0)}, {"n": [1]}, {}, {"n": [2]}]) == [{"n": 1}, {"n": 2}]
    assert rows([{}, {"x": pa.nulls(0)}]) == []


def test_columns_are_found_by_name() -> None:
    assert rows([{"a": [1], "b": ["x"]}, {"b": ["y"], "a": [2]}]) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([{"n": [1], "x": [None]}], "The column 'x' is null in a block, because it has no values there. Set schema"),
        ([{"n": [1], "x": [[]]}], "The column 'x' is list<item: null> in a block, because it has no values there. Set schema"),
        ([{"n": [1], "x": [2]}, {"n": [1]}], "A block has no column 'x', which an earlier block has. Set schema"),
        ([{"n": [1]}, {"n": [1], "x": [2]}], "A block has a column 'x', which an earlier block lacks. Set schema"),
        ([{"n": [1]}, {"n": ["1"]}], "A block has the column 'n' as string, but in an earlier block it is int64. Set schema"),
        (
            [{"n": [[1]]}, {"n": [["1"]]}],
            "A block has the column 'n' as list<item: string>, but in an earlier block it is list<item: int64>.",
        ),
    ],
)
def test_blocks_whose_columns_contradict_each_other_are_refused(tables: list[Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        rows(tables)
    assert message in str(caught.value)


def test_a_value_that_does_not_fit_an_earlier_block_is_shown() -> None:
    with pytest.raises(
        BadData, match="A block has the column 'n' as double, but in an earlier block it is int64, and a value doesn't fit: Float"
    ):
        rows([{"n": [1]}, {"n": [1.5]}])


SCHEMA: Any = pa.schema([("n", pa.float64()), ("x", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]))])


@pytest.mark.parametrize(
    ("block", "row"),
    [
        ({"n": [1]}, {"n": 1.0, "x": None}),
        ({"x": [None], "n": [None]}, {"n": None, "x": None}),
        ({"x": [{"a": 1}]}, {"n": None, "x": {"a": 1, "b": None}}),
        ({"x": [{"a": 1, "b": ["y"]}], "n": [True]}, {"n": 1.0, "x": {"a": 1, "b": ["y"]}}),
    ],
)
def test_a_given_schema_fills_and_converts(block: dict[str, Any], row: dict[str, Any]) -> None:
    assert rows([block], SCHEMA) == [row]


@pytest.mark.parametrize(
    ("block", "error", "message"),
    [
        ({"n": ["1.5"]}, BadSpec, "A block has the column 'n' as string, but in schema it is double. Convert it."),
        ({"n": [1], "y": [1]}, BadSpec, "A block has a column 'y', which schema lacks."),
        ({"n": [2**60 + 1]}, BadData, "and a value doesn't fit: Integer value"),
        ({"x": [{"a": 1, "c": 1}]}, BadSpec, "A block has the column 'x' as struct<a: int64, c: int64>"),
    ],
)
def test_a_given_schema_loses_nothing(block: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        rows([block], SCHEMA)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kinds", "usual", "values"),
    [
        ([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], pa.string(), ["a", None]),
        ([pa.binary(), pa.large_binary(), _any.binary_view(), _any.binary(1)], pa.binary(), [b"a", None]),
        ([_any.list_(pa.large_string()), pa.large_list(pa.string())], pa.list_(pa.string()), [["a"], None]),
        ([_any.list_(pa.field("element", pa.int8(), nullable=False))], pa.list_(pa.int8()), [[1], None]),
        ([_any.list_(pa.large_string(), 1)], _any.list_(pa.string(), 1), [["a"], None]),
        ([pa.struct([("x", pa.large_list(pa.large_binary()))])], pa.struct([("x", pa.list_(pa.binary()))]), [{"x": [b"a"]}, None]),
        ([pa.map_(pa.large_string(), pa.large_string())], pa.map_(pa.string(), pa.string()), [[("k", "v")], None]),
    ],
)
def test_types_that_differ_only_in_their_storage_become_the_same(kinds: list[Any], usual: Any, values: list[Any]) -> None:
    for kind in kinds:
        (batch,) = batches_of([_any.table({"x": pa.array(values, kind)})], None)
        assert (batch.schema.field("x").type, batch.column(0).to_pylist()) == (usual, values)


def test_a_large_block_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    block = _any.table({"x": ["a" * 100] * 10})
    monkeypatch.setattr(blocks, "_MOST_BYTES", 300)
    assert [batch.num_rows for batch in batches_of([block], None)] == [2, 2, 2, 2, 2]
    monkeypatch.setattr(blocks, "_MOST_BYTES", 1)
    assert [batch.num_rows for batch in batches_of([block.slice(0, 3)], None)] == [1, 1, 1]


# --- Ray's own types ----------------------------------------------------------------------------------------------


def test_tensors_of_one_shape_become_arrows() -> None:
    column = tensors(Tensors((2, 2), pa.uint8()), [[0] * 4, [1, 2, 3, 4], None, [5, 6, 7, 8]]).slice(1)
    (batch,) = batches_of([_any.table({"x": column})], None)
    assert batch.column(0).type == _any.fixed_shape_tensor(pa.uint8(), (2, 2))
    assert _any.array(batch.column(0)).storage.to_pylist() == [[1, 2, 3, 4], None, [5, 6, 7, 8]]


def test_lists_of_any_length_become_lists() -> None:
    kind = RaggedTensors(pa.float32(), 1)
    storage = pa.array([{"data": [1.0], "shape": [1]}, None, {"data": [], "shape": [0]}], kind.storage_type)
    assert rows([{"x": _any.ExtensionArray.from_storage(kind, storage)}]) == [{"x": [1.0]}, {"x": None}, {"x": []}]


def test_texts_in_a_tensor_become_a_list() -> None:
    assert rows([{"x": tensors(Tensors((2,), pa.string()), [["a", "b"]])}]) == [{"x": ["a", "b"]}]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (RaggedTensors(pa.uint8(), 3), "The Dataset's column 'x' has tensors of different shapes, which records can't contain."),
        (Objects(), "The Dataset's column 'x' has values of the type extension<ray.data.arrow_pickled_object"),
        (pa.list_(Objects()), "The Dataset's column 'x' has values of the type extension<ray.data.arrow_pickled_object"),
        (Tensors((2, 2), pa.string()), "The Dataset's column 'x' has tensors of string, which records can't contain."),
    ],
)
def test_what_records_can_not_contain_names_its_column(kind: Any, message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        native_schema(pa.schema([("x", kind)]))
    assert message in str(caught.value)


def test_metadata_and_rules_for_nulls_make_no_difference() -> None:
    fields: list[Any] = [pa.field("n", pa.int64(), nullable=False, metadata={"a": "b"})]
    assert native_schema(pa.schema(fields, metadata={"pandas": "{}"})).equals(pa.schema([("n", pa.int64())]), check_metadata=True)
    with pytest.raises(BadSpec, match="The Dataset has two columns 'n'."):
        native_schema(pa.schema([("n", pa.int64()), ("n", pa.int64())]))
