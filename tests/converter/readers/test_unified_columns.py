"""Tests files whose schemas differ: which schemas are unified, and the error messages for the others.

The unified values equal those that DuckDB and pyarrow read.
"""

import datetime as dt
import json
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather
from tests.builders.examples import examples
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.readers.reader_contract import batches, faults, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import reader_class
from dataprep_converter.tools.verification import verify

_pq: Any = pq  # these modules have no complete type stubs
_orc: Any = orc
_feather: Any = feather
KINDS = ["parquet", "arrow", "orc"]


def put(folder: Path, tables: Mapping[str, pa.Table], *, kind: str = "parquet") -> Path:
    """Writes each table to a file of this kind."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        file = folder / f"{name}.{kind}"
        match kind:
            case "parquet":
                _pq.write_table(table, file)
            case "orc":
                _orc.write_table(table, str(file))
            case _:
                _feather.write_feather(table, str(file), compression="uncompressed")
    return folder


def a_source(folder: Path, *, kind: str = "parquet", **options: Any) -> Source:
    return Source.model_validate({kind: {"uris": [str(folder)], **options}})


def read(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(reader_class(source.kind), source))]


def state(source: Source) -> dict[str, Any]:
    _, found = plan(reader_class(source.kind), source)
    return found


def column(values: list[Any], kind: pa.DataType) -> Any:
    return pa.array(values, kind)


NUMBERS: dict[str, tuple[Any, Any, pa.DataType]] = {
    "int32 and int64": (column([1], pa.int32()), column([2**40], pa.int64()), pa.int64()),
    "int64 and int8": (column([2**40], pa.int64()), column([-1], pa.int8()), pa.int64()),
    "uint8 and int8": (column([200], pa.uint8()), column([-1], pa.int8()), pa.int16()),
    "uint32 and int32": (column([2**32 - 1], pa.uint32()), column([-1], pa.int32()), pa.int64()),
    "uint8 and uint16": (column([200], pa.uint8()), column([60_000], pa.uint16()), pa.uint16()),
    "float32 and float64": (column([0.5], pa.float32()), column([0.1], pa.float64()), pa.float64()),
    "float16 and float32": (column([0.5], pa.float32()).cast(pa.float16()), column([0.25], pa.float32()), pa.float32()),
    "int16 and float32": (column([-30_000], pa.int16()), column([0.5], pa.float32()), pa.float32()),
    "int32 and float32": (column([2**31 - 1], pa.int32()), column([0.5], pa.float32()), pa.float64()),
    "float64 and int64": (column([0.5], pa.float64()), column([2**53], pa.int64()), pa.float64()),
    "lists of int64 and of float32": (
        column([[1, 2]], pa.list_(pa.int64())),
        column([[0.5], None], pa.list_(pa.float32())),
        pa.list_(pa.float64()),
    ),
    "text and large text": (column(["a"], pa.string()), column(["b"], pa.large_string()), pa.large_string()),
    "bytes and large bytes": (column([b"a"], pa.large_binary()), column([b"b"], pa.binary()), pa.large_binary()),
    "text and a dictionary of text": (column(["a"], pa.string()), pa.array(["b", "b"]).dictionary_encode(), pa.string()),
    "no values and text": (pa.nulls(2), column(["b"], pa.string()), pa.string()),
    "numbers and no values": (column([1, None], pa.int32()), pa.nulls(2), pa.int32()),
}


@pytest.mark.parametrize(("one", "other", "kind"), NUMBERS.values(), ids=NUMBERS.keys())
@pytest.mark.parametrize("is_reversed", [False, True], ids=["", "reversed"])
def test_types_are_unified_without_a_change_of_a_value(one: Any, other: Any, kind: pa.DataType, is_reversed: bool, tmp_path: Path) -> None:
    arrays = [other, one] if is_reversed else [one, other]
    source = a_source(put(tmp_path / "in", {"a": pa.table({"x": arrays[0]}), "b": pa.table({"x": arrays[1]})}))
    found = batches(reader_class("parquet"), source)
    assert {batch.records.schema.field("x").type for batch in found} == {kind}
    assert [row["x"] for row in rows(found)] == [*arrays[0].to_pylist(), *arrays[1].to_pylist()]
    assert faults(found) == {}
    assert not any(batch.lost for batch in found)


def test_tensors_of_different_numbers_are_unified(tmp_path: Path) -> None:
    tables = {
        "a": pa.table({"v": pa.array([[1, 2]], pa.list_(pa.int64(), 2))}),
        "b": pa.table({"v": pa.array([[0.5, 1]], pa.list_(pa.float32(), 2))}),
    }
    assert read(a_source(put(tmp_path / "in", tables))) == [{"v": [1.0, 2.0]}, {"v": [0.5, 1.0]}]


TABLES = {
    "a": pa.table({"i": pa.array([1, 2], pa.int32()), "f": pa.array([0.5, 1.5], pa.float32()), "s": ["a", "b"]}),
    "b": pa.table({"s": ["c"], "i": pa.array([2**40]), "new": pa.array([7], pa.int64()), "f": pa.array([0.1])}),
    "c": pa.table({"f": pa.array([3], pa.int64()), "new": pa.array([8], pa.int64())}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_missing_columns_and_other_orders_give_what_duckdb_reads(kind: str, tmp_path: Path) -> None:
    put(tmp_path / "duck", TABLES)
    with duckdb.connect() as database:
        expected = database.sql(f"select i, f, s, new from read_parquet('{tmp_path}/duck/*.parquet', union_by_name=true)").fetchall()  # noqa: S608
    source = a_source(put(tmp_path / "in", TABLES, kind=kind), kind=kind)
    assert [tuple(row[name] for name in ("i", "f", "s", "new")) for row in read(source)] == expected
    assert list(state(source)["paths"]) == [["i"], ["f"], ["s"], ["new"]]


def test_avro_files_are_unified_too(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, kinds, record in (
        ("a", {"i": "int", "s": "string"}, {"i": 1, "s": "x"}),
        ("b", {"f": "double", "i": "double"}, {"f": 0.5, "i": 2.5}),
    ):
        schema = {"type": "record", "name": "Row", "fields": [{"name": key, "type": kind} for key, kind in kinds.items()]}
        with (tmp_path / "in" / f"{name}.avro").open("wb") as out:
            fastavro.writer(out, schema, [record])
    assert read(a_source(tmp_path / "in", kind="avro")) == [{"i": 1.0, "s": "x", "f": None}, {"i": 2.5, "s": None, "f": 0.5}]


@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_structs_may_be_missing(kind: str, tmp_path: Path) -> None:
    tables = {
        "a": pa.table({"o": [{"x": 1, "in": {"y": 2}}, None]}),
        "b": pa.table({"o": [{"in": {"z": 3, "y": 4}}]}),
        "c": pa.table({"other": [5]}),
    }
    source = a_source(put(tmp_path / "in", tables, kind=kind), kind=kind)
    nothing = {"o/x": None, "o/in/y": None, "o/in/z": None, "other": None}
    assert read(source) == [
        nothing | {"o/x": 1, "o/in/y": 2},
        nothing,
        nothing | {"o/in/z": 3, "o/in/y": 4},
        nothing | {"other": 5},
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_may_have_none_of_the_selected_columns(kind: str, tmp_path: Path) -> None:
    source = a_source(put(tmp_path / "in", TABLES, kind=kind), kind=kind, columns=["s"], defaults={"s": "-"})
    assert read(source) == [{"s": "a"}, {"s": "b"}, {"s": "c"}, {"s": "-"}]


def test_selected_columns_keep_the_order_of_the_selection(tmp_path: Path) -> None:
    assert list(read(a_source(put(tmp_path / "in", TABLES), columns=["new", "i"]))[0]) == ["new", "i"]


def test_missing_columns_without_a_default_are_bad_records_where_nulls_are(tmp_path: Path) -> None:
    source = a_source(put(tmp_path / "in", TABLES), columns=["f", "new"])
    found = batches(reader_class("parquet"), source, nulls="Bad")
    assert [row["new"] for row in rows(found)] == [7, 8]
    assert set(faults(found).values()) == {"column 'new' has no value and no default"}


def test_large_integers_lose_digits_as_floats_and_this_is_told(tmp_path: Path) -> None:
    big = 2**53 + 1
    folder = put(
        tmp_path / "in", {"a": pa.table({"x": [0.5, None]}), "b": pa.table({"x": [3, big]}), "c": pa.table({"x": [[1.5]]}).select([])}
    )
    (folder / "c.parquet").unlink()
    found = batches(reader_class("parquet"), a_source(folder))
    assert [row["x"] for row in rows(found)] == [0.5, None, 3.0, float(big)]
    assert [lost.texts for batch in found for lost in batch.lost] == [[str(big)]]


def test_decimals_and_other_numbers_are_floats(tmp_path: Path) -> None:
    tables = {
        "a": pa.table({"x": pa.array([Decimal("1.25")], pa.decimal128(30, 2))}),
        "b": pa.table({"x": pa.array([7], pa.int64())}),
        "c": pa.table({"x": pa.array([0.5], pa.float32())}),
        "d": pa.table({"x": pa.array([Decimal("12345678901234567890.5")], pa.decimal128(38, 1))}),
    }
    found = batches(reader_class("parquet"), a_source(put(tmp_path / "in", tables)))
    assert [row["x"] for row in rows(found)] == [1.25, 7.0, 0.5, 12345678901234567890.5]
    assert [lost.texts for batch in found for lost in batch.lost] == [["12345678901234567890.5"]]


@pytest.mark.parametrize(
    ("coarse", "fine", "factor"),
    [
        (pa.timestamp("s"), pa.timestamp("us"), 10**6),
        (pa.timestamp("ms", "UTC"), pa.timestamp("ns", "Europe/Berlin"), 10**6),
        (pa.time32("s"), pa.time32("ms"), 1000),
        (pa.time32("ms"), pa.time64("ns"), 10**6),
        (pa.duration("s"), pa.duration("ms"), 1000),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_reversed", [False, True], ids=["", "reversed"])
def test_times_have_the_finer_unit(coarse: Any, fine: Any, factor: int, is_reversed: bool, tmp_path: Path) -> None:
    tables = [pa.table({"t": pa.array([5, None, -0], coarse)}), pa.table({"t": pa.array([7], fine)})]
    first, second = reversed(tables) if is_reversed else tables
    source = a_source(put(tmp_path / "in", {"a": first, "b": second}, kind="arrow"), kind="arrow")
    values = [5 * factor, None, 0]
    assert [row["t"] for row in read(source)] == ([7, *values] if is_reversed else [*values, 7])
    assert ("units" in state(source)) is not is_reversed


def test_a_time_that_the_finer_unit_can_not_hold_is_a_bad_record(tmp_path: Path) -> None:
    tables = {
        "a": pa.table({"n": [1, 2], "t": pa.array([dt.datetime(9999, 1, 1), dt.datetime(1970, 1, 1)], pa.timestamp("us"))}),  # noqa: DTZ001
        "b": pa.table({"n": [3], "t": pa.array([1], pa.timestamp("ns"))}),
    }
    found = batches(reader_class("parquet"), a_source(put(tmp_path / "in", tables)))
    assert [(row["n"], row["t"]) for row in rows(found)] == [(2, 0), (3, 1)]
    assert list(faults(found).values()) == ["column 't': the time 9999-01-01 00:00:00 is out of range for timestamp[ns]"]


def test_structs_with_other_fields_are_unified(tmp_path: Path) -> None:
    """In one of the files, both the struct and the list of structs lack a field.

    The struct also has a field of a different width, and a field of the type null.
    """
    one: dict[str, Any] = {"box": {"x": 1, "none": None}, "parts": [{"n": 1}]}
    other: dict[str, Any] = {"box": {"x": 2**40, "none": 0.5, "name": "b"}, "parts": [{"n": 2.5, "t": "c"}, None]}
    small = pa.struct([("x", pa.int32()), ("none", pa.null())])
    folder = put(
        tmp_path / "in",
        {
            "a": pa.table({"box": pa.array([one["box"]], small), "parts": pa.array([one["parts"]])}),
            "b": pa.table({"box": [other["box"]], "parts": [other["parts"]]}),
            "c": pa.table({"parts": [one["parts"]]}),
        },
    )
    job = parse_job({"source": {"parquet": {"uris": [str(folder)]}}, "output": {"uri": str(tmp_path / "out"), "format": "parquet"}})
    run_job(job)

    table = _pq.read_table(tmp_path / "out")
    assert table.schema.field("box").type == pa.struct([("x", pa.int64()), ("none", pa.float64()), ("name", pa.string())])
    assert table.select(["box", "parts"]).to_pylist() == [
        {"box": {"x": 1, "none": None, "name": None}, "parts": [{"n": 1.0, "t": None}]},
        {"box": {"x": 2**40, "none": 0.5, "name": "b"}, "parts": [{"n": 2.5, "t": "c"}, None]},
        {"box": None, "parts": [{"n": 1.0, "t": None}]},
    ]


def test_a_kept_struct_and_its_fields_have_the_common_types_apart(tmp_path: Path) -> None:
    """In the struct, an integer field becomes a float, and a time field gets milliseconds.

    If the time field is used as a column of its own, it keeps its unit.
    """
    day = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    seconds = int(day.timestamp())
    kinds = {"x": pa.int64(), "t": pa.timestamp("s", "UTC")}
    tables = {
        "a": pa.table({"b": pa.array([{"x": 1, "t": day}, None], pa.struct(list(kinds.items())))}),
        "b": pa.table({"b": pa.array([{"x": 0.5}])}),
    }
    folder = put(tmp_path / "in", tables, kind="arrow")
    job = parse_job(
        {
            "source": {"arrow": {"uris": [str(folder)]}},
            "splits": {
                "column": "b/t",
                "into": [{"name": "day", "since": str(seconds), "before": str(seconds + 1)}, {"name": "rest", "since": str(seconds + 1)}],
            },
            "output": {"uri": str(tmp_path / "out"), "format": "parquet"},
        }
    )
    run_job(job)
    assert _pq.read_table(tmp_path / "out").to_pylist() == [{"b": {"x": 1.0, "t": day}}]


def struct_of(values: list[Any], kind: pa.DataType) -> Any:
    """A table with a list of structs in each row; each struct has one of the values."""
    return pa.table({"n": range(len(values)), "l": pa.array([[{"v": value}] for value in values], pa.list_(pa.struct([("v", kind)])))})


def in_structs(folder: Path, *tables: pa.Table) -> list[Any]:
    """The values in the data set that a job makes from files with lists of structs. Bad records are left out."""
    put(folder / "in", {str(number): table for number, table in enumerate(tables)})
    spec: dict[str, Any] = {
        "source": {"parquet": {"uris": [str(folder / "in")]}},
        "output": {"uri": str(folder / "out"), "format": "parquet"},
    }
    run_job(parse_job(spec | {"onBadRecord": {"policy": "Skip", "maxFraction": 1}}))
    return [row["l"][0]["v"] for row in _pq.read_table(folder / "out").to_pylist()]


def test_a_nested_integer_that_a_float_can_not_hold_is_a_bad_record(tmp_path: Path) -> None:
    """Integers that a float can hold become floats, even those in the same batch as a bad record."""
    integers = [1, 2**60 + 1, 3, -(2**60) - 1, 5, 6]
    values = in_structs(tmp_path, struct_of(integers, pa.int64()), struct_of([0.5], pa.float64()))
    assert values == [1.0, 3.0, 5.0, 6.0, 0.5]
    source = a_source(tmp_path / "in")
    assert next(iter(faults(batches(reader_class("parquet"), source)).values())).startswith(
        "column 'l' has a value that list<item: struct<v: double>> can't hold: Integer value 1152921504606846977"
    )


def test_nested_times_and_decimals_are_unified(tmp_path: Path) -> None:
    """Structs may differ in their time zones or in the number of digits of their decimals. Earlier releases accepted this too."""
    moment = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    berlin, utc = struct_of([moment], pa.timestamp("ms", "Europe/Berlin")), struct_of([moment], pa.timestamp("us", "UTC"))
    assert in_structs(tmp_path / "times", berlin, utc) == [moment, moment]
    long_ago = struct_of([moment.replace(year=9999, tzinfo=None), moment.replace(tzinfo=None)], pa.timestamp("us"))
    assert in_structs(tmp_path / "range", long_ago, struct_of([1], pa.timestamp("ns")))[0] == moment.replace(tzinfo=None)
    small, wide = struct_of([Decimal("1.25")], pa.decimal128(5, 2)), struct_of([Decimal(10**37)], pa.decimal128(38, 0))
    assert in_structs(tmp_path / "decimals", small, wide) == [Decimal("1.25"), Decimal(10**37)]


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "text and a number": (["a"], [1], "{b}: the column 'x' is int64, but string in {a}; no common type holds both."),
    "text and bytes": (["a"], [b"a"], "{b}: the column 'x' is binary, but string in {a}; no common type holds both."),
    "truth and a number": ([True], [1], "{b}: the column 'x' is int64, but bool in {a}; no common type holds both."),
    "a list and a number": ([[1]], [1], "{b}: the column 'x' is int64, but list<item: int64> in {a}; no common type holds both."),
    "a struct and a number": ([{"y": 1}], [1], "{b}: the column 'x' is a struct in {a}, but not in {b}; no common type holds both."),
    "a number and a struct": ([1], [{"y": 1}], "{b}: the column 'x' is a struct in {b}, but not in {a}; no common type holds both."),
    "a time and a number": (
        pa.array([1], pa.timestamp("us")), [1], "{b}: the column 'x' is int64, but timestamp[us] in {a}; no common type holds both.",
    ),
    "a time with and without a zone": (
        pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC")),
        "{b}: the column 'x' is timestamp[us, tz=UTC], but timestamp[us] in {a}; no common type holds both.",
    ),
    "structs with decimals of too many digits": (
        pa.array([[{"d": 1}]], pa.list_(pa.struct([("d", pa.decimal256(76, 0))]))),
        pa.array([[{"d": 1}]], pa.list_(pa.struct([("d", pa.decimal256(76, 1))]))),
        "{b}: the column 'x' is list<item: struct<d: decimal256(76, 1)>>, but list<item: struct<d: decimal256(76, 0)>> in {a}; no common type holds both.",
    ),
    "a day and a time": (
        pa.array([1], pa.date32()), pa.array([1], pa.timestamp("us")),
        "{b}: the column 'x' is timestamp[us], but date32[day] in {a}; no common type holds both.",
    ),
    "tensors of different shapes": (
        pa.array([[1, 2]], pa.list_(pa.int64(), 2)), pa.array([[1, 2, 3]], pa.list_(pa.int64(), 3)),
        ("{b}: the column 'x' is extension<arrow.fixed_shape_tensor[value_type=int64, shape=[3]]>, but "
        "extension<arrow.fixed_shape_tensor[value_type=int64, shape=[2]]> in {a}; no common type holds both."),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_can_not_be_unified_is_refused_with_both_files(one: Any, other: Any, text: str, tmp_path: Path) -> None:
    folder = put(tmp_path / "in", {"a": pa.table({"x": one}), "b": pa.table({"x": other})}, kind="arrow")
    with pytest.raises(BadSpec) as caught:
        state(a_source(folder, kind="arrow"))
    advice = " Leave it out of source.arrow.columns, or write the files with one type."
    assert str(caught.value) == text.format(a=folder / "a.arrow", b=folder / "b.arrow") + advice


def test_a_column_without_values_in_all_files_is_refused(tmp_path: Path) -> None:
    folder = put(
        tmp_path / "in", {"a": pa.table({"x": [1]}), "b": pa.table({"x": [1], "n": pa.nulls(1)}), "c": pa.table({"n": pa.nulls(1)})}
    )
    with pytest.raises(BadSpec, match=f"{folder}/b.parquet: the column 'n' is null, which records can't contain"):
        state(a_source(folder))
    assert read(a_source(folder, columns=["x"])) == [{"x": 1}, {"x": 1}, {"x": None}]


def test_a_selected_column_that_no_file_has_is_refused(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", TABLES)
    with pytest.raises(BadSpec, match=f"source.parquet.columns: {folder}/a.parquet has no column 'absent'"):
        state(a_source(folder, columns=["new", "absent"]))


def test_differences_are_told_once_for_each_column(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", TABLES)
    a, b, c = (f"{folder}/{name}.parquet" for name in "abc")
    assert state(a_source(folder))["warnings"] == [
        f"source.parquet: the column 'i' is int32 in {a}, but int64 in {b}; all files are read as int64",
        f"source.parquet: the column 'f' is float in {a}, but double in {b}; all files are read as double",
        f"source.parquet: 1 of 3 files has no column 'i'; the first is {c}. The column is null in the records of such files",
        f"source.parquet: 1 of 3 files has no column 's'; the first is {c}. The column is null in the records of such files",
        f"source.parquet: 1 of 3 files has no column 'new'; the first is {a}. The column is null in the records of such files",
    ]


def test_files_with_the_same_schema_one_after_another_are_all_counted(tmp_path: Path) -> None:
    tables = {f"{number}": pa.table({"x": [1]} if number in (3, 4, 5, 9) else {"x": [1], "y": [2]}) for number in range(10)}
    folder = put(tmp_path / "in", tables)
    assert state(a_source(folder))["warnings"] == [
        f"source.parquet: 4 of 10 files have no column 'y'; the first is {folder}/3.parquet. The column is null in the records of such files"
    ]


def test_files_with_one_schema_have_the_state_of_earlier_releases(tmp_path: Path) -> None:
    table = pa.table({"x": [1], "t": pa.array([1], pa.timestamp("us"))})
    assert state(a_source(put(tmp_path / "in", {"a": table, "b": table}))).keys() == {"schema", "paths", "were"}


def test_an_extension_with_a_finer_unit_is_refused(tmp_path: Path) -> None:
    def run() -> None:
        source = {"arrow": {"uris": [str(tmp_path / "in")]}}
        run_job(parse_job({"source": source, "output": {"uri": str(tmp_path / "out"), "format": "jsonl", "overwrite": "Extend"}}))

    put(tmp_path / "in", {"a": pa.table({"t": pa.array([1], pa.timestamp("ms"))})}, kind="arrow")
    run()
    put(tmp_path / "in", {"b": pa.table({"t": pa.array([1], pa.timestamp("s"))})}, kind="arrow")
    run()
    lines = [json.loads(line) for file in sorted((tmp_path / "out").glob("*.jsonl")) for line in file.read_text().splitlines()]
    assert sorted(line["t"] for line in lines) == [1, 1000]
    put(tmp_path / "in", {"c": pa.table({"t": pa.array([1], pa.timestamp("us"))})}, kind="arrow")
    with pytest.raises(BadSpec, match="the source's units would be"):
        run()


def test_a_job_on_files_that_drift_is_whole(tmp_path: Path) -> None:
    source = {"parquet": {"uris": [str(put(tmp_path / "in", TABLES))]}}
    run_job(parse_job({"source": source, "output": {"uri": str(tmp_path / "out"), "format": "parquet"}}))
    assert sum(file.records for file in verify(str(tmp_path / "out"), Access()).files) == 4
    found = _pq.read_table(next((tmp_path / "out").glob("*.parquet"))).to_pylist()
    assert found == read(Source.model_validate(source))


KINDS_OF_NUMBERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.float32(), pa.float64(), pa.null(),
]  # fmt: skip


@st.composite
def files_that_drift(draw: st.DrawFn) -> list[pa.Table]:
    """Two to four tables. In each table, any column may be missing or have any numeric type. Only the column `n` is always present."""
    tables = []
    for _ in range(draw(st.integers(2, 4))):
        rows_here = draw(st.integers(1, 3))
        columns: dict[str, Any] = {}
        for name in draw(st.permutations(["a", "b", "n"])):
            kind: Any = pa.int64() if name == "n" else draw(st.sampled_from([None, *KINDS_OF_NUMBERS]))
            if kind is not None:
                values = st.none() if pa.types.is_null(kind) else st.none() | st.integers(0, 100)
                columns[name] = pa.array(draw(st.lists(values, min_size=rows_here, max_size=rows_here)), kind)
        tables.append(pa.table(columns))
    return tables


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(tables=files_that_drift(), kind=st.sampled_from(["parquet", "arrow"]))
def test_any_drift_of_numbers_gives_what_pyarrow_concatenates(tables: list[pa.Table], kind: str) -> None:
    concatenate: Any = pa.concat_tables
    expected = concatenate(tables, promote_options="permissive")
    names = [name for name in expected.schema.names if not pa.types.is_null(expected.schema.field(name).type)]
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder) / "in", {f"{number}": table for number, table in enumerate(tables)}, kind=kind)
        found = batches(reader_class(kind), a_source(Path(folder) / "in", kind=kind, columns=names))
    assert [{name: row[name] for name in names} for row in rows(found)] == expected.select(names).to_pylist()
    assert faults(found) == {}
