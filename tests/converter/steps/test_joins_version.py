"""Earlier releases divided the result of a join into different units if the join fitted into memory and had large records with nulls.

So a job with such a join gets a different run id, and old data sets remain unchanged.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.jobs import run_job, verified_run
from tests.builders.joins import a_table
from tests.builders.specs import parse_job
from tests.builders.sql_engines import DuckDBEngine

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.planner import make_plan
from dataprep_converter.readers.joins import join, joined_tables
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

ROWS = 200


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_tables, "_FIRST_RECORDS", 32)
    monkeypatch.setattr(joined_tables, "PIECE_RECORDS", 64)
    monkeypatch.setattr(joined_tables, "_PIECE_BYTES", 2 << 10)
    monkeypatch.setattr(join, "UNIT_RECORDS", 1)


def a_job(folder: Path, *, wide: bool = True, nulls: bool = True, sequences: bool = False, **output: Any) -> DataPrepJob:
    """A job that joins two tables. A wide record has 136 bytes. Only the first rows have nulls."""
    (folder / "in").mkdir(exist_ok=True)
    numbers = np.arange(ROWS)
    columns = {f"c{place}": pa.array(numbers + place, mask=nulls & (numbers < 3)) for place in range(15 if wide else 1)}
    left = a_table(folder / "in", "left", pa.table({"id": numbers, **columns}))
    right = a_table(folder / "in", "right", pa.table({"id": numbers[::-1], "x": numbers}), **({"orderBy": ["x"]} if sequences else {}))
    places = {"uri": str(folder / "out"), "format": "parquet", "shards": {"count": 2}, "overwrite": "IfChanged"} | output
    return parse_job({"source": {"join": {"keys": ["id"], "tables": [left, right]}}, "output": places})


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Runs the job as releases did before `joins` was added to `run_id.PARTS`. Returns the manifest."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


def contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted((folder / "out").glob("*.parquet"))]


def units(job: DataPrepJob, **changes: Any) -> list[int]:
    """Plans the job, and returns the lengths of the units."""
    access = Access()
    access.sql_engine = changes.get("engine")
    with make_plan(job.spec, access, parts=changes.get("parts")) as new:
        lengths: list[Any] = new.plan.units.table["records"].to_pylist()
    return lengths


@pytest.mark.parametrize(
    ("shape", "is_used"),
    [({}, True), ({"nulls": False}, False), ({"wide": False}, False), ({"sequences": True, "format": "tfrecord"}, False)],
    ids=["wide, with nulls", "wide", "with nulls", "sequences"],
)
def test_only_a_job_that_joins_large_records_with_nulls_has_another_run_id(
    shape: dict[str, Any], is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, written = made_before(a_job(tmp_path, **shape), monkeypatch), contents(tmp_path)
    planned, _ = run_job(a_job(tmp_path, **shape))
    after = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert planned.reused != is_used
    assert (after.run_id == before.run_id) != is_used
    assert after.parts.get("joins") == (2 if is_used else None)
    assert contents(tmp_path) == written


def test_a_join_in_memory_has_the_units_of_a_join_out_of_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(tmp_path)
    in_memory, before = units(job), units(job, parts={})
    by_engine = units(job, engine=DuckDBEngine())
    followed = units(job, parts={}, engine=DuckDBEngine())
    monkeypatch.setattr(joined_tables, "_MOST", 0)
    assert in_memory == units(job) == by_engine
    assert before == followed
    assert before != in_memory
    assert sum(before) == sum(in_memory) == ROWS


def test_the_run_id_does_not_depend_on_the_way_to_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(tmp_path)
    first = run_plan_step(job, Access()).plan.head
    monkeypatch.setattr(joined_tables, "_MOST", 0)
    second = run_plan_step(job, Access()).plan.head
    assert (first.run_id, first.parts) == (second.run_id, second.parts)
    assert first.parts["joins"] == 2


@pytest.mark.parametrize("lost", [None, "plan.json", "manifest.json"])
@pytest.mark.parametrize("is_before", [True, False])
def test_a_data_set_is_repaired_with_its_bytes(is_before: bool, lost: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(tmp_path)
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    (tmp_path / "out" / before.files[0].file).unlink()
    if lost is not None:
        (tmp_path / "out/_dataprep" / before.run_id / lost).unlink()
    repair.repair(str(tmp_path / "out"), Access(), job=job)
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before


def test_an_unfinished_run_of_before_is_finished_by_its_own_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        before = run_plan_step(a_job(tmp_path), Access()).plan.head.run_id
    assert verified_run(a_job(tmp_path, overwrite="Never")).run_id == before
