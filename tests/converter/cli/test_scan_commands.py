"""The commands of the scan and merge steps: a scan pod scans its own part, and a merge step only makes the plan."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.builders.files import visible
from tests.converter.cli.commandline import code_of, mnist_run

from dataprep_api import names
from dataprep_api.dataset import messages
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning import scan
from dataprep_converter.runtime import scans
from dataprep_converter.steps.conversion import scan_step

SCAN = "feed" * 4
EIGHT_PARTS = ["--scan", SCAN, "--parts", "8"]


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Replaces `run_scan_step`. Returns a list that collects the scan and the part of each call."""
    calls: list[tuple[str, int]] = []
    monkeypatch.setattr(scan_step, "run_scan_step", lambda _spec, _access, part, *, scan: calls.append((scan, part)))
    return calls


def test_a_pod_scans_the_part_of_its_index(
    few: Path, tmp_path: Path, scanned: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = mnist_run(few, tmp_path / "out")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")

    assert code_of("scan", *job, *EIGHT_PARTS) == 0
    assert code_of("scan", *job, *EIGHT_PARTS, "--tasks", "2-3") == 0
    assert code_of("scan", *job, *EIGHT_PARTS, "--index", "7") == 0
    assert scanned == [(SCAN, 1), (SCAN, 3), (SCAN, 7)]


@pytest.mark.parametrize(("parallelism", "processes"), [(2, 2), (100, 8)])
def test_the_pods_that_scan_at_the_same_time_divide_the_request_limits(
    tmp_path: Path, scanned: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, parallelism: int, processes: int
) -> None:
    numbers: list[int] = []
    monkeypatch.setattr(Access, "share_among", lambda _, processes: numbers.append(processes))

    assert code_of("scan", *texts_run(tmp_path, workers={"parallelism": parallelism}), *EIGHT_PARTS, "--index", "0") == 0
    assert (numbers, len(scanned)) == ([processes], 1)


def test_a_scan_without_an_index_or_a_name_is_refused(
    few: Path, tmp_path: Path, scanned: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    job = mnist_run(few, tmp_path / "out")

    assert code_of("scan", *job, *EIGHT_PARTS) == 2
    assert "Which task?" in capsys.readouterr().err
    assert code_of("scan", *job, "--index", "0") == 2
    assert "--scan, --parts" in capsys.readouterr().err
    assert code_of("scan", *job, *EIGHT_PARTS, "--index", "8") == 2
    assert "The scan has parts 0 to 7, got part 8." in capsys.readouterr().err
    assert scanned == []


@pytest.mark.parametrize("name", ["xyz", "0" * 55, "0" * 57, "G" * 56, "-" + "0" * 55])
def test_a_name_that_is_no_scan_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("scan", *texts_run(tmp_path), f"--scan={name}", "--parts", "8", "--index", "0") == 2
    assert f"Expected the name of a scan, 56 hexadecimal digits as reported by the plan step, got '{name}'." in capsys.readouterr().err


def test_a_scan_of_another_source_or_release_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After an upgrade, the scan's pods can run in a newer release than the plan pod."""
    assert code_of("scan", *texts_run(tmp_path), f"--scan={'0' * 55}1", "--parts", "8", "--index", "0") == 0
    assert "was made for another source, or by another release of dataprep" in caplog.text
    assert [file.name for file in (tmp_path / "out/_dataprep").glob("scan-*/*")] == ["00000-0.json"]


def test_a_merge_step_plans_and_does_no_other_step(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(names.MAY_SCAN, "true")
    monkeypatch.setenv(names.ONE_POD, "mnist-0123456789-")

    assert code_of("plan", *mnist_run(few, tmp_path / "out"), "--scan", SCAN) == 0
    result = messages.parse(capsys.readouterr().out)
    assert isinstance(result, messages.PlanResult)
    assert (result.commit, visible(tmp_path / "out")) == (None, [])


def test_a_dry_run_reads_no_scan(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("plan", *mnist_run(few, tmp_path / "out"), "--scan", SCAN, "--dry-run") == 2
    assert "not allowed with argument" in capsys.readouterr().err


def texts_run(folder: Path, **spec: Any) -> list[str]:  # Any, because fields of the spec have many types
    """The arguments of a job that reads four text files of 40 bytes."""
    (folder / "in").mkdir()
    for number in range(4):
        (folder / "in" / str(number)).write_text(f"{number}\n" * 20)
    job = {
        "apiVersion": "dataprep.io/v1alpha1",
        "kind": "DataPrepJob",
        "metadata": {"name": "texts"},
        "spec": {"source": {"text": {"uris": [str(folder / "in")]}}, "output": {"uri": str(folder / "out"), "format": "jsonl"}, **spec},
    }
    (folder / "job.yaml").write_text(json.dumps(job))
    return ["--job", str(folder / "job.yaml")]


def test_the_pods_of_a_scan_and_its_merge_make_the_plan_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = texts_run(tmp_path)
    monkeypatch.setattr(scans, "PART_BYTES", 80)
    monkeypatch.setattr(scans, "LEAST_PART_BYTES", 1)
    assert code_of("plan", *job) == 0
    alone = capsys.readouterr().out
    shutil.rmtree(tmp_path / "out")

    monkeypatch.setenv(names.MAY_SCAN, "true")
    assert code_of("plan", *job) == 0
    request = messages.parse(capsys.readouterr().out)
    assert isinstance(request, messages.ScanRequest)
    assert (request.parts, visible(tmp_path / "out")) == (2, [])
    for part in range(request.parts):
        assert code_of("scan", *job, "--scan", request.scan, "--parts", "2", "--index", str(part)) == 0
    capsys.readouterr()
    assert code_of("plan", *job, "--scan", request.scan) == 0
    assert capsys.readouterr().out == alone


def test_a_source_that_one_process_can_examine_is_planned_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = texts_run(tmp_path)
    monkeypatch.setenv(names.MAY_SCAN, "true")
    assert code_of("plan", *job) == 0
    assert isinstance(messages.parse(capsys.readouterr().out), messages.PlanResult)


def test_there_are_at_most_as_many_parts_as_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = texts_run(tmp_path)
    monkeypatch.setattr(scans, "PART_BYTES", 40)
    monkeypatch.setattr(scans, "LEAST_PART_BYTES", 1)
    monkeypatch.setattr(scan, "MOST_TASKS", 3)
    monkeypatch.setenv(names.MAY_SCAN, "true")
    assert code_of("plan", *job) == 0
    request = messages.parse(capsys.readouterr().out)
    assert isinstance(request, messages.ScanRequest)
    assert (request.parts, request.scan[-12:]) == (3, f"{54:012x}")
    for part in range(3):
        assert code_of("scan", *job, "--scan", request.scan, "--parts", "3", "--index", str(part)) == 0
    assert [len(file.read_text().split("/in/")) - 1 for file in sorted((tmp_path / "out/_dataprep").glob("scan-*/*.json"))] == [1, 2, 1]
