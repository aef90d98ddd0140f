"""Readers list the samples of a source (while planning) and read them as Arrow batches (while working). One file per source.

A reader has two sides: `discover` lists the source and freezes the state that all workers share; an instance, created from that state,
reads any samples of the plan by number.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.records.batch import Batch, RejectedSample
from dataprep_converter.sampling.intermediate_files import IntermediateFiles
from dataprep_converter.sampling.units import Files, Unit, UnitTable

READERS: Final[Mapping[str, str]] = {
    "idx": "dataprep_converter.readers.arrays.idx:IdxReader",
    "images": "dataprep_converter.readers.images.images:ImagesReader",
    "annotated_images": "dataprep_converter.readers.images.annotated_images:AnnotatedImagesReader",
    "masks": "dataprep_converter.readers.images.masks:MasksReader",
    "csv": "dataprep_converter.readers.text.delimited:CsvReader",
    "csv_sequences": "dataprep_converter.readers.text.csv_sequences:CsvSequencesReader",
    "jsonl": "dataprep_converter.readers.text.jsonl:JsonlReader",
    "text": "dataprep_converter.readers.text.text:TextReader",
    "parquet": "dataprep_converter.readers.columnar.parquet:ParquetReader",
    "arrow": "dataprep_converter.readers.columnar.arrow:ArrowReader",
    "fixed_length": "dataprep_converter.readers.arrays.fixed_length:FixedLengthReader",
    "whole_file": "dataprep_converter.readers.whole_file:WholeFileReader",
    "tfrecord": "dataprep_converter.readers.tfrecord.tfrecord:TfrecordReader",
    "sequence_file": "dataprep_converter.readers.hadoop.sequence_file:SequenceFileReader",
    "dataset": "dataprep_converter.readers.dataset:DatasetReader",
    "numpy": "dataprep_converter.readers.arrays.npy:NumpyReader",
    "libsvm": "dataprep_converter.readers.text.libsvm:LibsvmReader",
    "join": "dataprep_converter.readers.joins.join:JoinReader",
    "sql": "dataprep_converter.readers.databases.sql:SqlReader",
    "table": "dataprep_converter.readers.databases.table:TableReader",
    "plugin": "dataprep_converter.readers.plugin:PluginReader",
}
"""Member of `spec.source` → class. Adding a source is one line here and one file."""


UnitT = TypeVar("UnitT", Unit, Files)
Listing: TypeAlias = Generator[UnitT, None, dict[str, Any]]
"""Yields the units in the order of their samples' numbers. Returns the state that every worker needs, as JSON values; its `ignored` and
`warnings` go into the plan. Can be consumed once."""


@dataclass(frozen=True)
class Discovery:
    """The result of `discover`."""

    listing: "Listing[Unit] | Listing[Files]"
    intermediate: IntermediateFiles | None = None
    """Files created here for the workers, and named by the units."""

    def collect(self) -> tuple[UnitTable, dict[str, Any]]:
        """Consumes the listing. Returns all units, and the state."""
        state: dict[str, Any] = {}

        def units() -> Iterator[Unit | Files]:
            state.update((yield from self.listing))

        return UnitTable.of(units()), state


class Reader(Protocol):
    """The contract, tested for each reader by `tests/converter/readers/reader_contract.py`."""

    default_label: ClassVar[str]
    """The default label column, used if it exists and the spec names none."""

    @staticmethod
    def discover(source: Any, access: Access) -> Discovery:
        """Lists the source, a member of `spec.source`. Raises NotFound for a URI without files, BadSpec or BadData for a source that
        can't be planned."""
        ...

    def __init__(self, source: Any, state: Mapping[str, Any], access: Access) -> None: ...

    def schema(self) -> pa.Schema:
        """Columns of the batches, without `_sample`. Field metadata `default: no` marks a column that is written only when the spec names it."""
        ...

    def classes(self) -> dict[str, list[str]]:
        """Class names by label column, in the order of their numbers; empty when classes have no names."""
        ...

    def read(self, units: UnitTable, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """One batch for each array of sample numbers, in that order. Raises InputChanged when a unit's pin has changed."""
        ...

    def close(self) -> None:
        """Closes files and removes temporary ones; may be called more than once. Afterwards nothing can be read, not even by existing
        iterators of `read`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


@runtime_checkable
class ReadsColumns(Protocol):
    """A reader for which reading some columns is cheaper than reading all, for splits by value. Other readers read all columns."""

    def read_columns(self, units: UnitTable, samples: Iterator[npt.NDArray[np.int64]], columns: Sequence[str]) -> Iterator[Batch]:
        """Like `read`; the batches need only have these columns and `_sample`."""
        ...


@runtime_checkable
class AcceptsReadPlan(Protocol):
    """A reader that gathers scattered samples in passes over its source, and needs fewer passes if it knows the coming requests."""

    def accept_read_plan(self, coming: Callable[[], Iterator[Iterator[npt.NDArray[np.int64]]]]) -> None:
        """Announces the arrays of each coming call of `read`, starting with the next one. Optional: batches are the same without it."""
        ...


@runtime_checkable
class HasLines(Protocol):
    """A reader of text, whose samples begin on a line that users look for."""

    def lines(self, units: UnitTable, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The line on which each of these samples begins, from 1. May read the text again."""
        ...


@runtime_checkable
class HasSteps(Protocol):
    """A reader of text whose samples are sequences, each step of which has a line that users look for."""

    def places(self, units: UnitTable, bad: Sequence[RejectedSample]) -> list[str]:
        """The place of the faulty step, or of the start of the sequence: `line 3`. May read the text again."""
        ...


def reader_class(kind: str) -> type[Reader]:
    """The class of a source. Raises BadSpec, listing the known sources."""
    if kind == "from_job":
        raise BadSpec(
            "source.fromJob waits for another job, which only the operator can do. Here name its data set: --set 'source={dataset: {uri: DIR}}'"
        )
    if kind not in READERS:
        raise BadSpec(f"No reader named {kind!r}; known: {', '.join(sorted(READERS))}.")
    reader: type[Reader] = resolve_name(READERS[kind])
    return reader
