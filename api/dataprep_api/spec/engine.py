"""`spec.engine`: the engine that joins tables that are too large for one pod. The fields have the names of Spark's settings."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from dataprep_api.spec.model import Model

SETTINGS: Final = frozenset(
    {
        "spark.executor.heartbeatInterval",
        "spark.locality.wait",
        "spark.memory.fraction",
        "spark.memory.storageFraction",
        "spark.network.timeout",
        "spark.reducer.maxSizeInFlight",
        "spark.shuffle.compress",
        "spark.shuffle.file.buffer",
        "spark.shuffle.io.connectionCreationTimeout",
        "spark.shuffle.io.connectionTimeout",
        "spark.shuffle.io.maxRetries",
        "spark.shuffle.io.retryWait",
        "spark.shuffle.spill.compress",
        "spark.speculation",
        "spark.speculation.interval",
        "spark.speculation.multiplier",
        "spark.speculation.quantile",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes",
        "spark.sql.adaptive.coalescePartitions.enabled",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize",
        "spark.sql.adaptive.enabled",
        "spark.sql.adaptive.skewJoin.enabled",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.shuffle.partitions",
        "spark.task.maxFailures",
    }
)
"""The settings that `conf` may contain.

Each setting is a number, a size, a time or a boolean, and affects only speed and retries. Settings for masters, secrets, files, commands
and classes aren't allowed. With these settings, a job could run a program that the operator doesn't know, beyond the limits of the job's
pods.
"""
LEAST_MEMORY: Final = 512 << 20
"""The minimum heap size in bytes. Spark refuses an executor or a driver with less than 450 MiB."""
DAEMON_HEAP: Final = "256m"
"""The heap size of Spark's master or worker process. Each pod runs one of them, in addition to the driver or executor."""
DAEMON_BYTES: Final = 448 << 20
"""The total memory of a master or worker process in bytes: its heap, and what Java needs outside the heap. An idle process used 250 MiB."""
_LEAST_OVERHEAD: Final = 384 << 20
_OVERHEAD_FACTOR: Final = 0.1
_SIZE: Final = re.compile(r"([1-9][0-9]{0,8})([mg])")
_VALUE: Final = re.compile(r"[A-Za-z0-9.%-]{1,64}")


def size_in_bytes(size: str) -> int:
    """Convert a size in Spark's notation, such as `512m`, to bytes. Raises ValueError, which says what was expected."""
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(f"expected a whole number of MiB or GiB in Spark's notation, such as 512m or 4g, got {size!r}")
    return int(match[1]) << {"m": 20, "g": 30}[match[2]]


def _check_size(size: str) -> str:
    size_in_bytes(size)
    return size


def _check_heap(size: str) -> str:
    if size_in_bytes(size) < LEAST_MEMORY:
        raise ValueError(f"must be at least {LEAST_MEMORY >> 20}m, got {size}")
    return size


def _check_conf(conf: dict[str, str]) -> dict[str, str]:
    for name, value in conf.items():
        if name not in SETTINGS:
            raise ValueError(f"a job can't set {name!r}. Allowed settings: {', '.join(sorted(SETTINGS))}")
        if _VALUE.fullmatch(value) is None:
            raise ValueError(f"{name} must be a number, a size, a time, true or false, got {value!r}")
    return conf


Size = Annotated[str, AfterValidator(_check_size), Field(max_length=16)]
Heap = Annotated[str, AfterValidator(_check_heap), Field(max_length=16)]
Conf = Annotated[
    dict[Annotated[str, Field(max_length=256)], Annotated[str, Field(max_length=64)]],
    Field(max_length=32),
    AfterValidator(_check_conf),
]


def _with_overhead(memory: str, overhead: str | None) -> int:
    heap = size_in_bytes(memory)
    beside = size_in_bytes(overhead) if overhead is not None else max(int(heap * _OVERHEAD_FACTOR), _LEAST_OVERHEAD)
    return heap + beside


class SparkExecutor(Model):
    """Spark's executors. Each executor has its own pod."""

    instances: Annotated[int, Field(ge=1, le=1000)]
    """Number of executors."""
    cores: Annotated[int, Field(ge=1, le=128)]
    """Number of tasks that an executor runs at the same time. A pod requests one CPU for each of these tasks."""
    memory: Heap
    """Heap, such as `4g`."""
    memory_overhead: Size | None = None
    """Memory outside the heap. The Python processes of the tasks use it. Default: a tenth of the heap, but at least `384m`."""

    @property
    def total_bytes(self) -> int:
        """The memory of an executor, with its overhead."""
        return _with_overhead(self.memory, self.memory_overhead)


class SparkDriver(Model):
    """Spark's driver. Its pod has the same size as an executor's pod."""

    memory: Heap = "1g"
    """Heap, such as `1g`."""
    memory_overhead: Size = "1g"
    """Memory outside the heap. The Python process that makes the plan uses it."""

    @property
    def total_bytes(self) -> int:
        """The memory of the driver, with its overhead."""
        return _with_overhead(self.memory, self.memory_overhead)


class Spark(Model):
    """A Spark cluster for the plan step."""

    executor: SparkExecutor
    """Executors."""
    driver: SparkDriver = SparkDriver()
    """Driver."""
    conf: Conf | None = None
    """Spark settings by name. Only settings that affect speed and retries are allowed. If you use any other setting, the error message lists the allowed settings."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image with PySpark, Java and this release's `dataprep`. Default: the chart's setting."""

    @property
    def pod_bytes(self) -> int:
        """The memory of each pod. All pods have the same size, because they are pods of one Job."""
        return DAEMON_BYTES + max(self.executor.total_bytes, self.driver.total_bytes)


class Engine(Model):
    """The engine that joins the tables of `source.join`."""

    spark: Spark
    """Spark cluster. It exists only during the plan step. The records and the run id are the same as without an engine."""
