"""The benchmarks run, and the page is made of their results. What they measure is no test's business."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from benchmarks import report
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]


def results(*, ours: float = 900.0, faults: tuple[str, ...] = ()) -> dict[str, Any]:
    """Those of one workload: a peer at 100 records a second, a limit at 1,000."""
    rates = (("ours", "ours", ours), ("<peer>", "peer", 100.0), ("cat", "limit", 1000.0))
    contenders = {
        name: {
            "role": role, "records": 50, "per_second": rate, "spread": 0.05, "seconds": 50 / rate, "cpu_seconds": 0.5,
            "written": 5_000_000, "peak_bytes": 64 << 20, "most_bytes": 512 << 20,
        }
        for name, role, rate in rates
    }  # fmt: skip
    found = {
        "title": "W0: files to records", "records": 50, "bytes_in": 5_000_000, "rounds": 3, "check": "tfrecord",
        "goals": {"<peer>": 4, "cat": 0.95}, "bounds": {}, "contenders": contenders, "faults": list(faults),
        "at": "2026-01-01", "machine": {"cores": "2", "processor": "P", "python": "3.11"},
    }  # fmt: skip
    return {"workloads": {"files": found}}


def test_the_table_has_each_ratio_beside_its_goal() -> None:
    lines = report.page(results()).splitlines()

    assert "## W0: files to records" in lines
    assert "| <peer> | 50 | 100 | ± 5% | 10 | 0.50 | 64 | 9.00 x | 4 x ✓ |" in lines
    assert "| cat | 50 | 1,000 | ± 5% | 100 | 0.50 | 64 | 0.90 x | 0.95 x ✗ |" in lines
    assert "`files`: 50 records, 3 rounds, 2 cores of P, 2026-01-01; outputs read back and equal." in lines


def test_outputs_that_differ_are_not_called_equal() -> None:
    assert "equal." not in report.table("files", results(faults=("<peer> wrote other records",))["workloads"]["files"])


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
    assert "outputs read back and equal" in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "docs").glob("benchmarks.*")} == pages


def test_an_upload_is_read_back_from_its_server(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    words = ["--quick", "--only", "upload-oss", "--size", "0.2", "--peers", "", "--folder", str(tmp_path)]

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "| ours | 13 |" in done.stdout
    assert "outputs read back and equal" in done.stdout
    assert list(tmp_path.iterdir()) == []
