"""Converts a batch to the rows that a shuffle stores. Their columns contain everything that the reader returned for the samples.

The columns of the reader's schema come first. They are followed by a text column for each decimal column, with the original text of the
values that lost digits. The last columns are the line numbers, if the source has lines, and the sample numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.tensors import to_numpy
from dataprep_converter.readers import LINE, NumbersLines, SampleReader
from dataprep_converter.readers.base.blocks import BlockReader, lost_name
from dataprep_converter.readers.shuffle.shuffle_file import BAD
from dataprep_converter.records.batch import SAMPLE, Batch, LostDigits, Raw, RejectedSample
from dataprep_converter.records.exact_decimals import texts_of_rows


@dataclass(frozen=True)
class RowForm:
    """The columns in which the samples of one reader are stored."""

    columns: pa.Schema
    """The reader's own columns."""
    lost_of: Sequence[str]
    """The columns for which the reader reports lost digits."""
    has_lines: bool

    @classmethod
    def of(cls, reader: SampleReader) -> "RowForm":
        """Returns the form for a reader's samples."""
        return cls(reader.schema(), list(reader.lost_of) if isinstance(reader, BlockReader) else [], isinstance(reader, NumbersLines))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stored rows."""
        lines = [pa.field(LINE, pa.int64())] if self.has_lines else []
        added = [*(pa.field(lost_name(name), pa.string()) for name in self.lost_of), *lines, pa.field(SAMPLE, pa.int64())]
        return pa.schema([*self.columns, *added])

    def rows(self, batch: Batch) -> pa.RecordBatch:
        """Returns the stored form of a reader's batch. If the source has lines, the reader must have numbered them (`NumbersLines`)."""
        by_column = {lost.column: lost for lost in batch.lost}
        columns: list[Any] = [batch.records.column(name) for name in self.columns.names]
        for name in self.lost_of:
            lost = by_column.get(name)
            columns.append(pa.nulls(batch.records.num_rows, pa.string()) if lost is None else texts_of_rows(lost, batch))
        if self.has_lines:
            columns.append(batch.records.column(LINE))
        columns.append(batch.records.column(SAMPLE))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def batch(self, stored: Batch) -> Batch:
        """Restores the reader's batch from the stored rows in `stored.records`."""
        samples: npt.NDArray[np.int64] = to_numpy(stored.records.column(SAMPLE))
        lost = []
        for name in self.lost_of:
            texts: Any = stored.records.column(lost_name(name))
            if texts.null_count < len(texts):
                lost.append(LostDigits(name, samples[texts.is_valid().to_numpy(zero_copy_only=False)], texts.drop_null().to_pylist()))
        return replace(stored, records=stored.records.select([*self.columns.names, SAMPLE]), lost=lost)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch without rows. Arrow's own functions can't make an empty batch that has a column of transposed tensors."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def bad_rows(bad: Sequence[RejectedSample]) -> pa.RecordBatch:
    """Returns the rows of samples that could not be read."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([each.sample for each in bad], pa.int64()),
            pa.array([each.reason.encode(errors="surrogatepass") for each in bad], pa.binary()),
            pa.array([each.raw.content if each.raw is not None else None for each in bad], pa.binary()),
            pa.array([each.raw.size if each.raw is not None else None for each in bad], pa.int64()),
        ],
        schema=BAD,
    )


def bad_samples(rows: pa.RecordBatch) -> list[RejectedSample]:
    """Returns the samples that could not be read. Inverse of `bad_rows`."""
    return [
        RejectedSample(
            row["sample"],
            row["reason"].decode(errors="surrogatepass"),
            Raw(row["raw"], row["size"]) if row["raw"] is not None else None,
        )
        for row in rows.to_pylist()
    ]
