"""`load_spark.py`: every record of a split in Spark."""

from string import Template
from typing import Final

from dataprep_converter.dataset.sidecars import Finished, loader_source

_HEAD: Final = '''\
"""Loads this data set with Spark: `load(spark, "train")`, or `spark-submit $submit load_spark.py [FOLDER]` to count its records.

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


def text(finished: Finished) -> str:
    """The file. Raises Unreadable for formats that Spark doesn't read."""
    parts = {"splits": loader_source.splits(finished), "classes": loader_source.classes(finished)}
    output = finished.spec.output
    tables = {
        "parquet": "parquet(*",
        "jsonl": "json(",
        "csv": f"options(header={output.csv.header}, sep={output.csv.delimiter!r}, escape='\"', inferSchema=True, multiLine=True).csv(",
    }
    format_ = finished.manifest.format
    if format_ == "tfrecord":
        message = "SequenceExample" if any(feature.sequence for feature in finished.features) else "Example"
        parse = f"tf.train.{message}.FromString makes a message of each."
        return loader_source.filled(_RECORDS, submit="--packages org.tensorflow:tensorflow-hadoop:1.15.0", parse=parse, **parts)
    if format_ in ("sequenceFile", "mapFile"):
        return loader_source.filled(_HADOOP, submit="", value=_value(finished), **parts).replace("spark-submit  load", "spark-submit load")
    if format_ not in tables:
        raise loader_source.Unreadable(
            f"there is one for {', '.join(['tfrecord', *tables, 'sequenceFile', 'mapFile'])}, and this data set is {format_}."
        )
    return loader_source.filled(_TABLE, submit="", read=tables[format_], **parts).replace("spark-submit  load", "spark-submit load")


def _value(finished: Finished) -> str:
    """What Python gets of a value. Raises Unreadable for those that PySpark can't hand over."""
    output = finished.spec.output
    is_map = finished.manifest.format == "mapFile"
    kind = output.map_file.value if is_map else output.sequence_file.value
    key = output.map_file.key if is_map else output.sequence_file.key
    if kind == "Record":
        raise loader_source.Unreadable("PySpark can't hand DL4J's records over to Python; LoadHadoop.java reads them.")
    if kind == "Example":
        message = "SequenceExample" if any(feature.sequence for feature in finished.features) else "Example"
        return f"tf.train.{message}.FromString makes a message of a value."
    stored = next(feature for feature in finished.features if feature.name != key)
    if (stored.shape and stored.dtype not in ("int8", "uint8")) or (not stored.shape and stored.dtype == "int8"):
        raise loader_source.Unreadable("PySpark can't hand arrays and single bytes of Hadoop over to Python; LoadHadoop.java reads them.")
    return f"a value is {stored.name}."
