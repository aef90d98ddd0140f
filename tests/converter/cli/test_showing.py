"""The output that users see: progress, `inspect`, `ls`, `verify`."""

import io
import json
import os
import pty
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.specs import parse_job
from tests.converter.cli.commandline import DATAPREP, code_of, dataprep, environment, mnist_run

from dataprep_api.dataset.messages import BadRecord, CommitResult, PlanResult
from dataprep_api.resources.status import RecordProgress
from dataprep_converter.cli.display import Display, duration, planning_text
from dataprep_converter.formats.decoder import VerifiedRecords
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime.plan_progress import PlanProgress
from dataprep_converter.steps.plan_step import dry_run
from dataprep_converter.stores import Details, Entry
from dataprep_converter.tools.inspect import inspection
from dataprep_converter.tools.verification import verify


@pytest.fixture(scope="module")
def finished(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished data set of 6,200 digits."""
    output = tmp_path_factory.mktemp("finished") / "out"
    assert code_of("run", *mnist_run(few, output), "--quiet") == 0
    return output


# --- progress ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_progress_off_a_terminal_is_plain_lines(few: Path, tmp_path: Path) -> None:
    done = dataprep("run", *mnist_run(few, tmp_path / "out"))
    said = done.stderr.splitlines()
    assert "\x1b" not in done.stderr
    assert "\r" not in done.stderr
    assert said[0] == "planning …"
    assert re.fullmatch(
        r"planned run [0-9a-f]{16}: 6,200 records \(train 1,000 in 1 shard, validation 5,000 in 1 shard, test 200 in 1 shard\), 1 task",
        said[1],
    )
    assert re.fullmatch(r"converting: [\d,]+ of 6,200 records, [\d,]+ records/s, [\d,]+ MB/s.*", said[2])
    # If the run took several seconds, there is another line about the bottleneck.
    at = said.index("committing …")
    assert re.fullmatch(r"done: 6,200 records, 5,524,200 bytes in 3 files, \d+\.\d s \([\d,]+ records/s, \d+ MB/s\)", said[at + 1])


def test_a_rerun_says_that_there_was_nothing_to_do(finished: Path, few: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("run", *mnist_run(few, finished)) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[-1].startswith("reused: there is a finished data set with the same spec and inputs (")
    assert said.out.endswith("/manifest.json\n")


@pytest.mark.slow
def test_quiet_is_quiet(few: Path, tmp_path: Path) -> None:
    assert dataprep("run", *mnist_run(few, tmp_path / "out"), "--quiet").stderr == ""


@pytest.mark.slow
def test_a_terminal_gets_a_bar(few: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*DATAPREP, "run", *map(str, mnist_run(few, tmp_path / "out"))],
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        env=environment({"TERM": "xterm"}),
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # on Linux, this means that the other side has closed the connection
            break
        shown += piece
    os.close(ours)
    assert process.wait(timeout=60) == 0
    assert b"\x1b[" in shown
    # The planning's progress bar is erased before the line `planned run` is printed, so look for the bar before this line.
    before, planned, _ = shown.partition(b"planned run ")
    assert b"planning" in before
    assert planned
    assert b"planning \xe2\x80\xa6" not in shown
    assert b"converting" in shown
    assert b"100 %" in shown
    assert b"records/s" in shown


def a_plan(**more: Any) -> PlanResult:
    return PlanResult(run_id="r", plan_sha256="0" * 64, plan_uri="p", tasks=2, shards=2, records=1000, bytes_in=1, **more)


def test_lines_come_every_two_seconds_with_the_sum_of_the_tasks_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    shown = io.StringIO()
    display = Display(shown)
    display.planned(a_plan())
    for clock[0], first, second in ((101.0, 10, 0), (102.0, 100, 0), (104.0, 200, 200), (105.0, 300, 300), (110.0, 300, 400)):
        display.progress(0, TaskProgress(records_in=first, bytes_out=first * 100_000))
        display.progress(1, TaskProgress(records_in=second, bytes_out=second * 100_000))
    assert shown.getvalue().splitlines()[1:] == [
        "converting: 10 of 1,000 records, 10 records/s, 1 MB/s",
        "converting: 200 of 1,000 records, 50 records/s, 5 MB/s, 16s left",
        "converting: 600 of 1,000 records, 60 records/s, 6 MB/s, 7s left",
    ]


def test_a_plan_counts_what_it_lists_and_reads(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("1,0\n2,1\n2,1\n")
    source = {"csv": {"uris": [str(tmp_path / "*.csv")]}}
    access = Access()
    dry_run(parse_job({"source": source, "deduplicate": {"columns": ["0"]}, "output": {"uri": str(tmp_path / "out")}}), access)
    progress = access.progress
    assert (progress.files, progress.records, progress.size) == (3, 9, 36)
    assert (progress.read, progress.to_read) == (9, 9)


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (PlanProgress(), ""),
        (PlanProgress(files=1), "1 file"),
        (PlanProgress(files=1, scanned=1_300_000_000, to_scan=2_500_000_000), "scanned 52 %"),
        (PlanProgress(files=1200, records=1, size=2_340_000), "1,200 files, 1 record, 2.3 MB"),
        (PlanProgress(files=3, records=9000, size=9, read=4000, to_read=9000), "read 4,000 of 9,000 records"),
    ],
    ids=["begun", "a file", "a scan", "files", "reading"],
)
def test_the_bar_of_a_plan_says_what_was_found(progress: PlanProgress, said: str) -> None:
    assert planning_text(progress) == said


def test_names_and_reasons_are_shown_as_they_are() -> None:
    shown = io.StringIO()
    display = Display(shown)
    display.planned(a_plan(warnings=["the column [b] is empty [/b] :smile:"]))
    display.finished(
        CommitResult(
            run_id="r", manifest_uri="m", manifest_sha256="0" * 64, files=1, records=RecordProgress(in_=3, out=2, bad=1), bytes_in=1, bytes_out=1,
            bad=[BadRecord(uri="a[/x].csv", row=7, reason="expected [int] :boom:, got '[/b]'")],
        )
    )  # fmt: skip
    assert "warning: the column [b] is empty [/b] :smile:\n" in shown.getvalue()
    assert "left out: 1 bad record, for example:\n  a[/x].csv, record 7: expected [int] :boom:, got '[/b]'\n" in shown.getvalue()


@pytest.mark.parametrize(
    ("count", "said"), [(0, ""), (1, "ignored: 1 file among the inputs ("), (2345, "ignored: 2,345 files among the inputs (")], ids=str
)
def test_ignored_files_are_told_at_the_end(count: int, said: str) -> None:
    shown = io.StringIO()
    display = Display(shown)
    display.planned(a_plan(ignored=count))
    before = len(shown.getvalue())
    records = RecordProgress(in_=3, out=3)
    display.finished(
        CommitResult(run_id="r", manifest_uri="m", manifest_sha256="0" * 64, files=1, records=records, bytes_in=1, bytes_out=1)
    )
    assert said in shown.getvalue()[before:]
    assert ("ignored" in shown.getvalue()) == (count > 0)


@pytest.mark.parametrize(("seconds", "said"), [(0.4, "0s"), (59.5, "1m00s"), (200, "3m20s"), (3599.6, "1h00m"), (3720, "1h02m")])
def test_a_duration_has_two_parts(seconds: float, said: str) -> None:
    assert duration(seconds) == said


# --- inspect -------------------------------------------------------------------------------------------------------------


def test_inspect_shows_files_classes_and_a_picture(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("inspect", finished) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    for file, size, sha256 in _files(finished):
        assert re.search(rf"{file}\b.*\b{size:,}\b.*{sha256[:16]}…", shown)
    assert re.search(r"│ 9 +│ +100 │ +500 │ +20 │ █{30} │", shown)
    for line in ("depth: 1", "height: 28", "width: 28", "label: 0", "image_raw: uint8[28, 28]"):
        assert line in shown.splitlines()
    pixels = (31 * 5000 + 7 * np.arange(784)) % 256  # the first image of the split train is number 5,000
    first = "".join(" .:-=+*#%@"[int(value) * 10 // 256] * 2 for value in pixels[:28]).rstrip()
    assert shown.splitlines()[shown.splitlines().index("image_raw: uint8[28, 28]") + 1] == first


def _files(finished: Path) -> Iterator[tuple[str, int, str]]:
    manifest = verify(str(finished), Access())
    for file in manifest.files:
        yield file.file, file.size, file.sha256


def test_inspect_as_json_has_the_manifest_and_the_records_of_the_input(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("inspect", finished, "--json", "--records", "12") == 0
    shown = json.loads(capsys.readouterr().out)
    [manifest] = finished.rglob("manifest.json")
    assert shown["manifest"] == json.loads(manifest.read_bytes())
    assert len(shown["records"]) == 12
    for number, record in enumerate(shown["records"], start=5000):
        pixels = ((31 * number + 7 * np.arange(784)) % 256).astype(np.uint8)
        assert record.pop("image_raw")[0].encode("latin-1") == pixels.tobytes()
        assert record == {"depth": [1], "height": [28], "label": [number % 10], "width": [28]}


def a_csv_set(folder: Path, rows: str) -> Path:
    """Makes a finished data set from a CSV file with a number, a class and a text."""
    (folder / "in.csv").write_text(rows)
    job = {
        "apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "csv"},
        "spec": {
            "source": {"csv": {"uris": [str(folder / "in.csv")], "columns": [
                {"name": "[x]", "type": "Float32"}, {"name": "y", "type": "Int64"}, {"name": "text", "type": "String"},
            ]}},
            "features": [{"name": "[x]"}, {"name": "text"}],
            "labels": [{"name": "y"}],
            "output": {"uri": str(folder / "out")},
        },
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(job))
    assert code_of("run", folder / "job.json", "--quiet") == 0
    return folder / "out"


def test_values_that_look_like_markup_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = a_csv_set(tmp_path, "1.5,0,[/b]:smile:[red]\n")
    capsys.readouterr()
    assert code_of("inspect", output) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "[x]: 1.5" in shown
    assert "text: b'[/b]:smile:[red]'" in shown


def test_numbers_that_json_does_not_have_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = a_csv_set(tmp_path, "nan,0,a\ninf,1,b\n-inf,0,c\n")
    capsys.readouterr()
    assert code_of("inspect", output, "--json", "--records", "9") == 0

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    shown = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert [record["[x]"] for record in shown["records"]] == [["NaN"], ["Infinity"], ["-Infinity"]]


def test_no_records_are_read_when_none_are_asked_for(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr(records, "read", refuse)
    assert code_of("inspect", finished, "--json", "--records", "0") == 0
    assert json.loads(capsys.readouterr().out)["records"] == []


def test_the_width_of_a_pipe_does_not_cut_long_names(tmp_path: Path, few: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "x" * 150
    assert code_of("run", *mnist_run(few, tmp_path / "out", {"output.fileName": f"{{split}}-{name}.tfrecords"}), "--quiet") == 0
    assert code_of("inspect", tmp_path / "out") == 0
    assert f"train-{name}.tfrecords" in capsys.readouterr().out


# --- ls ----------------------------------------------------------------------------------------------------------------


def test_ls_has_the_columns_of_hdfs_in_the_order_of_the_names(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    sizes = {name: (finished / f"{name}.tfrecords").stat().st_size for name in ("test", "train", "validation")}
    for name in sizes:
        (finished / f"{name}.tfrecords").chmod(0o644)
        os.utime(finished / f"{name}.tfrecords", (1488790000, 1488790000))
    try:
        assert code_of("ls", finished) == 0
    finally:
        monkeypatch.undo()
        time.tzset()
    owner, group = (finished / "test.tfrecords").owner(), (finished / "test.tfrecords").group()
    assert capsys.readouterr().out.splitlines() == [
        "Found 3 items",
        *(f"-rw-r--r--   - {owner} {group} {size:>10} 2017-03-06 16:46 {finished}/{name}.tfrecords" for name, size in sizes.items()),
    ]


def test_ls_of_one_file_is_its_line(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("ls", finished / "test.tfrecords") == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.endswith(f" {finished}/test.tfrecords")


def test_ls_of_nothing_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("ls", tmp_path / "absent") == 5
    assert capsys.readouterr().err == f"dataprep: error: {tmp_path}/absent has no visible files.\n"


@pytest.mark.slow
def test_ls_shows_names_that_are_not_utf_8(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    done = dataprep("ls", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("/\\udcff\n")


def test_a_store_without_a_column_has_a_dash_there(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        Entry("hdfs://nn/x/a", 8910000, "p", Details(modified=0, mode=0o644, replication=3, owner="root", group="hadoop")),
        Entry("hdfs://nn/x/b", 10**12, "p", Details(modified=0)),
        Entry("hdfs://nn/x/c", 1, "p"),
    ]
    monkeypatch.setattr(
        "dataprep_converter.dataset.output_folder.OutputFolder._list", lambda *_: ((e.uri[-1], e) for e in reversed(entries))
    )
    shown = io.StringIO()
    inspection.listing("/x", Access(), stream=shown)
    lines = shown.getvalue().splitlines()
    assert lines[0] == "Found 3 items"
    assert [line.split() for line in lines[1:]] == [
        ["-rw-r--r--", "3", "root", "hadoop", "8910000", "1970-01-01", lines[1].split()[6], "hdfs://nn/x/a"],
        ["-", "-", "-", "-", "1000000000000", "1970-01-01", lines[1].split()[6], "hdfs://nn/x/b"],
        ["-", "-", "-", "-", "1", "-", "-", "hdfs://nn/x/c"],
    ]
    assert len({line.index("hdfs://") for line in lines[1:]}) == 1


# --- verify ------------------------------------------------------------------------------------------------------------


def test_verify_says_what_it_found(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("verify", finished) == 0
    said = capsys.readouterr().out
    assert re.fullmatch(rf"{finished} is whole: 6,200 records in 3 files, 5,524,200 bytes; digest [0-9a-f]{{64}}\n", said)
    assert code_of("verify", finished, "--expect", said.split()[-1]) == 0
    assert code_of("verify", finished, "--expect", "0" * 64) == 5


@pytest.mark.slow
def test_verify_does_not_read_on_behind_the_first_fault(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    assert code_of("run", *mnist_run(few, output, {"output.shards.count": 40, "output.fileName": "{split}-{shard}.{ext}"}), "--quiet") == 0
    file = output / "train-00000.tfrecords"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    read: list[object] = []
    fault_seen = threading.Event()
    whole = records.blocks

    def counted(pieces: Iterator[bytes], *, compression: str) -> Iterator[VerifiedRecords]:
        read.append(pieces)
        if len(read) > 1:
            fault_seen.wait(0.05)
        yield from whole(pieces, compression=compression)

    monkeypatch.setattr(records, "blocks", counted)
    assert code_of("verify", output) == 5
    assert len(read) < 60
