"""Tests INT96 times in Parquet files, which older versions of Spark, Hive and Impala write. The times are read in microseconds. Arrow
writes the test files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.builders.int96 import FAR, write_int96
from tests.converter.readers.reader_contract import batches, opened, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.readers.columnar import parquet
from dataprep_converter.readers.columnar.parquet import ParquetReader

_pq: Any = pyarrow.parquet  # the module has no type stubs


def a_source(file: Path, **options: Any) -> Source:
    return Source.model_validate({"parquet": {"uris": [str(file)], **options}})


def read(file: Path, column: str = "t", **options: Any) -> list[Any]:
    return [row[column] for row in rows(batches(ParquetReader, a_source(file, **options)))]


@given(times=st.lists(st.none() | st.integers(-(10**17), 9 * 10**18), min_size=1, max_size=30), dictionary=st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_every_time_is_read(times: list[int | None], dictionary: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("in") / "a.parquet"
    write_int96(file, {"t": pa.array(times, pa.timestamp("us"))}, row_group_size=9, use_dictionary=dictionary)
    assert read(file) == times


def test_digits_below_a_microsecond_are_cut_off(tmp_path: Path) -> None:
    file = write_int96(tmp_path / "a.parquet", {"t": pa.array([1_999, 86_400_000_000_001, -1, None], pa.timestamp("ns"))})
    assert read(file) == [1, 86_400_000_000, -1, None]


TIME = pa.timestamp("us")
STRUCT = pa.struct([("m", pa.int64()), ("t", TIME)])
NESTED: Mapping[str, tuple[Any, str, list[Any]]] = {
    "a struct": (pa.array([{"m": 1, "t": 5}, None, {"m": 2, "t": FAR}], STRUCT), "x/t", [5, None, FAR]),
    "a list": (pa.array([[5], None, [], [5, FAR]], pa.list_(TIME)), "x", [[5], None, [], [5, FAR]]),
    "a list of structs": (
        pa.array([[{"m": 1, "t": 5}], None, [None, {"m": 2, "t": FAR}]], pa.list_(STRUCT)),
        "x",
        ['[{"m":1,"t":"1970-01-01T00:00:00.000005"}]', None, '[null,{"m":2,"t":"9999-12-31T23:59:59.999999"}]'],
    ),
}


@pytest.mark.parametrize(("values", "column", "expected"), NESTED.values(), ids=NESTED.keys())
def test_a_time_within_other_values_is_read(values: Any, column: str, expected: list[Any], tmp_path: Path) -> None:
    file = write_int96(tmp_path / "a.parquet", {"n": range(len(values)), "x": values})
    _, state = plan(ParquetReader, a_source(file))
    assert state["int96"] is True
    (warning,) = state["warnings"]
    assert warning == (
        f"source.parquet: the column {column!r} has times of the old type INT96, which are read in microseconds; digits below a microsecond "
        "are cut off"
    )
    assert read(file, column) == expected


def test_a_job_that_leaves_such_a_column_out_has_no_such_times(tmp_path: Path) -> None:
    structs = pa.array([{"m": 1, "t": 5}, None, {"m": 2, "t": FAR}], STRUCT)
    file = write_int96(tmp_path / "a.parquet", {"x": structs, "t": pa.array([5, 5, FAR], TIME), "n": [1, 2, 3]})
    _, state = plan(ParquetReader, a_source(file, columns=["n", "x/m"]))
    assert not {"int96", "warnings"} & state.keys()
    assert read(file, "x/m", columns=["n", "x/m"]) == [1, None, 2]
    assert read(file, "t", columns=["x/m", "t"]) == [5, 5, FAR]


def test_files_with_int96_and_with_microseconds_are_unified(tmp_path: Path) -> None:
    write_int96(tmp_path / "a.parquet", {"t": pa.array([5, FAR], TIME)})
    _pq.write_table(pa.table({"t": pa.array([FAR, 5], TIME)}), tmp_path / "b.parquet")
    assert read(tmp_path) == [5, FAR, FAR, 5]


def test_several_columns_are_named_together(tmp_path: Path) -> None:
    times = pa.array([5], TIME)
    _, state = plan(ParquetReader, a_source(write_int96(tmp_path / "a.parquet", {"t": times, "u": times, "v": times})))
    (warning,) = state["warnings"]
    assert warning == (
        "source.parquet: the column 't' and 2 more columns have times of the old type INT96, which are read in microseconds; digits below a "
        "microsecond are cut off"
    )


def test_rows_are_read_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PART_RECORDS", 2)
    times = [FAR - number for number in range(7)]
    source = a_source(write_int96(tmp_path / "a.parquet", {"t": pa.array(times, TIME)}))
    units, state = plan(ParquetReader, source)
    with opened(ParquetReader, source, state) as reader:
        (batch,) = reader.read(units, iter([pa.array([6, 0, 2, 5, 1]).to_numpy()]))
    assert batch.records["t"].to_pylist() == [times[place] for place in (6, 0, 2, 5, 1)]
