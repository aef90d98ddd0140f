"""For Spark: reads finished data sets as DataFrames, and writes DataFrames as data sets, in every format and to every store.

    from dataprep_spark import DataprepDataSource

    spark.dataSource.register(DataprepDataSource)
    spark.read.format("dataprep").load("s3://bucket/mnist")
    df.write.format("dataprep").option("format", "tfrecord").mode("overwrite").save("s3://bucket/set")

docs/spark.md describes the options, the types and the promises.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep_spark.source import DataprepDataSource

__all__ = ["DataprepDataSource"]


def __getattr__(name: str) -> Any:
    """Imports PySpark only when the data source is needed. Raises ImportError if PySpark is missing or too old."""
    if name != "DataprepDataSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dataprep_spark.source import DataprepDataSource

    return DataprepDataSource
