"""Writes a DataFrame that Spark holds in memory, on two cores: with `dataprep_spark` as TFRecord, with Spark as Parquet, or with
TensorFlow's output format for Hadoop as TFRecord.

spark_writing.py dataprep|parquet|hadoop INPUT OUTPUT RECORDS [JARS]
"""

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from clocked import clocked
from pyarrow import parquet as pq
from pyspark.sql import DataFrame
from spark_records import examples, save, started

from dataprep_spark import DataprepDataSource

_PARTITIONS = 8


def in_memory(source: Path, records: int, jars: str) -> DataFrame:
    """Returns the table's first rows as a DataFrame that Spark has cached."""
    spark = started(jars, {"spark.default.parallelism": str(_PARTITIONS), "spark.driver.memory": "2g"})
    spark.dataSource.register(DataprepDataSource)
    table = pq.read_table(source / "table.parquet").slice(0, records)
    rows = spark.createDataFrame(table).coalesce(_PARTITIONS).cache()
    if rows.count() != records or rows.rdd.getNumPartitions() != _PARTITIONS:
        sys.exit(f"Spark should have {records} rows in {_PARTITIONS} partitions.")
    return rows


def as_data_set(rows: DataFrame, output: Path) -> None:
    rows.write.format("dataprep").option("mode", "errorifexists").mode("append").save(str(output))


def as_parquet(rows: DataFrame, output: Path) -> None:
    rows.write.parquet(str(output))


def with_hadoop(rows: DataFrame, output: Path) -> None:
    save(rows.rdd.mapPartitions(examples), output)


WRITERS: Mapping[str, Callable[[DataFrame, Path], None]] = {"dataprep": as_data_set, "parquet": as_parquet, "hadoop": with_hadoop}


def main(kind: str, source: Path, output: Path, records: int, jars: str = "") -> None:
    rows = in_memory(source, records, jars)

    def work() -> int:
        WRITERS[kind](rows, output / "data")
        return records

    # Spark compiles its code, and starts its Python processes, while it writes for the first time.
    work()
    shutil.rmtree(output / "data")
    clocked(work, waits=False, again=False)
    rows.sparkSession.stop()
    for part in sorted((output / "data").glob("*-*")):
        part.rename(output / (f"{part.name}.tfrecords" if kind == "hadoop" else part.name))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
