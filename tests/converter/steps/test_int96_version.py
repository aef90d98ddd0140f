"""Earlier releases read INT96 times in nanoseconds.

So jobs with INT96 columns get a different run id, and old data sets remain unchanged.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.images import an_image
from tests.builders.int96 import FAR, write_int96
from tests.builders.jobs import run_job, verified_run
from tests.builders.specs import parse_job

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

WRAPPED = (FAR * 1000 + 2**63) % 2**64 - 2**63
"""What FAR becomes if it is read in nanoseconds: because of an overflow, a time in 1816."""


def put(folder: Path, *times: int, name: str = "a") -> Path:
    columns = {"n": range(len(times)), "t": pa.array(times, pa.timestamp("us"))}
    return write_int96(folder / "in" / f"{name}.parquet", columns)


def a_job(folder: Path, *, format_: str = "jsonl", out: str = "out", source: Any = None, **spec: Any) -> DataPrepJob:
    output = {"uri": str(folder / out), "format": format_, "shards": {"count": 1}, "overwrite": "IfChanged"} | spec.pop("output", {})
    return parse_job({"source": source or {"parquet": {"uris": [str(folder / "in")]}}, "output": output} | spec)


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Makes the data set as releases did before `int96` was added to `run_id.PARTS`."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


def times_in(folder: Path) -> list[int]:
    lines = "".join(file.read_text() for file in sorted(folder.glob("*.jsonl"))).splitlines()
    return [json.loads(line)["t"] for line in lines]


def test_a_far_time_keeps_its_type_or_is_a_number_of_microseconds(tmp_path: Path) -> None:
    put(tmp_path, 1, FAR)
    assert verified_run(a_job(tmp_path)).parts == {"int96": 2}
    assert times_in(tmp_path / "out") == [1, FAR]
    assert verified_run(a_job(tmp_path, format_="parquet", out="kept")).parts == {"int96": 2, "types": 2}
    (file,) = (tmp_path / "kept").glob("*.parquet")
    assert pq.read_table(file)["t"].equals(pa.chunked_array([pa.array([1, FAR], pa.timestamp("us"))]))


def test_only_a_job_that_reads_such_a_column_has_another_run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 1, FAR)
    others = a_job(tmp_path, out="others", source={"parquet": {"uris": [str(tmp_path / "in")], "columns": ["n"]}})
    before = made_before(others, monkeypatch)
    planned, _ = run_job(others)
    assert (planned.reused, before.parts) == (True, {})
    before = made_before(a_job(tmp_path), monkeypatch)
    assert times_in(tmp_path / "out") == [1000, WRAPPED]
    planned, _ = run_job(a_job(tmp_path))
    (warning,) = [warning for warning in planned.warnings if "replaces" in warning]
    assert warning == (
        f"if the data set of run {before.run_id}, which this job replaces, has times of INT96, they are in nanoseconds, and those before "
        "1677-09-21 or after 2262-04-11 are wrong. Now they are in microseconds"
    )
    after = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert (planned.reused, after.parts, after.run_id == before.run_id) == (False, {"int96": 2}, False)
    assert times_in(tmp_path / "out") == [1, FAR]


@pytest.mark.parametrize("lost", [None, "plan.json", "manifest.json"])
@pytest.mark.parametrize("is_before", [True, False])
def test_a_data_set_is_repaired_with_its_bytes(is_before: bool, lost: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 1, FAR)
    job = a_job(tmp_path)
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    (tmp_path / "out" / before.files[0].file).unlink()
    if lost is not None:
        (tmp_path / "out/_dataprep" / before.run_id / lost).unlink()
    repair.repair(str(tmp_path / "out"), Access(), job=job)
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
    assert times_in(tmp_path / "out") == ([1000, WRAPPED] if is_before else [1, FAR])


@pytest.mark.parametrize("is_before", [True, False])
def test_a_data_set_is_extended_by_its_own_rule(is_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 1)
    job = a_job(tmp_path, output={"overwrite": "Extend"})
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    put(tmp_path, 2, FAR, name="b")
    planned, _ = run_job(job)
    warnings = [warning for warning in planned.warnings if "INT96" in warning]
    assert warnings == [
        "the column 't' has times of INT96, which this data set has in nanoseconds: times before 1677-09-21 or after 2262-04-11 are wrong. "
        "Make the data set again (overwrite: Always) to have them in microseconds"
        if is_before
        else "source.parquet: the column 't' has times of the old type INT96, which are read in microseconds; digits below a microsecond are cut off"
    ]
    after = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert (after.parts, after.records_out) == (before.parts, 3)
    assert times_in(tmp_path / "out") == ([1000, 2000, WRAPPED] if is_before else [1, 2, FAR])
    for file in (tmp_path / "out").glob("*.jsonl"):
        file.unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == after


def test_an_unfinished_run_of_before_is_finished_by_its_own_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 1, FAR)
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        before = run_plan_step(a_job(tmp_path), Access()).plan.head.run_id
    assert verified_run(a_job(tmp_path)).run_id == before
    assert times_in(tmp_path / "out") == [1000, WRAPPED]


def a_join(folder: Path) -> dict[str, Any]:
    put(folder, FAR, 1)
    pq.write_table(pa.table({"n": [0, 1], "y": [5, 6]}), folder / "b.parquet")
    uris = {"a": str(folder / "in/a.parquet"), "b": str(folder / "b.parquet")}
    return {"join": {"keys": ["n"], "tables": [{"name": name, "source": {"parquet": {"uris": [uri]}}} for name, uri in uris.items()]}}


@pytest.mark.parametrize("is_before", [True, False])
def test_a_join_has_the_times_of_its_own_rule(is_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(tmp_path, source=a_join(tmp_path))
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    assert before.parts == ({} if is_before else {"int96": 2})
    (tmp_path / "out" / before.files[0].file).unlink()
    (tmp_path / "out" / names.plan_file(before.run_id)).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
    assert times_in(tmp_path / "out") == ([WRAPPED, 1000] if is_before else [FAR, 1])


@pytest.mark.parametrize("is_before", [True, False])
def test_a_list_of_images_has_the_times_of_its_own_rule(is_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/1.jpg").write_bytes(an_image("JPEG"))
    write_int96(tmp_path / "images.parquet", {"path": ["1.jpg"], "t": pa.array([FAR], pa.timestamp("us"))})
    listed = {"uri": str(tmp_path / "images.parquet"), "root": str(tmp_path / "images"), "pathColumn": "path", "columns": ["t"]}
    job = a_job(tmp_path, source={"images": {"list": listed, "labelFrom": "None"}}, features=[{"name": "t"}])
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    assert before.parts == ({} if is_before else {"inference": 2, "int96": 2})
    (tmp_path / "out" / names.plan_file(before.run_id)).unlink()
    (tmp_path / "out" / before.files[0].file).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
    assert times_in(tmp_path / "out") == [WRAPPED if is_before else FAR]
