"""Reads parts of a join's table on the machines of an engine."""

import base64
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.core.tensors import Array
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.joins.carriers import carried, carrier, ordered, ordered_type
from dataprep_converter.readers.joins.open_table import MOST_BAD, OpenTable, read_rows
from dataprep_converter.readers.joins.tables import Columns, plain
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.sampling.units import UnitTable

PART_BYTES: Final = 64 << 20
"""Consecutive units are read together, up to about this many bytes."""

BAD: Final = "bad"
LOST: Final = "lost"
ERROR: Final = "error"

_arrow: Any = pa  # the type stubs lack some functions


@dataclass(frozen=True)
class PartReader:
    """Reads any part of a table. Can be pickled.

    The rows have the columns `row | k0, k1, … | o0, … | c0, c1, … | what, said`: the number of the row; the keys and the columns of
    `orderBy`, in a form that can be compared; the other columns, in their carrier types; and two nulls. A row with a value in `what`
    doesn't come from the table. Instead, it reports a bad row, decimals that have lost digits, or the error that has ended the part.
    """

    kind: str
    source: Any
    """The member of `spec.source`."""
    state: Mapping[str, Any]
    rules: Mapping[str, Any]
    units: bytes
    """The units, as an Arrow stream."""
    keys: Sequence[str]
    others: Sequence[str]
    columns: Columns
    batch_rows: int
    borders: Sequence[int]
    """The number of the first row of each part, followed by the number of rows."""

    @classmethod
    def of(cls, table: OpenTable) -> "PartReader":
        """The reader of an open table."""
        return cls(
            kind=table.spec.source.kind,
            source=table.spec.source.member,
            state=table.state,
            rules=table.rules,
            units=stream_of(table.units),
            keys=table.keys,
            others=table.others,
            columns=table.columns,
            batch_rows=table.batch_rows(),
            borders=borders(table.units),
        )

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(self.borders) - 1

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        others = self.columns.plain().types[1 + len(self.columns.keys) :]
        fields: list[tuple[str, pa.DataType]] = [("row", pa.int64())]
        fields += [(f"k{place}", _known(ordered_type(kind))) for place, kind in enumerate(self.columns.keys.types)]
        fields += [(f"o{place}", _known(ordered_type(others[at]))) for place, at in enumerate(self._order_by)]
        fields += [(f"c{place}", _known(carrier(kind))) for place, kind in enumerate(others)]
        fields += [("what", pa.string()), ("said", pa.string())]
        return pa.schema(fields)

    def __call__(self, access: Access, part: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a part.

        If the reader fails, yields a row that contains the error. If the error were raised, the engine would repeat the part.
        """
        samples = range(self.borders[part], self.borders[part + 1])
        try:
            if samples:
                yield from self._read(access, samples)
        except ConvertError as exc:
            yield self._said([samples.start], ERROR, [text_of(exc)])

    @property
    def _order_by(self) -> Sequence[int]:
        return self.columns.order_by or ()

    def _read(self, access: Access, samples: range) -> Iterator[pa.RecordBatch]:
        access.adopt(self.rules)
        units = units_of(self.units)
        bad = 0
        with reader_class(self.kind)(self.source, self.state, access) as reader:
            for batch in read_rows(reader, units, self.keys, samples, batch_rows=self.batch_rows):
                yield from self._rows(batch)
                bad += len(batch.bad)
                if bad > MOST_BAD:
                    break

    def _rows(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        if batch.records.num_rows:
            yield self._joinable(batch.records)
        if batch.bad:
            yield self._said([each.sample for each in batch.bad], BAD, [each.reason for each in batch.bad])
        for lost in batch.lost:
            yield self._said([int(lost.samples[0])], LOST, [json.dumps([lost.column, len(lost.texts), lost.texts[0]])])

    def _joinable(self, records: pa.RecordBatch) -> pa.RecordBatch:
        types = self.columns.plain().types[1:]
        given = [records.column(name) for name in (*self.keys, *self.others)]
        columns = [plain(column, kind) for column, kind in zip(given, types, strict=True)]
        keys, others = columns[: len(self.keys)], columns[len(self.keys) :]
        none = pa.nulls(records.num_rows, pa.string())
        return pa.RecordBatch.from_arrays(
            [
                records.column(SAMPLE),
                *map(ordered, keys),
                *(ordered(others[at]) for at in self._order_by),
                *map(carried, others),
                none,
                none,
            ],
            schema=self.schema,
        )

    def _said(self, rows: Sequence[int], what: str, said: Sequence[str]) -> pa.RecordBatch:
        ends: list[Array] = [_arrow.repeat(what, len(rows)), pa.array(said, pa.string())]
        none = [_arrow.nulls(len(rows), kind) for kind in self.schema.types[1:-2]]
        return pa.RecordBatch.from_arrays([pa.array(rows, pa.int64()), *none, *ends], schema=self.schema)


def text_of(error: ConvertError) -> str:
    """The error as text, for `error_of`."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # noqa: S301 - its own pickle
    except Exception:  # the class of the error can't be pickled
        pickled = pickle.dumps(ConvertError(str(error)))
    return base64.b64encode(pickled).decode()


def error_of(said: str) -> ConvertError:
    """Restores the error from the text that `text_of` returned."""
    error: ConvertError = pickle.loads(base64.b64decode(said))  # noqa: S301 - pickled by a task of this job
    return error


def _known(kind: pa.DataType | None) -> pa.DataType:
    if kind is None:
        raise TypeError("the table has a column that can't be passed to the engine; see `joining_by_sql.fault`")
    return kind


def stream_of(units: UnitTable) -> bytes:
    """The units as an Arrow stream, for `units_of`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, units.table.schema) as writer:
        writer.write_table(units.table)
    return sink.getvalue().to_pybytes()


def units_of(stream: bytes) -> UnitTable:
    """Restores the units from the Arrow stream that `stream_of` returned."""
    return UnitTable(pa.ipc.open_stream(stream).read_all())


def borders(units: UnitTable) -> list[int]:
    """The first row of each part and, as the last item, the table's number of rows. Each part begins with a new unit."""
    sizes: npt.NDArray[np.int64] = units.table["size"].to_numpy()
    firsts: npt.NDArray[np.int64] = units.table["first"].to_numpy()
    parts = (np.cumsum(sizes) - sizes) // PART_BYTES
    begins = firsts[np.flatnonzero(np.diff(parts, prepend=-1))]
    return [*begins.tolist(), units.samples] if len(begins) else [0, 0]
