"""Writes a data set with Spark's `dataprep` source, while Spark runs second attempts of slow tasks. Input: a JSON file of {paths, folder}.

Spark never runs two attempts of a task on the same host, so this program starts two workers, with different loopback addresses. Some
attempts fail, and the first attempt of a task is slow. Prints the attempts.
"""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

wanted = json.loads(Path(sys.argv[1]).read_text())
sys.path += wanted["paths"]
os.environ["PYTHONPATH"] = os.pathsep.join(wanted["paths"])
os.environ["PYSPARK_PYTHON"] = sys.executable

import pyspark  # noqa: E402 - the path is set above
from pyspark import TaskContext  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as sql  # noqa: E402

from dataprep_spark import DataprepDataSource  # noqa: E402

FOLDER = Path(wanted["folder"])
ATTEMPTS = FOLDER / "attempts"
HOSTS = ("127.0.0.2", "127.0.0.3")
SLOW = 5
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
}


def free_port() -> str:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return str(made.getsockname()[1])


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """Starts a master and two workers, and yields the master's URL. Stops them when the block ends."""
    url = f"spark://127.0.0.1:{(port := free_port())}"
    home = Path(pyspark.__file__).parent
    programs = [["master.Master", "--host", "127.0.0.1", "--port", port]]
    programs += [
        ["worker.Worker", "--host", host, "--cores", "1", "--memory", "600m", "--work-dir", str(FOLDER / host), url] for host in HOSTS
    ]
    started = [
        subprocess.Popen(
            [home / "bin/spark-class", f"org.apache.spark.deploy.{name}", "--webui-port", free_port(), *arguments],
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, *arguments in programs
    ]
    try:
        yield url
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def passing(batches: Iterator[Any]) -> Iterator[Any]:
    """Passes the rows on. Records how the attempt begins, and whether it ends."""
    context = TaskContext.get()
    partition, attempt = context.partitionId(), context.attemptNumber()
    # With this seed, the first attempt of one task fails.
    fails = random.Random(f"3 {partition} {attempt}").random() < 0.2  # noqa: S311 - equal in each run
    for number, batch in enumerate(batches):
        yield batch
        if fails:
            (ATTEMPTS / f"{partition}-{attempt}-fails").touch()
            raise ConnectionError("this attempt fails")
        if number == 2 and partition == SLOW and not attempt:
            (ATTEMPTS / f"{partition}-{attempt}-slow").touch()
            time.sleep(600)
    (ATTEMPTS / f"{partition}-{attempt}-ends").touch()


def main() -> None:
    ATTEMPTS.mkdir(parents=True)
    with cluster() as url:
        builder = SparkSession.builder.master(url)
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        spark.dataSource.register(DataprepDataSource)
        rows = spark.range(0, 400, 1, 8).select(sql.expr("id n"))
        rows = rows.mapInArrow(passing, rows.schema)
        rows.write.format("dataprep").option("mode", "errorifexists").mode("append").save(str(FOLDER / "set"))
        spark.stop()
    json.dump(sorted(path.name for path in ATTEMPTS.iterdir()), sys.stdout)


main()
