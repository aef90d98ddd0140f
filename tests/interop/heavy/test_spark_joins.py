"""Joins by Spark SQL have the same bytes, run ids and messages as joins by DuckDB."""

import json
import os
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.builders.digits import sha256s

import environments
from dataprep_converter.runtime import limits

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tests/interop/readers/spark_joins.py"
PATHS = [str(ROOT), str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_paths()["purelib"]]
NO_MEMORY = str(128 << 20)
"""With so little memory, the driver must not hold any rows in memory, so Spark joins all tables."""
SPARK = ["--engine", "spark", "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=3"]

RECORDS = [3, 10, 13, 36, 38, 48]
"""The seeds of random joins with at least ten records."""
SEQUENCES = [21, 24, 29, 46]
REFUSED = [1, 6, 7]


@pytest.mark.parametrize(
    "seeds",
    [
        # On a busy machine, a join takes half a minute.
        pytest.param((RECORDS[:1], SEQUENCES[:1], REFUSED[:1]), id="a choice"),
        pytest.param((RECORDS[1:], SEQUENCES[1:], REFUSED[1:]), id="all others", marks=pytest.mark.nightly),
    ],
)
def test_random_tables_are_joined_like_by_duckdb(seeds: tuple[list[int], ...], tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"paths": PATHS, "folder": str(tmp_path), "seeds": [seed for each in seeds for seed in each]}))
    said = json.loads(environments.run("spark", SCRIPT, [wanted]).splitlines()[-1])
    assert said["differing"] == []
    assert said["outcomes"] == dict(zip(("records", "sequences", "refused"), map(len, seeds), strict=True))


CLUSTER = ["--engine", "spark", "--master", "local-cluster[2,1,1024]", "--conf", "spark.executor.memory=512m"]


def begun(folder: Path, output: str, arguments: list[str], cwd: Path, **changes: Any) -> subprocess.Popen[str]:
    """Starts a job that joins the two tables in `folder`. Its working directory is the new folder `cwd`."""
    tables = [
        {"name": name, "prefix": f"{name}_", "source": {"csv": {"uris": [str(folder / f"{name}.csv")], "header": True}}} for name in "ab"
    ]
    changes = {"missing": "Drop", "duplicates": "Last"} | changes
    tables[0]["duplicates"] = changes["duplicates"]
    spec = {
        "source": {"join": {"keys": ["id"], "missing": changes["missing"], "tables": tables}},
        "output": {"uri": str(folder / output), "shards": {"count": 3}},
    }
    job = folder / f"{output}.yaml"
    job.write_text(yaml.safe_dump({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "two"}, "spec": spec}))
    cwd.mkdir()
    return subprocess.Popen(
        [str(environments.python("spark")), "-m", "dataprep_converter", "run", str(job), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(PATHS),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(cwd),
            limits.MEMORY_VARIABLE: NO_MEMORY,
        },
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def dataprep(folder: Path, output: str, arguments: list[str], **changes: Any) -> subprocess.CompletedProcess[str]:
    """Runs a job that joins the two tables in `folder`, and waits until the job ends. Its working directory is a new folder."""
    cwd = folder / f"{output}-here"
    with begun(folder, output, arguments, cwd, **changes) as process:
        said, errors = process.communicate(timeout=environments.SECONDS)
    assert [path.name for path in cwd.iterdir() if path.name.startswith(("dataprep-", "spark-"))] == []
    return subprocess.CompletedProcess(arguments, process.returncode, said, errors)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Two tables. In the first table, a third of the rows have the key 7. Each table lacks some of the other table's keys."""
    first = [f"{7 if row % 3 == 0 else row},{row / 4},word {row}" for row in range(3000)]
    second = [f"{row},{row * 2}" for row in reversed(range(0, 3300, 2))]
    (tmp_path / "a.csv").write_text("\n".join(["id,x,word", *first, ""]))
    (tmp_path / "b.csv").write_text("\n".join(["id,y", *second, "7,70", ""]))
    return tmp_path


def test_a_job_has_the_bytes_and_the_run_id_of_one_machine(tables: Path) -> None:
    spark, here = dataprep(tables, "spark", SPARK), dataprep(tables, "here", [])
    assert (spark.returncode, here.returncode) == (0, 0), spark.stderr
    assert run_of(spark) == run_of(here)
    assert sha256s(tables / "spark", "*-of-*") == sha256s(tables / "here", "*-of-*") != {}
    assert [line for line in spark.stderr.splitlines() if "left out because" in line] == [
        line for line in here.stderr.splitlines() if "left out because" in line
    ]


def run_of(done: subprocess.CompletedProcess[str]) -> str:
    """The run id in the URI of the manifest that the command prints."""
    return done.stdout.split("/_dataprep/")[1].split("/")[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"missing": "Refuse"}, "missing in the table"), ({"duplicates": "Refuse"}, "duplicated: 7 in "), ({"bad": True}, "id has no value")],
    ids=["missing", "duplicates", "bad row"],
)
def test_a_join_that_fails_has_the_message_of_one_machine(tables: Path, changes: dict[str, Any], words: str) -> None:
    if changes.pop("bad", False):
        with (tables / "b.csv").open("a") as file:
            file.write("none,1\n")
    spark, here = dataprep(tables, "spark", SPARK, **changes), dataprep(tables, "here", [], **changes)
    assert spark.returncode == here.returncode == 3
    assert spark.stderr.splitlines()[-1] == here.stderr.splitlines()[-1]
    assert words in here.stderr.splitlines()[-1]


def test_after_a_killed_executor_and_a_killed_driver_a_new_driver_goes_on(tables: Path) -> None:
    here = dataprep(tables, "here", [])
    with begun(tables, "spark", CLUSTER, tables / "killed-here") as killed:
        said = wait_for(killed, lambda: states(tables))
        assert json.loads(said[0].read_text())["answers"]
        executors = [pid for pid in descendants(killed.pid) if b"CoarseGrainedExecutorBackend" in command(pid)]
        os.kill(executors[0], signal.SIGKILL)
        wait_for(killed, lambda: [state for state in states(tables) if "t0" in json.loads(state.read_text())["streams"]])
        killed.kill()
        killed.communicate(timeout=60)
    assert not (tables / "spark" / "_SUCCESS").exists()
    spark = dataprep(tables, "spark", [*CLUSTER, "--debug"])
    assert (spark.returncode, here.returncode) == (0, 0), spark.stderr[-3000:]
    assert "source.join: an earlier driver has written" in spark.stderr
    assert run_of(spark) == run_of(here)
    assert sha256s(tables / "spark", "*-of-*") == sha256s(tables / "here", "*-of-*") != {}
    assert not list(tables.glob("spark/_dataprep/join-*"))


def states(folder: Path) -> list[Path]:
    """The files in which the driver of the join has stored its state."""
    return list(folder.glob("spark/_dataprep/join-*/state.json"))


def wait_for(process: subprocess.Popen[str], found: Callable[[], list[Path]]) -> list[Path]:
    """Waits until `found` returns paths, and returns them. Fails if the process ends earlier."""
    while not (paths := found()):
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.02)
    return paths


def descendants(pid: int) -> list[int]:
    """The ids of a process's child processes and of all their descendants."""
    children = [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]
    return [*children, *(each for child in children for each in descendants(child))]


def command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
