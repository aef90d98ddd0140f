"""`dataprep spark-plan` with a real Spark.

The processes that `engine.spark` runs in pods run on this machine, each with its own loopback address.
"""

import json
import os
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import environments
from dataprep_converter.runtime import limits

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

ROOT = Path(__file__).resolve().parents[3]
PATHS = [str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_paths()["purelib"]]
MASTER = "spark://127.0.0.1:17077"
SECRET = "a-secret-of-this-test-0123456789"
SIZES = {"memory": "512m", "memoryOverhead": "100m"}
SPARK = {"executor": {"instances": 1, "cores": 1, **SIZES}, "driver": SIZES}
"""The driver has so little memory beside its heap that Spark joins even small tables."""
MEMORY = limits.MEMORY_VARIABLE
"""With a limit of one byte, the join's memory depends on the sizes in the job instead of this machine's memory."""
SECONDS = 900


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The file of a job that joins two tables of 200 rows. The file with the secret is beside it."""
    for name, factor in (("a", 3), ("b", 5)):
        rows = [f"{row},{row * factor}" for row in range(200)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"id,{name}", *rows, ""]))
    (tmp_path / "secret").write_text(SECRET)
    tables = [{"name": name, "source": {"csv": {"uris": [str(tmp_path / f"{name}.csv")], "header": True}}} for name in "ab"]
    spec = {"source": {"join": {"keys": ["id"], "tables": tables}}, "output": {"uri": str(tmp_path / "out")}, "engine": {"spark": SPARK}}
    file = tmp_path / "job.yaml"
    file.write_text(
        yaml.safe_dump({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "two"}, "spec": spec})
    )
    return file


def command(job: Path, *, file: str = "secret") -> list[str]:
    program = [str(environments.python("spark")), "-m", "dataprep_converter", "spark-plan", "--job", str(job)]
    return [*program, "--master", MASTER, "--secret-file", str(job.with_name(file))]


def variables(index: int) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(PATHS),
        "JOB_COMPLETION_INDEX": str(index),
        "POD_IP": f"127.0.0.{index + 1}",
        MEMORY: "1",
    }


@contextmanager
def worker(job: Path, index: int, *, file: str = "secret") -> Iterator[Path]:
    """Runs a worker during the block, and yields the path of its log. The worker must end on SIGTERM."""
    log = job.with_name(f"worker-{index}.log")
    with log.open("w") as lines, subprocess.Popen(command(job, file=file), env=variables(index), stderr=lines, stdout=lines) as process:
        try:
            yield log
        finally:
            process.terminate()
            assert process.wait(timeout=60) == 128 + signal.SIGTERM


def driver(job: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(job), env=variables(0), capture_output=True, text=True, timeout=SECONDS, check=False)


def await_line(log: Path, text: str) -> None:
    deadline = time.monotonic() + SECONDS
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def test_the_driver_plans_and_the_workers_stay_until_they_are_stopped(job: Path) -> None:
    with worker(job, 1) as log:
        done = driver(job)
        assert done.returncode == 0, done.stderr
        assert f"Successfully registered with master {MASTER}" in log.read_text()
        assert not list(job.parent.glob("out/_dataprep/join-*"))
    planned = json.loads(done.stdout)
    plain = [str(environments.python("spark")), "-m", "dataprep_converter", "plan", str(job), "--set", f"output.uri={job.parent / 'plain'}"]
    alone = subprocess.run(plain, env=variables(0) | {MEMORY: ""}, capture_output=True, text=True, timeout=SECONDS, check=True)

    assert planned["runId"] == json.loads(alone.stdout)["runId"]
    assert SECRET not in done.stdout + done.stderr + log.read_text()


def test_who_has_another_secret_is_refused(job: Path) -> None:
    job.with_name("wrong").write_text(SECRET[::-1])
    with worker(job, 1), worker(job, 2, file="wrong") as log:
        assert driver(job).returncode == 0
        await_line(log, "Authentication failed")
        assert "Successfully registered" not in log.read_text()


def test_a_worker_joins_the_driver_that_comes_after_a_dead_one(job: Path) -> None:
    with worker(job, 1) as log:
        with subprocess.Popen(command(job), env=variables(0), start_new_session=True, stderr=subprocess.DEVNULL) as first:
            await_line(log, "Successfully registered")
            os.killpg(first.pid, signal.SIGKILL)
        done = driver(job)

        assert done.returncode == 0, done.stderr
        assert log.read_text().count("Successfully registered") >= 2
