"""`dataprep run` with several processes reads a large text source in all of them before the plan, which is that of one process."""

import io
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import BadData, ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.text_scan import files
from dataprep_converter.runtime import scans
from dataprep_converter.runtime.scans import Piece, ScanOfPart
from dataprep_converter.steps.conversion import scan_here
from dataprep_converter.steps.kinds import Conversion

PARTS = scan_here._Parts


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "PART_BYTES", 400)


@pytest.fixture
def only_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets only child processes scan."""
    monkeypatch.setattr(scan_here, "may_hang", lambda _: True)


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that this process examines."""
    examined: list[str] = []
    examine = files._open_and_examine

    def noted(*arguments: Any) -> Any:
        examined.append(arguments[-1].path)
        return examine(*arguments)

    monkeypatch.setattr(files, "_open_and_examine", noted)
    return examined


def a_job(folder: Path, output: str = "out") -> DataPrepJob:
    (folder / "in").mkdir(exist_ok=True)
    for number in range(8):
        file = folder / f"in/{number}.csv"
        if not file.exists():
            file.write_text("n,t\n" + "".join(f'{row},"a\n{row}"\n' for row in range(number * 10, number * 10 + 20)))
    output_of = {"uri": str(folder / output), "format": "jsonl", "shards": {"count": 2}}
    return parse_job({"source": {"csv": {"uris": [str(folder / "in")], "header": True}}, "output": output_of})


def planned(job: DataPrepJob, *, workers: int, display: Display | None = None) -> bytes:
    access = Access()
    Conversion().scan_here(job, access=access, workers=workers, watch=display or Display(quiet=True))
    with Conversion().plan(job.spec, access) as draft:
        return draft.plan.head.to_bytes() + draft.plan.sha256.encode()


def no_processes(*_: Any, **__: Any) -> Any:
    pytest.fail("other processes are started")


@pytest.mark.usefixtures("only_others")
def test_other_processes_read_all_and_the_plan_is_that_of_one_process(tmp_path: Path, read_here: list[str]) -> None:
    job = a_job(tmp_path)
    alone = planned(job, workers=1)
    read_here.clear()
    assert planned(job, workers=2) == alone
    assert read_here == []


def test_this_process_is_one_of_those_that_scan(tmp_path: Path, read_here: list[str]) -> None:
    job = a_job(tmp_path)
    alone = planned(job, workers=1)
    read_here.clear()
    assert planned(job, workers=2) == alone
    assert len(set(read_here)) == len(read_here) > 0


def test_a_run_makes_the_same_files_and_leaves_no_results(tmp_path: Path) -> None:
    run_job(a_job(tmp_path, "one"), workers=1)
    run_job(a_job(tmp_path, "two"), workers=2)
    shards = [[file.read_bytes() for file in sorted((tmp_path / name).rglob("*.jsonl"))] for name in ("one", "two")]
    assert shards[0] == shards[1] != []
    assert not list(tmp_path.rglob("scan-*"))


@pytest.mark.parametrize(
    ("workers", "name", "value"),
    [(1, "PART_BYTES", 400), (2, "PART_BYTES", 1 << 20), (2, "_MOST_PIECES", 7)],
    ids=["one worker", "a small source", "many files"],
)
def test_one_process_reads_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, name: str, value: int) -> None:
    monkeypatch.setattr(scans if name == "PART_BYTES" else scan_here, name, value)
    monkeypatch.setattr(scan_here, "run_in_processes", no_processes)
    planned(a_job(tmp_path), workers=workers)


def test_other_sources_are_not_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_here, "run_in_processes", no_processes)
    a_job(tmp_path)
    planned(parse_job({"source": {"wholeFile": {"uris": [str(tmp_path / "in")]}}, "output": {"uri": str(tmp_path / "out")}}), workers=2)


@pytest.mark.parametrize("names", [["3"], ["1", "6"], ["0", "7"]])
def test_an_error_is_that_of_one_process(tmp_path: Path, names: list[str]) -> None:
    job = a_job(tmp_path)
    for name in names:
        (tmp_path / f"in/{name}.csv").write_text('n,t\n1,2\n3,"')
    messages = []
    for workers in (1, 2):
        with pytest.raises(BadData) as error:
            run_job(job, workers=workers)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert f"in/{names[0]}.csv, line 3: a quote is never closed." in messages[0]
    assert not list(tmp_path.rglob("scan-*"))


# --- processes that die or fail ------------------------------------------------------------------------------------


class Dying(PARTS):
    """Parts of which the first kills its process: once if the file `once` can be made, otherwise always."""

    def begin(self, access: Access, *, is_stopped: Callable[[], bool] | None = None) -> Any:
        do = super().begin(access, is_stopped=is_stopped)

        def dies(part: int, tell: Callable[[int], None]) -> bytes:
            if multiprocessing.parent_process() is not None and part == 0 and self.may_die():
                os.kill(os.getpid(), signal.SIGKILL)
            return do(part, tell)

        return dies

    def may_die(self) -> bool:
        marker = Path(self.spec.output.uri).parent / "once"
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return marker.is_symlink()
        return True


class Failing(PARTS):
    """Parts of which one always fails in another process, as if a store were down."""

    def begin(self, access: Access, *, is_stopped: Callable[[], bool] | None = None) -> Any:
        do = super().begin(access, is_stopped=is_stopped)

        def fails(part: int, tell: Callable[[int], None]) -> bytes:
            if part == 1:
                raise ConvertError("the store is down")
            return do(part, tell)

        return fails


@pytest.mark.usefixtures("only_others")
def test_a_part_whose_process_was_killed_is_scanned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, read_here: list[str]
) -> None:
    job = a_job(tmp_path)
    alone = planned(job, workers=1)
    read_here.clear()
    monkeypatch.setattr(scan_here, "_Parts", Dying)
    with caplog.at_level(logging.WARNING):
        assert planned(job, workers=2) == alone
    assert [record.getMessage() for record in caplog.records] == ["a process was killed; its part of the scan is tried again (1 of 3)"]
    assert read_here == []


@pytest.mark.usefixtures("only_others")
def test_a_part_whose_process_is_always_killed_is_read_by_the_plan_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, read_here: list[str]
) -> None:
    job = a_job(tmp_path)
    alone = planned(job, workers=1)
    (tmp_path / "once").symlink_to(tmp_path / "in")
    monkeypatch.setattr(scan_here, "_Parts", Dying)
    monkeypatch.setattr(scan_here, "MOST_RESTARTS", 1)
    read_here.clear()
    with caplog.at_level(logging.WARNING):
        assert planned(job, workers=2) == alone
    assert caplog.records[-1].getMessage() == (
        "processes were killed 2 times; they may have run out of memory. This process reads the rest."
    )
    assert "0.csv" in read_here


@pytest.mark.usefixtures("only_others")
def test_a_part_that_fails_is_read_by_the_plan_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_here: list[str]) -> None:
    job = a_job(tmp_path)
    alone = planned(job, workers=1)
    monkeypatch.setattr(scan_here, "_Parts", Failing)
    read_here.clear()
    assert planned(job, workers=2) == alone
    assert "0.csv" not in read_here
    assert read_here != []


# --- progress ------------------------------------------------------------------------------------------------------


def test_a_part_tells_how_much_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "_WATCH_BYTES", 100)
    told: list[int] = []
    part = ScanOfPart(0, watch=told.append)
    for number in range(6):
        part.found(Piece(f"{number}", "", 40, None, 40), {})
    assert told == [120, 200]


def test_the_progress_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "_WATCH_BYTES", 1)
    shown = io.StringIO()
    planned(a_job(tmp_path), workers=2, display=Display(shown))
    assert shown.getvalue().startswith("planning: scanned 0 of 0 MB\n")
