"""Readers list the samples of a source (while planning) and read them as Arrow batches (while working). Each source has its own module.

A reader has two parts. `discover` lists the source and freezes the state that all workers share. An instance of the reader is created from
the shared state. Given sample numbers, it reads any samples of the plan.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
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
from dataprep_converter.runtime.plan_progress import PlanProgress
from dataprep_converter.sampling.intermediate_files import IntermediateFiles
from dataprep_converter.sampling.units import Files, Unit, Units, UnitTable

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
    "avro": "dataprep_converter.readers.columnar.avro:AvroReader",
    "orc": "dataprep_converter.readers.columnar.orc:OrcReader",
    "fixed_length": "dataprep_converter.readers.arrays.fixed_length:FixedLengthReader",
    "whole_file": "dataprep_converter.readers.whole_file:WholeFileReader",
    "tfrecord": "dataprep_converter.readers.tfrecord.tfrecord:TfrecordReader",
    "sequence_file": "dataprep_converter.readers.hadoop.sequence_file:SequenceFileReader",
    "webdataset": "dataprep_converter.readers.foreign.webdataset:WebdatasetReader",
    "mds": "dataprep_converter.readers.foreign.mds:MdsReader",
    "dataset": "dataprep_converter.readers.dataset:DatasetReader",
    "numpy": "dataprep_converter.readers.arrays.npy:NumpyReader",
    "libsvm": "dataprep_converter.readers.text.libsvm:LibsvmReader",
    "join": "dataprep_converter.readers.joins.join:JoinReader",
    "sql": "dataprep_converter.readers.databases.sql:SqlReader",
    "table": "dataprep_converter.readers.databases.table:TableReader",
    "plugin": "dataprep_converter.readers.plugin:PluginReader",
}
"""Maps each member of `spec.source` to its reader class. To add a source, add a line here and a module."""


LINE: Final = "\x02line"
"""The column with the number of the line on which a record begins (`NumbersLines`)."""

UnitT = TypeVar("UnitT", Unit, Files)
Listing: TypeAlias = Generator[UnitT, None, dict[str, Any]]
"""Yields the units, ordered by sample number, and returns the state that every worker needs, as JSON values. The state's entries `ignored`
and `warnings` are copied into the plan."""


@dataclass(frozen=True)
class Discovery:
    """The result of `discover`."""

    listing: "Listing[Unit] | Listing[Files]"
    intermediate: IntermediateFiles | None = None
    """Files that `discover` created for the workers. The units refer to these files."""

    def collect(self, progress: PlanProgress | None = None) -> tuple[UnitTable, dict[str, Any]]:
        """Consumes the listing, and adds its records and bytes to `progress`. Returns all units, and the state for the workers."""
        state: dict[str, Any] = {}

        def units() -> Generator[Unit | Files, None, None]:
            state.update((yield from self.listing))

        return UnitTable.of(_counted(units(), progress) if progress is not None else units()), state


def _counted(units: Generator[Unit | Files, None, None], progress: PlanProgress) -> Iterator[Unit | Files]:
    """Yields the units, and adds their records and bytes to `progress`."""
    with closing(units):
        for item in units:
            if isinstance(item, Unit):
                progress.records += item.records
                progress.size += item.size
            else:
                progress.records += len(item.paths)
                progress.size += sum(item.sizes)
            yield item


class SampleReader(Protocol):
    """Reads samples by their numbers."""

    def schema(self) -> pa.Schema:
        """The columns of the batches, except `_sample`. The field metadata `default: no` marks a column that is written only if the spec
        names it."""
        ...

    def classes(self) -> dict[str, list[str]]:
        """The class names of each label column, in the order of the class numbers. The dict is empty if the classes have no names."""
        ...

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Yields a batch for each array of sample numbers, in the order of the arrays. Raises InputChanged if a file has changed since
        planning."""
        ...

    def close(self) -> None:
        """Closes the open files and removes temporary files. This method can be called more than once. After the first call, neither the
        reader nor the iterators that `read` returned earlier can be used."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Reader(SampleReader, Protocol):
    """The interface of all readers of sources. Every reader is tested against this interface by
    `tests/converter/readers/reader_contract.py`."""

    default_label: ClassVar[str]
    """The column used as the label if it exists and the spec names no label column."""

    @staticmethod
    def discover(source: Any, access: Access) -> Discovery:
        """Lists the units of `source`, which is a member of `spec.source`. Raises NotFound for a URI without files, and BadSpec or BadData
        for a source that can't be planned."""
        ...

    def __init__(self, source: Any, state: Mapping[str, Any], access: Access) -> None: ...


@runtime_checkable
class HasStoredForm(Protocol):
    """A reader class that examines each file separately, and can store the findings as JSON.

    Several processes can then scan the source before it is planned (`runtime/scans.py`).
    """

    stored_form: int
    """The version of the JSON form, and of the meaning of its values."""


@runtime_checkable
class ReadsColumns(Protocol):
    """A reader that can read some columns more cheaply than all of them. A split by value needs only some columns; a reader that doesn't
    implement this protocol reads all columns."""

    def read_columns(self, units: Units, samples: Iterator[npt.NDArray[np.int64]], columns: Sequence[str]) -> Iterator[Batch]:
        """Like `read`, but the batches need to contain only the given columns and `_sample`."""
        ...


@runtime_checkable
class AcceptsReadPlan(Protocol):
    """A reader that collects scattered samples in passes over its source, and needs fewer passes if it knows the upcoming requests."""

    def accept_read_plan(self, coming: Callable[[], Iterator[Iterator[npt.NDArray[np.int64]]]]) -> None:
        """Tells the reader about future calls of `read`. For each of these calls, beginning with the next one, `coming` yields the call's
        arrays of sample numbers. Calling this method is optional, and doesn't change the batches."""
        ...


@runtime_checkable
class HasLines(Protocol):
    """A text reader that can report the line on which a sample begins."""

    def lines(self, units: Units, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of the line on which each given sample begins. Lines are numbered from 1. This method might read the text again."""
        ...


@runtime_checkable
class NumbersLines(HasLines, Protocol):
    """A text reader that can report the line of every record while it reads the records, so that it needn't read the text again."""

    def number_lines(self) -> None:
        """Adds the column LINE to all batches, with the number of the line on which each record begins. Must be called before the first
        batch is read."""
        ...


@runtime_checkable
class HasSteps(Protocol):
    """A text reader whose samples are sequences. It can report the line of a sequence's faulty step."""

    def places(self, units: Units, bad: Sequence[RejectedSample]) -> list[str]:
        """The location of each faulty step, such as `line 3`. If a step's location is unknown, returns the location at which the step's
        sequence starts. This method might read the text again."""
        ...


def stored_form(kind: str) -> int | None:
    """Returns the `stored_form` of the reader class for this kind of source, or None if such sources are never scanned."""
    reader = reader_class(kind) if kind in READERS else None
    return reader.stored_form if isinstance(reader, HasStoredForm) else None


def reader_class(kind: str) -> type[Reader]:
    """The reader class of a source. For an unknown source, raises BadSpec, which lists the known sources."""
    if kind == "from_job":
        raise BadSpec(
            "source.fromJob waits for another job, which only the operator can do. "
            "To run this job here, name the other job's data set: --set 'source={dataset: {uri: DIR}}'"
        )
    if kind not in READERS:
        raise BadSpec(f"No reader named {kind!r}; known: {', '.join(sorted(READERS))}.")
    reader: type[Reader] = resolve_name(READERS[kind])
    return reader
