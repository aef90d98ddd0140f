"""A shuffle in two rounds, run with the commands of pods."""

import shutil
from pathlib import Path

import pytest
from tests.builders.specs import parse_job
from tests.converter.cli.commandline import code_of
from tests.converter.steps.shuffle_jobs import ROWS, a_job, as_csv, plan_small_rounds
from tests.converter.steps.two_rounds import planned, run_in_two_rounds

from dataprep_api import names
from dataprep_api.dataset.messages import FailureResult, PlanResult
from dataprep_api.exits import Exit
from dataprep_converter.cli import display
from dataprep_converter.cli.reporter import Reporter
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import plan_step, pool
from dataprep_converter.steps.run import run
from dataprep_converter.tools.verification import verify

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_small_rounds(monkeypatch)


def test_pods_divide_the_records_if_the_operator_runs_the_first_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    (tmp_path / "job.yaml").write_text(job.model_dump_json(by_alias=True, exclude_none=True))
    on_job = ["--job", str(tmp_path / "job.yaml")]
    assert code_of("plan", *on_job) == 0
    alone = PlanResult.model_validate_json(capsys.readouterr().out)
    assert (alone.shuffle_tasks, alone.tasks) == (None, 3)

    shutil.rmtree(tmp_path / "out")
    monkeypatch.setenv(names.TWO_ROUNDS, "1")
    assert code_of("plan", *on_job) == 0
    plan = PlanResult.model_validate_json(capsys.readouterr().out)
    assert plan.shuffle_tasks is not None
    assert plan.run_id == alone.run_id
    of_plan = [*on_job, "--run", plan.run_id, "--plan-sha256", plan.plan_sha256]
    assert code_of("shuffle", *of_plan, "--index", str(plan.shuffle_tasks)) == Exit.BAD_SPEC
    for number in range(plan.shuffle_tasks):
        assert code_of("shuffle", *of_plan, "--index", str(number)) == 0
    (tmp_path / "a.csv").unlink()
    for index in range(plan.tasks):
        assert code_of("work", *of_plan, "--index", str(index)) == 0
    assert code_of("commit", *of_plan) == 0


def test_a_pod_of_the_first_round_reports_the_progress_of_its_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    (tmp_path / "job.yaml").write_text(job.model_dump_json(by_alias=True, exclude_none=True))
    heard: list[tuple[int, int]] = []
    monkeypatch.setattr(Reporter, "watch", lambda reporter, progress: heard.append((reporter._index, progress.records_in)))
    of_plan = ["--run", plan.head.run_id, "--plan-sha256", plan.sha256, "--tasks", "1,2"]
    assert code_of("shuffle", "--job", str(tmp_path / "job.yaml"), *of_plan, "--index", "1") == 0
    assert {index for index, _ in heard} == {2}
    assert [records for _, records in heard] == sorted(records for _, records in heard)
    assert heard[-1][1] > 0


def test_the_failure_of_a_first_round_names_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    (tmp_path / "a.csv").unlink()
    (tmp_path / "job.yaml").write_text(job.model_dump_json(by_alias=True, exclude_none=True))
    monkeypatch.setenv("DATAPREP_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setenv("DATAPREP_TERMINATION_LOG", str(tmp_path / "log"))
    of_plan = ["--run", plan.head.run_id, "--plan-sha256", plan.sha256]
    assert code_of("shuffle", "--job", str(tmp_path / "job.yaml"), *of_plan, "--index", "2") == Exit.NOT_FOUND
    assert FailureResult.model_validate_json((tmp_path / "log").read_text()).index == 2


def test_a_copy_has_no_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)
    run_in_two_rounds(a_job(as_csv(tmp_path), tmp_path / "out"), Access())
    monkeypatch.setattr(plan_step, "free_bytes_at", lambda _: 10)
    copy = parse_job({"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": {"uri": str(tmp_path / "copy"), "format": "copy"}})
    plan, _ = run(copy, access=Access(), workers=2, display=display.Display(quiet=True))
    assert (plan.shuffle_tasks, plan.warnings) == (None, [])
    assert verify(str(tmp_path / "copy"), Access()).records_in == ROWS

    (tmp_path / "copy.yaml").write_text(copy.model_dump_json(by_alias=True, exclude_none=True))
    of_plan = ["--job", str(tmp_path / "copy.yaml"), "--run", plan.run_id, "--plan-sha256", plan.plan_sha256]
    assert code_of("shuffle", *of_plan, "--index", "0") == Exit.BAD_SPEC
    assert "Only a conversion" in capsys.readouterr().err
