"""Class names of `dataprep_io.write`: which columns get class names, what the data set stores, and what is refused."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]  # its stubs are not installed
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataprep_io as dp
from dataprep_converter.core.errors import BadData, BadSpec, NoInput
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

_arrow: Any = pa  # the stubs lack dictionaries


def rows_of(result: dp.Result, **options: Any) -> list[dict[str, Any]]:
    """Return the records of a data set in order."""
    return [row for batch in result.open(as_="arrow", batch_size=1000, **options) for row in batch.to_pylist()]


def kinds_of(result: dp.Result, **options: Any) -> list[int | None]:
    return [row["kind"] for row in rows_of(result, **options)]


def a_frame() -> pd.DataFrame:
    return pd.DataFrame({"kind": pd.Categorical(["b", "a", None], categories=["a", "b", "z"])})


def chunked_categories() -> pa.Table:
    """Return a table whose two chunks have different categories."""
    column: Any = pa.chunked_array([_arrow.array(each).dictionary_encode() for each in (["b", "a"], ["c", "a"])])
    return pa.table({"kind": column})


def test_categories_are_texts_unless_classes_names_them(tmp_path: Path) -> None:
    result = dp.write(a_frame(), tmp_path / "set")
    assert ([row["kind"] for row in rows_of(result)], dict(result.classes)) == (["b", "a", None], {})


@pytest.mark.parametrize("format_", ["tfrecord", "parquet", "webdataset"])
def test_the_result_the_manifest_and_the_reader_have_the_same_classes(tmp_path: Path, format_: str) -> None:
    result = dp.write(a_frame().assign(n=1), tmp_path / "set", format=format_, classes=["kind"])
    assert dict(result.classes) == {"kind": ("a", "b", "z")}
    assert result.open().classes == result.open().manifest.labels == {"kind": ["a", "b", "z"]}
    assert kinds_of(result) == [1, 0, None]
    again = dp.write(a_frame(), result.uri, mode="ignore")
    assert again.classes == result.classes


def test_files_for_other_loaders_have_the_classes(tmp_path: Path) -> None:
    result = dp.write(a_frame(), tmp_path / "set", format="parquet", parquet={"huggingFace": {}}, classes=["kind"])
    schema = pq.read_schema(next((tmp_path / "set").glob("*.parquet")))
    features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    assert features == {"kind": {"names": ["a", "b", "z"], "_type": "ClassLabel"}}
    assert verify(result.uri, Access(), every_record=True).labels == {"kind": ["a", "b", "z"]}


def test_the_classes_of_all_chunks_of_a_table_are_known(tmp_path: Path) -> None:
    result = dp.write(chunked_categories(), tmp_path / "set", classes=["kind"])
    assert (kinds_of(result), dict(result.classes)) == ([0, 1, 2, 1], {"kind": ("b", "a", "c")})


def test_a_stream_whose_categories_change_needs_names(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"^Record 2: 'kind' is 'c', expected a class. The classes are b, a\.$"):
        dp.write(chunked_categories().to_reader(), tmp_path / "set", classes=["kind"])
    result = dp.write(chunked_categories().to_reader(), tmp_path / "set", classes={"kind": ["a", "b", "c"]})
    assert kinds_of(result) == [1, 0, 2, 0]


def test_enums_of_duckdb_have_their_classes(tmp_path: Path) -> None:
    relation = duckdb.sql("select unnest(['b', 'a'])::enum('a', 'b', 'c') as kind")
    result = dp.write(relation, tmp_path / "set", classes=["kind"])
    assert (kinds_of(result), dict(result.classes)) == ([1, 0], {"kind": ("a", "b", "c")})


def test_numbers_and_texts_can_have_named_classes(tmp_path: Path) -> None:
    rows = [{"kind": "dog", "size": 1}, {"kind": None, "size": None}, {"kind": "cat", "size": 0}]
    result = dp.write(iter(rows), tmp_path / "set", classes={"kind": ["cat", "dog"], "size": ("small", "large")})
    assert rows_of(result) == [{"kind": 1, "size": 1}, {"kind": None, "size": None}, {"kind": 0, "size": 0}]
    assert dict(result.classes) == {"kind": ("cat", "dog"), "size": ("small", "large")}


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())])
def test_texts_of_every_type_can_have_classes(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table({"kind": pa.array(["b", None, "a"]).cast(kind)})
    assert kinds_of(dp.write(table, tmp_path / "set", classes={"kind": ["a", "b"]})) == [1, None, 0]


def test_all_splits_have_the_classes_of_the_first(tmp_path: Path) -> None:
    other = pd.DataFrame({"kind": pd.Categorical(["z", "a"], categories=["z", "a"])})
    result = dp.write({"train": a_frame(), "test": other}, tmp_path / "set", classes=["kind"])
    assert (kinds_of(result, split="train"), kinds_of(result, split="test")) == ([1, 0, None], [2, 0])
    assert dict(result.classes) == {"kind": ("a", "b", "z")}


def test_rows_with_other_classes_are_not_appended(tmp_path: Path) -> None:
    first = dp.write(a_frame(), tmp_path / "set", classes=["kind"])
    result = dp.write(a_frame(), first.uri, classes=["kind"], mode="append")
    assert (kinds_of(result), result.classes) == ([1, 0, None] * 2, first.classes)
    with pytest.raises(BadSpec, match=r"its columns are kind: int64 \(a, b, z\), but those of the data are kind: int64 \(b, a\)"):
        dp.write(a_frame(), first.uri, classes={"kind": ["b", "a"]}, mode="append")


TABLE: dict[str, Any] = {"kind": ["a", "b"], "n": [0, 2], "share": [0.5, 1], "year": pd.Categorical([1999, 2000])}


@pytest.mark.parametrize(
    ("classes", "error", "message"),
    [
        ("kind", BadSpec, "classes must list column names, or map column names to class names, .*; got 'kind'"),
        ({"kind": "ab"}, BadSpec, "the classes of 'kind' must be a list of names; got 'ab'"),
        ({"kind": []}, BadSpec, r"the classes of 'kind' must be a list of names; got \[\]"),
        ({"kind": ["a", 1]}, BadSpec, "the class names of 'kind' must be strings, but one is 1, a int"),
        ({"kind": ["a", "b", "a"]}, BadSpec, "the class 'a' of 'kind' occurs twice"),
        (["kidn"], BadSpec, "classes: the data has no column 'kidn'; it has kind, n, share, year. Did you mean 'kind'?"),
        (["n"], BadSpec, "the column 'n' is int64, which has no categories. Pass the names of its classes"),
        ({"share": ["a"]}, BadSpec, "the column 'share' is double, but a column with classes must contain whole numbers or strings"),
        (["year"], BadSpec, "the class names of 'year' must be strings, but one is 1999, a int"),
        ({"kind": ["a"]}, BadData, "^Record 1: 'kind' is 'b', expected a class. The classes are a.$"),
        ({"n": ["x", "y"]}, BadData, "^Record 1: 'n' is 2, expected a number from 0 to 1. The classes are x, y.$"),
    ],
)
def test_classes_that_can_not_be_are_refused(tmp_path: Path, classes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dp.write(pd.DataFrame(TABLE), tmp_path / "set", classes=classes)
    assert not (tmp_path / "set" / "_SUCCESS").exists()


def test_the_column_of_splits_can_not_have_classes(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="The column 'kind' contains the names of the splits and isn't written, so it can't be in classes"):
        dp.write(a_frame(), tmp_path / "set", split_column="kind", classes=["kind"])


def test_the_categories_of_no_rows_are_unknown(tmp_path: Path) -> None:
    with pytest.raises(NoInput, match="The data has no rows, so there is nothing to write, and the classes of 'kind' are unknown"):
        dp.write(a_frame().iloc[:0], tmp_path / "set", classes=["kind"])


def test_unsigned_numbers_can_have_classes(tmp_path: Path) -> None:
    table = pa.table({"kind": pa.array([0, 5], pa.uint8())})
    with pytest.raises(BadData, match="Record 1: 'kind' is 5"):
        dp.write(table, tmp_path / "set", classes={"kind": ["a", "b"]})
