"""The benchmarks run, and the page is made from their results. The measured figures are not tested."""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import report, running
from benchmarks.contenders import READ_BY, Contender
from benchmarks.measuring import RunFailed, Took
from benchmarks.running import Conditions
from benchmarks.workload import PREPARED, Against, Workload
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]


def results(*, ours: float = 900.0, faults: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns the results of one workload. The other program converts 100 records per second, and the upper limit is 1,000."""
    rates = (("ours", "ours", ours), ("<peer>", "peer", 100.0), ("cat", "limit", 1000.0))
    contenders = {
        name: {
            "role": role, "records": 50, "per_second": rate, "spread": 0.05, "seconds": 50 / rate, "cpu_seconds": 0.5,
            "written": 5_000_000, "peak_bytes": 64 << 20, "most_bytes": 512 << 20,
        }
        for name, role, rate in rates
    }  # fmt: skip
    found = {
        "title": "W0: files to records", "records": 50, "bytes_in": 5_000_000, "rounds": 3,
        "checked": "the outputs, read back by TensorFlow, are equal",
        "goals": {"<peer>": 4, "cat": 0.95}, "bounds": {}, "contenders": contenders, "faults": list(faults),
        "at": "2026-01-01", "machine": {"cores": "2", "processor": "P", "python": "3.11"},
    }  # fmt: skip
    return {"workloads": {"files": found}}


def test_the_table_has_each_ratio_beside_its_goal() -> None:
    lines = report.page(results()).splitlines()

    assert "## W0: files to records" in lines
    assert "| <peer> | 50 | 100 | ± 5% | 10 | 0.50 | 64 | 9.00 x | 4 x ✓ |" in lines
    assert "| cat | 50 | 1,000 | ± 5% | 100 | 0.50 | 64 | 0.90 x | 0.95 x ✗ |" in lines
    assert "`files`: 50 records, 3 rounds, 2 cores of P, 2026-01-01." in lines
    assert "Verified: the outputs, read back by TensorFlow, are equal." in lines


def test_outputs_that_differ_are_not_called_equal() -> None:
    assert "are equal." not in report.table("files", results(faults=("<peer> wrote other records",))["workloads"]["files"])


def test_it_is_said_where_nothing_is_read_back() -> None:
    found = results()["workloads"]["files"] | {"checked": ""}

    assert "This workload writes no output, so no output was read back." in report.table("files", found)


def test_rounds_that_were_repeated_are_told() -> None:
    found = results()["workloads"]["files"]
    found["contenders"]["cat"] |= {"runs": 6}

    assert "3 rounds (6 of cat, because runs varied), 2 cores" in report.table("files", found)


def test_what_must_be_reached_alone_stands_beside_ours() -> None:
    found = results()["workloads"]["files"] | {"bounds": {"ours": ["MB/s", 100]}}

    assert report.table("files", found).splitlines()[2] == "| ours | 50 | 900 | ± 5% | 90 | 0.50 | 64 |  | ≥ 100 MB/s ✗ |"


def test_commands_are_told_in_seconds() -> None:
    found = results(ours=500.0)["workloads"]["files"] | {"bounds": {"ours": ["s", 0.15]}, "goals": {}}

    assert report.table("files", found).splitlines()[:4] == [
        "| command | seconds | spread | CPU s | peak MiB | goal |",
        "|---|--:|--:|--:|--:|--:|",
        "| ours | 0.10 | ± 5% | 0.50 | 64 | ≤ 0.15 s ✓ |",
        "| <peer> | 0.50 | ± 5% | 0.50 | 64 |  |",
    ]


def test_a_job_above_its_memory_is_marked_and_unknown_cpu_time_is_left_out() -> None:
    found = results()["workloads"]["files"]
    found["contenders"]["ours"] |= {"peak_bytes": 600 << 20, "cpu_seconds": None}

    assert report.table("files", found).splitlines()[2] == "| ours | 50 | 900 | ± 5% | 90 |  | 600 ✗ |  |  |"


def test_each_goal_stands_beside_the_limit_that_was_measured() -> None:
    found = results(ours=300.0)["workloads"]["files"] | {"limit": "cat"}

    assert report.goals({"workloads": {"files": found}}).splitlines()[:5] == [
        "0 of 2 goals are met.",
        "",
        "| workload | compared with | goal | reached | met | nearest measured limit | result of the limit | our share of the limit |",
        "|---|---|--:|--:|--:|---|--:|--:|",
        "| `files` | <peer> | 4 x | 3.00 x | ✗ | cat | 10.0 x | 0.30 |",
    ]
    assert "| `files` | cat | 0.95 x | 0.30 x | ✗ |  |  |  |" in report.goals({"workloads": {"files": found}})


def test_a_gain_stands_beside_what_others_gain() -> None:
    found = results(ours=150.0)["workloads"]["files"] | {"gains": {"<peer>": ["cat", "<peer>"]}, "goals": {"<peer>": 1.8}}

    assert "| `files` | <peer> | 1.8 x | 1.50 x | ✗ | cat, compared with <peer> | 10.0 x | 0.15 |" in report.goals(
        {"workloads": {"files": found}}
    )


@pytest.mark.parametrize(("unit", "bound", "row"), [
    ("MB/s", 50, "≥ 50 MB/s | 90.0 MB/s | ✓ | cat | 100 MB/s | 0.90"),
    ("records/s", 1000, "≥ 1,000 records/s | 900 records/s | ✗ | cat | 1,000 records/s | 0.90"),
    ("s", 0.1, "≤ 0.1 s | 0.06 s | ✓ | cat | 0.05 s | 0.90"),
])  # fmt: skip
def test_what_is_told_alone_stands_beside_its_limit(unit: str, bound: float, row: str) -> None:
    found = results()["workloads"]["files"] | {"limit": "cat", "goals": {}, "bounds": {"ours": [unit, bound]}}

    assert f"| `files` | ours | {row} |" in report.goals({"workloads": {"files": found}})


def test_the_plot_has_a_bar_for_each_goal() -> None:
    plotted = ET.fromstring(report.plot(results()))  # noqa: S314 - our own

    texts = [text.text for text in plotted.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[-4:] == ["files: <peer>", "9.00 x of 4 x", "files: cat", "0.90 x of 0.95 x"]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_goals_name_contenders_and_ours_comes_first(workload: Any) -> None:
    names = [contender.name for contender in workload.contenders]

    assert len(set(names)) == len(names)
    assert set(workload.goals) <= set(names[1:])
    assert set(workload.bounds) <= {contender.name for contender in workload.contenders if contender.role == "ours"}
    assert names[0] == "ours"
    assert {workload.limit} - {""} <= set(names)
    assert set(workload.gains) <= set(workload.goals)
    assert {name for pair in workload.gains.values() for name in pair} <= set(names)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_what_ours_writes_is_read_back(workload: Any) -> None:
    against = {workload.against.who} if workload.against else set()
    writers = {
        contender.name for contender in workload.contenders if contender.role != "limit" and (contender.writes or contender.shown_by)
    }

    assert bool(writers | (against & {PREPARED})) == bool(workload.check or workload.against)
    assert workload.check or len(writers) <= 1
    assert against <= writers | {PREPARED}
    assert {workload.check, workload.against.output if against else ""} - {""} <= set(READ_BY)


def test_ours_takes_no_part_without_the_peer_that_it_needs() -> None:
    (workload,) = (each for each in WORKLOADS if each.name == "spark")
    assert [len(workload.taking_part(peers)) for peers in (None, {"spark"}, {"numpy"}, set())] == [3, 3, 0, 0]
    assert all(each.taking_part(set())[0].role == "ours" for each in WORKLOADS if each is not workload)


Columns = dict[str, Any]


@dataclass(frozen=True)
class Copying(Contender):
    """Applies `makes` to the source's matrices, and writes them.

    Each run reports the next value of `seconds` as its time; 0 makes the run fail.
    """

    makes: Callable[[Columns], Columns] = dict
    seconds: list[float] = field(default_factory=list)

    def run(self, source: Path, output: Path, records: int) -> Took:
        """See `Contender`."""
        with np.load(source / "table.npz") as held:
            np.savez(output / "data.npz", **self.makes(dict(held)))
        if self.seconds == [0.0]:
            raise RunFailed("no disk")
        return Took(records=records, seconds=self.seconds.pop(0) if self.seconds else 1.0, cpu_seconds=None, peak_bytes=1)


def copying(name: str, makes: Callable[[Columns], Columns] = dict, *, seconds: tuple[float, ...] = ()) -> Contender:
    return Copying(name, "peer", "", "", makes=makes, seconds=list(seconds))


def ran(folder: Path, *contenders: Contender, rounds: int = 1, against: Against | None = None) -> dict[str, Any]:
    workload = Workload("copies", "Copies", make="dense", records=20, quick=20, contenders=contenders, check="npz", against=against)
    (folder / "data").mkdir()
    conditions = Conditions(rounds=rounds, seed=1, peers=None, data=folder / "data", began=time.monotonic())
    return running.run(workload, folder, records=20, conditions=conditions)


@pytest.mark.parametrize(
    ("makes", "fault"),
    [
        (lambda columns: columns | {"label": columns["label"][::-1]}, "it wrote other records than ours"),
        (lambda columns: {name: column[1:] for name, column in columns.items()}, "it wrote 19 of 20 records"),
        (lambda columns: columns | {"label": columns["label"][1:]}, "its output can't be read: ValueError"),
    ],
)
def test_an_output_that_differs_is_a_fault(tmp_path: Path, makes: Callable[[Columns], Columns], fault: str) -> None:
    found = ran(tmp_path, copying("ours"), copying("good"), copying("bad", makes))

    (told,) = found["faults"]
    assert told.startswith(f"bad: {fault}")
    assert set(found["contenders"]) == {"ours", "good"}


def test_one_output_alone_is_not_called_equal(tmp_path: Path) -> None:
    assert ran(tmp_path, copying("ours"))["checked"] == "the outputs, read back by numpy, have the expected number of records"


def test_what_all_write_wrong_is_seen_beside_the_input(tmp_path: Path) -> None:
    def other(columns: Columns) -> Columns:
        return columns | {"label": columns["label"] + 1}

    found = ran(tmp_path, copying("ours", other), copying("another", other), against=Against("npz", "npz"))

    assert found["faults"] == ["ours: its records differ from the input's"]


def test_runs_that_scatter_are_repeated_with_those_they_are_compared_with(tmp_path: Path) -> None:
    wild = copying("wild", seconds=(1, 1, 4, 2, 2, 2))

    found = ran(tmp_path, copying("ours"), wild, copying("steady"), rounds=3)

    assert {name: told["runs"] for name, told in found["contenders"].items()} == {"ours": 6, "wild": 6, "steady": 3}
    assert found["contenders"]["wild"]["per_second"] == 10


def test_a_contender_that_fails_takes_no_further_part(tmp_path: Path) -> None:
    found = ran(tmp_path, copying("ours"), copying("broken", seconds=(0.0,)), rounds=2)

    assert found["faults"] == ["broken: no disk"]
    assert found["contenders"]["ours"]["runs"] == 2


@pytest.mark.slow
def test_a_workload_runs_in_quick_mode_and_writes_nothing_into_the_repository(tmp_path: Path) -> None:
    pages = {path: path.stat().st_mtime_ns for path in (ROOT / "docs").glob("benchmarks.*")}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--only", "npz", "--size", "0.01", "--folder", str(tmp_path)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert [line.split(" | ")[:2] for line in done.stdout.splitlines()[4:7]] == [
        ["| ours", "100"],
        ["| numpy.savez", "100"],
        ["| write alone", "100"],
    ]
    assert "Verified: the outputs, read back by numpy, are equal." in done.stdout
    assert "npz: round 1 of 1" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "docs").glob("benchmarks.*")} == pages


@pytest.mark.slow
def test_an_upload_is_read_back_from_its_server(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    words = ["--quick", "--only", "upload-oss", "--size", "0.2", "--peers", "", "--folder", str(tmp_path)]

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "| ours | 13 |" in done.stdout
    assert (
        "Verified: the outputs, read back by the server's disk or its REST API, have the expected number of records; the output of *ours*"
        in done.stdout
    )
    assert list(tmp_path.iterdir()) == []
