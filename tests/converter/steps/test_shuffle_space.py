"""The space that a shuffle in two rounds needs is checked before."""

from pathlib import Path

import pytest
from tests.converter.steps.shuffle_jobs import a_job, as_csv, plan_small_rounds
from tests.converter.steps.two_rounds import divide, planned, run_in_two_rounds

from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime.temporary import free_bytes_at
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import shuffle

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_small_rounds(monkeypatch)


def test_too_little_space_is_warned_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    monkeypatch.setattr(plan_step, "free_bytes_at", lambda _: 10)
    monkeypatch.setattr(shuffle, "free_bytes", lambda: 10)
    assert any("has 0 MiB free" in warning for warning in plan_step.run_plan_step(job, Access()).result.warnings)
    divide(job, planned(job, Access()), Access())
    assert "$TMPDIR has 0 MiB free" in caplog.text


def test_a_finished_data_set_that_is_reused_needs_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out", output={"overwrite": "IfChanged"})
    run_in_two_rounds(job, Access())
    monkeypatch.setattr(plan_step, "free_bytes_at", lambda _: 10)
    result = plan_step.run_plan_step(job, Access()).result
    assert result.reused
    assert result.warnings == []


def test_the_free_space_of_a_folder_that_does_not_exist_is_that_of_its_parent(tmp_path: Path) -> None:
    assert (free_bytes_at(str(tmp_path / "not" / "there")) or 0) > 0
