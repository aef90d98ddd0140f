"""`load_spark.py`: reads all records of a split in Spark."""

from string import Template
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.dataset.sidecars import FinishedDataSet, loader_source
from dataprep_converter.dataset.sidecars.loader_java import hadoop_options
from dataprep_converter.formats.text.csv_encoder import names

_MOST_DIGITS: Final = 38
"""The maximum number of digits of a decimal in Spark."""
_HEAD: Final = '''\
"""Loads this data set with Spark: `load(spark, "train")`, or `spark-submit$submit load_spark.py [FOLDER]` to count its records.

FOLDER may be of any store that this Spark reads.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

FOLDER = str(Path(__file__).resolve().parents[2])
$splits$classes

def files(spark, split, folder=FOLDER):
    """The split's shards, in their order."""
    lines = spark.sparkContext.textFile(f"{folder}/_dataprep/files/{split}.txt", 1).collect()
    return [f"{folder}/{line}" for line in lines]


'''
_MAIN: Final = '''

def main():
    """Counts the records of every split."""
    spark = SparkSession.builder.getOrCreate()
    for split, expected in SPLITS.items():
        print(f"{split}: {load(spark, split, *sys.argv[1:2]).count()} of {expected} records")


if __name__ == "__main__":
    main()
'''
_RECORDS: Final = Template(
    _HEAD
    + '''\
def load(spark, split, folder=FOLDER):
    """The split's records, serialised, one task a shard; $parse"""
    pairs = spark.sparkContext.newAPIHadoopFile(
        ",".join(files(spark, split, folder)),
        "org.tensorflow.hadoop.io.TFRecordFileInputFormat",
        "org.apache.hadoop.io.BytesWritable",
        "org.apache.hadoop.io.NullWritable",
    )
    return pairs.map(lambda pair: bytes(pair[0]))
'''
    + _MAIN
)
_HADOOP: Final = Template(
    _HEAD
    + '''\
def load(spark, split, folder=FOLDER):
    """The split's (key, value) pairs; $value"""
    return spark.sparkContext.sequenceFile(",".join(files(spark, split, folder)))
'''
    + _MAIN
)
_TABLE: Final = Template(
    _HEAD
    + '''\
def load(spark, split, folder=FOLDER):
    """The split's records as a DataFrame."""
    return spark.read.${read}files(spark, split, folder))
'''
    + _MAIN
)


def examples(finished: FinishedDataSet) -> str:
    """Returns the file for `tfrecord`."""
    parse = f"tf.train.{_message(finished)}.FromString makes a message of each."
    return _fill(_RECORDS, finished, submit=" --packages org.tensorflow:tensorflow-hadoop:1.15.0", parse=parse)


def parquet(finished: FinishedDataSet) -> str:
    """Returns the file for `parquet`. Raises Unreadable for column types that Spark doesn't have."""
    refused = [f"{feature.name} ({feature.kept})" for feature in finished.features if not _is_of_spark(feature.kept)]
    if refused:
        raise loader_source.Unreadable(
            f"Spark can't read {', '.join(refused)}. Give these features a dtype, int64 for times and float64 for decimals."
        )
    return _fill(_TABLE, finished, read="parquet(*")


def _is_of_spark(kind: Any) -> bool:
    """Returns whether Spark can read a Parquet column of times or decimals of type `kind`, which is None for all other columns.

    Spark can't read times of day, nanoseconds or long decimals.
    """
    if kind is None or pa.types.is_date(kind) or pa.types.is_duration(kind):
        return True
    return bool(kind.precision <= _MOST_DIGITS if pa.types.is_decimal(kind) else pa.types.is_timestamp(kind) and kind.unit != "ns")


def jsonl(finished: FinishedDataSet) -> str:
    """Returns the file for `jsonl`."""
    return _fill(_TABLE, finished, read="json(")


def csv(finished: FinishedDataSet) -> str:
    """Returns the file for `csv`."""
    options = finished.spec.output.csv
    columns = [name for feature in finished.features for name in names(feature)]
    # By default, Spark reads an empty string as null, even if it is quoted. With another `nullValue`, only an empty cell without quotes is
    # null. If there is only one column, its nulls are quoted too, so keep Spark's default.
    nulls = r", nullValue='\0'" if len(columns) > 1 else ""
    read = f"options(header={options.header}, sep={options.delimiter!r}, escape='\"', inferSchema=True, multiLine=True{nulls}).csv("
    return _fill(_TABLE, finished, read=read)


def hadoop(finished: FinishedDataSet) -> str:
    """Returns `load_spark.py` for `sequenceFile` and `mapFile`.

    Raises Unreadable for values that PySpark can't convert to Python types.
    """
    return _fill(_HADOOP, finished, value=_value(finished))


def _fill(template: Template, finished: FinishedDataSet, *, submit: str = "", **parts: str) -> str:
    splits, classes = loader_source.splits(finished), loader_source.classes(finished)
    return loader_source.filled(template, splits=splits, classes=classes, submit=submit, **parts)


def _message(finished: FinishedDataSet) -> str:
    return "SequenceExample" if any(feature.sequence for feature in finished.features) else "Example"


def _value(finished: FinishedDataSet) -> str:
    """Returns a sentence that describes the form in which Python receives a value.

    Raises Unreadable for values that PySpark can't convert to Python types.
    """
    kind, key = hadoop_options(finished).value, hadoop_options(finished).key
    if kind == "Record":
        raise loader_source.Unreadable("PySpark can't hand DL4J's records over to Python; LoadHadoop.java reads them.")
    if kind == "Example":
        return f"tf.train.{_message(finished)}.FromString makes a message of a value."
    value_feature = next(feature for feature in finished.features if feature.name != key)
    if (value_feature.shape and value_feature.dtype not in ("int8", "uint8")) or (
        not value_feature.shape and value_feature.dtype == "int8"
    ):
        raise loader_source.Unreadable("PySpark can't hand arrays and single bytes of Hadoop over to Python; LoadHadoop.java reads them.")
    return f"a value is {value_feature.name}."
