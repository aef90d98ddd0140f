"""Spark SQL as the engine that joins the tables of a job and finds duplicate records (`SqlEngine`).

The rows of views are kept on the executors' disks. If an executor is lost, Spark computes its rows again.
"""

import logging
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.joins.ranges import FILES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.2
_NUMBERED_ROWS: Final = 1_000_000
"""The number of rows that one task sorts to number them."""
_MOST_RANGES: Final = 1000
_PART_BITS: Final = 33
"""The number of low bits of `monotonically_increasing_id`. The bits above them are the partition's number."""

T = TypeVar("T")


class SparkSql:
    """Runs statements on the executors of a Spark application; see `SqlEngine`."""

    def __init__(
        self,
        context: "SparkContext",
        opening: Callable[[], Access],
        *,
        is_remote: bool,
        least_bytes: int,
        translate: Callable[[Exception], ConvertError],
    ) -> None:
        """`opening` returns the Access of a task. `is_remote` says whether executors are on other machines. The engine helps with tables
        and records of more than `least_bytes`. `translate` converts an error of Spark to the error to raise."""
        self._context = context
        self._opening = opening
        self.is_remote = is_remote
        self._least_bytes = least_bytes
        self._translate = translate
        self._kept: dict[str, DataFrame] = {}
        self._group = f"dataprep-{uuid.uuid4().hex}"
        self._warehouse: str | None = None
        # Keep the caller's thread free for signals: if a signal interrupts a Py4J call, all later Py4J calls of the same thread block.
        self._thread = ThreadPoolExecutor(1, "spark-sql")

    @cached_property
    def _session(self) -> Any:
        """The Spark session, which is created when the engine's thread first needs it."""
        from pyspark.sql import SparkSession

        self._context.setJobGroup(self._group, "dataprep: plan", interruptOnCancel=True)
        # Spark makes this folder for tables, even if there are none. By default, it would be in the working directory.
        self._warehouse = tempfile.mkdtemp(prefix="dataprep-spark-")
        return SparkSession.builder.config("spark.sql.warehouse.dir", self._warehouse).getOrCreate()

    def close(self) -> None:
        """Ends the thread, and removes Spark's folder. Views end with the application."""
        self._thread.shutdown(cancel_futures=True)
        if self._warehouse is not None:
            shutil.rmtree(self._warehouse, ignore_errors=True)

    def helps(self, size: int) -> bool:
        """See `SqlEngine`. Small tables are joined faster in the driver's memory, and a few records are read faster by the driver."""
        if size <= self._least_bytes:
            return False
        if find_spec("pandas") is None:
            logger.warning("Spark can't help to plan the job, because PySpark's mapInArrow needs pandas, which isn't installed.")
            return False
        return True

    def read(self, view: str, schema: pa.Schema, parts: int, rows: Callable[[Access, int], Iterator[pa.RecordBatch]]) -> None:
        """See `SqlEngine`."""
        opening = self._opening

        def read_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for part in batch.column(0).to_numpy().tolist():
                    yield from rows(opening(), part)

        self._call(lambda: self._keep(view, self._session.range(0, parts, 1, parts).mapInArrow(read_parts, _spark_schema(schema))))

    def keep(self, view: str, query: str) -> None:
        """See `SqlEngine`."""
        self._call(lambda: self._keep(view, self._session.sql(query)))

    def number(self, view: str, query: str, order: Sequence[str], rows: int) -> None:
        """See `SqlEngine`."""

        def number_rows() -> None:
            from pyspark.sql import functions as F  # noqa: N812 - the usual name

            ranges = max(1, min(_MOST_RANGES, rows // _NUMBERED_ROWS))
            numbered = (
                self._session.sql(query)
                .repartitionByRange(ranges, *order)
                .sortWithinPartitions(*order)
                .withColumn("part", F.spark_partition_id())
                .withColumn("within", F.monotonically_increasing_id().bitwiseAND((1 << _PART_BITS) - 1))
            )
            # Keep the partitions. Spark finds the borders of the ranges by sampling, so partitions that are computed again could have other
            # borders.
            kept = self._keep(view, numbered)
            counts = {row["part"]: row["count"] for row in kept.groupBy("part").count().collect()}
            firsts = F.array([F.lit(first).cast("bigint") for first in _firsts(counts)])
            kept.withColumn("n", F.col("within") + F.get(firsts, F.col("part"))).drop("part", "within").createOrReplaceTempView(view)

        self._call(number_rows)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """See `SqlEngine`."""
        found = self._call(lambda: self._session.sql(query).collect())
        return [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in found]

    def lay_down(
        self,
        query: str,
        order: Sequence[str],
        ranges: int,
        range_of: str,
        write: Callable[[Access, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ) -> list[tuple[Any, ...]]:
        """See `SqlEngine`."""

        opening = self._opening

        def write_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from write(opening(), batches)

        def lay_rows_down() -> Any:
            from pyspark.sql import functions as F  # noqa: N812 - the usual name

            rows = self._session.sql(query).repartitionById(ranges, F.expr(range_of)).sortWithinPartitions(*order)
            return rows.mapInArrow(write_rows, _spark_schema(FILES)).collect()

        return [tuple(row) for row in self._call(lay_rows_down)]

    def forget(self, views: Sequence[str]) -> None:
        """See `SqlEngine`."""

        def remove() -> None:
            for view in views:
                if (frame := self._kept.pop(view, None)) is not None:
                    self._session.catalog.dropTempView(view)
                    frame.unpersist()

        try:
            self._call(remove)
        except ConvertError as exc:  # the application may be gone, and there may already be another error
            logger.info("Views can't be removed: %s", exc)

    def _keep(self, view: str, frame: Any) -> Any:
        """Makes a view of a DataFrame. The rows are computed once, and kept."""
        from pyspark import StorageLevel

        self._kept[view] = frame.persist(StorageLevel.DISK_ONLY)
        frame.createOrReplaceTempView(view)
        return frame

    def _call(self, function: Callable[[], T]) -> T:
        """Calls a function in the engine's thread. Raises ConvertError for Spark's errors."""
        future = self._thread.submit(function)
        try:
            while not future.done():
                wait([future], timeout=_POLL_SECONDS)
        except BaseException:
            self._context.cancelJobGroup(self._group)
            raise
        try:
            return future.result()
        except ConvertError:
            raise
        except Exception as exc:  # Py4J and PySpark raise exceptions of many types
            raise self._translate(exc) from exc


def _firsts(counts: dict[int, int]) -> list[int]:
    """Returns the number of the first row of each partition. `counts` contains the number of rows of each partition that isn't empty."""
    firsts = [0]
    for part in range(max(counts, default=0)):
        firsts.append(firsts[-1] + counts.get(part, 0))
    return firsts


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
