"""Tests of small jobs, whose steps all run in one pod: which jobs count as small, and that the data set is the same as with several pods.

After a failure, the pods of the other steps must finish the job.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builders.digits import EIGHT, commit_result, digits_job, sha256s
from tests.builders.files import visible
from tests.builders.specs import parse_job
from tests.converter.stores.small_jobs import a_copy

from dataprep_api import names
from dataprep_api.dataset.messages import PlanResult
from dataprep_api.dataset.plan import Owner, shards
from dataprep_api.dataset.report import ShardReport
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec.workers import Workers
from dataprep_converter.core.errors import OutputExists, OutputLost
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.steps import one_pod
from dataprep_converter.steps.kinds import kind_of
from dataprep_converter.steps.one_pod import LONGEST_SECONDS, MOST_SHARDS, SMALL_BYTES
from dataprep_converter.steps.plan_step import PlannedRun, run_plan_step

PODS = "digits-0123456789-"
ATTEMPT = f"{PODS}plan-1-abcde/1"


def planned_by_a_pod(job: DataPrepJob, *, pods: str | None = PODS) -> PlannedRun:
    return run_plan_step(job, Access(), pods=pods)


def finish(
    job: DataPrepJob,
    planned: PlannedRun,
    *,
    attempt: str = ATTEMPT,
    watch: Callable[[TaskProgress], None] = lambda _: None,
    **more: Any,  # Any, because `more` can contain the clock
) -> PlanResult:
    return one_pod.finish(job, planned, Access(), attempt=attempt, watch=watch, **more)


def do_the_rest(job: DataPrepJob, planned: PlannedRun) -> None:
    """Runs the other steps, as their pods would."""
    kind = kind_of(job.spec)
    kind.work(job.spec, plan=planned.plan, shards=list(shards(planned.plan.head)), access=Access(), attempt="other/1", watch=lambda _: None)
    kind.commit(job.spec, plan=planned.plan, access=Access())


def rows_job(folder: Path, *, overwrite: str) -> DataPrepJob:
    """Returns a job that reads two rows."""
    (folder / "in").mkdir()
    (folder / "in/a.csv").write_text("1\n2\n")
    source = {"csv": {"uris": [str(folder / "in")], "columns": [{"name": "x", "type": "Int64"}]}}
    return parse_job({"source": source, "output": {"uri": str(folder / "out"), "overwrite": overwrite}})


def reports_in(folder: Path, run_id: str) -> list[ShardReport]:
    files = sorted((folder / names.run_folder(run_id) / "reports").glob("*.json"))
    return [ShardReport.model_validate_json(file.read_bytes()) for file in files]


def test_one_process_makes_the_data_set_of_a_run_on_one_machine(few: Path, tmp_path: Path) -> None:
    expected = commit_result(digits_job(few, tmp_path / "whole", output=EIGHT))
    job = digits_job(few, tmp_path / "one", output=EIGHT)
    planned = planned_by_a_pod(job)
    assert one_pod.is_small(planned)
    seen: list[int] = []
    result = finish(job, planned, watch=lambda progress: seen.append(progress.records_out))

    assert result.commit is not None
    assert (result.run_id, result.reused, result.tasks) == (expected.run_id, False, planned.result.tasks)
    assert (result.commit.manifest_sha256, result.commit.records, result.commit.files) == (
        expected.manifest_sha256,
        expected.records,
        expected.files,
    )
    assert sha256s(tmp_path / "one") == sha256s(tmp_path / "whole")
    assert seen[-1] == expected.records.out
    assert {report.attempt for report in reports_in(tmp_path / "one", result.run_id)} == {ATTEMPT}
    assert result.work_seconds is not None
    assert result.commit_seconds is not None


@pytest.mark.parametrize(
    ("changes", "count", "small"),
    [
        pytest.param({}, MOST_SHARDS, True, id="small"),
        pytest.param({"size": SMALL_BYTES}, 1, True, id="just small enough"),
        pytest.param({"size": SMALL_BYTES + 1}, 1, False, id="too large"),
        pytest.param({"size": None}, 1, False, id="of unknown size"),
        pytest.param({"is_new": False}, 1, False, id="planned by an earlier pod"),
        pytest.param({}, MOST_SHARDS + 1, False, id="too many shards"),
        pytest.param({}, 0, False, id="without shards"),
    ],
)
def test_what_is_small(few: Path, tmp_path: Path, changes: dict[str, Any], count: int, *, small: bool) -> None:
    planned = planned_by_a_pod(digits_job(few, tmp_path / "out"))
    assert planned.is_new
    changed = replace(planned, result=planned.result.model_copy(update={"shards": count}), **changes)
    assert one_pod.is_small(changed) is small


def test_the_field_names_the_limits() -> None:
    described = str(Workers.model_json_schema()["properties"]["onePod"]["description"])
    assert f"at most {SMALL_BYTES >> 20} MiB each, and if it has at most {MOST_SHARDS} shards" in described


def test_the_size_is_that_of_the_records_if_they_are_larger_than_the_input(few: Path, tmp_path: Path) -> None:
    planned = planned_by_a_pod(digits_job(few, tmp_path / "out"))
    assert planned.size is not None
    assert planned.size > planned.result.bytes_in, "gzipped digits take less room than their records"


def test_the_second_pod_of_the_plan_step_leaves_the_work_to_the_workers(few: Path, tmp_path: Path) -> None:
    job = digits_job(few, tmp_path / "out")
    first = planned_by_a_pod(job)
    second = planned_by_a_pod(job)
    assert (first.is_new, second.is_new) == (True, False)
    assert second.result == first.result


def test_the_size_of_an_extension_is_not_known(tmp_path: Path) -> None:
    job = rows_job(tmp_path, overwrite="Extend")
    first = planned_by_a_pod(job)
    assert one_pod.is_small(first)
    assert finish(job, first).commit is not None
    (tmp_path / "in/b.csv").write_text("3\n")
    extension = planned_by_a_pod(job, pods="another-")
    assert (extension.result.reused, extension.size) == (False, None)
    assert not one_pod.is_small(extension)


def test_a_copy_is_finished_like_a_conversion(few: Path, tmp_path: Path) -> None:
    original = commit_result(digits_job(few, tmp_path / "original"))
    copy = a_copy(str(tmp_path / "original"), str(tmp_path / "copy"))
    planned = planned_by_a_pod(copy)
    assert planned.size == original.bytes_out
    result = finish(copy, planned)
    assert result.commit is not None
    assert result.commit.manifest_sha256 == original.manifest_sha256
    assert sha256s(tmp_path / "copy") == sha256s(tmp_path / "original")


@pytest.mark.parametrize("step", ["work", "commit"])
@pytest.mark.parametrize(
    "error", [OutputLost("the store is gone"), MemoryError("no memory"), ValueError("a bug")], ids=lambda each: type(each).__name__
)
def test_a_failure_leaves_the_plan_alone_and_the_other_steps_do_the_rest(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str, error: Exception
) -> None:
    expected = commit_result(digits_job(few, tmp_path / "whole"))
    job = digits_job(few, tmp_path / "one")
    planned = planned_by_a_pod(job)

    def fails(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(type(kind_of(job.spec)), step, staticmethod(fails))
        assert finish(job, planned) == planned.result
    # An earlier test may have left a lower log level. Then the planner's messages are in `caplog` too.
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == [f"the plan step's pod can't finish this small job, so the convert and commit steps will finish it: {error}"]

    do_the_rest(job, planned_by_a_pod(job))
    assert sha256s(tmp_path / "one") == sha256s(tmp_path / "whole")
    assert (tmp_path / "one/_SUCCESS").read_bytes() == (tmp_path / "whole/_SUCCESS").read_bytes()
    assert expected.files == len(visible(tmp_path / "one"))


def test_slow_work_is_left_to_the_workers_and_finished_shards_are_kept(few: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = digits_job(few, tmp_path / "one", output=EIGHT, workers={"parallelism": 4})
    planned = planned_by_a_pod(job)
    assert min(job.spec.workers.parallelism, planned.result.tasks) > 1
    now = [0.0]

    def watch(progress: TaskProgress) -> None:
        now[0] = LONGEST_SECONDS + 1 if progress.shards_done >= 2 else 0.0

    assert finish(job, planned, watch=watch, clock=lambda: now[0]).commit is None
    assert "the work takes longer than 60 s" in caplog.text
    kept = len(reports_in(tmp_path / "one", planned.result.run_id))
    assert 2 <= kept < planned.result.shards
    do_the_rest(job, planned_by_a_pod(job))
    attempts = [report.attempt for report in reports_in(tmp_path / "one", planned.result.run_id)]
    assert (attempts.count(ATTEMPT), attempts.count("other/1")) == (kept, planned.result.shards - kept)


@pytest.mark.parametrize(("parallelism", "tasks"), [(1, 4), (4, 1)], ids=["one worker", "one task"])
def test_slow_work_that_a_single_worker_would_begin_again_goes_on(few: Path, tmp_path: Path, parallelism: int, tasks: int) -> None:
    job = digits_job(few, tmp_path / "one", output=EIGHT, workers={"parallelism": parallelism})
    planned = planned_by_a_pod(job)
    planned = replace(planned, result=planned.result.model_copy(update={"tasks": tasks}))
    calls = iter(range(1_000_000))
    assert finish(job, planned, clock=lambda: next(calls) * LONGEST_SECONDS).commit is not None


def test_the_last_shard_may_take_its_time(few: Path, tmp_path: Path) -> None:
    job = digits_job(few, tmp_path / "one")
    planned = planned_by_a_pod(job)
    now = [0.0]

    def watch(progress: TaskProgress) -> None:
        now[0] = LONGEST_SECONDS + 1 if progress.shards_done == planned.result.shards else 0.0

    assert finish(job, planned, watch=watch, clock=lambda: now[0]).commit is not None


@pytest.mark.parametrize("overwrite", ["Never", "IfChanged", "Always", "Extend"])
def test_a_pod_that_is_started_again_after_the_end_finds_the_data_set_of_its_own_job(tmp_path: Path, overwrite: str) -> None:
    job = rows_job(tmp_path, overwrite=overwrite)
    planned = planned_by_a_pod(job)
    made = finish(job, planned)
    success = (tmp_path / "out/_SUCCESS").read_bytes()

    again = planned_by_a_pod(job)
    assert (again.is_new, again.result.reused, again.result.commit) == (False, False, None)
    assert (again.result.run_id, again.result.plan_sha256) == (made.run_id, made.plan_sha256)
    assert (tmp_path / "out/_SUCCESS").read_bytes() == success, "readers still see the data set"
    do_the_rest(job, again)
    assert (tmp_path / "out/_SUCCESS").read_bytes() == success
    assert {report.attempt for report in reports_in(tmp_path / "out", made.run_id)} == {ATTEMPT}


@pytest.mark.parametrize("overwrite", ["Never", "IfChanged", "Always", "Extend"])
@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"other")], ids=["deleted", "changed"])
def test_a_file_that_was_lost_after_the_end_is_made_again_without_a_success_meanwhile(
    tmp_path: Path, overwrite: str, damage: Callable[[Path], object]
) -> None:
    job = rows_job(tmp_path, overwrite=overwrite)
    made = finish(job, planned_by_a_pod(job))
    before = {file: (tmp_path / "out" / file).read_bytes() for file in visible(tmp_path / "out")}
    success = (tmp_path / "out/_SUCCESS").read_bytes()
    damage(tmp_path / "out" / next(iter(before)))

    again = planned_by_a_pod(job)
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert (again.result.run_id, again.result.plan_sha256, again.result.reused) == (made.run_id, made.plan_sha256, False)
    third = planned_by_a_pod(job)
    assert (third.result, third.is_new) == (again.result, False), "the second pod was killed"
    do_the_rest(job, third)
    assert {file: (tmp_path / "out" / file).read_bytes() for file in visible(tmp_path / "out")} == before
    assert (tmp_path / "out/_SUCCESS").read_bytes() == success


def test_a_lost_manifest_of_the_own_data_set_is_written_again(tmp_path: Path) -> None:
    job = rows_job(tmp_path, overwrite="IfChanged")
    made = finish(job, planned_by_a_pod(job))
    manifest = tmp_path / "out" / names.manifest_file(made.run_id)
    content = manifest.read_bytes()
    manifest.unlink()

    do_the_rest(job, planned_by_a_pod(job))
    assert manifest.read_bytes() == content


def remove_owner(owner: Path) -> None:
    owner.unlink()


def damage_owner(owner: Path) -> None:
    owner.write_bytes(b"?")


def give_away(owner: Path) -> None:
    other = Owner.model_validate_json(owner.read_bytes()).model_copy(update={"run_id": "0123456789abcdef"})
    owner.write_bytes(other.to_bytes())


@pytest.mark.parametrize("damage", [remove_owner, damage_owner, give_away])
def test_the_own_data_set_is_claimed_again_if_it_has_lost_its_owner(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    job = rows_job(tmp_path, overwrite="IfChanged")
    finish(job, planned_by_a_pod(job))
    success, owner = (tmp_path / "out/_SUCCESS").read_bytes(), tmp_path / "out" / names.OWNER
    damage(owner)

    again = planned_by_a_pod(job)
    assert Owner.model_validate_json(owner.read_bytes()).run_id == again.result.run_id
    do_the_rest(job, again)
    assert (tmp_path / "out/_SUCCESS").read_bytes() == success


def test_a_job_over_its_own_finished_data_set_is_one_pod_as_well(few: Path, tmp_path: Path) -> None:
    job = digits_job(few, tmp_path / "out", output=EIGHT | {"overwrite": "Always"})
    made = finish(job, planned_by_a_pod(job))
    before, success = sha256s(tmp_path / "out"), (tmp_path / "out/_SUCCESS").read_bytes()

    again = planned_by_a_pod(job, pods="another-")
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert one_pod.is_small(again)
    killed = planned_by_a_pod(job, pods="another-")
    assert not one_pod.is_small(killed), "the pod that began again was killed, perhaps for its memory"
    seen: list[tuple[int, int]] = []
    result = finish(job, again, attempt="another-plan-1-abcde/1", watch=lambda now: seen.append((now.shards_done, now.shards_skipped)))
    assert result.commit is not None
    assert result.run_id == made.run_id
    assert seen[-1] == (again.result.shards, again.result.shards), "finished shards are kept"
    assert (sha256s(tmp_path / "out"), (tmp_path / "out/_SUCCESS").read_bytes()) == (before, success)


def test_the_data_set_of_another_job_is_judged_by_overwrite(few: Path, tmp_path: Path) -> None:
    job = digits_job(few, tmp_path / "out", output={"overwrite": "Never"})
    finish(job, planned_by_a_pod(job))
    for pods in ("another-", None):
        with pytest.raises(OutputExists, match=r"overwrite is Never"):
            planned_by_a_pod(job, pods=pods)
        reused = planned_by_a_pod(digits_job(few, tmp_path / "out", output={"overwrite": "IfChanged"}), pods=pods)
        assert reused.result.reused


def test_a_damaged_plan_of_a_finished_data_set_is_not_continued(few: Path, tmp_path: Path) -> None:
    job = digits_job(few, tmp_path / "out", output={"overwrite": "Never"})
    made = finish(job, planned_by_a_pod(job))
    (tmp_path / "out" / names.plan_file(made.run_id)).write_bytes(b"{}")
    with pytest.raises(OutputExists):
        planned_by_a_pod(job)
