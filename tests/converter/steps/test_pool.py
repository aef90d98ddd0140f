"""Several processes on one machine: how they share the tasks, and what happens to the tasks of a process that is killed or fails."""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builders.digits import EIGHT, commit_result, digits_job, sha256s

from dataprep_api.dataset.plan import Shard
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime import fork_server, plugins
from dataprep_converter.steps import pool
from dataprep_converter.steps.conversion import convert_work
from dataprep_converter.tools.verification import verify

CODE = """
import logging, multiprocessing, os, pathlib, signal, sys

def _is_first(place):
    if multiprocessing.parent_process() is None:
        return False
    try:
        pathlib.Path(place).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

def dies(record, place):
    if _is_first(place):
        os.kill(os.getpid(), signal.SIGKILL)
    return record

def tells(record, place):
    if multiprocessing.parent_process() is not None:
        pathlib.Path(place).write_text(os.environ.get("TOLD_LATE", "nothing"))
    return record

def ends_its_parent(record, place):
    if _is_first(place):
        pathlib.Path(place).write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    return record

def speaks(record, place):
    if _is_first(place):
        descriptor = os.open(place, os.O_WRONLY | os.O_APPEND)
        for each in (1, 2):
            os.dup2(descriptor, each)
        print("to out: \\x1b[31m s3://k:s3cr3t@b/x", flush=True)
        print("to err: \\x1b[31m s3://k:s3cr3t@b/x", file=sys.stderr, flush=True)
        logging.getLogger("mine").warning("to the log: \\x1b[31m s3://k:s3cr3t@b/x")
    return record

def fails(record, place):
    if _is_first(place):
        raise ValueError("not this one")
    return record
"""


@pytest.fixture(autouse=True)
def several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/another_process.py").write_text(CODE)
    monkeypatch.setenv(plugins.CODE_VARIABLE, str(tmp_path / "code"))
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)


@pytest.fixture
def done_here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects the first shard of each task that this process does."""
    done: list[int] = []
    work = convert_work.work

    def noted(spec: Any, *, shards: Sequence[Shard], **more: Any) -> TaskProgress:
        done.append(shards[0].number)
        return work(spec, shards=shards, **more)

    monkeypatch.setattr(convert_work, "work", noted)
    return done


def after(marker: Path, work: Callable[..., TaskProgress]) -> Callable[..., TaskProgress]:
    """Returns `work`, delayed until another process has written the marker file."""

    def late(*args: Any, **more: Any) -> TaskProgress:
        deadline = time.monotonic() + 60
        while not marker.exists():
            assert time.monotonic() < deadline, "no other process has begun"
            time.sleep(0.01)
        return work(*args, **more)

    return late


def a_job_of(few: Path, output: Path, function: str, place: Path) -> DataPrepJob:
    """Returns a job with four tasks, whose records are passed to a function of `CODE`."""
    step = {"map": {"callable": f"another_process:{function}", "options": {"place": str(place)}}}
    return digits_job(few, output, output=EIGHT, transforms=[step], workers={"parallelism": 4})


def test_this_process_is_one_of_the_workers(few: Path, tmp_path: Path, done_here: list[int]) -> None:
    commit_result(digits_job(few, tmp_path / "out", output=EIGHT), workers=2)
    assert done_here
    assert len(set(done_here)) == len(done_here)


def test_processes_divide_the_limits_of_requests(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    monkeypatch.setattr(Access, "share_among", lambda _, processes: numbers.append(processes))

    commit_result(digits_job(few, tmp_path / "out", output=EIGHT, workers={"parallelism": 4}), workers=2)

    assert numbers == [2, 1], "in the other steps, this process has all"


@pytest.mark.slow
def test_a_task_whose_process_was_killed_is_tried_again_and_not_here(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, done_here: list[int]
) -> None:
    place = tmp_path / "killed"
    monkeypatch.setattr(convert_work, "work", after(place, convert_work.work))
    job = a_job_of(few, tmp_path / "out", "dies", place)
    with caplog.at_level(logging.WARNING):
        result = commit_result(job, workers=2)
    assert [record.getMessage() for record in caplog.records] == ["a worker process was killed; its task is tried again (1 of 3)"]
    assert len(done_here) == 1
    assert result.records.out == 1200
    assert verify(str(tmp_path / "out"), Access()).records_out == 1200
    commit_result(digits_job(few, tmp_path / "one", output=EIGHT))
    assert sha256s(tmp_path / "out") == sha256s(tmp_path / "one")


def test_other_processes_have_the_environment_of_the_one_that_starts_them(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "told"
    fork_server.get_ready()
    monkeypatch.setenv("TOLD_LATE", "after what they are forked from")
    monkeypatch.setattr(convert_work, "work", after(place, convert_work.work))
    commit_result(a_job_of(few, tmp_path / "out", "tells", place), workers=2)
    assert place.read_text() == "after what they are forked from"


def test_what_other_processes_say_is_shown_as_what_this_one_says(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "said"
    monkeypatch.setattr(convert_work, "work", after(place, convert_work.work))
    commit_result(a_job_of(few, tmp_path / "out", "speaks", place), workers=2)
    shown = r"\u001b[31m s3://…@b/x"
    assert place.read_text(encoding="utf-8").splitlines() == [f"to out: {shown}", f"to err: {shown}", f"to the log: {shown}"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are spawned by this one, which the test would kill")
def test_processes_end_with_what_they_are_forked_from(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "killed"
    monkeypatch.setattr(convert_work, "work", after(place, convert_work.work))
    job = a_job_of(few, tmp_path / "out", "ends_its_parent", place)
    with caplog.at_level(logging.WARNING):
        commit_result(job, workers=2)
    assert [record.getMessage() for record in caplog.records] == ["a worker process was killed; its task is tried again (1 of 3)"]
    assert verify(str(tmp_path / "out"), Access()).records_out == 1200
    assert not is_running(int(place.read_text()))


def is_running(number: int) -> bool:
    """Whether a process with this number is running. A zombie process counts as ended."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_a_task_that_failed_stops_the_others_and_is_the_one_that_is_told(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done_here: list[int]
) -> None:
    place = tmp_path / "failed"
    monkeypatch.setattr(convert_work, "work", after(place, convert_work.work))
    job = a_job_of(few, tmp_path / "out", "fails", place)
    with pytest.raises(BadData, match="not this one"):
        commit_result(job, workers=2)
    assert len(done_here) <= 1
    assert not (tmp_path / "out/_SUCCESS").exists()
