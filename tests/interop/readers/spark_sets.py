"""Reads complete folders with Spark, including hidden files. Input: a JSON file of {jars, sets: {name: {format, folder}}}.

Reads `tfrecord` with TensorFlow's own input format, as lists of serialised messages per task. Reads every other format with Spark's reader
of that name, as rows in the order of their files. Also returns the lines of each path list, and digests of the listed files.
"""

import base64
import hashlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

wanted = json.loads(Path(sys.argv[1]).read_text())
settings = {
    "spark.driver.extraClassPath": wanted["jars"],
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
builder = SparkSession.builder.master("local[2]").appName("interop")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def tfrecords(folder: str) -> dict[str, Any]:
    found = spark.sparkContext.newAPIHadoopFile(
        folder,
        "org.tensorflow.hadoop.io.TFRecordFileInputFormat",
        "org.apache.hadoop.io.BytesWritable",
        "org.apache.hadoop.io.NullWritable",
    )
    return {"tasks": [[bytes(record).hex() for record, _ in task] for task in found.glom().collect()]}


def files(folder: str) -> list[str]:
    """The files that Spark sees in the folder."""
    return sorted(
        Path(row.path.removeprefix("file:")).name for row in spark.read.format("binaryFile").load(folder).select("path").collect()
    )


def named(folder: str) -> dict[str, list[str]]:
    """The lines of the path list, read by `textFile`, and the digests of the listed files, sorted by name."""
    lines = spark.sparkContext.textFile(f"{folder}/_dataprep/paths/train.txt").collect()
    found = sorted(spark.sparkContext.binaryFiles(",".join(lines)).collect())
    return {"lines": lines, "digests": [hashlib.sha256(content).hexdigest() for _, content in found]}


def plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def rows(format: str, folder: str, options: dict[str, str]) -> dict[str, Any]:  # noqa: A002
    table = spark.read.format(format).options(**options).load(folder)
    placed = table.selectExpr("*", "_metadata.file_name as _file", "monotonically_increasing_id() as _place")
    found = placed.orderBy("_file", "_place").collect()
    names = list(table.columns)
    return {"schema": table.schema.simpleString(), "rows": [{name: plain(row[name]) for name in names} for row in found]}


def read(data_set: dict[str, Any]) -> dict[str, Any]:
    folder, format = data_set["folder"], data_set["format"]  # noqa: A001
    content = tfrecords(folder) if format == "tfrecord" else rows(format, folder, data_set.get("options", {}))
    return {"files": files(folder), "named": named(folder), **content}


sets = {name: read(data_set) for name, data_set in wanted["sets"].items()}
json.dump({"versions": {"pyspark": importlib.metadata.version("pyspark")}, "sets": sets}, sys.stdout)
spark.stop()
