"""A Spark cluster in the pods of one Job, in Spark's standalone mode. The pods need no permissions on the Kubernetes API.

The pod with index 0 runs the master and the driver; the driver is the process of this command. Each other pod runs a worker, which starts
one executor. All processes authenticate themselves with the secret of the cluster, and encrypt all data that they send or write to disk.
The secret is stored only in a file of the pod's user. No command line and no environment variable of a pod contains the secret.

A worker never ends by itself, because it can't know whether a lost master will return. The Job ends the workers when the pod with index 0
has succeeded.
"""

import importlib.util
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from dataprep_api.spec.engine import DAEMON_BYTES, DAEMON_HEAP, Spark, size_in_bytes
from dataprep_converter.core.errors import BadSpec, ConvertError, Unreachable

logger = logging.getLogger(__name__)

RPC_PORT: Final = 7078
"""The port of the driver and of the workers."""
BLOCKS_PORT: Final = 7079
"""The port on which the driver and the executors exchange blocks of data."""
START_SECONDS: Final = 120.0
"""How long the master may take to start. On a busy machine with two cores, it took 20 s."""
_POLL_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 5.0
"""How often a worker looks up the master's name."""
_SAY_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 10.0
_CONF_FILE: Final = "spark-defaults.conf"
_MASTER: Final = re.compile(r"spark://([A-Za-z0-9.-]+):([0-9]{1,5})")
_SECURITY: Final[Mapping[str, str]] = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
    # No port may answer without the secret. So the web page of the driver and the REST server of the master are switched off. The web pages
    # of the master and the workers are bound to their own pod (`_environment`).
    "spark.ui.enabled": "false",
    "spark.master.rest.enabled": "false",
}


@dataclass(frozen=True)
class Installation:
    """PySpark and Java on this machine."""

    home: Path
    """The folder of PySpark."""
    java: str
    scala: str
    """The version of Scala in the names of Spark's jars."""


def installation() -> Installation:
    """Returns this machine's Spark. Raises BadSpec if there is no PySpark or no Java."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise BadSpec("The image has no PySpark. Set engine.spark.image to an image with PySpark, Java and this release of dataprep.")
    home = Path(next(iter(spec.submodule_search_locations)))
    java = shutil.which("java", path=f"{os.environ['JAVA_HOME']}/bin") if os.environ.get("JAVA_HOME") else shutil.which("java")
    if java is None:
        raise BadSpec("The image has no Java. Spark 4 needs Java 17 or later in JAVA_HOME or on the PATH.")
    versions = [match[1] for jar in home.glob("jars/spark-core_*.jar") if (match := re.match(r"spark-core_([0-9.]+)-", jar.name))]
    if not versions:
        raise BadSpec(f"PySpark in {home} has no jars, so it can only connect to a Spark server. Install the package pyspark instead.")
    return Installation(home, java, versions[0])


@dataclass(frozen=True)
class Cluster:
    """The cluster of this pod."""

    spark: Spark
    master: str
    """The URL of the master."""
    address: str
    """The address of this pod."""
    secret: str
    memory: int | None = None
    """The pod's memory limit in bytes. It exceeds `spark.pod_bytes` if an earlier attempt had too little memory."""

    @property
    def endpoint(self) -> tuple[str, int]:
        """The host and the port of the master. Raises BadSpec."""
        match = _MASTER.fullmatch(self.master)
        if match is None:
            raise BadSpec(f"--master: expected a URL such as spark://host:7077, got {self.master!r}")
        return match[1], int(match[2])

    def settings(self) -> dict[str, str]:
        """Returns the settings of all processes of Spark in this pod."""
        executor, driver = self.spark.executor, self.spark.driver
        spare = max(0, (self.memory or 0) - self.spark.pod_bytes)
        beside_heap = executor.total_bytes - size_in_bytes(executor.memory) + spare
        own = {
            "spark.authenticate.secret": self.secret,
            "spark.executor.instances": str(executor.instances),
            "spark.executor.cores": str(executor.cores),
            "spark.executor.memory": executor.memory,
            "spark.executor.memoryOverhead": f"{beside_heap >> 20}m",
            "spark.cores.max": str(executor.instances * executor.cores),
            "spark.driver.memory": driver.memory,
            "spark.driver.host": self.address,
            "spark.driver.bindAddress": self.address,
            "spark.driver.port": str(RPC_PORT),
            "spark.blockManager.port": str(BLOCKS_PORT),
            # The first tasks wait for all executors. After 120 s, the tasks start on the executors that have connected.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        }
        # The job's settings come first, so that ours override them even if the list of allowed settings contains one of ours.
        return {**(self.spark.conf or {}), **own, **_SECURITY}

    def driver_bytes(self) -> int:
        """Returns the memory of the driver's Python process: the pod's memory without the driver's heap and the master's memory."""
        return max(self.memory or 0, self.spark.pod_bytes) - size_in_bytes(self.spark.driver.memory) - DAEMON_BYTES


def read_secret(file: Path) -> str:
    """Returns the secret of the cluster. Raises BadSpec if there is none."""
    try:
        secret = file.read_text().strip()
    except OSError as exc:
        raise BadSpec(f"--secret-file: {file} can't be read: {exc.strerror}") from exc
    if not re.fullmatch(r"[A-Za-z0-9_-]{16,}", secret):
        raise BadSpec(f"--secret-file: expected at least 16 letters and digits in {file}")
    return secret


def own_address() -> str:
    """Returns the address of this pod."""
    return os.environ.get("POD_IP") or socket.gethostbyname(socket.gethostname())


@contextmanager
def master(cluster: Cluster, spark: Installation) -> Iterator[None]:
    """Runs the master during the block. Spark processes that the block starts find their settings in SPARK_CONF_DIR."""
    host, port = cluster.endpoint
    # With --debug, Py4J would log all settings, including the secret.
    logging.getLogger("py4j").setLevel(logging.INFO)
    _await_name(host, cluster.address)
    with _configured(cluster) as folder:
        command = [*_java(spark, folder), "org.apache.spark.deploy.master.Master", "--host", host, "--port", str(port), "--webui-port", "0"]
        process = subprocess.Popen(command, env=_environment(spark, folder))  # noqa: S603 - Spark, with checked arguments
        try:
            _await_start(process, host, port)
            os.environ |= {"SPARK_CONF_DIR": str(folder), "SPARK_HOME": str(spark.home), "PYSPARK_PYTHON": sys.executable}
            yield
        finally:
            _stop(process)


def work(cluster: Cluster, spark: Installation) -> NoReturn:
    """Runs a worker, and restarts it whenever it ends or the master's pod is replaced. Never returns."""
    host, port = cluster.endpoint
    executor = cluster.spark.executor
    while True:
        _await_master(host, port)
        found = _addresses(host)
        with _configured(cluster) as folder, tempfile.TemporaryDirectory(prefix="spark-work-") as work_folder:
            command = [
                *_java(spark, folder),
                "org.apache.spark.deploy.worker.Worker",
                *("--host", cluster.address, "--port", str(RPC_PORT), "--webui-port", "0", "--work-dir", work_folder),
                # The worker runs a single executor, which has all cores, and whose heap is all of the worker's memory.
                *("--cores", str(executor.cores), "--memory", executor.memory.upper()),
                cluster.master,
            ]
            process = subprocess.Popen(command, env=_environment(spark, folder))  # noqa: S603 - Spark, with checked arguments
            try:
                _await_end(process, host, found)
            finally:
                _stop(process)
        logger.warning("the worker has ended with exit code %d; it is started again", process.returncode)
        time.sleep(_POLL_SECONDS)


@contextmanager
def _configured(cluster: Cluster) -> Iterator[Path]:
    """Yields a folder with Spark's settings. Only this user can read the settings."""
    with tempfile.TemporaryDirectory(prefix="spark-conf-") as folder:
        file = Path(folder) / _CONF_FILE
        file.touch(mode=0o600)
        file.write_text("".join(f"{name} {value}\n" for name, value in cluster.settings().items()))
        yield Path(folder)


def _java(spark: Installation, folder: Path) -> list[str]:
    return [spark.java, f"-Xmx{DAEMON_HEAP}", "-cp", f"{folder}:{spark.home}/jars/*"]


def _environment(spark: Installation, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_CONF_DIR": str(folder),
        "SPARK_HOME": str(spark.home),
        # Without this variable, a worker would look for the Scala version in the folders of a Spark build.
        "SPARK_SCALA_VERSION": spark.scala,
        # The web pages can't be switched off, so they are bound to this address. Spark's settings contain all other addresses.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def _await_name(host: str, address: str) -> None:
    """Waits until the master's name resolves to this pod. For some seconds, the name may be unknown or resolve to an earlier pod. Raises
    Unreachable."""
    deadline = time.monotonic() + START_SECONDS
    while address not in (found := _addresses(host)):
        if time.monotonic() > deadline:
            shown = ", ".join(sorted(found)) or "nothing"
            raise Unreachable(f"The name {host} resolves to {shown} after {START_SECONDS:.0f} s, expected this pod's address {address}.")
        time.sleep(_POLL_SECONDS)


def _addresses(host: str) -> set[str]:
    try:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


def _await_start(process: "subprocess.Popen[bytes]", host: str, port: int) -> None:
    """Waits until the master answers. Raises ConvertError if the master ends, and Unreachable if it takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not _answers(host, port):
        if process.poll() is not None:
            raise ConvertError(f"Spark's master ended with exit code {process.returncode}. The lines above say why.")
        if time.monotonic() > deadline:
            raise Unreachable(f"Spark's master doesn't answer at {host}:{port} after {START_SECONDS:.0f} s.")
        time.sleep(_POLL_SECONDS)


def _await_master(host: str, port: int) -> None:
    """Waits until the master answers, without a time limit. The job's deadline can end the wait."""
    said = time.monotonic()
    while not _answers(host, port):
        if time.monotonic() - said >= _SAY_SECONDS:
            said = time.monotonic()
            logger.info("waiting for Spark's master at %s:%d", host, port)
        time.sleep(_POLL_SECONDS)


def _await_end(process: "subprocess.Popen[bytes]", host: str, addresses: set[str]) -> None:
    """Waits until the worker ends, or until the master's name resolves to addresses other than `addresses`.

    A worker that has lost its master keeps using the old address. If packets to this address are dropped, the worker looks up the name
    again only after minutes.
    """
    while True:
        try:
            process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if (found := _addresses(host)) and found != addresses:
                logger.info("Spark's master %s has another address", host)
                return
        else:
            return


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=5):
            return True
    except OSError:
        return False


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process, and waits until it has ended."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
