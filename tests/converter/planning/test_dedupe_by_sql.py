"""An SQL engine finds the same duplicates as a single process: the plans have the same bytes, and errors have the same messages."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.duplicates import random_job
from tests.builders.specs import parse_job
from tests.builders.sql_engines import DuckDBEngine

from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning import dedupe_by_sql, digest_reader, kept_bitmaps, planned_inputs, planner
from dataprep_converter.readers.joins import part_reader
from dataprep_converter.sampling.units import Unit, UnitTable

SEEDS = 24


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divides even small sources into several parts, batches and ranges."""
    monkeypatch.setattr(part_reader, "PART_BYTES", 1)
    monkeypatch.setattr(planned_inputs, "_BATCH_RECORDS", 5)
    monkeypatch.setattr(kept_bitmaps, "RANGE_SAMPLES", 7)


def planned(spec: DataPrepJobSpec, engine: DuckDBEngine | None = None) -> tuple[bytes, Any] | str:
    """The plan's bytes and the codes of all samples, or the message of an error."""
    access = Access()
    access.sql_engine = engine
    try:
        with planner.make_plan(spec, access) as new:
            assert access.progress.read == access.progress.to_read
            return new.plan.head.to_bytes(), new.tables.codes
    except ConvertError as exc:
        return str(exc)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_plans_of_random_records_are_the_same(seed: int, tmp_path: Path) -> None:
    spec = parse_job(random_job(seed, tmp_path)).spec
    engine = DuckDBEngine(is_remote=seed % 2 == 1)
    assert planned(spec, engine) == planned(spec)
    assert not engine.views()
    assert not list(tmp_path.glob("out/_dataprep/*"))


def test_the_random_jobs_have_what_matters(tmp_path: Path) -> None:
    specs = [random_job(seed, tmp_path) for seed in range(SEEDS)]
    found = Counter[str]()
    for spec in specs:
        found["limit"] += "limit" in spec
        found["bad records"] += "csv" in spec["source"]
        found["groups"] += "groupBy" in spec.get("splits", {})
        found["classes"] += "stratifyBy" in spec.get("splits", {})
        found["all digits"] += "decimal" in spec["deduplicate"]["columns"]
    assert len(found) == 5
    assert min(found.values()) >= 2


def records(folder: Path, columns: dict[str, Any], **spec: Any) -> DataPrepJobSpec:
    """A job that leaves out the records with the same `a`."""
    if not (folder / "a.parquet").exists():
        pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=10)
    document: dict[str, Any] = {
        "source": {"parquet": {"uris": [str(folder / "a.parquet")]}},
        "deduplicate": {"columns": ["a"]},
        "output": {"uri": str(folder / "out")},
    }
    return parse_job(document | spec).spec


def test_the_first_of_equal_records_is_kept(tmp_path: Path) -> None:
    spec = records(tmp_path, {"a": np.arange(60) % 25})
    with planner.make_plan(spec, with_engine(DuckDBEngine())) as new:
        assert new.plan.codes is not None
        assert np.flatnonzero(new.plan.codes.block(0)).tolist() == list(range(25))
        assert list(new.plan.head.warnings) == ["35 of 60 records say the same as an earlier one and are left out"]


def with_engine(engine: DuckDBEngine) -> Access:
    access = Access()
    access.sql_engine = engine
    return access


def test_a_column_that_can_not_be_compared_has_the_message_of_one_process(tmp_path: Path) -> None:
    spec = records(tmp_path, {"a": [[number] * (number % 3) for number in range(40)], "b": np.arange(40)})
    engine = DuckDBEngine()
    assert planned(spec, engine) == planned(spec)
    assert str(planned(spec)).startswith("deduplicate: the column 'a' is ")
    assert not engine.views()


def test_of_several_errors_that_of_the_first_record_is_raised(tmp_path: Path) -> None:
    spec = records(tmp_path, {"a": np.arange(60)})
    with planner.make_plan(spec, Access()) as new:
        units = new.plan.units
    assert isinstance(units, UnitTable)
    gone = [
        Unit(**(unit_of(units, number) | {"uri": f"{tmp_path}/gone {number}"} if number >= 2 else unit_of(units, number)))
        for number in range(6)
    ]
    reader = digest_reader.DigestReader.of(
        spec.data, new.plan.head.reader_state, UnitTable.of(gone), ["a"], rules=Access().rules(), exact=[], limit=None
    )
    with pytest.raises(ConvertError, match="gone 2"):
        list(dedupe_by_sql.find_repeated(reader, DuckDBEngine(), Access(), folder=None))


def unit_of(units: UnitTable, number: int) -> dict[str, Any]:
    return vars(units.unit(number))


class KilledError(BaseException):
    """Simulates that the driver is killed."""


class Killed(DuckDBEngine):
    """An engine on other machines. Its driver is killed after all ranges have been written to files, so nothing removes these files."""

    def lay_down(self, *arguments: Any) -> list[tuple[Any, ...]]:
        """See `SqlEngine`."""
        super().lay_down(*arguments)
        raise KilledError


def test_a_killed_driver_leaves_files_that_the_next_one_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = records(tmp_path, {"a": np.arange(60) % 25})
    with monkeypatch.context() as then:
        then.setattr(dedupe_by_sql, "remove_folder", lambda *_: None)
        with pytest.raises(KilledError):
            planned(spec, Killed(is_remote=True))
    # Only the first four ranges have kept records, because all records from number 25 on are duplicates.
    assert len(list(tmp_path.glob("out/_dataprep/deduplication-*/kept-*.bits"))) == 4
    assert planned(spec, DuckDBEngine(is_remote=True)) == planned(spec)
    assert not list(tmp_path.glob("out/_dataprep/*"))


@pytest.mark.parametrize("other", [{"limit": 30}, {"deduplicate": {"columns": ["b"]}}, {"source": "x"}], ids=["limit", "columns", "inputs"])
def test_jobs_that_keep_other_records_have_other_folders(other: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe_by_sql, "remove_folder", lambda *_: None)
    if "source" in other:
        (tmp_path / "x").mkdir()
        pq.write_table(pa.table({"a": np.arange(10)}), tmp_path / "x" / "b.parquet")
        other = {"source": {"parquet": {"uris": [str(tmp_path / "x" / "b.parquet")]}}}
    for more in ({}, {"splits": {"into": [{"name": "all"}]}}, other):
        planned(records(tmp_path, {"a": np.arange(60) % 25, "b": np.arange(60)}, **more), DuckDBEngine(is_remote=True))
    assert len(list(tmp_path.glob("out/_dataprep/deduplication-*"))) == 2


class Losing(DuckDBEngine):
    """An engine that loses a file."""

    def lay_down(self, *arguments: Any) -> list[tuple[Any, ...]]:
        """See `SqlEngine`."""
        return super().lay_down(*arguments)[1:]


def test_lost_files_are_noticed(tmp_path: Path) -> None:
    message = "The engine lost rows of the deduplication: 21 of 25 rows are in 3 files of 3 ranges. Run the job again."
    assert planned(records(tmp_path, {"a": np.arange(60) % 25}), Losing()) == message


def test_an_error_of_the_store_is_that_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Iterator[pa.RecordBatch]:
        raise ConvertError("The disk is full.")
        yield

    monkeypatch.setattr(kept_bitmaps.BitmapWriter, "_write", full)
    assert planned(records(tmp_path, {"a": np.arange(60) % 25}), DuckDBEngine()) == "The disk is full."


def test_few_parts_are_read_however_large_the_source_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = records(tmp_path, {"a": np.arange(60) % 25})
    for most, parts in ((100, 6), (4, 3), (1, 1)):
        monkeypatch.setattr(digest_reader, "MOST_PARTS", most)
        engine = DuckDBEngine()
        assert planned(spec, engine) == planned(spec)
        assert engine.parts_read == parts


class Choosy(DuckDBEngine):
    """An engine that is used only for sources of more than 1,000 bytes."""

    def helps(self, size: int) -> bool:
        """See `SqlEngine`."""
        return size > 1000


def units(records_of_each: int, *, size: int = 0) -> UnitTable:
    return UnitTable.of(Unit(root=0, path="a", uri="/a", records=records_of_each, size=size, pin="p") for _ in range(2))


def test_an_engine_helps_if_the_source_or_its_digests_are_large(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert not dedupe_by_sql.helps(Choosy(), units(10, size=500), has_local_files=False)
    assert "deduplicate: the source has 0 MiB, so this process finds the duplicates." in caplog.text
    assert dedupe_by_sql.helps(Choosy(), units(10, size=501), has_local_files=False)
    assert dedupe_by_sql.helps(Choosy(), units(32), has_local_files=False)


def test_other_machines_do_not_read_files_of_this_one(caplog: pytest.LogCaptureFixture) -> None:
    assert dedupe_by_sql.helps(DuckDBEngine(), units(1), has_local_files=True)
    assert not dedupe_by_sql.helps(DuckDBEngine(is_remote=True), units(1), has_local_files=True)
    assert "deduplicate: this process finds the duplicates, because the records are in files on this machine." in caplog.text


def test_tasks_do_not_get_a_table_of_very_many_units(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(dedupe_by_sql, "MOST_UNIT_BYTES", 100)
    assert not dedupe_by_sql.helps(DuckDBEngine(), units(1), has_local_files=False)
    assert "because the table of 2 units is too large for each task." in caplog.text
