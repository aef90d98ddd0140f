"""The rows of a partition: converts them from the engine's types, divides them among files, and passes them to the pipeline."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.run_id import StructRule
from dataprep_api.spec.sources.arrow import ArrowSource
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.dataset.frame_rows import Engine
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.columnar.arrow import CLASSES, ArrowReader
from dataprep_converter.readers.columnar.columns import columns_of
from dataprep_converter.readers.columnar.tables import CommonSchema
from dataprep_converter.records.batch import SAMPLE, Batch, RejectedSample
from dataprep_converter.sampling.units import Units
from dataprep_frames.options import WriteOptions, checked_split_name

_BATCH_BYTES: Final = 8 << 20
"""Batches are cut to about this many bytes, like the batches of a reader."""

_any: Any = pa  # the stubs lack some functions


def frozen_state(
    schema: pa.Schema, source: ArrowSource, structs: StructRule, engine: Engine, classes: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Returns the reader's state for the columns of a data frame. Raises BadSpec naming a column that records can't contain."""
    if not len(schema):
        raise BadSpec(f"The {engine.frame} has no columns to write.")
    for field in schema:
        _check_column(field, structs, engine)
    common = CommonSchema(source, of=engine.writer, structs=structs)
    common.settle(schema, f"the {engine.frame}")
    named = {CLASSES: {column: list(names) for column, names in classes.items()}} if classes else {}
    return common.state() | named


def _check_column(field: "pa.Field[Any]", structs: StructRule, engine: Engine) -> None:
    if not field.name:
        raise BadSpec(f"The {engine.frame} has a column whose name is empty. Rename the column.")
    cause: BadSpec | None = None
    if not has_void(field.type):
        try:
            columns_of(pa.schema([field]), None, of=engine.writer, uri=engine.uri, structs=structs)
        except BadSpec as exc:
            cause = exc
        else:
            return
    raise BadSpec(
        f"The {engine.frame}'s column {field.name!r} is {field.type}, which records can't contain. Drop the column, or cast it to numbers, "
        "text, bytes, decimals, times, or arrays, maps and structs of these."
    ) from cause


def has_void(kind: Any) -> bool:
    """Returns whether the type is or contains Arrow's null type. A column of the null type has only nulls.

    If a file has only nulls in a column, the type of the column's other values is unknown.
    """
    return bool(pa.types.is_null(kind)) or any(has_void(kind.field(place).type) for place in range(kind.num_fields))


@dataclass(frozen=True)
class _Run:
    """Consecutive rows of the same split."""

    split: str
    records: pa.RecordBatch


class Rows:
    """The rows of a partition, in order."""

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, options: WriteOptions, *, most_in_batch: int) -> None:
        """`schema` contains the columns to write."""
        self._schema = schema
        self._options = options
        self._most_in_batch = most_in_batch
        self._runs = self._divided(batches)
        self._next = next(self._runs, None)

    def files(self, most_records: int | None) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
        """For each file, yields the split and the file's batches. The batches must be consumed before the next file is requested.

        A file has at most `most_records` rows. Raises BadSpec unless the rows of each split are contiguous.
        """
        ended: set[str] = set()
        while self._next is not None:
            split = self._next.split
            if split in ended:
                engine = self._options.engine
                raise BadSpec(
                    f"A {engine.part} has rows of the split {split!r} after rows of another split. "
                    f"{engine.sorting.format(repr(self._options.split_column))}"
                )
            yield split, self._take(split, most_records)
            if self._next is not None and self._next.split != split:
                ended.add(split)

    def _take(self, split: str, most: int | None) -> Iterator[pa.RecordBatch]:
        left = most
        while (run := self._next) is not None and run.split == split and left != 0:
            count = run.records.num_rows if left is None else min(left, run.records.num_rows)
            taken, rest = run.records.slice(0, count), run.records.slice(count)
            left = None if left is None else left - count
            self._next = _Run(split, rest) if rest.num_rows else next(self._runs, None)
            yield taken

    def _divided(self, batches: Iterable[pa.RecordBatch]) -> Iterator[_Run]:
        for batch in batches:
            for split, records in self._of_splits(batch):
                conformed = pa.RecordBatch.from_arrays(
                    [_conformed(records.column(field.name), field.type) for field in self._schema], schema=self._schema
                )
                step = max(1, min(self._most_in_batch, _BATCH_BYTES * conformed.num_rows // max(1, conformed.nbytes)))
                for first in range(0, conformed.num_rows, step):
                    yield _Run(split, conformed.slice(first, step))

    def _of_splits(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Divides a batch into runs of rows of the same split."""
        column = self._options.split_column
        if column is None:
            yield self._options.split, batch
            return
        runs: Any = _any.compute.run_end_encode(batch.column(column), run_end_type=pa.int64())
        first = 0
        for end, split in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            if split is None:
                raise BadData(f"The column {column!r} has no value in some rows, so these rows have no split.")
            yield checked_split_name(split), batch.slice(first, end - first)
            first = end


def _conformed(column: Any, kind: pa.DataType) -> Any:
    """Returns the column with the type that the driver has seen.

    Only the time zone may differ, because tasks use the session's time zone.
    """
    return column if column.type.equals(kind) else column.cast(kind)


class RowsReader(ArrowReader):
    """A reader that yields given rows, regardless of which samples are requested."""

    of = "the options of the write"

    def __init__(self, source: ArrowSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(source, state, access)
        self._coming: Iterator[pa.RecordBatch] = iter(())
        self.rows = 0
        """The number of rows read so far."""

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Sets the rows that the next call of `read` yields."""
        self._coming = batches

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Yields the rows, numbered consecutively. The number of rows isn't known in advance, so `samples` is not used."""
        del units, samples
        for records in self._coming:
            block = self._table.block(records)
            yield self._split_lost_digits(_numbered(block, self.rows, bytes_in=records.nbytes))
            self.rows += len(block)


def _numbered(block: Block, first: int, *, bytes_in: int) -> Batch:
    """Returns the rows of a block as a batch. `first` is the number of the first row."""
    good = np.flatnonzero(block.places >= 0).astype(np.int64) + first
    records = _any.RecordBatch.from_arrays(
        [*block.records.columns, to_arrow(good)], schema=block.records.schema.append(pa.field(SAMPLE, pa.int64()))
    )
    bad = [RejectedSample(first + row, reason, block.raws.get(row)) for row, reason in sorted(block.reasons.items())]
    return Batch(records=records, bad=bad, bytes_in=bytes_in)
