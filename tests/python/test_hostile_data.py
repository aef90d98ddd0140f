"""Tests of data that is almost valid: an error names each fault, and no value changes its meaning."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # its stubs are not installed
import pyarrow as pa
import pytest

import dataprep_io as dp


def written(folder: Path, data: Any, **options: Any) -> list[dict[str, Any]]:
    """Write the data, and return the records of a single split in order."""
    result = dp.write(data, folder / "set", format="parquet", **options)
    return [row for batch in result.open(as_="arrow", batch_size=1000) for row in batch.to_pylist()]


def an_index(*names: Any) -> Any:
    return pd.MultiIndex.from_tuples([tuple(range(len(names)))], names=names)


# --- values that other libraries call missing ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        {"n": np.ma.array([1, 99], mask=[False, True])},
        {"n": pa.array([1, None])},
        {"n": pa.chunked_array([[1], [None]]), "m": np.arange(2)},
        [{"n": 1}, {"n": pd.NA}],
        [{"n": 1}, {"n": np.ma.masked}],
        [{"n": np.int64(1)}, {"n": np.ma.masked}],
    ],
)
def test_a_missing_value_is_null(tmp_path: Path, data: Any) -> None:
    assert [row["n"] for row in written(tmp_path, data)] == [1, None]


def test_a_missing_time_of_pandas_is_null(tmp_path: Path) -> None:
    first, second = written(tmp_path, [{"t": pd.NaT}, {"t": pd.Timestamp("1970-01-02")}])
    assert (first["t"], second["t"]) == (None, 86_400_000_000)


def test_masked_values_of_tensors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(dp.BadData, match="The array 'x' has values of int64, which can't be a column: tensors with masked values"):
        dp.write({"x": np.ma.array([[1, 2]], mask=[[True, False]])}, tmp_path / "set")


def test_a_batch_of_the_reader_keeps_its_nulls(tmp_path: Path) -> None:
    result = dp.write([{"n": 1, "word": None}, {"n": None, "word": "b"}], tmp_path / "first", format="parquet")
    (batch,) = result.open()
    assert written(tmp_path, batch) == [{"n": 1, "word": None}, {"n": None, "word": "b"}]


def test_the_records_of_a_reader_are_written_again(tmp_path: Path) -> None:
    result = dp.write([{"n": [1]}, {"n": [2, 3]}], tmp_path / "first", format="parquet")
    assert written(tmp_path, result.open(as_="arrow")) == [{"n": [1]}, {"n": [2, 3]}]
    with pytest.raises(TypeError, match='To write the records of a reader, open it with as_="arrow"'):
        dp.write(result.open(), tmp_path / "other")


# --- values that NumPy has in its own form ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.datetime64("1970-01-02"), 1),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([["a"], ["b"]]), '[["a"],["b"]]'),
        (dt.date(1970, 1, 2), 1),
    ],
)
def test_values_of_numpy_are_values_of_records(tmp_path: Path, value: Any, stored: Any) -> None:
    assert written(tmp_path, [{"x": value}]) == [{"x": stored}]


@pytest.mark.parametrize("value", [[[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])])
def test_lists_and_other_numbers_become_the_tensors_of_the_schema(tmp_path: Path, value: Any) -> None:
    schema = pa.schema([("x", pa.fixed_shape_tensor(pa.float32(), [2, 2]))])
    result = dp.write([{"x": value}], tmp_path / "set", schema=schema)
    (batch,) = result.open()
    assert batch["x"].tolist() == [[[1.0, 2.0], [3.0, 4.0]]]
    assert batch["x"].dtype == np.float32


# --- tables of the same columns -----------------------------------------------------------------------------------


def test_splits_have_the_order_and_the_types_of_the_first(tmp_path: Path) -> None:
    other = pa.table({"word": pa.array(["b"], pa.large_string()), "n": pa.array([2], pa.int32())})
    result = dp.write({"train": pa.table({"n": [1], "word": ["a"]}), "test": other}, tmp_path / "set", format="parquet")
    (batch,) = result.open(as_="arrow", split="test")
    assert batch.to_pylist() == [{"n": 2, "word": "b"}]


def test_texts_of_a_later_table_never_become_numbers(tmp_path: Path) -> None:
    with pytest.raises(dp.BadData, match="Table 1 has the column 'n' as string; expected int64, as in the first table"):
        dp.write(iter([pa.table({"n": [1]}), pa.table({"n": ["2"]})]), tmp_path / "set")


# --- faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, dp.BadSpec, r"The DataFrame has two columns 'a'\.$"),
        (pd.DataFrame({"v": [1]}, index=pd.Index([5], name="v")), {}, dp.BadSpec, "two columns 'v', one of them a level of the index"),
        (pd.DataFrame({"v": [1]}, index=an_index("a", 7)), {}, dp.BadSpec, "The DataFrame's index has a column named 7"),
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "x")])),
            {},
            dp.BadSpec,
            r"named \('a', 'x'\)\. Column names must be strings",
        ),
        (pd.DataFrame({"c": pd.arrays.SparseArray([0])}), {}, dp.BadData, "can't be converted to an Arrow table: Sparse pandas data"),
        (pd.Series([1], name="a"), {}, TypeError, r'pandas\.Series is a single column\. Give it a name: \{"x": data\}'),
        (pa.chunked_array([[1]]), {}, TypeError, r"pyarrow\.lib\.ChunkedArray is a single column"),
        (pa.array([1]), {}, TypeError, r"pyarrow\.lib\.Int64Array is a single column of int64"),
        ({"a": np.array(3)}, {}, dp.BadData, "The array 'a' is a single value; expected one entry per record"),
        ({"a": np.arange(2), "b": "xy"}, {}, dp.BadData, "The array 'b' is a single value"),
        ({"a": np.arange(2), "b": [[1, 2], [3]]}, {}, dp.BadData, "NumPy can't make an array of 'b'"),
        ({0: np.arange(2)}, {}, dp.BadSpec, "The dictionary has a column named 0. Column names must be strings"),
        ([{1: 2}], {}, dp.BadSpec, "A record has a column named 1. Column names must be strings"),
        ([{"a": 2**70}], {}, dp.BadData, "Record 0: 'a' is 1180591620717411303424, expected a number of at most 64 bits"),
        (
            {"a": [1, 2], "b": ["x", "y"]},
            {},
            TypeError,
            r"A dictionary must map each split to its records, but 'a' has \[1, 2\]\. If the keys are columns",
        ),
        ({"a": 1}, {}, TypeError, "but 'a' has 1. .* If the dictionary is a record, pass a list of records"),
        ({"train": [{"a": 1}], "test": []}, {}, dp.NoInput, "Split test: The iterable has no records"),
        ({"train": [{"a": 1}], "test": [{"a": 1}, {"a": "x"}]}, {}, dp.BadData, "Split test: Record 1: 'a' is 'x', expected int64"),
        (
            {"train": pa.table({"a": [1]}), "test": pa.table({"b": [1]})},
            {},
            dp.BadData,
            "The split test has the columns b; expected the columns of .* a",
        ),
        ([{"a": 1, "s": f"s{n}"} for n in range(17)], {"split_column": "s"}, dp.BadSpec, "'s' has more than 16 names of splits"),
        ({"test": [{"a": 1}]}, {"split": "eval"}, dp.BadSpec, "neither split nor split_column can be set"),
        ([{"a": 1}], {"columns": ["a"]}, dp.BadSpec, "Record 0 is a dictionary, which has its own names"),
        (
            pa.table({"a": [1], "b": [2]}),
            {"columns": ["a"]},
            dp.BadSpec,
            "columns can be set only for records that are tuples, but pyarrow.lib.Table has",
        ),
        (pa.table({"a": [1]}), {"schema": pa.schema([("a", pa.int8())])}, dp.BadSpec, "cast the columns in the data"),
        (iter([pa.table({"a": [1]})]), {"columns": ["a"]}, dp.BadSpec, "but the iterable contains tables"),
        ([{"a": 1, "b": 2}], {"schema": pa.schema([("a", pa.int8())])}, dp.BadData, "has 'b', but the columns of schema are a"),
    ],
)
def test_a_fault_of_the_data_is_named(tmp_path: Path, data: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dp.write(data, tmp_path / "set", **options)
    assert not (tmp_path / "set" / "_SUCCESS").exists()


# --- the output is looked at before the data ----------------------------------------------------------------------


def untouchable() -> Iterator[Any]:
    raise AssertionError("the data was read")
    yield


def test_data_is_not_read_if_nothing_will_be_written(tmp_path: Path) -> None:
    first = dp.write([{"n": 1}], tmp_path / "set")
    assert dp.write(untouchable(), tmp_path / "set", mode="ignore").run_id == first.run_id
    with pytest.raises(dp.OutputExists):
        dp.write(untouchable(), tmp_path / "set")


def test_splits_are_appended_to_a_data_set_with_splits(tmp_path: Path) -> None:
    dp.write({"train": [{"n": 1}], "test": [{"n": 2}]}, tmp_path / "set")
    result = dp.write({"test": [{"n": 3}], "eval": [{"n": 4}]}, tmp_path / "set", mode="append")
    assert dict(result.splits) == {"train": 1, "test": 2, "eval": 1}
    with pytest.raises(dp.BadSpec, match="needs a channel named train"):
        dp.write({"test": [{"n": 1}]}, tmp_path / "other", format="recordioProtobuf")
