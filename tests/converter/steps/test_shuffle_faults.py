"""A shuffle in two rounds whose files are lost, whose workers are late, or whose input is bad."""

from pathlib import Path
from typing import Any

import pytest
from tests.converter.steps.shuffle_jobs import a_job, as_csv, plan_small_rounds
from tests.converter.steps.two_rounds import SourceBytes, contents, convert, divide, planned, run_in_one_round, run_in_two_rounds

from dataprep_api import names
from dataprep_converter.core.errors import BadData, InputChanged, OutputLost, StoreFull
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.shuffle import shuffle_file, task_records
from dataprep_converter.steps.conversion import convert_commit, shuffle
from dataprep_converter.stores import files

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_small_rounds(monkeypatch)


def spoil(file: Path, damage: str) -> None:
    """Removes or damages a file of the first round."""
    content = file.read_bytes()
    file.unlink()
    if damage == "damaged":
        file.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_file_that_is_lost_is_made_again_and_no_task_reads_the_source(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").mkdir()
    source = as_csv(tmp_path / "in")
    run_in_one_round(a_job(source, tmp_path / "one", output={"shards": {"count": 20}}), Access())
    job = a_job(source, tmp_path / "two", output={"shards": {"count": 20}})
    access = Access()
    plan = planned(job, access)
    divide(job, plan, access)
    spoil(tmp_path / "two" / names.shuffle_file(plan.head.run_id, 1), damage)
    read = SourceBytes(monkeypatch, tmp_path / "in")
    convert(job, plan, access)
    assert read.bytes <= (tmp_path / "in" / "a.csv").stat().st_size
    assert "made again" in caplog.text
    convert_commit.commit(job.spec, plan=plan, access=access)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_a_convert_task_without_space_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    divide(job, plan, Access())

    def full(*_: Any, **__: Any) -> None:
        raise StoreFull("$TMPDIR is full.")

    monkeypatch.setattr(task_records, "MappedTable", full)
    with pytest.raises(StoreFull):
        convert(job, plan, Access())


@pytest.mark.parametrize("cause", ["replaced", "finished"])
def test_a_late_task_does_not_read_the_source(tmp_path: Path, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    source = as_csv(tmp_path / "in")
    job = a_job(source, tmp_path / "out")
    plan = planned(job, Access())
    if cause == "finished":
        divide(job, plan, Access())
        convert(job, plan, Access())
        convert_commit.commit(job.spec, plan=plan, access=Access())
        report = tmp_path / "out" / names.report_file(plan.head.run_id, 0)
        report.unlink()
    else:
        planned(a_job(source, tmp_path / "out", shuffle={"seed": 2}, output={"overwrite": "IfChanged"}), Access())
    read = SourceBytes(monkeypatch, tmp_path / "in")
    with pytest.raises(OutputLost):
        convert(job, plan, Access())
    assert read.bytes == 0


def test_a_file_that_a_late_worker_replaces_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    run_in_one_round(a_job(as_csv(tmp_path), tmp_path / "one"), Access())
    read_range, replaced = shuffle_file.read_range, [True]

    def read(source: Any, *args: Any, **more: Any) -> Any:
        if replaced:
            replaced.clear()
            raise InputChanged(f"{source.uri} has been replaced since it was listed.", uri=source.uri)
        return read_range(source, *args, **more)

    monkeypatch.setattr(shuffle_file, "read_range", read)
    run_in_two_rounds(job, Access(), between=(tmp_path / "a.csv").unlink)
    assert contents(tmp_path / "out") == contents(tmp_path / "one")


def test_a_late_worker_does_not_replace_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    file = tmp_path / "out" / names.shuffle_file(plan.head.run_id, 0)
    stage = files.FileUpload.stage
    inode: list[int] = []

    def late(upload: Any) -> None:
        stage(upload)
        if not inode:
            inode.append(0)
            shuffle.shuffle_task(job.spec, 0, plan=plan, access=Access())
            inode[0] = file.stat().st_ino

    monkeypatch.setattr(files.FileUpload, "stage", late)
    assert shuffle.shuffle_task(job.spec, 0, plan=plan, access=Access()).bytes_out == 0
    assert file.stat().st_ino == inode[0]


def test_a_late_worker_of_the_first_round_does_not_read_its_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    job = a_job(as_csv(tmp_path / "in"), tmp_path / "out")
    plan = planned(job, Access())
    divide(job, plan, Access())
    convert(job, plan, Access())
    convert_commit.commit(job.spec, plan=plan, access=Access())
    read = SourceBytes(monkeypatch, tmp_path / "in")
    assert shuffle.shuffle_task(job.spec, 0, plan=plan, access=Access()).records_in == 0
    assert read.bytes == 0
    assert not (tmp_path / "out" / names.shuffle_file(plan.head.run_id, 0)).exists()


def test_another_run_in_the_folder_removes_the_files_of_the_first_round(tmp_path: Path) -> None:
    source = as_csv(tmp_path)
    first = a_job(source, tmp_path / "out")
    plan = planned(first, Access())
    divide(first, plan, Access())
    run_in_one_round(a_job(source, tmp_path / "out", shuffle={"seed": 2}, output={"overwrite": "IfChanged"}), Access())
    assert not (tmp_path / "out" / names.shuffle_file(plan.head.run_id, 0)).exists()


def test_a_bad_record_that_fails_the_job_fails_the_first_round(tmp_path: Path) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out", onBadRecord={"policy": "Fail"})
    with pytest.raises(BadData) as second:
        run_in_one_round(
            a_job(as_csv(tmp_path), tmp_path / "one", onBadRecord={"policy": "Fail"}, output={"shards": {"count": 1}}), Access()
        )
    plan = planned(job, Access())
    with pytest.raises(BadData, match="record 0: .*bad 0") as first:
        divide(job, plan, Access())
    assert str(first.value).partition(". ")[2] == str(second.value).partition(". ")[2]
    assert not (tmp_path / "out" / names.shuffle_file(plan.head.run_id, 0)).exists()
