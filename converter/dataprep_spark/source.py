"""The data source `dataprep` for PySpark. This is the only module here that imports PySpark."""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_frames import attempts, publishing, reading, writing
from dataprep_frames.options import settings_of
from dataprep_spark.options import read_options, write_options
from dataprep_spark.spark_types import TYPES

logger = logging.getLogger(__name__)

_NEEDED = "dataprep_spark needs PySpark 4.1 or later: pip install 'dataprep-operator[spark]'"

try:
    from pyspark import TaskContext
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
    from pyspark.sql.types import StructType
except ImportError as exc:
    raise ImportError(f"{_NEEDED} ({exc})") from exc


class DataprepDataSource(DataSource):  # type: ignore[misc]  # PySpark isn't installed when types are checked
    """Reads and writes data sets: `spark.read.format("dataprep")` and `df.write.format("dataprep")`."""

    @classmethod
    def name(cls) -> str:
        """Returns the name to pass to `format`."""
        return "dataprep"

    def schema(self) -> StructType:
        """Returns the columns of a finished data set."""
        source, _ = self._opened()
        return from_arrow_schema(source.schema)

    def reader(self, schema: StructType) -> "Reader":
        """Returns a reader of the columns in `schema`."""
        source, manifest = self._opened()
        return Reader(source.with_columns(_arrow_schema(schema)), source.partitions(manifest))

    def writer(self, schema: StructType, overwrite: bool) -> "Writer":
        """Returns a writer, after checking the options, the columns and the output."""
        options = write_options(self.options, overwrite=overwrite)
        return Writer(publishing.begin_write(options, _arrow_schema(schema), settings_of(options.job)))

    def _opened(self) -> "tuple[reading.Source, Any]":  # Any: the manifest
        options = read_options(self.options)
        return reading.open_source(options, TYPES, settings_of(options.job))


class Reader(DataSourceReader):  # type: ignore[misc]  # see above
    """Reads the partitions of a data set."""

    def __init__(self, source: reading.Source, partitions: list[reading.Partition]) -> None:
        self._source = source
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        """Returns a partition for each group of shards."""
        return [InputPartition(partition) for partition in self._partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the records of a partition.

        If a data set has no records, Spark calls this method once, with a partition that has no value.
        """
        if partition.value is not None:
            yield from self._source.batches(partition.value)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the list of partitions, because each task gets its own partition."""
        return self.__dict__ | {"_partitions": []}


class Message(WriterCommitMessage):  # type: ignore[misc]  # see above
    """The message that a successful attempt sends to the driver."""

    def __init__(self, written: attempts.WrittenPartition) -> None:
        self.written = written


class Writer(DataSourceArrowWriter):  # type: ignore[misc]  # see above
    """Writes a DataFrame. `write` runs in the tasks, and the other methods run on the driver."""

    def __init__(self, write: writing.Write) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """Writes the rows of a partition into hidden files."""
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("write must run in a task of Spark")
        written = attempts.write_partition(self._write, iterator, partition=context.partitionId(), attempt=str(context.taskAttemptId()))
        return Message(written)

    def commit(self, messages: list[Message | None]) -> None:
        """Publishes the files of the successful attempts."""
        result = publishing.commit(self._write, [message.written if message is not None else None for message in messages])
        for warning in result.warnings if result is not None else ():
            logger.warning("%s", warning)

    def abort(self, messages: list[Message | None]) -> None:
        """Removes the files of all attempts."""
        del messages
        publishing.abort(self._write)


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the columns of a DataFrame in Arrow's types. Raises BadSpec if Arrow lacks the type of a column."""
    fields: list[Any] = []
    for field in schema:
        try:
            fields.extend(to_arrow_schema(StructType([field]), timezone="UTC"))
        except Exception as exc:  # PySpark's error for such types differs between releases
            raise BadSpec(
                f"The DataFrame's column {field.name!r} is {field.dataType.simpleString()}, which records can't contain. Drop or cast it."
            ) from exc
    return pa.schema(fields)
