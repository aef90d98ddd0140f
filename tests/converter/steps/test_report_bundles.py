"""Bundles of reports only save requests. Whatever they contain, the data set is the same."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.builders.digits import EIGHT, digits_job
from tests.builders.jobs import run_job

from dataprep_api.dataset.messages import BadRecord
from dataprep_api.dataset.plan import bundles, shards
from dataprep_api.dataset.report import ShardReport
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, Missing, NotWhole
from dataprep_converter.dataset.listing import is_untouched, load_manifest
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_reports import StoredReports
from dataprep_converter.inputs.access import Access
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps import plan_step, remove
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.tools.verification import verify


@pytest.fixture(scope="module")
def made(few: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataPrepJob, Plan, Path]:
    """A job whose shards are all made, the job's plan, and a copy of the output folder."""
    folder = tmp_path_factory.mktemp("made")
    job = digits_job(few, folder / "out", output=EIGHT, onBadRecord={"policy": "Skip", "maxCount": 0})
    plan = plan_step.run_plan_step(job, Access()).plan
    work(job, plan)
    return job, plan, Path(shutil.copytree(folder / "out", folder / "copy"))


@pytest.fixture
def converted(made: tuple[DataPrepJob, Plan, Path]) -> tuple[DataPrepJob, Plan, RunFolder]:
    """The job, its plan and the folder of its run, without the changes of the tests before."""
    job, plan, copy = made
    shutil.rmtree(job.spec.output.uri)
    shutil.copytree(copy, job.spec.output.uri)
    return job, plan, OutputFolder(job.spec.output.uri, Access()).of_run(plan.head.run_id)


def work(job: DataPrepJob, plan: Plan) -> None:
    convert_work.work(job.spec, plan=plan, shards=list(shards(plan.head)), access=Access(), attempt="a", watch=lambda _: None)


def commit(job: DataPrepJob, plan: Plan) -> str:
    return convert_commit.commit(job.spec, plan=plan, access=Access()).manifest_sha256


def own(folder: RunFolder, number: int) -> Path:
    return Path(folder.uri, "_dataprep", folder.run_id, f"reports/{number:08d}.json")


def stored_bundles(folder: RunFolder) -> list[Path]:
    return sorted(Path(folder.uri, "_dataprep", folder.run_id, "reports").glob("*.jsonl"))


def test_a_bundle_has_the_bytes_of_the_reports(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    _, plan, folder = converted
    ranges = list(bundles(plan.head))
    assert ranges
    assert [path.read_bytes() for path in stored_bundles(folder)] == [
        b"".join(own(folder, number).read_bytes() for number in numbers) for numbers in ranges
    ]


def test_the_reports_of_a_bundle_are_read_from_it(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    _, plan, folder = converted
    reports = StoredReports.of_plan(folder, plan)
    assert list(reports) == [folder.report(number) for number in range(plan.head.shards)]
    assert reports.bundled == sum(map(len, bundles(plan.head)))


def test_reports_can_be_read_any_number_of_times(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    _, plan, folder = converted
    reports = StoredReports.of_plan(folder, plan)
    first, bundled = list(reports), reports.bundled
    assert list(reports) == first
    assert reports.bundled == bundled > 0


@pytest.mark.parametrize("name", ["1.json", "00000001.json.json", "x.json", "from-00000001.json", "99999999.json"])
def test_other_files_beside_the_reports_change_nothing(converted: tuple[DataPrepJob, Plan, RunFolder], name: str) -> None:
    _, plan, folder = converted
    expected = list(StoredReports.of_plan(folder, plan))
    own(folder, 0).with_name(name).write_bytes(b"{}")
    assert list(StoredReports.of_plan(folder, plan)) == expected


def test_a_shard_without_its_own_report_is_missing(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    """If the commit step accepted the missing report, it would finish the data set, and only `verify` would find the fault."""
    job, plan, folder = converted
    report = folder.report(next(bundles(plan.head)).start + 1)
    assert report is not None
    own(folder, report.number).unlink()
    with pytest.raises(Missing, match=rf"^1 of {plan.head.shards} shards have no report: {report.file}\.$"):
        commit(job, plan)
    work(job, plan)
    commit(job, plan)
    verify(folder.uri, Access())


def test_a_finished_data_set_without_a_report_is_not_reused(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    job, plan, folder = converted
    commit(job, plan)
    manifest = load_manifest(folder.uri, Access())
    assert is_untouched(manifest, folder)
    own(folder, next(bundles(plan.head)).start).unlink()
    assert not is_untouched(manifest, folder)
    run_job(
        job.model_copy(
            update={"spec": job.spec.model_copy(update={"output": job.spec.output.model_copy(update={"overwrite": "IfChanged"})})}
        )
    )
    verify(folder.uri, Access())


def test_a_small_job_does_not_list_its_reports(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = digits_job(few, tmp_path / "out", output=EIGHT | {"shards": {"count": 2}})
    plan = plan_step.run_plan_step(job, Access()).plan
    work(job, plan)
    monkeypatch.delattr(RunFolder, "existing_reports")
    commit(job, plan)


@pytest.mark.parametrize("content", [None, b"", b"{}\n", b"\xff\x00"])
def test_a_missing_or_damaged_bundle_changes_nothing(converted: tuple[DataPrepJob, Plan, RunFolder], content: bytes | None) -> None:
    job, plan, folder = converted
    expected = commit(job, plan)
    for bundle in stored_bundles(folder):
        if content is None:
            bundle.unlink()
        else:
            bundle.write_bytes(content)
    assert commit(job, plan) == expected


def test_a_changed_report_in_a_bundle_does_not_count(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    job, plan, folder = converted
    expected = commit(job, plan)
    bundle = stored_bundles(folder)[0]
    bundle.write_bytes(bundle.read_bytes().replace(b'"recordsOut":', b'"recordsOut":9'))
    assert commit(job, plan) == expected


def test_a_bundle_that_is_older_than_a_shard_changes_nothing(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    job, plan, folder = converted
    expected = commit(job, plan)
    older = stored_bundles(folder)[0].read_bytes()
    number = next(bundles(plan.head)).start
    report = folder.report(number)
    assert report is not None
    own(folder, number).unlink()
    Path(folder.uri, report.file).unlink()
    work(job, plan)
    assert stored_bundles(folder)[0].read_bytes() != older
    stored_bundles(folder)[0].write_bytes(older)
    again = folder.report(number)
    assert again is not None
    assert again.pin != report.pin
    assert commit(job, plan) == expected


def with_bad_record(report: ShardReport) -> dict[str, Any]:
    """Returns the fields with which a report states that one record was bad."""
    example = BadRecord(uri="in", row=3, reason="broken")
    return {"bad": 1, "records_out": report.records_out - 1, "bad_examples": [example]}


def put_in_bundle(folder: RunFolder, report: ShardReport, update: dict[str, Any]) -> None:
    """Replaces the report in its bundle with an older report that has these fields."""
    path = stored_bundles(folder)[0]
    older = report.model_copy(update=update)
    path.write_bytes(path.read_bytes().replace(report.to_bytes(), older.to_bytes()))


@pytest.mark.parametrize("fault", ["bad records", "numbers"])
def test_a_fault_that_only_a_bundle_has_fails_no_commit(converted: tuple[DataPrepJob, Plan, RunFolder], fault: str) -> None:
    job, plan, folder = converted
    expected = commit(job, plan)
    report = folder.report(next(bundles(plan.head)).start + 2)
    assert report is not None
    update = with_bad_record(report) if fault == "bad records" else {"records_in": report.records_in + 1}
    put_in_bundle(folder, report, update | {"pin": "older"})
    assert commit(job, plan) == expected


@pytest.mark.parametrize("fault", ["bad records", "numbers"])
def test_a_fault_that_a_bundle_hides_fails_the_commit(converted: tuple[DataPrepJob, Plan, RunFolder], fault: str) -> None:
    job, plan, folder = converted
    report = folder.report(next(bundles(plan.head)).start + 2)
    assert report is not None
    put_in_bundle(folder, report, {"pin": "older"})
    update = with_bad_record(report) if fault == "bad records" else {"records_in": report.records_in + 1}
    own(folder, report.number).write_bytes(report.model_copy(update=update).to_bytes())
    error, text = (BadData, "the first: in, record 3: broken") if fault == "bad records" else (NotWhole, "records, but")
    with pytest.raises(error, match=text):
        commit(job, plan)


def test_a_shard_that_differs_from_its_own_report_is_named(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    job, plan, folder = converted
    report = folder.report(next(bundles(plan.head)).start)
    assert report is not None
    path = Path(folder.uri, report.file)
    path.write_bytes(bytes(len(path.read_bytes())))
    with pytest.raises(NotWhole, match=rf"1 file was changed after it was written: {report.file}\.$"):
        commit(job, plan)


def test_a_finished_task_writes_a_missing_bundle_again(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    job, plan, folder = converted
    before = {path.name: path.read_bytes() for path in stored_bundles(folder)}
    for bundle in stored_bundles(folder):
        bundle.unlink()
    work(job, plan)
    assert {path.name: path.read_bytes() for path in stored_bundles(folder)} == before


def test_bundles_are_removed_with_the_data_set(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    job, plan, folder = converted
    commit(job, plan)
    remove.remove(folder.uri, Access(), runs=[folder.run_id])
    assert [path for path in Path(folder.uri).rglob("*") if path.is_file()] == []


def test_the_own_report_of_a_shard_is_an_object_a_line(converted: tuple[DataPrepJob, Plan, RunFolder]) -> None:
    _, _, folder = converted
    lines = stored_bundles(folder)[0].read_bytes().splitlines()
    assert [json.loads(line)["number"] for line in lines] == list(range(len(lines)))
