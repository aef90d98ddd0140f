"""With several processes, `dataprep run` scans a large text source in all of them before the plan step. The plan is the same as with one
process."""

import io
import logging
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import BadData, ConvertError, NotFound, OutputExists
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.text_scan import files
from dataprep_converter.runtime import scans
from dataprep_converter.runtime.scans import Piece, ScanOfPart
from dataprep_converter.steps.conversion import scan_here
from dataprep_converter.steps.conversion.scan_step import scan_request
from dataprep_converter.steps.kinds import Conversion

PARTS = scan_here._Parts


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "PART_BYTES", 400)
    monkeypatch.setattr(scans, "LEAST_PART_BYTES", 1)


@pytest.fixture
def only_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets only child processes scan."""
    monkeypatch.setattr(scan_here, "may_hang", lambda _: True)


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list that collects the files that this process examines."""
    examined: list[str] = []
    examine = files._open_and_examine

    def noted(*arguments: Any) -> Any:
        examined.append(arguments[-1].path)
        return examine(*arguments)

    monkeypatch.setattr(files, "_open_and_examine", noted)
    return examined


def a_job(folder: Path, output: str = "out", **more: str) -> DataPrepJob:
    (folder / "in").mkdir(exist_ok=True)
    for number in range(8):
        file = folder / f"in/{number}.csv"
        if not file.exists():
            file.write_text("n,t\n" + "".join(f'{row},"a\n{row}"\n' for row in range(number * 10, number * 10 + 20)))
    output_of = {"uri": str(folder / output), "format": "jsonl", "shards": {"count": 2}, **more}
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


def test_the_results_of_a_part_are_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "RESULTS_BYTES", 1)
    job, folder = a_job(tmp_path), tmp_path / "tmp"
    folder.mkdir()
    PARTS(job.spec, part_bytes=1 << 20, listed=tmp_path, folder=folder).begin(Access())(0, lambda _: None)
    assert len(list(folder.iterdir())) == 8


@pytest.mark.parametrize("is_faulty", [False, True])
def test_the_results_are_in_temporary_files_until_the_job_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_faulty: bool
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    job, access = a_job(tmp_path), Access()
    if is_faulty:
        (tmp_path / "in/7.csv").write_text('n,t\n3,"')
    Conversion().scan_here(job, access=access, workers=2, watch=Display(quiet=True))
    assert access.scanned_here is not None
    assert len(list((tmp_path / "tmp").glob("*/*"))) == len(access.scanned_here) > 2
    with pytest.raises(BadData) if is_faulty else nullcontext(), Conversion().plan(job.spec, access):
        pass
    assert access.scanned_here is None
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_run_makes_the_same_files_and_leaves_no_results(tmp_path: Path) -> None:
    run_job(a_job(tmp_path, "one"), workers=1)
    run_job(a_job(tmp_path, "two"), workers=2)
    shards = [[file.read_bytes() for file in sorted((tmp_path / name).rglob("*.jsonl"))] for name in ("one", "two")]
    assert shards[0] == shards[1] != []
    assert not list(tmp_path.rglob("scan-*"))


@pytest.mark.parametrize(
    ("workers", "part_bytes"),
    [(1, 400), (2, 1 << 20)],
    ids=["one worker", "a small source"],
)
def test_one_process_reads_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, part_bytes: int) -> None:
    monkeypatch.setattr(scans, "PART_BYTES", part_bytes)
    monkeypatch.setattr(scan_here, "run_in_processes", no_processes)
    planned(a_job(tmp_path), workers=workers)


def test_other_sources_are_not_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_here, "run_in_processes", no_processes)
    a_job(tmp_path)
    planned(parse_job({"source": {"wholeFile": {"uris": [str(tmp_path / "in")]}}, "output": {"uri": str(tmp_path / "out")}}), workers=2)


def test_nothing_is_read_if_the_output_must_not_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(tmp_path, overwrite="Never")
    run_job(job)
    (tmp_path / "in/3.csv").write_text("n,t\n1,2\n")
    monkeypatch.setattr(scan_here, "run_in_processes", no_processes)
    messages = []
    for make in (partial(run_job, workers=1), partial(run_job, workers=2), partial(scan_request, access=Access())):
        with pytest.raises(OutputExists) as error:
            make(job)
        messages.append(str(error.value))
    assert len(set(messages)) == 1
    assert "overwrite is Never" in messages[0]


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


@pytest.mark.parametrize(("content", "error"), [('n,t\n1,2\n3,"', BadData), ("n,t\n1,2\n", NotFound)], ids=["two faults", "one fault"])
def test_an_error_of_the_listing_comes_in_its_turn(tmp_path: Path, content: str, error: type[ConvertError]) -> None:
    uris = [*a_job(tmp_path).spec.data.inputs(), f"{tmp_path}/in/*.tsv"]
    job = parse_job({"source": {"csv": {"uris": uris, "header": True}}, "output": {"uri": str(tmp_path / "out")}})
    (tmp_path / "in/3.csv").write_text(content)
    assert scan_request(job, Access()) is None
    messages = []
    for workers in (1, 2):
        with pytest.raises(error) as raised:
            run_job(job, workers=workers)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


# --- processes that die or fail ------------------------------------------------------------------------------------


class Dying(PARTS):
    """Parts of a scan. The first part kills its process, either only once (if the file `once` can be created) or every time."""

    def begin(self, access: Access, *, is_stopped: Callable[[], bool] | None = None) -> Any:
        do = super().begin(access, is_stopped=is_stopped)

        def dies(part: int, tell: Callable[[int], None]) -> None:
            if multiprocessing.parent_process() is not None and part == 0 and self.may_die():
                os.kill(os.getpid(), signal.SIGKILL)
            do(part, tell)

        return dies

    def may_die(self) -> bool:
        marker = Path(self.spec.output.uri).parent / "once"
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return marker.is_symlink()
        return True


class Failing(PARTS):
    """Parts of a scan. One part always fails in another process, as if a store were down."""

    error: ClassVar[Exception] = ConvertError("the store is down")

    def begin(self, access: Access, *, is_stopped: Callable[[], bool] | None = None) -> Any:
        do = super().begin(access, is_stopped=is_stopped)

        def fails(part: int, tell: Callable[[int], None]) -> None:
            if part == 1:
                raise self.error
            do(part, tell)

        return fails


class WithoutMemory(Failing):
    error = MemoryError()


class WithoutSpace(Failing):
    error = OSError(28, "No space left on device")


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
@pytest.mark.parametrize("parts", [Failing, WithoutMemory, WithoutSpace])
def test_a_part_that_fails_is_read_by_the_plan_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_here: list[str], parts: type[Failing]
) -> None:
    job = a_job(tmp_path)
    alone = planned(job, workers=1)
    monkeypatch.setattr(scan_here, "_Parts", parts)
    read_here.clear()
    assert planned(job, workers=2) == alone
    assert "0.csv" not in read_here
    assert read_here != []


class Interrupted(PARTS):
    """Parts of a scan that take a minute in other processes. In this process, Ctrl-C is pressed as soon as another process has begun its
    part."""

    def begin(self, access: Access, *, is_stopped: Callable[[], bool] | None = None) -> Any:
        del access, is_stopped
        place = Path(self.spec.output.uri).parent

        def waits(_part: int, _tell: Callable[[int], None]) -> None:
            if multiprocessing.parent_process() is not None:
                (place / "begun").touch()
            for _ in range(6000):
                time.sleep(0.01)
                if multiprocessing.parent_process() is None and (place / "begun").exists():
                    raise KeyboardInterrupt
            (place / "ended").touch()

        return waits


def test_an_interrupt_ends_other_processes_in_the_middle_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(scan_here, "_Parts", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        planned(a_job(tmp_path), workers=2)
    assert not (tmp_path / "ended").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


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
    assert re.match(r"planning: scanned \d+ %\n", shown.getvalue())
