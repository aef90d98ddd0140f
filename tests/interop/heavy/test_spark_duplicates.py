"""Spark SQL finds the same duplicates as the driver: plans and data sets have the same bytes, run ids and messages."""

import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.builders.digits import sha256s

import environments
from dataprep_converter.runtime import limits

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tests/interop/readers/spark_duplicates.py"
PATHS = [str(ROOT), str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_paths()["purelib"]]
NO_MEMORY = str(128 << 20)
"""With this little memory, Spark finds the duplicates in a source of any size."""
CLUSTER = ["--engine", "spark", "--master", "local-cluster[2,1,1024]", "--conf", "spark.executor.memory=512m"]

SEEDS = [0, 3, 10, 12, 16]
"""Floats, bad records, decimals of many digits, and two limits; see `random_job`."""


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(SEEDS, id="a choice"),
        pytest.param([seed for seed in range(24) if seed not in SEEDS], id="all others", marks=pytest.mark.nightly),
    ],
)
def test_plans_of_random_records_are_those_of_one_machine(seeds: list[int], tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"paths": PATHS, "folder": str(tmp_path), "seeds": seeds}))
    said = json.loads(environments.run("spark", SCRIPT, [wanted]).splitlines()[-1])
    assert said == {"with duplicates": len(seeds), "differing": []}


def dataprep(folder: Path, output: str, arguments: list[str], **changes: Any) -> subprocess.CompletedProcess[str]:
    """Runs a job in a new folder. The job leaves out duplicates, and divides the other records by groups."""
    cwd = folder / f"{output}-here"
    cwd.mkdir()
    halves = [{"name": "train", "fraction": 0.5}, {"name": "test", "fraction": 0.5}]
    spec = {
        "source": {"csv": {"uris": [str(folder / "in")], "header": True}},
        "deduplicate": {"columns": ["word", "x"]},
        "splits": {"groupBy": "word", "into": halves},
        "limit": 5000,
        "output": {"uri": str(folder / output), "shards": {"count": 3}},
        **changes,
    }
    job = cwd / "job.yaml"
    job.write_text(
        yaml.safe_dump({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "once"}, "spec": spec})
    )
    done = subprocess.run(
        [str(environments.python("spark")), "-m", "dataprep_converter", "run", str(job), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(PATHS),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(cwd),
            limits.MEMORY_VARIABLE: NO_MEMORY,
        },
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=environments.SECONDS,
        check=False,
    )
    assert [path.name for path in cwd.iterdir() if path.name.startswith(("dataprep-", "spark-"))] == []
    return done


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Two files with 6,000 rows. A third of the rows are equal, and most of the others occur twice."""
    (tmp_path / "in").mkdir()
    for file in range(2):
        lines = ["same,0,0" if row % 3 == 0 else f"word {row % 100},{row},{file}" for row in range(3000)]
        (tmp_path / "in" / f"{file}.csv").write_text("\n".join(["word,x,file", *lines, ""]))
    return tmp_path


def test_executors_find_the_duplicates_that_one_machine_finds(rows: Path) -> None:
    spark, here = dataprep(rows, "spark", [*CLUSTER, "--debug"]), dataprep(rows, "here", [])
    assert (spark.returncode, here.returncode) == (0, 0), spark.stderr[-3000:]
    assert run_of(spark) == run_of(here)
    assert sha256s(rows / "spark", "*-of-*") == sha256s(rows / "here", "*-of-*") != {}
    assert said_of_duplicates(spark) == said_of_duplicates(here) != []
    assert "deduplicate: the source is read on the engine's machines" in spark.stderr
    assert not list(rows.glob("spark/_dataprep/deduplication-*"))


def run_of(done: subprocess.CompletedProcess[str]) -> str:
    """The run id in the URI of the manifest that the command prints."""
    return done.stdout.split("/_dataprep/")[1].split("/")[0]


def said_of_duplicates(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "say the same as an earlier one" in line]
