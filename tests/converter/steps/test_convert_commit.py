"""The commit step of a conversion can be repeated. It refuses incomplete or wrong data sets before any file is visible."""

import json
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.builders.digits import EIGHT, digits_job

from dataprep_api.dataset.plan import shards
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import Missing, NotWhole, OutputLost
from dataprep_converter.dataset import fencing, sidecars
from dataprep_converter.dataset.sidecars import Made
from dataprep_converter.inputs.access import Access
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.tools.verification import verify


@pytest.fixture
def converted(few: Path, tmp_path: Path) -> tuple[DataPrepJob, Plan, Path]:
    """A job whose shards are all made, the job's plan and its output folder."""
    job = digits_job(few, tmp_path / "out", output=EIGHT)
    plan = plan_step.run_plan_step(job, Access()).plan
    convert_work.work(job.spec, plan=plan, shards=list(shards(plan.head)), access=Access(), attempt="a", watch=lambda _: None)
    return job, plan, tmp_path / "out"


def reports(output: Path, plan: Plan) -> list[Path]:
    return sorted((output / "_dataprep" / plan.head.run_id / "reports").glob("*.json"))


def visible_files(output: Path) -> set[Path]:
    """Return the files outside the hidden folders."""
    return {file for file in output.rglob("*") if file.is_file() and "_dataprep" not in file.parts}


def bundles_of(output: Path, plan: Plan) -> list[Path]:
    return sorted((output / "_dataprep" / plan.head.run_id / "reports").glob("*.jsonl"))


def test_a_complete_data_set_is_committed_and_again(converted: tuple[DataPrepJob, Plan, Path]) -> None:
    job, plan, output = converted
    assert not (output / "_SUCCESS").exists()
    first = convert_commit.commit(job.spec, plan=plan, access=Access())
    success = (output / "_SUCCESS").read_bytes()
    second = convert_commit.commit(job.spec, plan=plan, access=Access())
    assert first.manifest_sha256 == second.manifest_sha256
    assert (output / "_SUCCESS").read_bytes() == success
    assert verify(str(output), Access()).records_out == first.records.out


def test_a_shard_without_a_report_is_named(converted: tuple[DataPrepJob, Plan, Path]) -> None:
    job, plan, output = converted
    report = reports(output, plan)[2]
    file = json.loads(report.read_text())["file"]
    report.unlink()
    with pytest.raises(Missing, match=rf"^1 of 24 shards have no report: {file}\.$"):
        convert_commit.commit(job.spec, plan=plan, access=Access())
    assert not (output / "_SUCCESS").exists()


def test_a_missing_shard_is_named(converted: tuple[DataPrepJob, Plan, Path]) -> None:
    job, plan, output = converted
    file = list(shards(plan.head))[3].file
    (output / file).unlink()
    with pytest.raises(Missing, match=rf"1 file is missing: {file}\.$"):
        convert_commit.commit(job.spec, plan=plan, access=Access())
    assert not (output / "_SUCCESS").exists()


def test_a_shard_that_was_changed_is_named(converted: tuple[DataPrepJob, Plan, Path]) -> None:
    job, plan, output = converted
    file = next(shards(plan.head)).file
    (output / file).write_bytes((output / file).read_bytes() + b"x")
    with pytest.raises(NotWhole, match=file):
        convert_commit.commit(job.spec, plan=plan, access=Access())
    assert not (output / "_SUCCESS").exists()


def test_a_foreign_file_is_named_and_stays(converted: tuple[DataPrepJob, Plan, Path]) -> None:
    job, plan, output = converted
    (output / "notes.txt").write_text("mine")
    with pytest.raises(NotWhole, match=r"notes\.txt"):
        convert_commit.commit(job.spec, plan=plan, access=Access())
    assert (output / "notes.txt").read_text() == "mine"
    assert not (output / "_SUCCESS").exists()


def test_a_run_that_lost_the_folder_commits_nothing(converted: tuple[DataPrepJob, Plan, Path]) -> None:
    job, plan, output = converted
    owner = output / "_dataprep" / "OWNER"
    owner.write_text(owner.read_text().replace(plan.head.run_id, "0" * 16))
    with pytest.raises(OutputLost, match=f"no longer belongs to run {plan.head.run_id}"):
        convert_commit.commit(job.spec, plan=plan, access=Access())
    assert not (output / "_SUCCESS").exists()


def test_a_failure_while_files_around_the_data_are_made_leaves_no_visible_file(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    job = digits_job(few, output, output={"format": "mds", "fileName": "{split}/shard-{shard}.{ext}"})
    plan = plan_step.run_plan_step(job, Access()).plan
    convert_work.work(job.spec, plan=plan, shards=list(shards(plan.head)), access=Access(), attempt="a", watch=lambda _: None)

    def location_files(*_: object) -> Made:
        yield "_dataprep/paths/train.txt", b"x"
        raise NotWhole("the second can't be made")

    before = visible_files(output)
    with monkeypatch.context() as patched:
        patched.setattr(fencing, "_MOST_STAGED", 1)
        patched.setattr(sidecars, "location_files", location_files)
        with pytest.raises(NotWhole, match="the second can't be made"):
            convert_commit.commit(job.spec, plan=plan, access=Access())
    assert visible_files(output) == before
    convert_commit.commit(job.spec, plan=plan, access=Access())
    assert {file.name for file in visible_files(output) - before} == {"index.json", "_SUCCESS"}


class InThisThread(Executor):
    """Runs each call immediately in the caller's thread, so no other thread still holds a finished call's arguments."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(call(*args, **kwargs))
        return done


def test_a_file_around_the_data_is_freed_before_the_next_is_made(
    converted: tuple[DataPrepJob, Plan, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, plan, output = converted
    alive: list[int] = []
    in_memory = 0

    class Content(bytes):
        def __del__(self) -> None:
            nonlocal in_memory
            in_memory -= 1

    def files(*_: object, folder: str) -> Made:
        nonlocal in_memory
        for number in range(3):
            alive.append(in_memory)
            in_memory += 1
            yield f"_dataprep/{folder}/{number}.txt", Content(b"x")

    monkeypatch.setattr(sidecars, "files", partial(files, folder="files"))
    monkeypatch.setattr(sidecars, "location_files", partial(files, folder="paths"))
    monkeypatch.setattr(fencing, "ThreadPoolExecutor", InThisThread)
    monkeypatch.setattr(fencing, "_STAGED_BYTES", 1)
    convert_commit.commit(job.spec, plan=plan, access=Access())
    assert alive == [0] * 6
    assert (output / "_dataprep/paths/2.txt").read_bytes() == b"x"
