"""The policy for nulls, and data sets and jobs of earlier releases, which left out records with nulls."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.jobs import run_job, verified_run
from tests.builders.specs import parse_job
from tests.converter.steps.null_columns import COLUMNS, SKIP, a_job

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

_pq: Any = pq  # the module has no type stubs


def versions(source: dict[str, Any], **spec: Any) -> dict[str, int]:
    parts = run_id.versions(parse_job({"source": source, "output": {"uri": "out"}} | spec).spec)
    # The planner leaves out `int96` if the Parquet files have no INT96 times.
    return {name: version for name, version in parts.items() if name != "int96"}


PARQUET = {"parquet": {"uris": ["in"]}}


@pytest.mark.parametrize(
    ("source", "spec", "expected"),
    [
        (PARQUET, {}, {}),
        (PARQUET, {"nulls": "Keep"}, {}),
        (PARQUET, {"nulls": "Bad"}, {}),
        (PARQUET, SKIP, {"nulls": 2}),
        (PARQUET, {"onBadRecord": {"policy": "Quarantine"}, "nulls": "Keep"}, {"nulls": 2}),
        (PARQUET, SKIP | {"nulls": "Bad"}, {}),
        ({"text": {"uris": ["in"]}}, SKIP, {"textUnits": 2}),
        ({"text": {"uris": ["in"], "hivePartitions": "Infer"}}, SKIP, {"nulls": 2, "textUnits": 2}),
        ({"images": {"uris": ["in"], "check": "None"}}, SKIP, {}),
        ({"images": {"uris": ["in"], "check": "None"}}, SKIP | {"transforms": [{"map": {"callable": "a:b"}}]}, {"nulls": 2}),
    ],
    ids=str,
)
def test_only_jobs_that_left_nulls_out_have_the_part(source: dict[str, Any], spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert versions(source, **spec) == expected


def test_keep_is_the_default_and_only_bad_changes_the_run_id(tmp_path: Path) -> None:
    default, keep, bad = (
        run_id.run_id(a_job(tmp_path, "parquet", **spec).spec, inputs_sha256="") for spec in ({}, {"nulls": "Keep"}, {"nulls": "Bad"})
    )
    assert default == keep
    assert bad != default


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Makes the data set as releases did before `nulls` was added to `run_id.PARTS`."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


def test_a_job_that_left_nulls_out_keeps_them_now_and_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_before(a_job(tmp_path, "parquet", "in", **SKIP), monkeypatch)
    planned, _ = run_job(a_job(tmp_path, "parquet", "in", **SKIP))
    (told,) = planned.warnings
    assert told == (
        f"the data set of run {before.run_id}, which this job replaces, was made without the records that have nulls. "
        "Now these records are kept if the format has nulls; set nulls: Bad to leave them out as before"
    )
    assert (before.records_out, verify(str(tmp_path / "out"), Access()).records_out) == (4, 5)
    planned, _ = run_job(a_job(tmp_path, "parquet", "fn", **SKIP))
    assert planned.warnings == []


@pytest.mark.parametrize(("nulls", "records"), [("Keep", 5), ("Bad", 4)])
def test_a_job_that_has_decided_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nulls: str, records: int) -> None:
    made_before(a_job(tmp_path, "parquet", "in", **SKIP), monkeypatch)
    planned, _ = run_job(a_job(tmp_path, "parquet", "in", **SKIP, nulls=nulls))
    assert (planned.warnings, verify(str(tmp_path / "out"), Access()).records_out) == ([], records)


def test_a_data_set_without_its_nulls_is_repaired_and_extended_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(tmp_path, "parquet", "in", parquet={"uris": [str(tmp_path / "in")]}, output={"overwrite": "Extend"}, **SKIP)
    before = made_before(job, monkeypatch)
    (tmp_path / "out" / before.files[0].file).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
    _pq.write_table(pa.table(COLUMNS), tmp_path / "in" / "sequel.parquet")
    assert verified_run(job).records_out == 8


def test_a_lost_plan_without_nulls_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_before(a_job(tmp_path, "parquet", "in", **SKIP), monkeypatch)
    for lost in (tmp_path / "out" / before.files[0].file, tmp_path / "out/_dataprep" / before.run_id / "plan.json"):
        lost.unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
