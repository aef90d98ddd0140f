"""Joins by Spark SQL have the bytes, the run id and the messages of joins by DuckDB."""

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
SCRIPT = ROOT / "tests/interop/readers/spark_joins.py"
PATHS = [str(ROOT), str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_paths()["purelib"]]
NO_MEMORY = str(128 << 20)
"""With this little memory, no rows may be in the driver's memory, so Spark joins all tables."""
SPARK = ["--engine", "spark", "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=3"]

SEEDS = [3, 10, 13, 36, 38, 48, 21, 24, 29, 46, 1, 6, 7]
"""Six joins with at least ten records, four with sequences, and three that are refused. On a busy machine, a join takes half a minute."""


def test_random_tables_are_joined_like_by_duckdb(tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"paths": PATHS, "folder": str(tmp_path), "seeds": SEEDS}))
    said = json.loads(environments.run("spark", SCRIPT, [wanted]).splitlines()[-1])
    assert said["differing"] == []
    assert said["outcomes"] == {"records": 6, "sequences": 4, "refused": 3}


def dataprep(folder: Path, output: str, arguments: list[str], *, memory: str = NO_MEMORY, **changes: Any) -> subprocess.CompletedProcess[str]:
    """Runs a job that joins two tables in `folder`, in a folder of its own."""
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
    cwd = folder / f"{output}-here"
    cwd.mkdir()
    done = subprocess.run(
        [str(environments.python("spark")), "-m", "dataprep_converter", "run", str(job), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(cwd), limits.MEMORY_VARIABLE: memory},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert [path.name for path in cwd.iterdir() if path.name.startswith(("dataprep-", "spark-"))] == []
    return done


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Two tables. A third of the rows of the first have the key 7, and each table lacks some keys of the other."""
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
