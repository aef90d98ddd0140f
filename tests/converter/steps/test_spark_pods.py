"""The pods of a Spark cluster: their settings, how they find the master, and the message about an image without Spark.

In these tests, a shell script stands in for Java. The test with a real Spark is in tests/interop/heavy/test_spark_pods.py.
"""

import logging
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dataprep_api.spec.engine import Spark
from dataprep_converter.core.errors import BadSpec, ConvertError, Unreachable
from dataprep_converter.steps import spark_pods
from dataprep_converter.steps.spark_pods import Cluster, Installation

SECRET = "s3cret-s3cret-s3cret"
EXECUTOR = {"instances": 3, "cores": 2, "memory": "4g", "memoryOverhead": "1g"}


def a_cluster(*, master: str = "spark://127.0.0.1:7077", memory: int | None = None, **spark: object) -> Cluster:
    parsed = Spark.model_validate({"executor": EXECUTOR} | spark)
    return Cluster(parsed, master=master, address="127.0.0.1", secret=SECRET, memory=memory)


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine on which something answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the variables that a master sets for the driver."""
    for name in ("SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")


def java(folder: Path, script: str) -> Installation:
    """Return an installation whose Java is a shell script."""
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Installation(folder / "pyspark", str(program), "2.13")


def test_every_process_authenticates_itself_and_encrypts_what_it_sends_and_writes() -> None:
    settings = a_cluster().settings()

    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == settings["spark.io.encryption.enabled"] == "true"
    assert settings["spark.authenticate.secret"] == SECRET
    assert settings["spark.network.crypto.saslFallback"] == settings["spark.ui.enabled"] == "false"


def test_the_settings_are_the_job_s() -> None:
    settings = a_cluster(conf={"spark.sql.shuffle.partitions": "7"}, driver={"memory": "2g"}).settings()

    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert (settings["spark.executor.memory"], settings["spark.executor.cores"], settings["spark.cores.max"]) == ("4g", "2", "6")
    assert (settings["spark.executor.memoryOverhead"], settings["spark.driver.memory"]) == ("1024m", "2g")


def test_memory_that_was_raised_is_for_the_python_processes() -> None:
    """Java's heap can't exceed the pod's memory limit, but the Python processes can. So the Python processes get the additional memory."""
    limit = a_cluster().spark.pod_bytes + (512 << 20)

    assert a_cluster(memory=limit).settings()["spark.executor.memoryOverhead"] == "1536m"
    assert a_cluster(memory=limit).driver_bytes() - a_cluster().driver_bytes() == 512 << 20


def test_the_driver_plans_in_what_its_heap_and_the_master_leave() -> None:
    assert a_cluster(driver={"memory": "1g"}).driver_bytes() == 4 << 30


@pytest.mark.parametrize("url", ["", "local[2]", "spark://host", "spark://host:port", "spark://a b:7077", "spark://a:7077,b:7077"])
def test_a_master_is_one_host_and_one_port(url: str) -> None:
    with pytest.raises(BadSpec, match="--master: expected a URL such as spark://host:7077, got"):
        _ = a_cluster(master=url).endpoint


# --- the secret ---------------------------------------------------------------------------------------------------------


def test_the_settings_are_in_a_file_that_only_this_user_can_read() -> None:
    with spark_pods._configured(a_cluster()) as folder:
        file = folder / "spark-defaults.conf"
        assert f"spark.authenticate.secret {SECRET}\n" in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


@pytest.mark.usefixtures("environment")
def test_the_secret_is_in_no_command_and_in_no_variable(tmp_path: Path, port: int) -> None:
    seen = tmp_path / "seen"
    spark = java(tmp_path, f'echo "$@" > {seen}; env >> {seen}; exec sleep 60')
    with spark_pods.master(a_cluster(master=f"spark://127.0.0.1:{port}"), spark):
        while not seen.exists() or "SPARK_SCALA_VERSION" not in seen.read_text():
            pass
    text = seen.read_text()

    assert f"org.apache.spark.deploy.master.Master --host 127.0.0.1 --port {port} --webui-port 0\n" in text
    assert "SPARK_LOCAL_IP=127.0.0.1\n" in text
    assert SECRET not in text


@pytest.mark.parametrize("content", ["", "short\n", "spaces in the secret", "two\nlines-two-lines-two"])
def test_what_is_no_secret_is_refused_without_repeating_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "secret"
    file.write_text(content)

    with pytest.raises(BadSpec) as refused:
        spark_pods.read_secret(file)
    assert str(refused.value) == f"--secret-file: expected at least 16 letters and digits in {file}"


def test_a_secret_is_read_without_its_end_of_line(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")

    assert spark_pods.read_secret(tmp_path / "secret") == SECRET
    with pytest.raises(BadSpec, match="can't be read: No such file or directory"):
        spark_pods.read_secret(tmp_path / "none")


# --- the master ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("environment")
def test_the_driver_finds_the_settings_of_its_master(tmp_path: Path, port: int) -> None:
    with spark_pods.master(a_cluster(master=f"spark://127.0.0.1:{port}"), java(tmp_path, "exec sleep 60")):
        assert (Path(os.environ["SPARK_CONF_DIR"]) / "spark-defaults.conf").is_file()
        assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.usefixtures("environment")
def test_py4j_never_logs_the_settings(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("py4j"), "level", logging.DEBUG)
    with spark_pods.master(a_cluster(master=f"spark://127.0.0.1:{port}"), java(tmp_path, "exec sleep 60")):
        assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.DEBUG)


@pytest.mark.usefixtures("environment")
def test_a_master_that_ends_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        unused = server.getsockname()[1]

    with (
        pytest.raises(ConvertError, match=r"Spark's master ended with exit code 7\. The lines above say why\."),
        spark_pods.master(a_cluster(master=f"spark://127.0.0.1:{unused}"), java(tmp_path, "exit 7")),
    ):
        pass


def test_the_master_waits_until_its_name_stands_for_this_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([set[str](), {"10.0.0.1"}, {"127.0.0.1"}])
    monkeypatch.setattr(spark_pods, "_addresses", lambda _host: next(answers))
    monkeypatch.setattr(spark_pods, "_POLL_SECONDS", 0)

    spark_pods._await_name("job-0.spark", "127.0.0.1")

    assert list(answers) == []


def test_a_name_that_stays_with_an_earlier_pod_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_pods, "_addresses", lambda _host: {"10.0.0.1"})
    monkeypatch.setattr(spark_pods, "START_SECONDS", 0.0)

    with pytest.raises(Unreachable, match=r"job-0.spark resolves to 10.0.0.1 after 0 s, expected this pod's address 127.0.0.1"):
        spark_pods._await_name("job-0.spark", "127.0.0.1")


# --- workers ------------------------------------------------------------------------------------------------------------


def test_a_worker_is_run_again_until_its_process_is_stopped(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class StoppedError(BaseException):
        """Raised on SIGTERM, as in a pod."""

    runs = tmp_path / "runs"
    runs.touch()

    def sleep(_seconds: float) -> None:
        if len(runs.read_text().splitlines()) == 3:
            raise StoppedError

    # Replace only this module's clock. `Popen.wait` also sleeps, and would be stopped in the middle of its wait.
    monkeypatch.setattr(spark_pods, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    with pytest.raises(StoppedError):
        spark_pods.work(a_cluster(master=f"spark://127.0.0.1:{port}"), java(tmp_path, f'echo "$@" >> {runs}; exit 1'))

    (command,) = {line.partition(" org.")[2].partition(" --work-dir ")[0] for line in runs.read_text().splitlines()}
    assert command == "apache.spark.deploy.worker.Worker --host 127.0.0.1 --port 7078 --webui-port 0"
    assert runs.read_text().splitlines()[0].endswith(f"--cores 2 --memory 4G spark://127.0.0.1:{port}")


def test_a_worker_ends_when_the_master_has_another_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the master's name has no address, the worker continues."""
    answers = iter([{"10.0.0.1"}, set[str](), {"10.0.0.2"}])
    monkeypatch.setattr(spark_pods, "_addresses", lambda _host: next(answers))
    monkeypatch.setattr(spark_pods, "_LOOK_SECONDS", 0.01)
    with subprocess.Popen([java(tmp_path, "exec sleep 60").java]) as process:
        spark_pods._await_end(process, "job-0.spark", {"10.0.0.1"})
        assert process.poll() is None
        spark_pods._stop(process)

    assert list(answers) == []


# --- the image ----------------------------------------------------------------------------------------------------------


def test_an_image_without_pyspark_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep_converter.steps.spark_pods.importlib.util.find_spec", lambda _name: None)

    with pytest.raises(BadSpec, match=r"The image has no PySpark\. Set engine\.spark\.image to an image with PySpark, Java"):
        spark_pods.installation()


def test_an_image_without_java_or_jars_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadSpec, match=r"The image has no Java\. Spark 4 needs Java 17 or later"):
        spark_pods.installation()

    (tmp_path / "bin").mkdir()
    java(tmp_path / "bin", "exit 0")
    with pytest.raises(BadSpec, match="has no jars, so it can only connect to a Spark server"):
        spark_pods.installation()

    (package / "jars").mkdir()
    (package / "jars/spark-core_2.13-4.3.0.jar").touch()
    assert spark_pods.installation() == Installation(package, f"{tmp_path}/bin/java", "2.13")
