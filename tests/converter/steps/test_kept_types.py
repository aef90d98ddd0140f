"""Times and decimals from every table source keep their types in Parquet and Arrow. In all other formats they become numbers."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from fastavro import parse_schema, writer
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.columnar import write_table
from tests.builders.examples import examples
from tests.builders.jobs import run_job, verified_run
from tests.builders.specs import parse_job
from tests.converter.steps.kept_types import (
    DECIMALS,
    EXACT,
    IN_PARQUET,
    MOMENTS,
    PRICES,
    TABLE,
    TIMES,
    a_job,
    decimals,
    made,
    manifest_of,
    records_in,
)

from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.records.kept_types import as_kept, kept_name
from dataprep_converter.records.lossy import SAFE_DIGITS, lost_digits

_pq: Any = pq  # the module has no type stubs
_orc: Any = pyarrow.orc
_arrow: Any = pa


# --- every type ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_every_type_of_arrow_is_kept_with_nulls(tmp_path: Path, format_: str) -> None:
    write_table(tmp_path / "in", TABLE, "arrow")
    planned, result = run_job(a_job(tmp_path, format_, source="arrow"))
    assert (planned.warnings, result.warnings) == ([], [])
    found = records_in(tmp_path / "out")
    for kind in (*TIMES, *DECIMALS):
        stored = IN_PARQUET.get(kind, kind) if format_ == "parquet" else kind
        column = found.column(str(kind)).combine_chunks()
        assert column.type == stored
        assert column.cast(kind).equals(TABLE.column(str(kind)).combine_chunks())
    assert manifest_of(tmp_path / "out").parts == {"types": 2}


def test_the_types_of_a_parquet_file_are_kept(tmp_path: Path) -> None:
    file = write_table(tmp_path / "in", TABLE, "parquet")
    assert made(a_job(tmp_path, "arrow")).equals(_pq.read_table(file))


def test_the_types_of_an_orc_file_are_kept(tmp_path: Path) -> None:
    table = pa.table({"day": pa.array([1, None, -1], pa.int32()).cast(pa.date32()), "t": MOMENTS, "price": PRICES})
    file = write_table(tmp_path / "in", table, "orc")
    found = made(a_job(tmp_path, "parquet", source="orc"))
    assert found.equals(_orc.read_table(str(file)))
    assert [str(kind) for kind in found.schema.types] == ["date32[day]", "timestamp[ns, tz=UTC]", "decimal128(20, 2)"]


def test_the_types_of_an_avro_file_are_kept(tmp_path: Path) -> None:
    fields = [
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}]},
    ]
    (tmp_path / "in").mkdir()
    rows = [{"t": moment, "day": 7, "price": price} for moment, price in zip(MOMENTS.to_pylist(), PRICES.to_pylist(), strict=True)]
    with (tmp_path / "in/rows.avro").open("wb") as file:
        writer(file, parse_schema({"type": "record", "name": "row", "fields": fields}), rows)
    found = made(a_job(tmp_path, "parquet", source="avro"))
    assert [str(kind) for kind in found.schema.types] == ["timestamp[us, tz=UTC]", "date32[day]", "decimal128(20, 2)"]
    assert [{"t": row["t"], "price": row["price"]} for row in found.to_pylist()] == [{"t": r["t"], "price": r["price"]} for r in rows]


@settings(max_examples=examples(60))
@given(st.data())
def test_decimals_come_back_from_the_float_and_the_text_of_those_that_lost_digits(data: st.DataObject) -> None:
    """The texts come from `lost_digits`, the function that the readers use."""
    precision = data.draw(st.integers(1, 76))
    scale = data.draw(st.integers(0, precision))
    kind = _arrow.decimal256(precision, scale)
    numbers = data.draw(st.lists(st.none() | st.integers(-(10**precision) + 1, 10**precision - 1), min_size=1, max_size=20))
    column = _arrow.array([None if each is None else Decimal(each).scaleb(-scale, EXACT) for each in numbers], kind)
    read = column.cast(pa.float64())
    texts = lost_digits(column, read) if precision > SAFE_DIGITS else None
    kept, wrong = as_kept(read, was=kind, kept=kind, texts=texts)
    assert (kept.to_pylist(), wrong) == (column.to_pylist(), [])


# --- files that differ --------------------------------------------------------------------------------------------


def test_times_in_different_units_are_kept_in_the_finer_one(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": pa.array([1, None], pa.timestamp("s", tz="UTC"))}), "arrow", "a")
    write_table(tmp_path / "in", pa.table({"t": pa.array([1_500], pa.timestamp("ms", tz="UTC"))}), "arrow", "b")
    found = made(a_job(tmp_path, "arrow", source="arrow")).column("t").combine_chunks()
    assert found.equals(pa.array([1_000, None, 1_500], pa.timestamp("ms", tz="UTC")))


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (decimals("1.25", precision=5), decimals("0.0001", None, precision=9, scale=4), pa.decimal128(9, 4)),
        (decimals("99999.0", precision=6, scale=1), decimals("0.0001", precision=5, scale=4), pa.decimal128(9, 4)),
        (decimals("1.25", precision=18), decimals("12345678901234567890.5", precision=21, scale=1), pa.decimal128(22, 2)),
        (decimals("1.25", precision=5), pa.array([7, None], pa.int32()), pa.decimal128(12, 2)),
        (pa.array([2**63 - 1, None], pa.int64()), decimals("1.25", precision=5), pa.decimal128(21, 2)),
    ],
    ids=["scales", "digits before the point", "long", "int32", "int64"],
)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_decimals_of_different_types_get_one_that_holds_all_digits(tmp_path: Path, first: Any, second: Any, kind: Any, is_reversed: bool) -> None:  # fmt: skip
    files = [second, first] if is_reversed else [first, second]
    for name, column in zip("ab", files, strict=True):
        write_table(tmp_path / "in", pa.table({"d": column}), "parquet", name)
    found = made(a_job(tmp_path, "parquet")).column("d")
    assert (found.type, found.to_pylist()) == (kind, [value for column in files for value in column.to_pylist()])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (decimals("1.25", precision=5), pa.array([0.125])),
        (pa.array([7], pa.int64()), pa.array([0.125])),
        (decimals("999999999999", precision=12, scale=0), decimals("0.0000000001", precision=12, scale=10)),
    ],
    ids=["decimal and float", "integer and float", "few digits that are many together"],
)
def test_other_columns_of_numbers_stay_float64(tmp_path: Path, first: Any, second: Any) -> None:
    for name, column in zip("ab", (first, second), strict=True):
        write_table(tmp_path / "in", pa.table({"d": column}), "parquet", name)
    found = made(a_job(tmp_path, "parquet")).column("d")
    assert (found.type, found.to_pylist()) == (pa.float64(), [float(first[0].as_py()), float(second[0].as_py())])
    assert manifest_of(tmp_path / "out").parts == {}


# --- which features keep their types ------------------------------------------------------------------------------


def test_a_feature_with_a_dtype_is_a_number(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": PRICES, "u": MOMENTS}), "parquet")
    features = [{"name": "t", "dtype": "int64"}, {"name": "price", "dtype": "float64"}, {"name": "kept", "columns": ["u"]}]
    found = made(a_job(tmp_path, "parquet", features=features))
    assert found.schema.types == [pa.int64(), pa.float64(), MOMENTS.type]
    assert found.column("t").to_pylist() == [1_704_067_200_123, None, -1]
    assert found.column("kept").to_pylist() == MOMENTS.to_pylist()


def test_a_feature_with_the_name_of_a_further_column_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, kept_name("t"): PRICES}), "parquet")
    with pytest.raises(BadSpec, match=r"The feature '\\x00kept t' has a reserved name"):
        run_job(a_job(tmp_path, "parquet"))


def test_a_label_keeps_its_type(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"x": pa.array([1, 2, 3]), "label": PRICES}), "parquet")
    assert made(a_job(tmp_path, "parquet")).column("label").to_pylist() == PRICES.to_pylist()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"transforms": [{"cast": {"columns": ["t"], "dtype": "int64"}}]}, pa.int64()),
        ({"features": [{"name": "t", "columns": ["t", "x"]}]}, pa.list_(pa.int64(), 2)),
        ({"transforms": [{"map": {"callable": "tests.converter.steps.test_kept_types:unchanged"}}]}, pa.int64()),
    ],
    ids=["cast", "vector", "map"],
)
def test_a_step_or_a_vector_that_takes_numbers_makes_them_numbers(tmp_path: Path, spec: dict[str, Any], expected: Any) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS.drop_null(), "x": pa.array([1, 2])}), "parquet")
    assert made(a_job(tmp_path, "parquet", **spec)).column("t").type == expected
    assert manifest_of(tmp_path / "out").parts == {}


def unchanged(record: dict[str, Any]) -> dict[str, Any]:
    """A user's function that returns each record unchanged. The converter still has to assume that it changes records."""
    return record


def test_lists_of_times_and_decimals_are_numbers_unless_they_are_nested(tmp_path: Path) -> None:
    lists = {
        "ts": pa.array([[0, 1], []], pa.list_(pa.timestamp("ms"))),
        "ds": _arrow.array([[Decimal("1.50")], []], pa.list_(pa.decimal128(5, 2))),
    }
    write_table(tmp_path / "in", pa.table(lists), "parquet")
    assert made(a_job(tmp_path, "parquet")).schema.types == [pa.list_(pa.int64()), pa.list_(pa.float64())]
    nested = made(a_job(tmp_path, "parquet", out="nested", reading={"nested": ["ts", "ds"]}))
    assert nested.to_pylist() == pa.table(lists).to_pylist()


def test_steps_that_choose_records_and_columns_keep_types(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": PRICES, "x": pa.array([1, 2, 3])}), "parquet")
    steps = [
        {"filter": {"where": "t > 0 or x == 2"}},
        {"rename": {"columns": {"t": "at", "price": "cost"}}},
        {"select": {"columns": ["cost", "at"]}},
    ]
    found = made(a_job(tmp_path, "parquet", transforms=steps))
    assert found.to_pylist() == [{"cost": PRICES[0].as_py(), "at": MOMENTS[0].as_py()}, {"cost": None, "at": None}]


def test_nulls_are_filled_with_numbers_in_the_column_s_unit(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": PRICES}), "parquet")
    steps = [{"fillNulls": {"columns": ["t"], "value": "1500"}}, {"fillNulls": {"columns": ["price"], "value": "0.25"}}]
    found = made(a_job(tmp_path, "parquet", transforms=steps)).to_pylist()[1]
    assert (found["t"].timestamp(), found["price"]) == (1.5, Decimal("0.25"))


@pytest.mark.parametrize(
    ("column", "default", "reason"),
    [
        (pa.array([None, 5], pa.time32("s")), "86400", r"t 86400 does not fit time32\[ms\]"),
        (pa.array([None, 5], pa.date32()), "3000000000", r"t 3000000000 does not fit date32\[day\]"),
        (decimals(None, "5"), "0.125", r"t 0.125 does not fit decimal128\(20, 2\)"),
        (decimals(None, "5", precision=5), "0.125", r"t 0.125 does not fit decimal128\(5, 2\)"),
        (decimals(None, "5", precision=5), "1000", r"t 1000.0 does not fit decimal128\(5, 2\)"),
        (decimals(None, "5"), '"NaN"', None),
    ],
    ids=["time of day", "day", "long decimal", "decimal", "large decimal", "NaN"],
)
def test_a_default_that_the_type_cannot_hold_makes_its_record_bad(tmp_path: Path, column: Any, default: str, reason: str | None) -> None:
    write_table(tmp_path / "in", pa.table({"t": column}), "arrow")
    job = a_job(tmp_path, "parquet", source="arrow", reading={"defaults": {"t": default}}, onBadRecord={"policy": "Skip", "maxCount": 5})
    if reason is None:
        with pytest.raises(Exception, match="default"):
            run_job(job)
        return
    assert len(made(job)) == 1
    (bad,) = manifest_of(tmp_path / "out").bad_examples
    assert re.search(reason, bad.reason)


def test_dates_and_times_of_day_that_are_none_make_their_records_bad(tmp_path: Path) -> None:
    day = 86_400_000
    columns: dict[str, Any] = {
        "d": pa.array([3 * day + 5, None, day, -5], pa.int64()).view(pa.date64()),
        "t": pa.array([1, 2, 90_000, None], pa.int32()).view(pa.time32("s")),
    }
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), columns["d"].fill_null(0))
    write_table(tmp_path / "in", pa.table(columns | {"n": [0, 1, 2, 3], "nested": lists}), "arrow")
    skip: dict[str, Any] = {"source": "arrow", "onBadRecord": {"policy": "Skip", "maxCount": 5}}
    for format_, date, time in (("arrow", "date64[ms]", "time32[s]"), ("parquet", "date32[day]", "time32[ms]")):
        assert made(a_job(tmp_path, format_, out=format_, **skip)).column("n").to_pylist() == [1]
        assert [bad.reason for bad in manifest_of(tmp_path / format_).bad_examples] == [
            f"d {3 * day + 5} does not fit {date}", f"t 90000 does not fit {time}", f"d -5 does not fit {date}"
        ]  # fmt: skip
    run_job(a_job(tmp_path, "jsonl", out="lines", source="arrow"))
    (file,) = (tmp_path / "lines").glob("*.jsonl")
    assert [json.loads(line)["d"] for line in file.read_text().splitlines()] == [3 * day + 5, None, day, -5]


def test_a_time_that_parquet_cannot_hold_makes_its_record_bad(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": pa.array([2**62, 1], pa.timestamp("s"))}), "arrow")
    with pytest.raises(BadData, match=rf"rows.arrow, record 0: t {2**62} does not fit timestamp\[ms\]"):
        run_job(a_job(tmp_path, "parquet", source="arrow"))
    assert made(a_job(tmp_path, "arrow", source="arrow")).column("t").cast(pa.int64()).to_pylist() == [2**62, 1]


def test_joined_tables_keep_times_and_decimals_of_few_digits(tmp_path: Path) -> None:
    keys = pa.array([1, 2, 3])
    write_table(tmp_path / "in", pa.table({"k": keys, "t": MOMENTS, "few": decimals("1.50", None, "2.25", precision=9)}), "parquet", "a")
    write_table(tmp_path / "in", pa.table({"k": keys, "many": PRICES}), "parquet", "b")
    tables = [{"name": name, "source": {"parquet": {"uris": [str(tmp_path / f"in/{name}.parquet")]}}} for name in "ab"]
    job = parse_job({"source": {"join": {"keys": ["k"], "tables": tables}}, "output": {"uri": str(tmp_path / "out"), "format": "parquet"}})
    found = made(job)
    assert found.schema.types == [MOMENTS.type, pa.decimal128(9, 2), pa.float64()]
    assert found.column("t").to_pylist() == MOMENTS.to_pylist()
    assert found.column("few").to_pylist() == [Decimal("1.50"), None, Decimal("2.25")]


@pytest.mark.parametrize("shuffle", [{}, {"shuffle": {"seed": 7}}], ids=["in order", "shuffled"])
def test_splits_and_duplicates_are_the_same_as_those_of_numbers(tmp_path: Path, shuffle: dict[str, Any]) -> None:
    moments = pa.array([row // 4 for row in range(200)], pa.timestamp("us"))
    prices = _arrow.array([Decimal(row // 2).scaleb(-2) + 10**9 for row in range(200)], pa.decimal128(20, 2))
    write_table(tmp_path / "in", pa.table({"t": moments, "price": prices}), "parquet")
    splits = {"groupBy": "t", "into": [{"name": "train", "fraction": 0.75}, {"name": "test", "fraction": 0.25}]}
    spec: dict[str, Any] = {"splits": splits, "deduplicate": {"columns": ["t", "price"]}, **shuffle}
    numbers: dict[str, Any] = {"features": [{"name": "t", "dtype": "int64"}, {"name": "price", "dtype": "float64"}]}
    of_types, of_numbers = (
        verified_run(a_job(tmp_path, "parquet", out=out, **spec, **features)) for out, features in (("types", {}), ("numbers", numbers))
    )
    assert [(split.name, split.records) for split in of_types.splits] == [(split.name, split.records) for split in of_numbers.splits]
    kept, read = (records_in(tmp_path / out) for out in ("types", "numbers"))
    assert kept.column("t").cast(pa.int64()).equals(read.column("t"))
    found: list[Any] = kept.column("price").to_pylist()
    assert sorted(found) == sorted(set(prices.to_pylist()))
