"""Data sets whose rows come from a data frame of Spark (`dataprep_spark`), Ray Data (`dataprep_ray`) or a Python program (`dataprep_io`).
Such rows exist only while the data frame is written, so they can't be read again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dataprep_api.spec import Source

READER: Final = "arrow"
"""The kind of source in the spec. Engines pass the rows as Arrow batches, so the columns follow the rules of the source `arrow`."""


@dataclass(frozen=True)
class Engine:
    """An engine that holds data frames, and the words that messages use for this engine."""

    name: str
    frame: str
    """The engine's name for a data frame."""
    writer: str
    """The name of the API that writes a data frame, such as `df.write`."""
    part: str
    """The engine's name for the rows that one task writes."""
    overwrite: str
    """How users choose the save mode `overwrite`."""
    split_column: str
    """The name of the option that says which column contains the names of the splits."""
    sorting: str
    """How users sort the rows of each part by the column with the splits' names. `{}` is replaced with the column."""
    fewer: str
    """How users reduce the number of parts."""
    filling: str
    """How users replace nulls."""
    filtering: str
    """How users leave out rows."""
    is_numbered: bool
    """Whether the parts are numbered from 0 without gaps."""
    reads_ahead: bool
    """Whether any thread may read the rows of a task."""

    @property
    def job(self) -> str:
        """The name of the job that would write the data set."""
        return self.name.lower()

    @property
    def uri(self) -> str:
        """The only URI in the spec's source."""
        return f"{self.job}:{self.frame}"

    def part_uri(self, number: int) -> str:
        """Returns the URI of a part in messages and in the plan. Nothing can be read from this URI."""
        return f"{self.job}:{self.part.replace(' ', '-')}-{number}"


SPARK: Final = Engine(
    name="Spark",
    frame="DataFrame",
    writer="df.write",
    part="partition",
    overwrite='mode("overwrite")',
    split_column="splitColumn",
    sorting="Sort the rows of each partition first: df.sortWithinPartitions({}).",
    fewer="df.coalesce()",
    filling="with fillna or coalesce",
    filtering="df.filter()",
    is_numbered=True,
    reads_ahead=True,
)
RAY: Final = Engine(
    name="Ray",
    frame="Dataset",
    writer="DataprepDatasink",
    part="task",
    overwrite='mode="overwrite"',
    split_column="split_column",
    sorting="Sort the rows first: ds.sort({}).",
    fewer="ds.repartition()",
    filling="with ds.map_batches()",
    filtering="ds.filter()",
    # If Ray loses a task's input, Ray submits the task again, under another number.
    is_numbered=False,
    # While the rows are read, Ray runs the earlier operators, which find their task's context through the current thread.
    reads_ahead=False,
)
PYTHON: Final = Engine(
    name="Python",
    frame="data",
    writer="write",
    part="shard",
    overwrite='mode="overwrite"',
    split_column="split_column",
    sorting="Sort the rows first.",
    fewer="a larger shard_size",
    filling="before the call of write",
    filtering="a filter",
    is_numbered=True,
    reads_ahead=True,
)
"""A program that calls `dataprep_io.write` is its own engine."""
_ENGINES: Final = {engine.uri: engine for engine in (SPARK, RAY, PYTHON)}


def source(engine: Engine, nested: Sequence[str] | None = None) -> dict[str, Any]:
    """Returns the source for the spec of such a data set. `nested` names the structs and lists that the data set keeps as nested values."""
    return {READER: {"uris": [engine.uri], **({} if nested is None else {"nested": list(nested)})}}


def engine_of(source: Source) -> Engine | None:
    """Returns the engine whose data frame is this source, or None if the source isn't a data frame."""
    return None if source.arrow is None else _engine(source.arrow.uris)


def engine_of_content(content: Mapping[str, Any]) -> Engine | None:
    """Returns the engine that wrote the data set with this `Manifest.content`, or None if no engine wrote it."""
    return _engine(content.get("source", {}).get(READER, {}).get("uris", ()))


def _engine(uris: Sequence[str]) -> Engine | None:
    return _ENGINES.get(uris[0]) if len(uris) == 1 else None
