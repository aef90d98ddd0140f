"""`dataprep_io.write` with data of each kind: values that are read back, data that is refused, and files that a failed write leaves."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # its stubs are not installed
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dataprep_io as dp
from dataprep_converter.core.errors import BadData, BadSpec, NoInput, OutputExists, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.shard_writer import ShardWriter
from dataprep_converter.tools.repair import repair
from dataprep_converter.tools.verification import verify

COLUMNS: dict[str, Any] = {"n": [1, 2, 3], "word": ["a", None, "c"]}
ROWS = [{"n": 1, "word": "a"}, {"n": 2, "word": None}, {"n": 3, "word": "c"}]


def rows_of(result: dp.Result, **options: Any) -> list[dict[str, Any]]:
    """Return the records of a data set in order."""
    return [row for batch in result.open(as_="arrow", batch_size=1000, **options) for row in batch.to_pylist()]


class OnlyStream:
    """A table of a library such as Polars. dataprep uses only the table's Arrow protocol."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        table: Any = pa.table(COLUMNS)
        stream: object = table.__arrow_c_stream__(requested_schema)
        return stream


def a_data_set(folder: Path) -> ds.Dataset:
    pq.write_table(pa.table(COLUMNS), folder / "part.parquet")
    return ds.dataset(folder / "part.parquet")


KINDS: dict[str, Callable[[Path], Any]] = {
    "pandas": lambda _: pd.DataFrame(COLUMNS),
    "an Arrow table": lambda _: pa.table(COLUMNS),
    "a record batch": lambda _: pa.RecordBatch.from_pydict(COLUMNS),
    "a reader of record batches": lambda _: pa.table(COLUMNS).to_reader(),
    "an Arrow data set": a_data_set,
    "a scanner": lambda folder: a_data_set(folder).scanner(),
    "DuckDB": lambda _: duckdb.sql("select * from (values (1::bigint, 'a'), (2, null), (3, 'c')) as t(n, word)"),
    "the protocol": lambda _: OnlyStream(),
    "a list of dictionaries": lambda _: ROWS,
    "a generator of dictionaries": lambda _: iter(ROWS),
    "an iterator of tables": lambda _: iter([pa.table(COLUMNS).slice(0, 1), pd.DataFrame(COLUMNS).iloc[1:]]),
    "arrays": lambda _: {"n": np.array([1, 2, 3]), "word": np.array(["a", None, "c"], dtype=object)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_is_read_back(tmp_path: Path, kind: str) -> None:
    result = dp.write(KINDS[kind](tmp_path), tmp_path / "set", format="parquet")
    assert rows_of(result) == ROWS
    assert (result.records, result.shards, dict(result.splits)) == (3, 1, {"train": 3})


def test_a_written_data_set_is_whole_but_can_not_be_repaired(tmp_path: Path) -> None:
    result = dp.write(pa.table({"n": [1, 2, 3]}), tmp_path / "set")
    access = Access()
    assert verify(result.uri, access).records_out == 3
    assert not result.is_reproducible
    with pytest.raises(BadSpec, match="was written by Python. The rows of the data can't be read again"):
        repair(result.uri, access)


def test_each_write_has_its_own_run_id(tmp_path: Path) -> None:
    table = pa.table({"n": [1]})
    assert dp.write(table, tmp_path / "a").run_id != dp.write(table, tmp_path / "b").run_id


def test_tensors_keep_their_shape(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(6, 2, 2)
    result = dp.write({"image": images, "label": np.arange(6)}, tmp_path / "set")
    (batch,) = result.open()
    assert np.array_equal(batch["image"], images)
    assert batch["label"].tolist() == [0, 1, 2, 3, 4, 5]


def test_arrays_of_texts_objects_and_series_are_columns(tmp_path: Path) -> None:
    arrays = {
        "text": np.array(["a", "bc"]),
        "objects": np.array([None, "x"], dtype=object),
        "series": pd.Series(["y", None]),
        "time": np.array(["2026-01-01", "2026-01-02"], "datetime64[s]"),
        "flag": np.array([True, False]),
    }
    result = dp.write(arrays, tmp_path / "set", format="jsonl")
    first, second = rows_of(result)
    assert (first["text"], first["objects"], first["series"], first["flag"]) == ("a", None, "y", True)
    assert (second["text"], second["objects"], second["series"], second["flag"]) == ("bc", "x", None, False)
    assert second["time"] - first["time"] == 86_400


def test_the_name_of_an_index_of_pandas_decides_whether_it_is_written(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [1, 2]}, index=["x", "y"])
    assert rows_of(dp.write(frame, tmp_path / "without")) == [{"n": 1}, {"n": 2}]
    named = dp.write(frame.rename_axis("key"), tmp_path / "with")
    assert rows_of(named) == [{"key": "x", "n": 1}, {"key": "y", "n": 2}]


def test_a_dictionary_of_tables_has_a_split_for_each(tmp_path: Path) -> None:
    result = dp.write({"train": pa.table({"n": [1, 2]}), "test": pa.table({"n": [3]})}, tmp_path / "set")
    assert dict(result.splits) == {"train": 2, "test": 1}
    assert rows_of(result, split="test") == [{"n": 3}]


def test_rows_keep_their_order_within_the_splits_of_a_column(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(10)), "part": ["train", "test"] * 5})
    result = dp.write(table, tmp_path / "set", split_column="part", shard_records=2, workers=3)
    assert rows_of(result, split="train") == [{"n": n} for n in range(0, 10, 2)]
    assert rows_of(result, split="test") == [{"n": n} for n in range(1, 10, 2)]
    assert result.shards == 6


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_the_names_of_splits_can_be_texts_of_every_type(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table({"n": [1, 2], "part": pa.array(["train", "test"]).cast(kind)})
    assert dict(dp.write(table, tmp_path / "set", split_column="part").splits) == {"train": 1, "test": 1}


def test_shards_are_in_the_order_of_the_rows(tmp_path: Path) -> None:
    result = dp.write(({"n": n} for n in range(5000)), tmp_path / "set", shard_records=400, workers=4)
    assert [row["n"] for row in rows_of(result)] == list(range(5000))
    assert result.shards == 13


def test_options_of_the_output_are_keywords(tmp_path: Path) -> None:
    result = dp.write(
        pa.table({"n": [1]}), tmp_path / "set", format="jsonl", jsonl={"compression": "Gzip"}, file_name="rows-{shard}.{ext}", index=False
    )
    assert [path.name for path in Path(result.uri).glob("rows*")] == ["rows-00000.jsonl.gz"]


# --- modes --------------------------------------------------------------------------------------------------------


def test_an_existing_data_set_is_refused_by_default(tmp_path: Path) -> None:
    dp.write(pa.table({"n": [1]}), tmp_path / "set")
    with pytest.raises(OutputExists, match='and mode is "error"'):
        dp.write(pa.table({"n": [2]}), tmp_path / "set")


def test_a_data_set_can_be_replaced_extended_or_kept(tmp_path: Path) -> None:
    first = dp.write(pa.table({"n": [1]}), tmp_path / "set")
    kept = dp.write(pa.table({"n": [2]}), tmp_path / "set", mode="ignore")
    assert (kept.run_id, rows_of(kept)) == (first.run_id, [{"n": 1}])
    assert rows_of(dp.write(pa.table({"n": [2]}), tmp_path / "set", mode="append")) == [{"n": 1}, {"n": 2}]
    assert rows_of(dp.write(pa.table({"n": [3]}), tmp_path / "set", mode="overwrite")) == [{"n": 3}]


# --- failures -----------------------------------------------------------------------------------------------------


def a_broken_iterator() -> Iterator[dict[str, int]]:
    yield from ({"n": n} for n in range(3000))
    raise RuntimeError("the source has ended")


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the source has ended"):
        dp.write(a_broken_iterator(), tmp_path / "set", shard_records=100)
    assert [path for path in (tmp_path / "set").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("query", ["select interval 1 day as span from range(9)", "select error('the query fails') as n from range(9)"])
def test_a_connection_of_duckdb_is_free_after_a_write_that_fails(tmp_path: Path, query: str) -> None:
    connection = duckdb.connect()
    with pytest.raises(Exception, match="'span' is month_day_nano_interval|the query fails") as caught:
        dp.write(connection.sql(query), tmp_path / "set")
    assert caught.value.__traceback__ is not None  # the traceback keeps the failed call alive, as in a notebook
    assert connection.sql("select 1").fetchall() == [(1,)]


def test_a_write_that_fails_keeps_the_earlier_data_set(tmp_path: Path) -> None:
    first = dp.write(pa.table({"n": [7]}), tmp_path / "set")
    with pytest.raises(RuntimeError):
        dp.write(a_broken_iterator(), tmp_path / "set", mode="overwrite", shard_records=100)
    assert rows_of(first) == [{"n": 7}]


@pytest.mark.parametrize(("failures", "succeeds"), [(2, True), (3, False)])
def test_a_shard_is_written_again_if_the_store_can_not_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, succeeds: bool
) -> None:
    genuine = ShardWriter.publish
    left = [Unreachable("the store is away")] * failures

    def publish(self: ShardWriter) -> Any:
        if left:
            raise left.pop()
        return genuine(self)

    monkeypatch.setattr(ShardWriter, "publish", publish)
    if succeeds:
        assert rows_of(dp.write(pa.table({"n": [1, 2]}), tmp_path / "set")) == [{"n": 1}, {"n": 2}]
    else:
        with pytest.raises(Unreachable, match="^the store is away$"):
            dp.write(pa.table({"n": [1, 2]}), tmp_path / "set")
    assert list((tmp_path / "set").rglob("*/made/*")) == []


def test_a_record_that_does_not_fit_is_named_by_its_number_in_the_data(tmp_path: Path) -> None:
    table = pa.table({"n": [*range(25), None, *range(25)]})
    with pytest.raises(
        BadData, match=r"^record 25: n has no value, and npz has no null for this feature; replace the nulls of n in the data"
    ):
        dp.write(table, tmp_path / "set", format="npz", shard_records=10)


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (5, {}, TypeError, "expects a table, arrays, a data set or an iterable of dictionaries; got int"),
        ("rows.csv", {}, TypeError, "expects a table, arrays, a data set or an iterable of dictionaries; got str"),
        (np.arange(3), {}, TypeError, 'An array needs a name for its column: pass a dictionary, such as {"x": array}'),
        ([(1, 2)], {}, TypeError, r"Record 0 has the type tuple\..*pass the names of the columns"),
        ([], {}, NoInput, "The iterable has no records"),
        (pa.table({"n": pa.array([], pa.int64())}), {}, NoInput, "The data has no rows, so there is nothing to write to"),
        ([{"n": None}], {}, BadSpec, r"The type of 'n' is unknown, because it has no values in the first 1 record \(null\)\. Pass schema="),
        ([{"n": 1}], {"mode": "replace"}, BadSpec, "mode must be one of 'error', 'overwrite', 'append', 'ignore'; got 'replace'"),
        ([{"n": 1}], {"format": "tfrecrod"}, BadSpec, "There is no format 'tfrecrod'. Did you mean 'tfrecord'?"),
        ([{"n": 1}], {"file_nam": "x"}, dp.SpecError, "file_nam: write has no such parameter. Did you mean 'file_name'?"),
        (
            [{"n": 1}],
            {"tfrecord": {"compresion": "Gzip"}},
            dp.SpecError,
            "^tfrecord.compresion: unknown field; did you mean compression?",
        ),
        ([{"n": 1}], {"split_column": "part"}, BadSpec, "The data has no column 'part', which split_column names: it has n"),
        (pd.DataFrame({0: [1]}), {}, BadSpec, r"The DataFrame has a column named 0\. Column names must be strings"),
        ({"a": np.arange(2), "b": np.arange(3)}, {}, BadData, "one entry per record, but have the lengths a: 2, b: 3"),
    ],
)
def test_a_fault_is_named_in_the_words_of_write(
    tmp_path: Path, data: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        dp.write(data, tmp_path / "set", **options)
    assert "Spark" not in str(caught.value)
    assert isinstance(caught.value, dp.Error | TypeError)
    assert not (tmp_path / "set" / "_SUCCESS").exists()
