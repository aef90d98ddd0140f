"""Values that records can't store exactly are reported: large whole numbers, decimals and times.

If a format stores float64 columns as float32, they are reported whatever their values.
"""

import io
import shutil
import sqlite3
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api import canonical
from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.dataset.report import Manifest, ShardReport
from dataprep_api.errors import FormatError
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base import blocks
from dataprep_converter.records.lossy import inexact, lost_digits
from dataprep_converter.steps.run import run
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

DIGITS = Decimal("12345678901234567.89")


def a_job(folder: Path, source: dict[str, Any], format_: str, *, output: dict[str, Any] | None = None, **spec: Any) -> DataPrepJob:
    written = {"source": source, "output": {"uri": str(folder / "out"), "format": format_, **(output or {})}, **spec}
    return parse_job(written, name="lossy")


def made(job: DataPrepJob, *, workers: int = 1) -> tuple[PlanResult, CommitResult, Manifest]:
    planned, result = run_job(job, workers=workers)
    assert result is not None
    return planned, result, verify(job.spec.output.uri, Access(), every_record=True)


def csv(folder: Path, text: str, **types: str) -> dict[str, Any]:
    (folder / "in.csv").write_text(text)
    columns = [{"name": name, "type": kind} for name, kind in types.items()]
    return {"csv": {"uris": [str(folder / "in.csv")], "columns": columns}}


def parquet(folder: Path, *, groups: int = 1 << 20, **columns: Any) -> dict[str, Any]:
    pq.write_table(pa.table(columns), folder / "in.parquet", row_group_size=groups)
    return {"parquet": {"uris": [str(folder / "in.parquet")]}}


def told(manifest: Manifest) -> list[tuple[str, str, str, int, str, str]]:
    return [(each.column, each.kind, each.type, each.records, each.value, each.stored) for each in manifest.lossy]


# --- whole numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["recordioProtobuf", "dl4jDataset"])
def test_whole_numbers_beyond_float32_are_counted_with_an_example(tmp_path: Path, format_: str) -> None:
    text = "".join(f"{number},1\n" for number in (1, 16777216, 16777217, -16777219, 33554432, 2**62 + 1))
    source = csv(tmp_path, text, x="Int64", y="Int64")
    job = a_job(tmp_path, source, format_, features=[{"name": "x"}], labels=[{"name": "y"}])
    planned, result, manifest = made(job)
    assert told(manifest) == [("x", "Integer", "float32", 3, "16777217", "16777216")]
    assert result.warnings == ["column 'x': whole numbers of 3 records are not exact as float32, such as 16777217, stored as 16777216"]
    assert planned.warnings == []


def test_whole_numbers_are_told_by_column_also_in_a_vector_and_where_the_spec_asks_for_the_type(tmp_path: Path) -> None:
    source = csv(tmp_path, "1,0.5,16777217\n9007199254740993,0.5,3\n", x="Int64", y="Float32", z="Int64")
    _, _, manifest = made(
        a_job(tmp_path, source, "parquet", features=[{"name": "f", "columns": ["0..2"]}, {"name": "z", "dtype": "float32"}])
    )
    assert told(manifest) == [
        ("x", "Integer", "float64", 1, "9007199254740993", "9007199254740992"),
        ("z", "Integer", "float32", 1, "16777217", "16777216"),
    ]


def test_whole_numbers_in_lists_and_tensors_are_told_by_record(tmp_path: Path) -> None:
    lists = pa.array([[1, 16777217, 16777219], [], [5]], pa.list_(pa.int64()))
    tensors = pa.array([[1, 2], [3, 16777217], [16777219, 0]], pa.list_(pa.int64(), 2))
    _, _, manifest = made(a_job(tmp_path, parquet(tmp_path, l=lists, t=tensors), "recordioProtobuf"))
    assert told(manifest) == [
        ("l", "Integer", "float32", 1, "16777217", "16777216"),
        ("t", "Integer", "float32", 2, "16777217", "16777216"),
    ]


def test_formats_that_hold_whole_numbers_say_nothing(tmp_path: Path) -> None:
    source = csv(tmp_path, "16777217\n", x="Int64")
    for format_ in ("tfrecord", "parquet", "csv"):
        _, result, manifest = made(a_job(tmp_path / format_, source, format_))
        assert (result.warnings, manifest.lossy) == ([], [])
        assert b"lossy" not in manifest.to_bytes()


def test_records_that_are_left_out_are_not_counted(tmp_path: Path) -> None:
    source = csv(tmp_path, "16777217,1\n16777219,9\n16777221,1\n", x="Int64", label="Int64")
    job = a_job(
        tmp_path, source, "recordioProtobuf", labels=[{"name": "label", "numClasses": 3}], onBadRecord={"policy": "Skip"},
        transforms=[{"filter": {"where": "x > 16777218"}}],
    )  # fmt: skip
    _, _, manifest = made(job)
    assert (manifest.records_out, manifest.bad, manifest.filtered) == (1, 1, 1)
    assert told(manifest) == [("x", "Integer", "float32", 1, "16777221", "16777220")]


@example([-(2**63)], "float16")
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**25), 2**25) | st.sampled_from([2**24, 2**53, 2**53 + 1]), min_size=1),
    st.sampled_from(["float16", "float32", "float64"]),
)
def test_what_is_inexact_is_what_is_another_number_as_a_float(values: list[int], dtype: str) -> None:
    expected = []
    for row, value in enumerate(values):
        with np.errstate(over="ignore"):
            stored = float(np.int64(value).astype(dtype))
        if not np.isfinite(stored) or int(stored) != value:
            expected.append(row)
    found = inexact(np.array(values, np.int64), dtype, "x")
    assert (found.rows.tolist() if found is not None else []) == expected
    assert found is None or found.values.tolist() == [values[row] for row in expected]


# --- float64 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format_", "said"),
    [
        ("recordioProtobuf", "as recordioProtobuf does unless asked; dtype: float64 keeps float64"),
        ("dl4jDataset", "as dl4jDataset does unless asked; dtype: float64 keeps float64"),
        ("tfrecord", "the only float of a list in tf.train.Example; encoding: Raw keeps float64"),
    ],
)
def test_float64_gets_one_notice_by_type_where_the_format_makes_it_float32(tmp_path: Path, format_: str, said: str) -> None:
    source = csv(tmp_path, "0.1,0.2,0.3,1\n", a="Float64", b="Float64", c="Float32", label="Int64")
    output = {"dl4jDataset": {"holds": "MultiDataSet"}} if format_ == "dl4jDataset" else {}
    planned, result, manifest = made(a_job(tmp_path, source, format_, features=[{"name": name} for name in "abc"], output=output))
    assert planned.warnings == [f"the features 'a', 'b' are stored as float32, {said}"]
    assert (result.warnings, manifest.lossy) == ([], [])


@pytest.mark.parametrize("feature", [{"name": "a", "dtype": "float64"}, {"name": "a", "dtype": "float32"}])
def test_float64_that_the_spec_gives_a_type_gets_none(tmp_path: Path, feature: dict[str, Any]) -> None:
    planned, _, _ = made(a_job(tmp_path, csv(tmp_path, "0.1\n", a="Float64"), "recordioProtobuf", features=[feature]))
    assert planned.warnings == []


def test_float64_that_the_spec_asks_for_and_the_format_lacks_is_told(tmp_path: Path) -> None:
    source = csv(tmp_path, "1,0.5\n", a="Int64", b="Float32")
    features = [{"name": "a", "dtype": "float64"}, {"name": "b"}]
    planned, _, _ = made(a_job(tmp_path, source, "tfrecord", features=features))
    assert planned.warnings == [
        "the feature 'a' is stored as float32, the only float of a list in tf.train.Example; encoding: Raw keeps float64"
    ]


def test_whole_numbers_beside_float32_are_no_float64(tmp_path: Path) -> None:
    source = csv(tmp_path, "1,0.5\n", a="Int64", b="Float32")
    planned, _, _ = made(a_job(tmp_path, source, "recordioProtobuf", features=[{"name": "f", "columns": ["a", "b"]}]))
    assert planned.warnings == []


# --- decimals and times -------------------------------------------------------------------------------------------


def decimals(*values: str | None, precision: int = 20, scale: int = 2) -> Any:
    return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(precision, scale))


def test_decimals_of_more_digits_than_float64_are_counted(tmp_path: Path) -> None:
    source = parquet(
        tmp_path, price=decimals("1.50", str(DIGITS), "-0.01", "99999999999999999.99"), small=decimals("1", "2", "3", "4", precision=15)
    )
    _, result, manifest = made(a_job(tmp_path, source, "jsonl"))
    assert told(manifest) == [("price", "Decimal", "float64", 2, "12345678901234567.89", "1.2345678901234568e+16")]
    assert result.warnings == [
        "column 'price': decimals of 2 records have more digits than float64 holds, such as 12345678901234567.89, read as 1.2345678901234568e+16"
    ]


def test_decimals_of_lists_are_counted_by_record(tmp_path: Path) -> None:
    lists = pa.array([[Decimal("1.00"), DIGITS, DIGITS], [], [Decimal("2.00")]], pa.list_(pa.decimal128(20, 2)))
    _, _, manifest = made(a_job(tmp_path, parquet(tmp_path, d=lists), "parquet"))
    assert told(manifest) == [("d", "Decimal", "float64", 1, str(DIGITS), "1.2345678901234568e+16")]


def test_times_are_counted(tmp_path: Path) -> None:
    at = pa.array([1_704_067_200_000_000 + second for second in range(3)], pa.timestamp("us", tz="UTC"))
    days = pa.array([date(1970, 1, 2)] * 3, pa.date32())
    _, result, manifest = made(a_job(tmp_path, parquet(tmp_path, at=at, day=days), "jsonl"))
    assert told(manifest) == [
        ("at", "Time", "timestamp[us, tz=UTC]", 3, "2024-01-01 00:00:00.000000Z", "1704067200000000"),
        ("day", "Time", "date32[day]", 3, "1970-01-02", "1"),
    ]
    assert result.warnings[0] == (
        "column 'at': times of 3 records are stored as numbers of microseconds since 1970 in UTC (timestamp[us, tz=UTC]), "
        "such as 2024-01-01 00:00:00.000000Z, read as 1704067200000000"
    )


@pytest.mark.parametrize(
    ("kind", "told_as"),
    [
        (pa.date32(), "days since 1970 (date32[day])"),
        (pa.date64(), "milliseconds since 1970 (date64[ms])"),
        (pa.time32("s"), "seconds since midnight (time32[s])"),
        (pa.time64("ns"), "nanoseconds since midnight (time64[ns])"),
        (pa.timestamp("ms"), "milliseconds since 1970 (timestamp[ms])"),
        (pa.timestamp("s", tz="Europe/Berlin"), "seconds since 1970 in UTC (timestamp[s, tz=Europe/Berlin])"),
        (pa.duration("us"), "microseconds (duration[us])"),
    ],
    ids=str,
)
def test_the_warning_says_what_the_numbers_count(tmp_path: Path, kind: pa.DataType, told_as: str) -> None:
    zero: Any = pa.array([0], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    pa.feather.write_feather(pa.table({"t": zero}), tmp_path / "in.arrow", compression="uncompressed")
    _, result, _ = made(a_job(tmp_path, {"arrow": {"uris": [str(tmp_path / "in.arrow")]}}, "csv"))
    (warning,) = result.warnings
    assert warning.startswith(f"column 't': times of 1 record are stored as numbers of {told_as}, such as ")
    assert warning.endswith(", read as 0")


def test_a_time_in_a_format_of_float32_is_told_as_a_time_and_as_a_whole_number(tmp_path: Path) -> None:
    at = pa.array([1_704_067_201_000], pa.timestamp("ms"))
    price = decimals(str(DIGITS))
    planned, _, manifest = made(a_job(tmp_path, parquet(tmp_path, at=at, price=price), "recordioProtobuf"))
    assert told(manifest) == [
        ("at", "Integer", "float32", 1, "1704067201000", "1704067203072"),
        ("at", "Time", "timestamp[ms]", 1, "2024-01-01 00:00:01.000", "1704067201000"),
        ("price", "Decimal", "float64", 1, str(DIGITS), "1.2345678901234568e+16"),
    ]
    assert planned.warnings == [
        "the feature 'price' is stored as float32, as recordioProtobuf does unless asked; dtype: float64 keeps float64"
    ]


def test_columns_are_told_by_their_new_names_and_only_while_they_are_what_was_read(tmp_path: Path) -> None:
    source = parquet(tmp_path, a=decimals(str(DIGITS)), b=decimals(str(DIGITS)), c=decimals(str(DIGITS)))
    transforms = [{"rename": {"columns": {"a": "z"}}}, {"drop": {"columns": ["b"]}}, {"cast": {"columns": ["c"], "dtype": "float32"}}]
    _, _, manifest = made(a_job(tmp_path, source, "jsonl", transforms=transforms))
    assert [(each.column, each.kind) for each in manifest.lossy] == [("z", "Decimal")]


def test_what_a_joined_table_was_is_told_and_decides_no_run_id(tmp_path: Path) -> None:
    numbers = [1_704_067_200_000, 1_704_067_201_000]

    def joined(at: Any) -> tuple[CommitResult, Manifest]:
        source = parquet(tmp_path, id=pa.array([1, 2]), at=at)
        tables = [{"name": "a", "source": source}, {"name": "b", "prefix": "b", "source": source, "orderBy": ["at"]}]
        _, result, manifest = made(a_job(tmp_path, {"join": {"keys": ["id"], "tables": tables}}, "jsonl"))
        return result, manifest

    plain, manifest = joined(pa.array(numbers))
    assert told(manifest) == []
    shutil.rmtree(tmp_path / "out")
    times, manifest = joined(pa.array(numbers, pa.timestamp("ms")))
    assert told(manifest) == [
        ("at", "Time", "timestamp[ms]", 2, "2024-01-01 00:00:00.000", "1704067200000"),
        ("bat", "Time", "timestamp[ms]", 2, "2024-01-01 00:00:00.000", "1704067200000"),
    ]
    assert times.run_id == plain.run_id


def test_times_of_sql_are_told(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE t (id INTEGER, x INTEGER)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(1, 16777217), (2, 5)])
    database.close()
    source = {"sql": {"url": f"sqlite:///{tmp_path}/a.db", "query": "SELECT * FROM t", "orderBy": ["id"]}}
    _, _, manifest = made(a_job(tmp_path, source, "recordioProtobuf"))
    assert told(manifest) == [("x", "Integer", "float32", 1, "16777217", "16777216")]


@pytest.mark.parametrize("second", [pa.timestamp("us", tz="UTC"), pa.int64(), pa.date32()])
def test_files_whose_times_are_of_other_kinds_are_refused(tmp_path: Path, second: pa.DataType) -> None:
    """If files with different kinds of times were read together, the same number in a column could have two meanings."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": pa.array([0], pa.timestamp("us"))}), tmp_path / "in/a.parquet")
    pq.write_table(
        pa.table({"t": pa.array([0], pa.int32() if second == pa.date32() else pa.int64()).cast(second)}), tmp_path / "in/b.parquet"
    )
    with pytest.raises(BadSpec, match=r"b\.parquet: the column 't' is .*, but timestamp\[us\] in .*a\.parquet; no common type holds both"):
        made(a_job(tmp_path, {"parquet": {"uris": [str(tmp_path / "in")]}}, "parquet"))


def test_files_whose_times_have_other_zones_are_read_together(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, zone in (("a", "UTC"), ("b", "+00:00")):
        pq.write_table(pa.table({"t": pa.array([0], pa.timestamp("us", tz=zone))}), tmp_path / f"in/{name}.parquet")
    _, _, manifest = made(a_job(tmp_path, {"parquet": {"uris": [str(tmp_path / "in")]}}, "jsonl"))
    assert [(each.type, each.records) for each in manifest.lossy] == [("timestamp[us, tz=UTC]", 2)]


def test_files_whose_decimals_have_other_digits_are_told_together(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, column in (("a", pa.array([0.5])), ("b", decimals("1.5", precision=5)), ("c", decimals(str(DIGITS)))):
        pq.write_table(pa.table({"d": column}), tmp_path / f"in/{name}.parquet")
    _, _, manifest = made(a_job(tmp_path, {"parquet": {"uris": [str(tmp_path / "in")]}}, "parquet"))
    assert [(each.column, each.records) for each in manifest.lossy] == [("d", 1)]


@given(st.lists(st.decimals(min_value=-(10**17), max_value=10**17, places=3), min_size=1, max_size=30))
def test_digits_are_lost_where_the_float_does_not_lead_back(values: list[Decimal]) -> None:
    column = pa.array(values, pa.decimal128(21, 3))
    read = column.cast(pa.float64())
    found = lost_digits(column, read)
    assert found is not None
    expected = [Decimal(repr(number)).normalize() != value.normalize() for value, number in zip(values, read.to_pylist(), strict=True)]
    assert found.is_valid().to_pylist() == expected


def test_a_join_tells_decimals_of_its_tables_in_the_plan_and_times_at_the_end(tmp_path: Path) -> None:
    keys = pa.array([1, 2])
    pq.write_table(pa.table({"k": keys, "d": decimals(str(DIGITS), "1")}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": keys, "t": pa.array([0, 1], pa.timestamp("ms"))}), tmp_path / "b.parquet")
    tables = [{"name": name, "source": {"parquet": {"uris": [str(tmp_path / f"{name}.parquet")]}}} for name in "ab"]
    planned, _, manifest = made(a_job(tmp_path, {"join": {"keys": ["k"], "tables": tables}}, "jsonl"))
    assert planned.warnings == [f"join, table a: decimals of 1 row of the column 'd' have more digits than float64 holds, such as {DIGITS}"]
    assert [(each.column, each.kind, each.records) for each in manifest.lossy] == [("t", "Time", 2)]


# --- where it is counted ------------------------------------------------------------------------------------------


def rows_of_all_kinds(folder: Path) -> dict[str, Any]:
    numbers = np.arange(4000)
    price = pa.array([Decimal(int(n)) + DIGITS if n % 3 else Decimal(int(n)) for n in numbers], pa.decimal128(20, 2))
    at = pa.array(numbers * 1000 + 1_700_000_000_000, pa.timestamp("ms"))
    return parquet(folder, groups=300, x=pa.array(numbers + 2**24), price=price, at=at)


@pytest.mark.slow
@pytest.mark.parametrize("is_gathered", [False, True], ids=["held", "gathered"])
def test_counts_are_the_same_whatever_the_workers_and_the_shards_that_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_gathered: bool
) -> None:
    if is_gathered:
        monkeypatch.setattr(blocks, "KEPT_BYTES", 1)
    source = rows_of_all_kinds(tmp_path)
    spec: dict[str, Any] = {"shuffle": {"seed": 3}, "output": {"shards": {"count": 5}}}
    manifests = []
    for workers in (1, 2):
        (tmp_path / str(workers)).mkdir()
        job = a_job(tmp_path / str(workers), source, "recordioProtobuf", **spec)
        manifests.append(made(job, workers=workers)[2])
    assert manifests[0].to_bytes() == manifests[1].to_bytes()
    assert {(each.column, each.kind): each.records for each in manifests[0].lossy} == {
        ("at", "Integer"): sum(int(np.float32(n)) != n for n in range(1_700_000_000_000, 1_700_004_000_000, 1000)),
        ("at", "Time"): 4000,
        ("price", "Decimal"): sum(1 for n in range(4000) if n % 3),
        ("x", "Integer"): 2000,
    }
    lost = tmp_path / "1/out" / manifests[0].files[2].file
    lost.unlink()
    repair.repair(str(tmp_path / "1/out"), Access())
    assert verify(str(tmp_path / "1/out"), Access(), every_record=True) == manifests[0]


def test_a_finished_data_set_that_is_reused_tells_it_again(tmp_path: Path) -> None:
    job = a_job(tmp_path, csv(tmp_path, "16777217\n", x="Int64"), "recordioProtobuf", output={"overwrite": "IfChanged"})
    _, result, _ = made(job)
    planned, _ = run_job(job)
    assert planned.reused
    assert planned.commit is not None
    assert planned.commit.warnings == result.warnings != []


def test_the_command_says_it_at_its_end(tmp_path: Path) -> None:
    stream = io.StringIO()
    run(a_job(tmp_path, csv(tmp_path, "16777217\n", x="Int64"), "recordioProtobuf"), access=Access(), workers=1, display=Display(stream))
    assert stream.getvalue().splitlines()[-1] == (
        "warning: column 'x': whole numbers of 1 record are not exact as float32, such as 16777217, stored as 16777216"
    )


def test_many_columns_are_told_in_a_few_lines(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(8)]
    source = csv(tmp_path, ",".join(["16777217"] * 8) + "\n", **dict.fromkeys(names, "Int64"))
    _, result, manifest = made(a_job(tmp_path, source, "recordioProtobuf"))
    assert len(manifest.lossy) == 8
    assert result.warnings[5:] == ["3 more columns have values that records hold only in part: see lossy in the manifest"]


# --- stored -------------------------------------------------------------------------------------------------------


def test_manifest_and_report_without_such_values_are_as_they_were_and_others_have_a_version(tmp_path: Path) -> None:
    _, _, plain = made(a_job(tmp_path / "a", csv(tmp_path, "1\n", x="Int64"), "recordioProtobuf"))
    assert b'"version":1' in plain.to_bytes()
    _, _, lossy = made(a_job(tmp_path / "b", csv(tmp_path, "16777217\n", x="Int64"), "recordioProtobuf"))
    assert b'"version":3' in lossy.to_bytes()
    [report] = (tmp_path / "b/out/_dataprep").glob("*/reports/*.json")
    assert canonical.dumps(ShardReport.model_validate_json(report.read_bytes()).document()["lossy"]) in report.read_bytes()
    with pytest.raises(FormatError, match="the manifest has the format version 7"):
        Manifest.model_validate({"version": 7})


def test_a_data_set_that_was_planned_without_the_types_of_its_input_is_extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    columns = {"t": pa.array([0], pa.timestamp("ms")), "d": decimals(str(DIGITS))}
    pq.write_table(pa.table(columns), tmp_path / "in/a.parquet")
    job = a_job(tmp_path, {"parquet": {"uris": [str(tmp_path / "in")]}}, "parquet", output={"overwrite": "Extend"})
    with monkeypatch.context() as then:
        then.setattr("dataprep_converter.readers.columnar.columns._was", lambda _: None)
        _, _, before = made(job)
    assert before.lossy == []
    pq.write_table(pa.table(columns), tmp_path / "in/b.parquet")
    _, _, after = made(job)
    assert after.files[0] == before.files[0]
    assert {(each.column, each.records) for each in after.lossy} == {("t", 1), ("d", 1)}


def test_shards_of_an_earlier_release_that_told_nothing_are_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(tmp_path, csv(tmp_path, "16777217\n16777219\n", x="Int64"), "recordioProtobuf", output={"shards": {"count": 2}})
    with monkeypatch.context() as then:
        then.setattr("dataprep_converter.pipeline.features.inexact", lambda *_: None)
        _, _, before = made(job)
    (tmp_path / "out" / before.files[0].file).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
