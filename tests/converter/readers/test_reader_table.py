"""Tests MaxCompute tables as sources, with pyodps and a fake server: slices, columns, types and partitions.

test_table_sessions.py tests failures.
"""

import datetime as dt
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.readers.numbered_tables import ROWS, TYPES, T, a_source, counted, numbered, read, values
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, read_all, rows
from tests.converter.steps.by_workers import run_by_workers

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec, InputChanged, NotFound
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader
from dataprep_converter.readers.databases import table
from dataprep_converter.readers.databases.table import TableReader
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.steps.preflight import check_source
from storeservers.odps import FakeMaxCompute, rows_of
from workbench.example_inputs import iris


@pytest.fixture(autouse=True)
def fake(maxcompute: FakeMaxCompute) -> FakeMaxCompute:
    return maxcompute


class NamedTable:
    """A table that the contract uses like a file."""

    def __init__(self, fake: FakeMaxCompute, name: str) -> None:
        self._fake, self._name = fake, name

    def __str__(self) -> str:
        return f"odps://p/tables/{self._name}"

    def unlink(self) -> None:
        self._fake.drop(self._name)


@pytest.mark.usefixtures("small_slices")
class TableContract(ReaderContract):
    reader: ClassVar[type[Reader]] = TableReader
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def given(self, fake: FakeMaxCompute) -> None:
        self.fake = fake

    def a_source(self, folder: Path) -> Source:
        numbered(self.fake, 120, folder.name)
        return a_source(f"odps://p/tables/{folder.name}", **self.options)

    def an_empty_source(self, folder: Path) -> Source:
        numbered(self.fake, 0, folder.name)
        return a_source(f"odps://p/tables/{folder.name}", **self.options)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:  # noqa: ARG002 - a table lies in no folder
        return a_source("odps://p/tables/absent", **self.options), "odps://p/tables/absent"

    def change(self, folder: Path) -> Path:
        self.fake.fill(folder.name, counted(121))
        return cast("Path", NamedTable(self.fake, folder.name))

    def test_planning_again_finds_the_same(self, tmp_path: Path) -> None:  # noqa: ARG002 - see above
        # The two plans differ only in their sessions, which have the same rows.
        numbered(self.fake, 120)
        source = a_source(**self.options)
        (first, state), (again, other_state) = plan(TableReader, source), plan(TableReader, source)
        assert first.table.equals(again.table)
        assert state["schema"] == other_state["schema"]
        assert state["sessions"] != other_state["sessions"]


class TestSampled(TableContract):
    pass


class TestContent(TableContract):
    options: ClassVar[dict[str, Any]] = {"pin": "Content"}


# --- rows and columns ---------------------------------------------------------------------------------------------


def test_iris_has_150_records(fake: FakeMaxCompute, tmp_path: Path) -> None:
    names = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    cells = np.loadtxt(iris(tmp_path), delimiter=",", skiprows=1)
    flowers = pa.table({name: cells[:, number] for number, name in enumerate(names)} | {"label": cells[:, 4].astype(np.int64)})
    fake.make("pai_iris", dict.fromkeys(names, "double") | {"label": "bigint"}, flowers.schema)
    fake.fill("pai_iris", rows_of(flowers))
    found = job_of(a_source("odps://p/tables/pai_iris"), tmp_path / "out", features=[{"name": "features", "columns": names}])
    assert len(found) == 150
    assert [each["label"] for each in found] == [[0]] * 50 + [[1]] * 50 + [[2]] * 50
    assert found[0]["features"] == pytest.approx([5.1, 3.5, 1.4, 0.2])
    assert found[50]["features"] == pytest.approx([7.0, 3.2, 4.7, 1.4])
    assert found[149]["features"] == pytest.approx([5.9, 3.0, 5.1, 1.8])


@pytest.mark.slow
@pytest.mark.parametrize("count", [200_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_many_rows_are_read_by_four_workers_each_once(fake: FakeMaxCompute, tmp_path: Path, count: int) -> None:
    numbered(fake, count)
    fake.forget_sessions()
    output = {"format": "parquet", "shards": {"count": 4}, "statistics": "ClassCounts"}
    assert run_by_workers(a_job(a_source(), tmp_path / "out", output=output, workers={"parallelism": 4})) == 4
    parts = [pq.read_table(file) for file in sorted((tmp_path / "out").glob("*.parquet"))]
    assert [part.num_rows for part in parts] == [count // 4] * 4
    ids = np.concatenate([part["id"].to_numpy() for part in parts])
    assert np.array_equal(ids, np.arange(count))
    assert np.array_equal(np.concatenate([part["x"].to_numpy() for part in parts]), ids / 2)
    assert fake.sessions == 1
    assert len({start for start, count in fake.asked_ranges() if count > table.HEAD_ROWS}) >= 4


@pytest.mark.usefixtures("small_slices")
def test_slices_are_cut_by_rows_and_read_in_one_stream_each(fake: FakeMaxCompute) -> None:
    numbered(fake, 130)
    source = a_source()
    units, state = plan(TableReader, source)
    assert [(unit["row"], unit["records"], unit["size"]) for unit in units.table.to_pylist()] == [
        (0, 50, 800),
        (50, 50, 800),
        (100, 30, 480),
    ]
    fake.controls.log.clear()
    assert [row["id"] for row in read(source, units, state)] == list(range(130))
    assert fake.asked_ranges() == [(0, 50), (50, 50), (100, 30)]
    fake.controls.log.clear()
    assert [row["id"] for row in read(source, units, state, [80, 81, 120])] == [80, 81, 120]
    assert fake.asked_ranges() == [(75, 25), (100, 30)]


def test_rows_are_sliced_by_their_size(fake: FakeMaxCompute) -> None:
    wide = pa.table({"s": ["x" * 100_000] * 40})
    fake.make("t", {"s": "string"}, wide.schema)
    fake.fill("t", rows_of(wide))
    units, _ = plan(TableReader, a_source())
    assert '"block": 20' in units.unit(0).extra
    assert units.unit(0).size == pytest.approx(4_000_000, rel=0.01)


def test_columns_are_selected_in_their_order_or_excluded(fake: FakeMaxCompute) -> None:
    three = pa.table({"a": [1], "b": ["two"], "c": [3.0]})
    fake.make("t", {"a": "bigint", "b": "string", "c": "double"}, three.schema)
    fake.fill("t", rows_of(three))
    (row,) = values(a_source(selectedCols=["c", "a"]))
    assert list(row.items()) == [("c", 3.0), ("a", 1)]
    assert {query["columns"] for _, _, query in fake.controls.log if "columns" in query} == {"c,a"}
    assert values(a_source(excludedCols=["b"])) == [{"a": 1, "c": 3.0}]
    with pytest.raises(ValidationError, match="set selectedCols or excludedCols, not both"):
        a_source(selectedCols=["a"], excludedCols=["b"])
    with pytest.raises(BadSpec, match=rf"source\.table\.selectedCols: {T} has no column 'aa'\. Did you mean 'a'\? It has a, b, c\."):
        values(a_source(selectedCols=["aa"]))
    with pytest.raises(BadSpec, match=rf"source\.table\.excludedCols: {T} has no column 'label'\. It has a, b, c\."):
        values(a_source(excludedCols=["label"]))
    with pytest.raises(BadSpec, match=rf"source\.table\.excludedCols leaves no column of {T}\."):
        values(a_source(excludedCols=["a", "b", "c"]))


DEFAULTS = {"f": "0.5", "d": "2.5", "i": "-1", "l": "7", "b": "true", "s": "none"}


def test_a_null_has_its_default_or_makes_its_record_bad(fake: FakeMaxCompute) -> None:
    arrow: dict[str, pa.DataType] = {
        "f": pa.float32(), "d": pa.float64(), "i": pa.int32(), "l": pa.int64(), "b": pa.bool_(), "s": pa.string()
    }  # fmt: skip
    schema = pa.schema(list(arrow.items()))
    kinds = ["float", "double", "int", "bigint", "boolean", "string"]
    fake.make("t", dict(zip(schema.names, kinds, strict=True)), schema)
    good = {"f": 1.0, "d": 1.0, "i": 1, "l": 1, "b": False, "s": "one"}
    fake.fill("t", rows_of(pa.Table.from_pylist([good, dict.fromkeys(good), {**good, "l": None}], schema=schema)))
    assert values(a_source(recordDefaults=DEFAULTS)) == [
        good,
        {"f": 0.5, "d": 2.5, "i": -1, "l": 7, "b": True, "s": "none"},
        {**good, "l": 7},
    ]
    assert values(a_source()) == [good, dict.fromkeys(good), {**good, "l": None}]
    source = a_source(recordDefaults={name: text for name, text in DEFAULTS.items() if name != "l"})
    units, state = plan(TableReader, source, nulls="Bad")
    found = read_all(opened(TableReader, source, state, nulls="Bad"), units, iter([np.arange(3)]))
    assert faults(found) == {1: "column 'l' has no value and no default", 2: "column 'l' has no value and no default"}
    with pytest.raises(BadSpec, match=r"source\.table\.recordDefaults: the default 'x' of 'i' is not a int32"):
        values(a_source(recordDefaults={"i": "x"}))
    with pytest.raises(BadSpec, match=rf"source\.table\.recordDefaults: {T} has no column 'z'"):
        values(a_source(recordDefaults={"z": "1"}))


MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000)  # noqa: DTZ001 - Arrow takes a moment without a zone for UTC
EVERY_TYPE: list[tuple[str, pa.DataType, Any, Any]] = [
    ("tinyint", pa.int8(), -128, -128),
    ("smallint", pa.int16(), -32768, -32768),
    ("int", pa.int32(), 2**31 - 1, 2**31 - 1),
    ("bigint", pa.int64(), -(2**63) + 1, -(2**63) + 1),
    ("float", pa.float32(), 0.5, 0.5),
    ("double", pa.float64(), 0.1, 0.1),
    ("decimal(10,2)", pa.decimal128(10, 2), Decimal("12.50"), 12.5),
    ("string", pa.string(), "中文", "中文"),
    ("varchar(8)", pa.string(), "v", "v"),
    ("char(2)", pa.string(), "ab", "ab"),
    ("binary", pa.binary(), b"\x00\xff", b"\x00\xff"),
    ("boolean", pa.bool_(), True, True),
    ("date", pa.date32(), dt.date(1970, 1, 11), 10),
    ("datetime", pa.timestamp("ms"), MOMENT, 1_767_323_045_678),
    ("timestamp", pa.timestamp("ns"), MOMENT, 1_767_323_045_678_000_000),
    ("timestamp_ntz", pa.timestamp("ns"), MOMENT, 1_767_323_045_678_000_000),
    ("array<bigint>", pa.list_(pa.int64()), [1, 2, 3], [1, 2, 3]),
    ("array<string>", pa.list_(pa.string()), ["a", ""], ["a", ""]),
]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_every_type_has_its_value_whatever_the_zone_of_the_machine(
    fake: FakeMaxCompute, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    names = [f"c{number}" for number in range(len(EVERY_TYPE))]
    schema = pa.schema([(name, each[1]) for name, each in zip(names, EVERY_TYPE, strict=True)])
    whole = pa.Table.from_pylist([{name: each[2] for name, each in zip(names, EVERY_TYPE, strict=True)}] * 3, schema=schema)
    fake.make("t", {name: each[0] for name, each in zip(names, EVERY_TYPE, strict=True)}, schema)
    fake.fill("t", rows_of(whole))
    found = values(a_source())
    monkeypatch.undo()
    time.tzset()
    assert found == [{name: each[3] for name, each in zip(names, EVERY_TYPE, strict=True)}] * 3


def test_decimals_of_more_digits_than_float64_are_told_for_both_pins(fake: FakeMaxCompute) -> None:
    kinds: dict[str, pa.DataType] = {"d": pa.decimal128(20, 2), "x": pa.int64()}
    schema = pa.schema(list(kinds.items()))
    whole = pa.table({"d": pa.array([Decimal("1.50"), Decimal("12345678901234567.89"), None], kinds["d"]), "x": [1, 2, 3]}, schema=schema)
    fake.make("t", {"d": "decimal(20,2)", "x": "bigint"}, schema)
    fake.fill("t", rows_of(whole))
    for pin in ("Content", "Sampled"):
        found = batches(TableReader, a_source(pin=pin))
        assert [(lost.column, lost.samples.tolist(), list(lost.texts)) for batch in found for lost in batch.lost] == [
            ("d", [1], ["12345678901234567.89"])
        ]
        assert list(rows(found)[0]) == ["d", "x", "_sample"]


def test_a_struct_is_its_fields_and_a_map_is_json(fake: FakeMaxCompute) -> None:
    struct, pairs = pa.struct([("x", pa.int64()), ("y", pa.string())]), pa.map_(pa.string(), pa.int64())
    schema = pa.schema([pa.field("p", struct), pa.field("m", pairs)])
    fake.make("t", {"p": "struct<`x`:bigint,`y`:string>", "m": "map<string,bigint>"}, schema)
    fake.fill("t", rows_of(pa.Table.from_pylist([{"p": {"x": 1, "y": "one"}, "m": {"k": 1}}], schema=schema)))
    assert values(a_source(excludedCols=["m"])) == [{"p/x": 1, "p/y": "one"}]
    assert values(a_source()) == [{"p/x": 1, "p/y": "one", "m": '{"k":1}'}]


def test_a_column_that_cannot_be_read_may_be_excluded(fake: FakeMaxCompute) -> None:
    arrow: dict[str, pa.DataType] = {"a": pa.int64(), "j": pa.string(), "b": pa.int64()}
    schema = pa.schema(list(arrow.items()))
    fake.make("t", {"a": "bigint", "j": "json", "b": "bigint"}, schema)
    fake.fill("t", rows_of(pa.table({"a": [1], "j": ["{}"], "b": [2]}, schema=schema)))
    assert values(a_source(excludedCols=["j"])) == [{"a": 1, "b": 2}]
    assert values(a_source(selectedCols=["b", "a"])) == [{"a": 1, "b": 2}]
    with pytest.raises(
        BadSpec, match=rf"{T}: the column 'j' is JSON, which records can't contain\. Name it in source\.table\.excludedCols\."
    ):
        values(a_source())


# --- partitions ---------------------------------------------------------------------------------------------------


def partitioned(fake: FakeMaxCompute) -> None:
    fake.make("sales", TYPES, ROWS, keys=["pt", "region"])
    fake.fill("sales", counted(3), partition="pt=20260101,region=cn")
    fake.fill("sales", counted(2), partition="pt=20260102,region=cn")


def test_partitions_are_read_in_the_order_of_their_uris(fake: FakeMaxCompute) -> None:
    partitioned(fake)
    first, second = (f"odps://p/tables/sales/pt={day}/region=cn" for day in ("20260101", "20260102"))
    assert [row["id"] for row in values(a_source(second, first))] == [0, 1, 0, 1, 2]


@pytest.mark.parametrize(("uri", "error", "message"), [
    ("odps://p/tables/sales", BadSpec, "the table is partitioned by pt, region; name a partition: odps://p/tables/sales/pt=…/region=…"),
    ("odps://p/tables/sales/pt=20260101", BadSpec, "partitioned by pt, region; name a partition"),
    ("odps://p/tables/sales/pt=1/region=cn", NotFound, "odps://p/tables/sales/pt=1/region=cn does not exist: .*partition"),
    ("odps://p/tables/t/pt=1", BadSpec, "the table has no partitions; its rows are at odps://p/tables/t"),
], ids=["none", "half", "absent", "of a table without"])  # fmt: skip
def test_a_partition_that_cannot_be_read_is_named(fake: FakeMaxCompute, uri: str, error: type[Exception], message: str) -> None:
    partitioned(fake)
    numbered(fake, 1)
    with pytest.raises(error, match=message):
        check_source(Access(), uri)
    with pytest.raises(error, match=message):
        plan(TableReader, a_source(uri))


def test_tables_with_other_columns_are_refused(fake: FakeMaxCompute) -> None:
    numbered(fake, 1)
    fake.make("u", {"id": "bigint"}, pa.schema([("id", pa.int64())]))
    with pytest.raises(BadSpec, match=rf"odps://p/tables/u has different columns from {T}: id BIGINT, not id BIGINT, x DOUBLE"):
        plan(TableReader, a_source(T, "odps://p/tables/u"))


@pytest.mark.parametrize("uri", ["odps://p/t", "odps://p/tables/", "odps://p/tables/t/20260101", "oss://b/tables/t"])
def test_a_uri_that_names_no_table_is_refused(uri: str) -> None:
    with pytest.raises(ValidationError, match="uris"):
        a_source(uri)


# --- whole jobs ---------------------------------------------------------------------------------------------------


def a_job(source: Source, folder: Path, **spec: Any) -> DataPrepJob:
    written = {"source": source.model_dump(by_alias=True, exclude_none=True), **spec}
    written["output"] = {"uri": str(folder), **spec.get("output", {})}
    return parse_job(written, name="table")


def make_job(source: Source, folder: Path, **spec: Any) -> None:
    run_job(a_job(source, folder, **spec))


def job_of(source: Source, folder: Path, **spec: Any) -> list[dict[str, Any]]:
    make_job(source, folder, **spec)
    (file,) = folder.glob("*.tfrecords")
    return [records.parse_example(payload) for _, payload in records.read([file.read_bytes()])]


def test_a_table_of_a_join_may_be_in_maxcompute(fake: FakeMaxCompute, tmp_path: Path) -> None:
    numbered(fake, 3)
    (tmp_path / "b.csv").write_text("id,y\n1,10\n2,20\n0,0\n")
    tables = [
        {"name": "rows", "source": {"table": {"uris": [T]}}},
        {"name": "file", "source": {"csv": {"uris": [str(tmp_path / "b.csv")], "header": True}}},
    ]
    source = Source.model_validate({"join": {"keys": ["id"], "tables": tables}})
    assert job_of(source, tmp_path / "out") == [{"x": [number / 2], "y": [10 * number]} for number in range(3)]


def test_a_finished_data_set_is_reused_until_the_table_changes(fake: FakeMaxCompute, tmp_path: Path) -> None:
    numbered(fake, 30)
    first = job_of(a_source(), tmp_path / "out", output={"overwrite": "IfChanged"})
    (file,) = (tmp_path / "out").glob("*.tfrecords")
    written = file.stat().st_mtime_ns
    fake.end_sessions()
    assert job_of(a_source(), tmp_path / "out", output={"overwrite": "IfChanged"}) == first
    assert file.stat().st_mtime_ns == written
    fake.fill("t", counted(31))
    assert len(job_of(a_source(), tmp_path / "out", output={"overwrite": "IfChanged"})) == 31


def test_a_run_that_was_stopped_goes_on_after_its_session_has_ended(
    fake: FakeMaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(fake, 40)
    make_job(a_source(), tmp_path / "whole", output={"shards": {"count": 2}})
    real = TableReader.read
    calls: list[int] = []

    def dies(self: TableReader, units: UnitTable, samples: Iterator[Any]) -> Iterator[Any]:
        calls.append(1)
        # The planner reads some records too, to estimate sizes.
        if len(calls) == 3:
            raise InputChanged("a test stops it here")
        return real(self, units, samples)

    monkeypatch.setattr(TableReader, "read", dies)
    with pytest.raises(InputChanged, match="a test stops it here"):
        make_job(a_source(), tmp_path / "out", output={"shards": {"count": 2}})
    monkeypatch.undo()
    monkeypatch.setenv("ODPS_ENDPOINT", fake.endpoint)
    monkeypatch.setenv("ODPS_ACCESS_ID", fake.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", fake.secret)
    fake.forget_sessions()
    make_job(a_source(), tmp_path / "out", output={"shards": {"count": 2}})
    for file in (tmp_path / "whole").glob("*.tfrecords"):
        assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()


def test_tables_split_and_shuffle_like_any_source(fake: FakeMaxCompute, tmp_path: Path) -> None:
    numbered(fake, 500)
    splits = {"into": [{"name": "train", "fraction": 0.8}, {"name": "test", "fraction": 0.2}]}
    make_job(a_source(), tmp_path / "out", splits=splits, shuffle={"seed": 5}, output={"format": "parquet"})
    train, test = (pq.read_table(next((tmp_path / "out").glob(f"{name}*.parquet")))["id"].to_numpy() for name in ("train", "test"))
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(500))
    assert not np.all(np.diff(train) > 0)
