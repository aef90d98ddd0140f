"""Converts a Parquet file to TFRecord on two cores, with PySpark and TensorFlow's output format for Hadoop. Each row becomes a
tf.train.Example.

spark_records.py parquet INPUT OUTPUT RECORDS JARS
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYSPARK_PYTHON": sys.executable}

from clocked import clocked
from pyspark.sql import SparkSession

_FORMAT = "org.tensorflow.hadoop.io.TFRecordFileOutputFormat"


def examples(rows: Iterator[Any]) -> Iterator[tuple[bytearray, None]]:
    from tensorflow_records import row as example

    for row in rows:
        yield bytearray(example(row.asDict())), None


def started(jars: str, more: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    settings = {
        "spark.driver.extraClassPath": jars,
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        # Each task reads one row group, because several row groups in a task would change the order of the rows.
        "spark.sql.files.maxPartitionBytes": str(16 << 20),
        **more,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def save(records: Any, output: Path) -> None:
    records.saveAsNewAPIHadoopFile(str(output), _FORMAT, "org.apache.hadoop.io.BytesWritable", "org.apache.hadoop.io.NullWritable")


def main(source: Path, output: Path, records: int, jars: str) -> None:
    spark = started(jars)

    def work() -> int:
        rows = spark.read.parquet(str(source / "table.parquet")).limit(records).rdd
        save(rows.mapPartitions(examples), output / "data")
        return records

    clocked(work, waits=False)
    spark.stop()
    for part in sorted((output / "data").glob("part-*")):
        part.rename(output / f"{part.name}.tfrecords")


if __name__ == "__main__":
    main(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
