"""Times and decimals from every table source keep their types in Parquet and Arrow. In all other formats they become numbers."""

import io
import json
import re
import runpy
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
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
from tests.converter.cli.commandline import code_of
from tests.reader.fake_torch import FakeTorch

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec, RoundedDefault
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.columnar import tables
from dataprep_converter.records.kept_types import as_kept, kept_name
from dataprep_converter.records.lossy import SAFE_DIGITS, lost_digits
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.tools import repair
from dataprep_converter.tools.inspect import inspection
from dataprep_converter.tools.verification import verify
from dataprep_reader import open as open_data_set

_pq: Any = pq  # the module has no type stubs
_orc: Any = pyarrow.orc
_arrow: Any = pa

ZONES = (None, "UTC", "Europe/Berlin")
UNITS = ("s", "ms", "us", "ns")
TIMES: list[Any] = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(_arrow.timestamp(unit, tz=zone) for unit in UNITS for zone in ZONES),
    *(_arrow.duration(unit) for unit in UNITS),
]
DECIMALS: list[Any] = [
    _arrow.decimal32(9, 2),
    _arrow.decimal64(18, 2),
    pa.decimal128(1, 0),
    pa.decimal128(15, 0),
    pa.decimal128(15, 15),
    pa.decimal128(16, 4),
    pa.decimal128(38, 10),
    _arrow.decimal256(10, 2),
    _arrow.decimal256(76, 5),
]
IN_PARQUET: dict[Any, Any] = {
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time32("ms"),
    **{_arrow.timestamp("s", tz=zone): _arrow.timestamp("ms", tz=zone) for zone in ZONES},
    _arrow.decimal32(9, 2): pa.decimal128(9, 2),
    _arrow.decimal64(18, 2): pa.decimal128(18, 2),
    _arrow.decimal256(10, 2): pa.decimal128(10, 2),
}
"""Maps each type that Parquet lacks to the type that replaces it."""
EXACT = Context(prec=100)


def values_of(kind: Any) -> Any:
    """Five values of a type, one of them null. They include the least and the greatest value, or values that steps easily get wrong."""
    if pa.types.is_decimal(kind):
        most = Decimal(10**kind.precision - 1).scaleb(-kind.scale, EXACT)
        third = Decimal(10**kind.precision // 3).scaleb(-kind.scale, EXACT)
        return _arrow.array([most, most.copy_negate(), None, third, Decimal(0)], kind)
    day = 86_400_000
    numbers = [0, 1, None, 5, 86_399] if pa.types.is_time(kind) else [0, -5, None, 1_704_067_201, 2**31 - 1]
    if kind == pa.date64():
        numbers = [0, -day, None, day, 20_000 * day]
    return _arrow.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


TABLE = pa.table({str(kind): values_of(kind) for kind in (*TIMES, *DECIMALS)})


def a_job(folder: Path, format_: str, *, source: str = "parquet", out: str = "out", reading: Any = None, output: Any = None, **spec: Any) -> DataPrepJob:  # fmt: skip
    written = {source: {"uris": [str(folder / "in")]} | (reading or {})}
    options = {"uri": str(folder / out), "format": format_, "shards": {"count": 1}, "overwrite": "IfChanged"} | (output or {})
    return parse_job({"source": written, "output": options} | spec)


def records_in(folder: Path) -> pa.Table:
    """All records of a finished data set of Parquet or Arrow files, as read by pyarrow."""
    files = sorted(folder.glob("*.parquet")) + sorted(folder.glob("*.arrow"))
    tables = [_pq.read_table(file) if file.suffix == ".parquet" else _arrow.ipc.open_file(file).read_all() for file in files]
    table: pa.Table = pa.concat_tables(tables)
    return table


def made(job: DataPrepJob) -> pa.Table:
    """The records of the data set that the job makes, after all of them have been verified."""
    verified_run(job)
    return records_in(Path(job.spec.output.uri))


def manifest_of(folder: Path) -> Manifest:
    return verify(str(folder), Access(), every_record=True)


def decimals(*values: str | None, precision: int = 20, scale: int = 2) -> Any:
    return _arrow.array([None if value is None else Decimal(value) for value in values], pa.decimal128(precision, scale))


MOMENTS = pa.array([1_704_067_200_123, None, -1], pa.timestamp("ms", tz="UTC"))
PRICES = decimals("12345678901234567.89", None, "-0.10")


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
    """A user's function. It returns the record unchanged, but the converter has to assume that it changes records."""
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


@pytest.mark.parametrize(("default", "rounded"), [("12345678901234567.25", "1.2345678901234568e+16"), ("1e400", "inf")])
def test_a_default_of_decimals_that_would_be_rounded_is_refused(tmp_path: Path, default: str, rounded: str) -> None:
    write_table(tmp_path / "in", pa.table({"t": decimals(None, "5")}), "parquet")
    message = (
        f"source.parquet.defaults: the default '{default}' of 't', a column of decimal128(20, 2), would be rounded to {rounded}; "
        "write a number of at most 15 digits."
    )
    for format_ in ("parquet", "jsonl"):
        with pytest.raises(BadSpec) as refused:
            run_job(a_job(tmp_path, format_, reading={"defaults": {"t": default}}))
        assert str(refused.value) == message


ROUNDED = "12345678901234567.25"


def a_rounding_job(folder: Path, **output: Any) -> DataPrepJob:
    return a_job(folder, "parquet", reading={"defaults": {"t": ROUNDED}}, output=output)


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """While this fixture is in use, defaults are rounded without a check, as in earlier releases."""
    with monkeypatch.context() as then:
        then.setattr(tables, "check_digits", lambda *_, **__: None)
        yield then


def rounded_data_set(folder: Path, earlier: pytest.MonkeyPatch, **output: Any) -> tuple[DataPrepJob, Path, bytes]:
    """Makes a data set as an earlier release did, with a rounded default. Returns the job, the data set's only shard, and the shard's
    bytes."""
    write_table(folder / "in", pa.table({"t": decimals(None, "5")}), "parquet")
    job = a_rounding_job(folder, **output)
    run_job(job)
    earlier.undo()
    (file,) = (folder / "out").glob("*.parquet")
    return job, file, file.read_bytes()


@pytest.mark.parametrize("lost", [(), ("plan",), ("plan", "manifest")], ids=["nothing", "the plan", "the manifest too"])
def test_a_data_set_with_a_rounded_default_is_repaired(tmp_path: Path, earlier: pytest.MonkeyPatch, lost: Sequence[str]) -> None:
    job, file, before = rounded_data_set(tmp_path, earlier)
    run = manifest_of(tmp_path / "out").run_id
    for name in lost:
        (tmp_path / "out" / (names.plan_file(run) if name == "plan" else names.manifest_file(run))).write_text("{}")
    file.unlink()
    assert repair.repair(str(tmp_path / "out"), Access(), job=job).shards == [file.name]
    assert file.read_bytes() == before


def test_a_data_set_with_a_rounded_default_is_extended(tmp_path: Path, earlier: pytest.MonkeyPatch) -> None:
    job, file, before = rounded_data_set(tmp_path, earlier, overwrite="Extend")
    run_job(job)
    write_table(tmp_path / "in", pa.table({"t": decimals("7", None)}), "parquet", "rows2")
    run_job(job)
    assert file.read_bytes() == before
    shards = [_pq.read_table(each).column("t").to_pylist() for each in sorted((tmp_path / "out").glob("*.parquet"))]
    default = shards[0][0]
    assert shards == [[default, Decimal(5)], [Decimal(7), default]]
    assert default != Decimal(ROUNDED)
    manifest_of(tmp_path / "out")


def test_a_data_set_with_a_rounded_default_is_reused_unless_its_inputs_change(tmp_path: Path, earlier: pytest.MonkeyPatch) -> None:
    job, file, before = rounded_data_set(tmp_path, earlier, overwrite="IfChanged")
    run_job(job)
    assert file.read_bytes() == before
    write_table(tmp_path / "in", pa.table({"t": decimals("7", None)}), "parquet", "rows2")
    with pytest.raises(RoundedDefault, match="would be rounded"):
        run_job(job)
    assert file.read_bytes() == before


def test_an_unfinished_run_with_a_rounded_default_is_finished(tmp_path: Path, earlier: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "in", pa.table({"t": decimals(None, "5")}), "parquet")
    job = a_rounding_job(tmp_path)
    run_plan_step(job, Access())
    earlier.undo()
    assert made(job).column("t").to_pylist()[1] == Decimal(5)


def test_a_long_default_that_float64_holds_is_kept(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": decimals(None, "5")}), "parquet")
    found = made(a_job(tmp_path, "parquet", reading={"defaults": {"t": "12345678901234560.00"}}))
    assert found.column("t").to_pylist() == [Decimal("12345678901234560.00"), Decimal(5)]


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


# --- readers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", ["parquet", "arrow"])
@pytest.mark.parametrize("first", ["parquet", "arrow"])
def test_the_source_dataset_keeps_the_types_of_a_data_set(tmp_path: Path, first: str, second: str) -> None:
    write_table(tmp_path / "in", TABLE, "arrow")
    before = made(a_job(tmp_path, first, source="arrow"))
    output = {"uri": str(tmp_path / "again"), "format": second, "shards": {"count": 1}}
    after = made(parse_job({"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": output}))
    assert sorted(after.schema.names) == sorted(before.schema.names)
    for name in before.schema.names:
        expected = before.column(name)
        stored = IN_PARQUET.get(expected.type, expected.type) if second == "parquet" else expected.type
        assert after.column(name).type == stored
        assert after.column(name).equals(expected.cast(stored))


def test_the_source_dataset_tells_what_another_format_stores_as_numbers(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": PRICES}), "parquet")
    run_job(a_job(tmp_path, "parquet"))
    output = {"uri": str(tmp_path / "again"), "format": "jsonl"}
    _, result = run_job(parse_job({"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": output}))
    of_prices, of_times = result.warnings
    assert of_prices == (
        "column 'price': decimals of 1 record have more digits than float64 holds, such as 12345678901234567.89, read as 1.2345678901234568e+16"
    )
    assert of_times == (
        "column 't': times of 2 records are stored as numbers of milliseconds since 1970 in UTC (timestamp[ms, tz=UTC]), "
        "such as 2024-01-01 00:00:00.123Z, read as 1704067200123"
    )


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_our_reader_returns_numbers(tmp_path: Path, format_: str) -> None:
    write_table(tmp_path / "in", TABLE, "arrow")
    run_job(a_job(tmp_path, format_, source="arrow"))
    found = records_in(tmp_path / "out")
    opened: Any = list(open_data_set(str(tmp_path / "out"), split="train", as_="arrow"))
    read = pa.Table.from_batches(opened)
    for name in found.schema.names:
        column = found.column(name).combine_chunks()
        number = pa.int32() if column.type.bit_width == 32 else pa.int64()
        expected = column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column.cast(number).cast(pa.int64())
        assert read.column(name).combine_chunks().equals(expected)


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_the_torch_loader_has_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    """tests/interop/heavy/test_loaders.py loads other data sets with PyTorch itself."""
    table = pa.table(
        {
            "t": pa.array([1, None], pa.timestamp("ns")),
            "day": pa.array([3, 4], pa.int32()).cast(pa.date32()),
            "price": decimals("0.50", "2"),
        }
    )
    write_table(tmp_path / "in", table, "parquet")
    run_job(a_job(tmp_path, format_))
    FakeTorch().install_torch(monkeypatch)
    loader = runpy.run_path(str(tmp_path / "out/_dataprep/loaders/load_torch.py"))
    assert list(loader["Records"]("train")) == [{"t": 1, "day": 3, "price": 0.5}, {"t": None, "day": 4, "price": 2.0}]


def test_the_spark_loader_names_the_columns_that_spark_cannot_read(tmp_path: Path) -> None:
    kinds = [
        pa.date32(),
        pa.time32("ms"),
        pa.timestamp("us"),
        pa.timestamp("ns"),
        pa.duration("s"),
        pa.decimal128(38, 2),
        pa.decimal256(39, 2),
    ]
    write_table(tmp_path / "in", pa.table({f"c{place}": values_of(kind) for place, kind in enumerate(kinds)}), "parquet")
    run_job(a_job(tmp_path, "parquet"))
    assert (tmp_path / "out/_dataprep/loaders/load_spark.py").read_text() == (
        "raise SystemExit(\"load_spark.py: Spark can't read c1 (time32[ms]), c3 (timestamp[ns]), c6 (decimal256(39, 2)). "
        'Give these features a dtype, int64 for times and float64 for decimals.")\n'
    )


def test_croissant_has_the_types_that_it_knows(tmp_path: Path) -> None:
    kinds = {"day": pa.date32(), "t": pa.timestamp("us"), "price": pa.decimal128(5, 2), "time": pa.time32("ms"), "took": pa.duration("s")}
    write_table(tmp_path / "in", pa.table({name: values_of(kind) for name, kind in kinds.items()}), "parquet")
    run_job(a_job(tmp_path, "parquet"))
    (file,) = (tmp_path / "out").rglob("croissant.json")
    (records,) = [each for each in json.loads(file.read_text())["recordSet"] if each["@id"].startswith("records/")]
    assert {field["name"]: field["dataType"] for field in records["field"]} == {"day": "sc:Date", "t": "sc:Date", "price": "sc:Float"}


def test_inspect_shows_times(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": decimals("0.50", "1", "2")}), "parquet")
    run_job(a_job(tmp_path, "arrow"))
    shown = io.StringIO()
    inspection.show(str(tmp_path / "out"), Access(), records=2, as_json=False, stream=shown)
    assert "t: 2024-01-01 00:00:00.123Z\n" in shown.getvalue()
    assert "price: 0.50\n" in shown.getvalue()


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_records_are_shown_with_all_digits(tmp_path: Path, format_: str, capsys: pytest.CaptureFixture[str]) -> None:
    prices = {"wide": decimals("12345678901234567890.12", None, precision=22), "small": decimals("1E-10", "0.5", scale=10)}
    write_table(tmp_path / "in", pa.table(prices), "parquet")
    run_job(a_job(tmp_path, format_))
    (file,) = (tmp_path / "out").glob(f"*.{format_}")
    raw = tmp_path / "raw" / file.name
    raw.parent.mkdir()
    raw.write_bytes(file.read_bytes())
    capsys.readouterr()
    for place in (tmp_path / "out", raw):
        for command in ("inspect", "head"):
            assert code_of(command, place) == 0
            shown = capsys.readouterr().out
            assert "wide: 12345678901234567890.12\n" in shown
            assert "small: 0.0000000001\n" in shown
        assert code_of("head", place, "--json") == 0
        first = json.loads(capsys.readouterr().out)[0]
        values = ["12345678901234567890.12", "0.0000000001"]
        assert [first["wide"], first["small"]] == (values if place == raw else [[value] for value in values])
    assert code_of("inspect", tmp_path / "out", "--html", tmp_path / "report.html") == 0
    assert "12345678901234567890.12" in (tmp_path / "report.html").read_text()


def test_hugging_face_has_the_types(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": PRICES}), "parquet")
    found = made(a_job(tmp_path, "parquet", output={"parquet": {"huggingFace": {}}}))
    assert found.to_pylist() == pa.table({"t": MOMENTS, "price": PRICES}).to_pylist()


# --- jobs and data sets of earlier releases -----------------------------------------------------------------------


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """The data set as made by a release without the part `types`."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


NUMBERS = [pa.int64(), pa.float64()]


def a_table_of(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": PRICES}), "parquet")


def test_only_a_job_that_keeps_a_type_has_another_run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_table_of(tmp_path)
    features = [{"name": "t", "dtype": "int64"}, {"name": "price", "dtype": "float64"}]
    numbers = a_job(tmp_path, "parquet", out="numbers", features=features)
    before = made_before(numbers, monkeypatch)
    assert verified_run(numbers) == before
    before = made_before(a_job(tmp_path, "jsonl", out="lines"), monkeypatch)
    assert verified_run(a_job(tmp_path, "jsonl", out="lines")) == before
    before = made_before(a_job(tmp_path, "parquet"), monkeypatch)
    after = verified_run(a_job(tmp_path, "parquet"))
    assert (before.parts, after.parts, after.run_id == before.run_id) == ({}, {"types": 2}, False)
    assert b'"version":5' in after.to_bytes()


def test_a_data_set_with_numbers_is_repaired_and_extended_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_table_of(tmp_path)
    job = a_job(tmp_path, "parquet", output={"overwrite": "Extend"})
    before = made_before(job, monkeypatch)
    (tmp_path / "out" / before.files[0].file).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert manifest_of(tmp_path / "out") == before
    (tmp_path / "in/sequel.parquet").write_bytes((tmp_path / "in/rows.parquet").read_bytes())
    assert verified_run(job).records_out == 6
    assert records_in(tmp_path / "out").schema.types == NUMBERS


def test_a_data_set_that_keeps_types_is_extended(tmp_path: Path) -> None:
    a_table_of(tmp_path)
    job = a_job(tmp_path, "parquet", output={"overwrite": "Extend"})
    run_job(job)
    (tmp_path / "in/sequel.parquet").write_bytes((tmp_path / "in/rows.parquet").read_bytes())
    found = made(job)
    assert found.to_pylist() == pa.table({"t": MOMENTS, "price": PRICES}).to_pylist() * 2


def test_a_data_set_with_numbers_is_extended_with_numbers_of_other_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "in", pa.table({"price": decimals("1.25", precision=5)}), "parquet")
    job = a_job(tmp_path, "parquet", output={"overwrite": "Extend"})
    made_before(job, monkeypatch)
    write_table(tmp_path / "in", pa.table({"price": pa.array([7])}), "parquet", "sequel")
    assert made(job).column("price").to_pylist() == [1.25, 7.0]


@pytest.mark.parametrize(
    ("first", "second", "features", "message"),
    [
        (PRICES, decimals("0.0001", precision=22, scale=4), None, r"'x' would be decimal128(22, 4), .* with decimal128(20, 2)"),
        (PRICES, pa.array([0.5]), None, r"'x' would be float64, .* with decimal128(20, 2)"),
        (MOMENTS, MOMENTS.cast(pa.timestamp("ms", tz="Asia/Tokyo")), None, r"'x' would be timestamp[ms, tz=Asia/Tokyo], .* tz=UTC]"),
        (
            MOMENTS,
            MOMENTS.cast(pa.timestamp("us", tz="UTC")),
            [{"name": "x", "dtype": "int64"}],
            r"times of the column 'x' would be us, .* ms",
        ),
    ],
    ids=["digits", "float", "zone", "unit of numbers"],
)
def test_an_extension_that_would_change_a_type_is_refused(tmp_path: Path, first: Any, second: Any, features: Any, message: str) -> None:
    write_table(tmp_path / "in", pa.table({"x": first}), "parquet")
    job = a_job(tmp_path, "parquet", output={"overwrite": "Extend"}, **({"features": features} if features else {}))
    before = verified_run(job)
    write_table(tmp_path / "in", pa.table({"x": second}), "parquet", "a file that comes first")
    with pytest.raises(BadSpec, match=re.sub(r"[][()]", r"\\\g<0>", message)):
        run_job(job)
    assert manifest_of(tmp_path / "out") == before


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("lost", ["plan.json", "manifest.json"])
def test_a_lost_plan_or_manifest_is_made_again_by_its_own_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str, is_before: bool
) -> None:
    a_table_of(tmp_path)
    job = a_job(tmp_path, "parquet")
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    for file in (tmp_path / "out" / before.files[0].file, tmp_path / "out/_dataprep" / before.run_id / lost):
        file.unlink()
    repair.repair(str(tmp_path / "out"), Access(), job=job)
    assert manifest_of(tmp_path / "out") == before


def test_a_job_that_had_numbers_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_table_of(tmp_path)
    before = made_before(a_job(tmp_path, "parquet"), monkeypatch)
    planned, _ = run_job(a_job(tmp_path, "parquet"))
    (told,) = planned.warnings
    assert told == (
        f"the data set of run {before.run_id}, which this job replaces, may have numbers in place of times and decimals. "
        "Now these keep their types; set dtype (int64 for times, float64 for decimals) in features to have numbers as before"
    )
    assert run_job(a_job(tmp_path, "parquet"))[0].warnings == []
