"""A shuffle in two rounds by the processes of one machine."""

import struct
import time
from pathlib import Path
from typing import Any

import pytest
from tests.converter.steps.shuffle_jobs import ROWS, a_job, as_csv, as_zipped_csv, plan_small_rounds, remove
from tests.converter.steps.two_rounds import contents, convert, planned, run_in_one_round, run_in_two_rounds

from dataprep_api import names
from dataprep_converter.cli import display
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base import windows
from dataprep_converter.runtime import plugins
from dataprep_converter.steps import pool
from dataprep_converter.steps.conversion import convert_commit, shuffle
from dataprep_converter.steps.kinds import Conversion
from dataprep_converter.steps.run import run
from dataprep_converter.tools.repair import repair
from dataprep_converter.tools.verification import verify

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_small_rounds(monkeypatch)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_on_one_machine_reads_the_source_only_in_the_first_round(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)
    monkeypatch.setattr(windows, "MOST_ROWS", 10)
    monkeypatch.setattr(display, "_LINE_SECONDS", 0)
    (tmp_path / "in").mkdir()
    source = as_csv(tmp_path / "in")
    run_in_one_round(a_job(source, tmp_path / "one"), Access())
    shuffled = pool.run_shuffle

    def then_remove(*args: Any, **more: Any) -> None:
        shuffled(*args, **more)
        remove(tmp_path / "in")

    monkeypatch.setattr(pool, "run_shuffle", then_remove)
    run(a_job(source, tmp_path / "two"), access=Access(), workers=workers, display=display.Display())
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    shown = capsys.readouterr().err
    assert f"shuffling: {ROWS} of {ROWS} records" in shown
    assert f"converting: {ROWS} of {ROWS} records" in shown


def test_one_process_that_can_gather_all_records_in_one_pass_needs_no_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "run_shuffle", None)
    run(a_job(as_csv(tmp_path), tmp_path / "out"), access=Access(), workers=1, display=display.Display(quiet=True))
    assert verify(str(tmp_path / "out"), Access()).records_in == ROWS


@pytest.mark.parametrize(("times", "is_needed"), [(1, True), (100, False)])
def test_one_process_divides_the_records_if_they_are_too_large_for_one_pass(
    tmp_path: Path, times: int, is_needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shuffled records take more disk space than their source, because the source is compressed."""
    job = a_job(as_zipped_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    monkeypatch.setattr(windows, "_SHARE_OF_DISK", 1)
    monkeypatch.setattr(windows, "free_bytes", lambda: times * plan.head.bytes_in)
    assert shuffle.is_needed(job.spec, plan=plan, access=Access(), works_alone=True) is is_needed


def test_hdfs_output_of_one_process_has_a_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    rounds: list[bool] = []
    monkeypatch.setattr(pool, "may_hang", lambda _: True)
    monkeypatch.setattr(pool, "run_shuffle", lambda *_, **__: rounds.append(True))
    monkeypatch.setattr(pool, "run_tasks", lambda *_, **__: None)
    Conversion().work_here(job, plan=plan, access=Access(), workers=1, watch=display.Display(quiet=True))
    assert rounds == [True]


@pytest.mark.parametrize(("lost", "rounds"), [(1, 0), (5, 1)])
def test_the_repair_of_several_tasks_divides_the_records_once(
    tmp_path: Path, lost: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    run_in_two_rounds(job, Access())
    before = contents(tmp_path / "out")
    for shard in sorted((tmp_path / "out").glob("*.tfrecord*"))[:lost]:
        shard.unlink()
    shuffled = pool.run_shuffle
    done: list[bool] = []

    def counted(*args: Any, **more: Any) -> None:
        done.append(True)
        shuffled(*args, **more)

    monkeypatch.setattr(pool, "run_shuffle", counted)
    assert len(repair(str(tmp_path / "out"), Access(), workers=2).shards) == lost
    assert len(done) == rounds
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("has_rounds", [False, True])
def test_repair_plans_again_with_the_rounds_of_the_damaged_plan(tmp_path: Path, has_rounds: bool) -> None:
    access = Access()
    access.divides_shuffles = has_rounds
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, access)
    convert(job, plan, access)
    convert_commit.commit(job.spec, plan=plan, access=access)
    (tmp_path / "out" / names.plan_file(plan.head.run_id)).write_bytes(b"{}")
    next((tmp_path / "out").glob("*.tfrecord*")).unlink()
    assert len(repair(str(tmp_path / "out"), Access(), job=job).shards) == 1


CODE = """
import multiprocessing, os, pathlib, signal, struct

def pairs(stream, name, place):
    if multiprocessing.parent_process() is not None and not os.path.exists(place):
        pathlib.Path(place).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    while data := stream.read(8):
        key, number = struct.unpack("<if", data)
        yield {"key": key, "number": number}
"""


def test_a_slice_whose_process_was_killed_is_divided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)
    monkeypatch.setattr(windows, "MOST_ROWS", 10)
    for folder in ("in", "code"):
        (tmp_path / folder).mkdir()
    (tmp_path / "code" / "mine.py").write_text(CODE)
    monkeypatch.setenv(plugins.CODE_VARIABLE, str(tmp_path / "code"))
    for first in range(0, 400, 100):
        (tmp_path / "in" / f"{first}.bin").write_bytes(b"".join(struct.pack("<if", first + n, n / 2) for n in range(100)))
    place = tmp_path / "killed"
    source = {"plugin": {"uris": [str(tmp_path / "in")], "callable": "mine:pairs", "options": {"place": str(place)}}}
    run_in_one_round(a_job(source, tmp_path / "one"), Access())
    shuffle_task = shuffle.shuffle_task

    def late(*args: Any, **more: Any) -> Any:
        """Waits until another process has begun."""
        deadline = time.monotonic() + 60
        while not place.exists():
            assert time.monotonic() < deadline, "no other process has begun"
            time.sleep(0.01)
        return shuffle_task(*args, **more)

    monkeypatch.setattr(shuffle, "shuffle_task", late)
    run(a_job(source, tmp_path / "two"), access=Access(), workers=2, display=display.Display(quiet=True))
    assert [each.getMessage() for each in caplog.records if "killed" in each.getMessage()] == [
        "a worker process was killed; its task is tried again (1 of 3)"
    ]
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
