"""Writes and reads data sets with Spark's `dataprep` source. Input: a JSON file of {paths, folder, scenario}.

`paths` are the folders of the code, which Spark's Python processes need too. The scenario `killed` kills the driver while its tasks write.
The scenario `all` returns rows, messages of refused calls, and the number of failures of tasks.
"""

import importlib.metadata
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

wanted = json.loads(Path(sys.argv[1]).read_text())
sys.path += wanted["paths"]
os.environ["PYTHONPATH"] = os.pathsep.join(wanted["paths"])
os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark import TaskContext  # noqa: E402 - the path is set above
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as sql  # noqa: E402

from dataprep_spark import DataprepDataSource  # noqa: E402

FOLDER = Path(wanted["folder"])
ATTEMPTS = FOLDER / "attempts"
ATTEMPTS.mkdir(parents=True, exist_ok=True)
settings = {
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
}
# A task may fail three times.
builder = SparkSession.builder.master("local[1,4]").appName("dataprep")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.dataSource.register(DataprepDataSource)

TYPES = """
    id n, cast(id as string) word, id / 4.0D half, cast(id as decimal(38, 3)) digits, timestamp_seconds(id) at,
    cast(timestamp_seconds(id) as timestamp_ntz) at_ntz, date_add(date'1899-12-31', cast(id as int)) day, array(id, id + 1) list,
    named_struct('x', id, 'y', array('a', null)) struct, map('k', id) map, array(named_struct('r', 'user', 'c', id)) messages,
    cast(cast(id as string) as binary) bytes, if(id % 2 = 0, id, null) sometimes, id % 3 = 0 flag
"""


def frame(first: int, count: int, partitions: int) -> DataFrame:
    return spark.range(first, first + count, 1, partitions).select(sql.expr("id n"), sql.expr("cast(id as string) word"))


def failing(table: DataFrame, fails: Callable[[int, int], str | None]) -> DataFrame:
    """Returns the same rows. Each attempt of a task records that it has begun, and may fail after its first batch."""

    def passing(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        how = fails(context.partitionId(), context.attemptNumber())
        (ATTEMPTS / f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}-{how}").touch()
        for batch in batches:
            yield batch
            if how == "exit":
                os._exit(1)
            if how == "raise":
                raise ConnectionError("this attempt fails")

    return table.mapInArrow(passing, table.schema)


def saved(table: DataFrame, name: str, save_mode: str, **options: str) -> str | None:
    """Saves a table. If the call fails, returns the error message."""
    try:
        table.write.format("dataprep").options(**options).mode(save_mode).save(str(FOLDER / name))
    except Exception as exc:  # whatever Spark raises
        return str(exc)
    return None


def plain(value: Any) -> Any:
    return repr(value)


def rows(table: DataFrame, key: str = "n") -> list[list[str]]:
    return [[plain(value) for value in row] for row in table.orderBy(key).collect()]


def killed() -> None:
    """Kills the driver when its second task writes."""
    driver, machine = os.getpid(), spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # there is a JVM

    def kill(partition: int, _attempt: int) -> None:
        if partition == 1:
            os.kill(driver, signal.SIGKILL)
            os.kill(machine, signal.SIGKILL)

    saved(failing(frame(0, 60, 3), kill), "killed", "append", mode="errorifexists")


def everything() -> dict[str, Any]:
    table = spark.range(0, 50, 1, 2).select(*[sql.expr(each) for each in split_columns(TYPES)])
    refusals = {"types": saved(table, "types", "overwrite", format="parquet")}
    back = spark.read.format("dataprep").load(str(FOLDER / "types"))

    def at_random(partition: int, attempt: int) -> str | None:
        # With this seed, 6 of 16 attempts fail, and no task fails four times.
        chance = random.Random(f"2 {partition} {attempt}").random()  # noqa: S311 - equal in each run
        return "raise" if chance < 0.15 else "exit" if chance < 0.3 else None

    refusals["first"] = saved(frame(0, 30, 2), "failing", "append", mode="errorifexists")
    refusals["exists"] = saved(frame(0, 30, 2), "failing", "append", mode="errorifexists")
    refusals["ignored"] = saved(frame(90, 30, 2), "failing", "append", mode="ignore")
    refusals["appended"] = saved(failing(frame(30, 200, 10), at_random), "failing", "append")
    refusals["failed"] = saved(failing(frame(900, 40, 2), lambda partition, _: "raise" if partition else None), "failing", "overwrite")
    refusals["continued"] = saved(frame(0, 60, 3), "killed", "append", mode="errorifexists")
    refusals["format"] = saved(frame(0, 1, 1), "none", "append", format="tfrecrod")
    refusals["interval"] = saved(spark.range(1).select(sql.expr("interval 1 month m")), "none", "append")
    parts = spark.range(0, 20, 1, 2).select(sql.expr("id n"), sql.expr("if(id % 2 = 0, 'test', 'train') split"))
    refusals["splits"] = saved(parts.sortWithinPartitions("split", "n"), "splits", "append", splitColumn="split")
    refusals["empty"] = saved(spark.range(0).select(sql.expr("id n"), sql.expr("cast(id as string) word")), "failing", "append")
    refusals["mode"] = saved(frame(0, 1, 1), "failing", "append", mode="overwrite")
    frame(0, 10, 1).write.format("dataprep").mode("overwrite").save(f"file:{FOLDER}/path")
    read = spark.read.format("dataprep")
    return {
        "columns": [table.columns, back.columns],
        "by_path": [read.load(f"{scheme}{FOLDER}/path").count() for scheme in ("file:", "file://", "")],
        "versions": {"pyspark": importlib.metadata.version("pyspark")},
        "refusals": refusals,
        "written": rows(table),
        "read": rows(back.select(table.columns)),
        "schemas": [table.schema.simpleString(), back.select(table.columns).schema.simpleString()],
        "splits": rows(read.load(str(FOLDER / "splits"))),
        "pruned": rows(spark.read.format("dataprep").schema("split string, n bigint").load(str(FOLDER / "killed"))),
        "attempts": sorted(path.name for path in ATTEMPTS.iterdir()),
    }


def split_columns(text: str) -> list[str]:
    """Splits a list of columns at its commas, but not at commas within brackets."""
    columns, depth = [""], 0
    for letter in " ".join(text.split()):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            columns.append("")
        else:
            columns[-1] += letter
    return columns


if wanted["scenario"] == "killed":
    killed()
else:
    found = everything()
    json.dump(found, sys.stdout)
spark.stop()
