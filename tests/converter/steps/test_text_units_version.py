"""Earlier releases divided large text files into units in a different way.

So jobs with such files get a different run id, and old data sets remain unchanged.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job, verified_run
from tests.builders.specs import parse_job

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.planner import NewPlan, make_plan
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text_scan import files
from dataprep_converter.steps.conversion import convert_plan
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

CELL = 256
VERSIONS = run_id.versions


@pytest.fixture(autouse=True)
def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 64)
    monkeypatch.setattr(files, "CELL_BYTES", CELL)


def put(folder: Path, name: str, *, rows: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("".join(f'{row},"{name}\n{row}"\n' for row in range(rows)))


def a_job(folder: Path, **output: Any) -> DataPrepJob:
    columns = [{"name": "n", "type": "Int64"}, {"name": "t", "type": "String"}]
    places = {"uri": str(folder / "out"), "format": "jsonl", "shards": {"count": 2}, "overwrite": "IfChanged"} | output
    return parse_job({"source": {"csv": {"uris": [str(folder / "in")], "columns": columns}}, "output": places, "shuffle": {"seed": 3}})


def without_text_units(spec: DataPrepJobSpec) -> dict[str, int]:
    return {name: version for name, version in VERSIONS(spec).items() if name != "textUnits"}


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Makes the data set as releases did before `textUnits` was added to `run_id.PARTS`."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {"shuffle": 2})
        return verified_run(job)


def contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted((folder / "out").glob("*.jsonl"))]


@pytest.mark.parametrize(("rows", "is_large"), [(10, False), (100, True)])
def test_only_a_job_that_reads_a_large_file_has_another_run_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, is_large: bool
) -> None:
    put(tmp_path, "a", rows=rows)
    assert ((tmp_path / "in/a").stat().st_size > CELL) == is_large
    before, written = made_before(a_job(tmp_path), monkeypatch), contents(tmp_path)
    planned, _ = run_job(a_job(tmp_path))
    after = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert planned.reused != is_large
    assert (after.run_id == before.run_id) != is_large
    assert after.parts == {"shuffle": 2} | ({"textUnits": 2} if is_large else {})
    assert contents(tmp_path) == written


@pytest.mark.parametrize("lost", [None, "plan.json", "manifest.json"])
@pytest.mark.parametrize("is_before", [True, False])
def test_a_data_set_is_repaired_with_its_bytes(is_before: bool, lost: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", rows=100)
    job = a_job(tmp_path)
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    (tmp_path / "out" / before.files[0].file).unlink()
    if lost is not None:
        (tmp_path / "out/_dataprep" / before.run_id / lost).unlink()
    repair.repair(str(tmp_path / "out"), Access(), job=job)
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before


@pytest.mark.parametrize("is_before", [True, False])
def test_a_data_set_without_its_plan_and_its_manifest_is_repaired(is_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", rows=100)
    job = a_job(tmp_path)
    job = job.model_copy(
        update={"spec": job.spec.model_copy(update={"source": Source.model_validate({"csv": {"uris": [str(tmp_path / "in")]}})})}
    )
    with monkeypatch.context() as then:
        if is_before:
            then.setattr(run_id, "versions", without_text_units)
        before = verified_run(job)
    folder = tmp_path / "out/_dataprep" / before.run_id
    for name in ("plan.json", "manifest.json"):
        (folder / name).write_text("{")
    repair.repair(str(tmp_path / "out"), Access(), job=job)
    assert verify(str(tmp_path / "out"), Access(), every_record=True).files == before.files


@pytest.mark.parametrize("rows", [10, 100])
@pytest.mark.parametrize("is_before", [True, False])
def test_a_data_set_is_extended_by_its_own_rule(is_before: bool, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", rows=rows)
    job = a_job(tmp_path, overwrite="Extend")
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    put(tmp_path, "b", rows=90)
    run_job(job)
    after = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert (after.parts, after.records_out) == (before.parts, rows + 90)


def test_an_unfinished_run_of_before_is_finished_by_its_own_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", rows=100)
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {"shuffle": 2})
        before = run_plan_step(a_job(tmp_path), Access()).plan.head.run_id
    assert verified_run(a_job(tmp_path, overwrite="Never")).run_id == before


def test_the_source_of_an_unfinished_run_is_read_once_by_each_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", rows=100)
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {"shuffle": 2})
        before = run_plan_step(a_job(tmp_path), Access()).plan.head.run_id
    plans: list[Mapping[str, int] | None] = []

    def noted(*arguments: Any, parts: Mapping[str, int] | None = None) -> NewPlan:
        plans.append(parts)
        return make_plan(*arguments, parts=parts)

    monkeypatch.setattr(convert_plan, "make_plan", noted)
    access = Access()
    assert run_plan_step(a_job(tmp_path), access).plan.head.run_id == before
    assert plans == [None, {"shuffle": 2}]
    assert access.parts == {"shuffle": 2}


def test_an_unfinished_run_of_other_inputs_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", rows=100)
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {"shuffle": 2})
        before = run_plan_step(a_job(tmp_path), Access()).plan.head.run_id
    (tmp_path / "in/a").write_text((tmp_path / "in/a").read_text().replace("a", "b"))
    after = verified_run(a_job(tmp_path))
    assert (after.run_id == before, after.parts) == (False, {"shuffle": 2, "textUnits": 2})


def test_an_unfinished_run_whose_rules_refuse_the_inputs_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("".join(f"{row}\n" for row in range(100)))
    spec = {
        "source": {"csv": {"uris": [str(tmp_path / "in")]}},
        "features": [{"name": "0", "dtype": "float32"}],
        "output": {"uri": str(tmp_path / "out"), "format": "jsonl", "overwrite": "IfChanged"},
        "onBadRecord": {"policy": "Skip"},
    }
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        before = run_plan_step(parse_job(spec), Access()).plan.head.run_id
    (tmp_path / "in/a").write_text((tmp_path / "in/a").read_text().replace("77", "oo"))
    after = verified_run(parse_job(spec))
    assert (after.run_id == before, after.records_out) == (False, 99)
