"""`dataprep run --engine spark` with a real Spark: two executors on this machine (`local-cluster`), and YARN (Hadoop's MiniYARNCluster)."""

import os
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from tests.builders.digits import sha256s
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

import environments
import javareaders

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

ROOT = Path(__file__).resolve().parents[3]
PATHS = [str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_paths()["purelib"]]
CLUSTER = ["--engine", "spark", "--master", "local-cluster[2,1,1024]", "--conf", "spark.executor.memory=512m"]
CODE = """
import os, pathlib, signal, time
from pyspark import TaskContext

def sleeps(record, place):
    if TaskContext.get() is not None:
        pathlib.Path(place).touch()
        time.sleep(300)
    return record

def dies(record, place=None):
    # The plan step calls this function too, on the driver.
    if TaskContext.get() is None:
        return record
    if place is not None:
        try:
            pathlib.Path(place).touch(exist_ok=False)
        except FileExistsError:
            return record
    os.kill(os.getpid(), signal.SIGKILL)
"""


def begun(arguments: list[str], **environment: str) -> subprocess.Popen[str]:
    """Starts the command with the Python that has PySpark."""
    return subprocess.Popen(
        [str(environments.python("spark")), "-m", "dataprep_converter", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def dataprep(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command until it ends."""
    with begun(arguments, **environment) as process:
        output, errors = process.communicate(timeout=environments.SECONDS)
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def written(folder: Path, spec: dict[str, Any], *, code: str | None = None) -> str:
    """Writes the job's file, and the ConfigMap with its code. Returns the path."""
    documents: list[dict[str, Any]] = [
        {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "numbers"}, "spec": spec}
    ]
    if code is not None:
        documents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"mine.py": code}})
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return str(file)


def numbers(folder: Path, **spec: Any) -> dict[str, Any]:
    """Returns the spec of a job with four tasks, which shuffles 4,000 rows of CSV."""
    source = folder / "in"
    source.mkdir()
    for file in range(4):
        rows = [f"{file * 1000 + row},name {row},{row / 2}" for row in range(1000)]
        (source / f"{file}.csv").write_text("\n".join(["id,name,half", *rows, ""]))
    return {
        "source": {"csv": {"uris": [str(source)], "header": True}},
        "shuffle": {"seed": 7},
        "workers": {"parallelism": 4},
        "output": {"uri": str(folder / "out"), "format": "tfrecord", "shards": {"count": 8}},
        **spec,
    }


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Path]:
    """A YARN cluster. Yields the folder with its configuration, for HADOOP_CONF_DIR."""
    configuration = tmp_path / "yarn"
    configuration.mkdir()
    command = ["java", "-Xmx512m", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", javareaders.classpath("yarn")]
    with (tmp_path / "yarn.log").open("w") as log:
        cluster = subprocess.Popen(
            [*command, str(ROOT / "tests/cluster/java/yarn/Yarn.java"), str(configuration)],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        try:
            said = cluster.stdout.readline()
            assert said == "ready\n", (tmp_path / "yarn.log").read_text()[-3000:]
            yield configuration
        finally:
            try:
                cluster.communicate(timeout=60)  # closes the program's standard input, which ends the program
            except subprocess.TimeoutExpired:
                cluster.kill()
                cluster.communicate()


def bytes_of_one_machine(folder: Path, spec: dict[str, Any]) -> dict[str, str]:
    """Runs the job on this machine, without Spark. Returns the digests of its shards."""
    run_job(parse_job(spec | {"output": spec["output"] | {"uri": str(folder / "here")}}))
    return sha256s(folder / "here", "*-of-*")


def test_two_executors_write_the_bytes_of_one_machine(tmp_path: Path) -> None:
    spec = numbers(tmp_path)
    done = dataprep(["run", written(tmp_path, spec), *CLUSTER])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path}/out/_dataprep/")
    assert "done: 4,000 records" in done.stderr
    assert sha256s(tmp_path / "out", "*-of-*") == bytes_of_one_machine(tmp_path, spec)
    assert len(sha256s(tmp_path / "out")) == 8


def test_yarn_writes_the_bytes_of_one_machine(yarn: Path, tmp_path: Path) -> None:
    spec = numbers(tmp_path)
    jars = next(environments.python("spark").parents[1].glob("lib/*/site-packages/pyspark/jars"))
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(PATHS),
        "spark.yarn.am.memory": "400m",
        "spark.yarn.jars": f"local:{jars}/*",
        "spark.yarn.stagingDir": str(tmp_path / "staging"),
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    done = dataprep(["run", written(tmp_path, spec), "--engine", "spark", "--master", "yarn", *options], HADOOP_CONF_DIR=str(yarn))
    assert done.returncode == 0, done.stderr
    assert sha256s(tmp_path / "out", "*-of-*") == bytes_of_one_machine(tmp_path, spec)


def jobs_of_the_how_to(folder: Path) -> dict[str, dict[str, Any]]:
    """The four jobs of docs/how-tos.md for Deeplearning4j on Spark, with small inputs. Each has two tasks."""
    (folder / "rows").mkdir()
    for file in range(2):
        (folder / "rows" / f"{file}.csv").write_text("".join(f"{row},1,2.5,3,4,{row % 10}\n" for row in range(50)))
    for table in ("in", "out"):
        (folder / f"{table}.csv").write_text("".join(f"{row},{row * 2},{row * 3}\n" for row in range(100)))
    (folder / "walks").mkdir()
    for walk in range(8):
        (folder / "walks" / f"{walk}.csv").write_text("".join(f"{step},1,2,3,4,{walk % 10}\n" for step in range(3 + walk)))
    for number in range(8):
        picture(folder / "photos" / f"class{number % 2}" / f"{number}.png", number)
    label = [{"name": "label", "columns": ["5"], "numClasses": 10}]
    features = [{"name": "features", "columns": ["0..4"]}]
    tables = [{"name": name, "prefix": f"{name}_", "source": {"csv": {"uris": [str(folder / f"{name}.csv")]}}} for name in ("in", "out")]
    return {
        "csv": {"source": {"csv": {"uris": [str(folder / "rows")]}}, "features": features, "labels": label},
        "two tables": {
            "source": {"join": {"keys": ["0"], "missing": "Drop", "tables": tables}},
            "features": [{"name": "features", "columns": ["in_1", "in_2"], "dtype": "float32"}],
            "labels": [{"name": "label", "columns": ["out_1", "out_2"], "dtype": "float32"}],
        },
        "sequences": {"source": {"csvSequences": {"uris": [str(folder / "walks")]}}, "features": features, "labels": label},
        "images": {
            "source": {"images": {"uris": [str(folder / "photos")]}},
            "transforms": [{"decode": {"channels": 3}}, {"resize": {"height": 16, "width": 16}}, {"scale": {"columns": ["image"]}}],
        },
    }


def picture(file: Path, shade: int) -> None:
    """Writes a small grey PNG file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 30), (shade * 20, 0, 100)).save(file)


@pytest.mark.parametrize(
    ("job", "format_"), [("csv", "mapFile"), ("two tables", "tfrecord"), ("sequences", "sequenceFile"), ("images", "tfrecord")]
)
def test_the_jobs_of_the_deeplearning4j_how_to_run_on_spark(job: str, format_: str, tmp_path: Path) -> None:
    output = {"uri": str(tmp_path / "out"), "format": format_, "shards": {"count": 2}, "fileName": "{split}-{shard}-of-{shards}.{ext}"}
    spec = jobs_of_the_how_to(tmp_path)[job] | {"workers": {"parallelism": 2}, "output": output}
    done = dataprep(["run", written(tmp_path, spec), "--engine", "spark", "--master", "local[2]"])
    assert done.returncode == 0, done.stderr
    expected = {file.relative_to(tmp_path / "here"): file.read_bytes() for file in files_of(tmp_path, spec)}
    assert len(expected) >= 2
    assert {path: (tmp_path / "out" / path).read_bytes() for path in expected} == expected


def files_of(folder: Path, spec: dict[str, Any]) -> list[Path]:
    """Runs the job on this machine, without Spark. Returns its visible files."""
    run_job(parse_job(spec | {"output": spec["output"] | {"uri": str(folder / "here")}}))
    return [file for file in (folder / "here").rglob("*-of-*") if file.is_file()] or [
        file for file in (folder / "here").rglob("*-of-*/*") if file.is_file()
    ]


def test_the_task_of_a_killed_process_is_done_again(tmp_path: Path) -> None:
    step = {"map": {"callable": "mine:dies", "options": {"place": str(tmp_path / "died")}}}
    spec = numbers(tmp_path, code={"configMapRef": {"name": "code"}}, transforms=[step])
    done = dataprep(["run", written(tmp_path, spec, code=CODE), *CLUSTER])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "died").exists()
    assert "done: 4,000 records" in done.stderr
    assert dataprep(["verify", str(tmp_path / "out")]).returncode == 0


def test_a_process_that_is_killed_again_and_again_is_named(tmp_path: Path) -> None:
    spec = numbers(tmp_path, code={"configMapRef": {"name": "code"}}, transforms=[{"map": {"callable": "mine:dies"}}])
    done = dataprep(["run", written(tmp_path, spec, code=CODE), *CLUSTER])
    assert done.returncode == 70
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "dataprep: error: The process of a task was killed again and again. It may have had too little memory. Spark says: "
    )
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    assert not sha256s(tmp_path / "out")


def test_sigterm_ends_a_run_whose_tasks_are_slow(tmp_path: Path) -> None:
    step = {"map": {"callable": "mine:sleeps", "options": {"place": str(tmp_path / "asleep")}}}
    spec = numbers(tmp_path, code={"configMapRef": {"name": "code"}}, transforms=[step])
    with begun(["run", written(tmp_path, spec, code=CODE), "--engine", "spark", "--master", "local[1]"]) as process:
        while not (tmp_path / "asleep").exists():
            assert process.poll() is None
            time.sleep(0.1)
        process.terminate()
        _, errors = process.communicate(timeout=120)  # shorter than the time for one record
    assert process.returncode == 143, errors
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_a_bad_record_has_the_message_of_one_machine(tmp_path: Path) -> None:
    spec = numbers(tmp_path)
    with (tmp_path / "in" / "2.csv").open("a") as file:
        file.write("7,name,half\n")
    done = dataprep(["run", written(tmp_path, spec), *CLUSTER])
    here = dataprep(["run", written(tmp_path, spec)])
    assert done.returncode == here.returncode == 3
    assert done.stderr.splitlines()[-1] == here.stderr.splitlines()[-1]
    assert "2.csv" in here.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (
            ["--master", "sparky://host"],
            {},
            "Spark has no master such as sparky://host. Expected for example local[4], spark://host:7077 or yarn.",
        ),
        (
            ["--master", "local[1]"],
            {"JAVA_HOME": "/no/java"},
            "Spark's Java process didn't start. If the lines above don't say why: Spark 4 needs Java 17 or later",
        ),
    ],
    ids=["master", "java"],
)
def test_a_start_that_fails_ends_with_a_sentence(arguments: list[str], environment: dict[str, str], message: str, tmp_path: Path) -> None:
    done = dataprep(["run", written(tmp_path, numbers(tmp_path)), "--engine", "spark", *arguments], **environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"dataprep: error: {message}")
    assert not (tmp_path / "out").exists()
