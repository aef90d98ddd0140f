"""The commands of the scan and merge steps: which part a pod scans, and that a merge step only makes the plan."""

from pathlib import Path

import pytest
from tests.builders.files import visible
from tests.converter.cli.commandline import code_of, mnist_run

from dataprep_api import names
from dataprep_api.dataset import messages
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import scan
from dataprep_converter.steps.plan_step import PlannedRun, run_plan_step

SCAN = "feed" * 4


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The scan and the part of each call of `scan_part`."""
    calls: list[tuple[str, int]] = []
    monkeypatch.setattr(scan, "scan_part", lambda _job, _access, name, part: calls.append((name, part)))
    return calls


def test_a_pod_scans_the_part_of_its_index(
    few: Path, tmp_path: Path, scanned: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = mnist_run(few, tmp_path / "out")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")

    assert code_of("scan", *job, "--scan", SCAN) == 0
    assert code_of("scan", *job, "--scan", SCAN, "--tasks", "2-3") == 0
    assert code_of("scan", *job, "--scan", SCAN, "--index", "7") == 0
    assert scanned == [(SCAN, 1), (SCAN, 3), (SCAN, 7)]


def test_a_scan_without_an_index_or_a_name_is_refused(
    few: Path, tmp_path: Path, scanned: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    job = mnist_run(few, tmp_path / "out")

    assert code_of("scan", *job, "--scan", SCAN) == 2
    assert "Which task?" in capsys.readouterr().err
    assert code_of("scan", *job, "--index", "0") == 2
    assert "--scan" in capsys.readouterr().err
    assert scanned == []


def test_a_merge_step_plans_and_does_no_other_step(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def planned_with(job: DataPrepJob, access: Access, name: str) -> PlannedRun:
        asked.append(name)
        return run_plan_step(job, access)

    monkeypatch.setattr(scan, "planned_with", planned_with)
    monkeypatch.setenv(names.ONE_POD, "mnist-0123456789-")

    assert code_of("plan", *mnist_run(few, tmp_path / "out"), "--scan", SCAN) == 0
    result = messages.parse(capsys.readouterr().out)
    assert isinstance(result, messages.PlanResult)
    assert (asked, result.commit, visible(tmp_path / "out")) == ([SCAN], None, [])


def test_a_dry_run_reads_no_scan(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("plan", *mnist_run(few, tmp_path / "out"), "--scan", SCAN, "--dry-run") == 2
    assert "not allowed with argument" in capsys.readouterr().err
