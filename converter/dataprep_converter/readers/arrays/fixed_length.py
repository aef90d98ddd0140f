"""The source `fixedLength` reads binary files whose records all have the same length, and splits each record into fields at fixed offsets.

    # The layout of a file:  header | record | record | … | footer

Each file is a unit. A record's position is computed from its number (`rows.py`), so reading takes about the same time in any order. The
planner looks only at the sizes of the files.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.sources.fixed_length import FixedField, FixedLengthSource
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.tensors import Array, arrow_type, binary, to_arrow
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.arrays.rows import Bytes, RowFiles, gathered
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.sampling.units import Unit, Units
from dataprep_converter.stores import Entry

RECORD: Final = "record"
"""The name of the column that has the complete record, if the spec gives no fields."""


class FixedLengthReader(Closeable):
    """See the module. The columns are the fields, in the order of the spec."""

    default_label: ClassVar[str] = "label"

    @staticmethod
    def discover(source: FixedLengthSource, access: Access) -> Discovery:
        """Lists the files. Raises NotFound for a URI without files, BadData for a file whose size isn't a whole number of records, and
        BadSpec for invalid fields."""
        _fields(source)
        return Discovery(_units(source, access))

    def __init__(self, source: FixedLengthSource, state: Mapping[str, Any], access: Access) -> None:  # noqa: ARG002 - the spec has all settings, so the state is empty
        self._source = source
        self._fields = _fields(self._source)
        self._files = RowFiles(access)

    def close(self) -> None:
        """Closes the files."""
        self._files.close()

    def schema(self) -> pa.Schema:
        """The columns: numbers in native byte order, as scalars or tensors, and bytes."""
        return pa.schema([(field.name, field.kind) for field in self._fields])

    def classes(self) -> dict[str, list[str]]:
        """An empty dict, because the files have only numbers and bytes."""
        return {}

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Yields a batch for each array of sample numbers."""
        for sample_numbers in samples:
            yield self._batch(units, sample_numbers)

    def _batch(self, units: Units, sample_numbers: npt.NDArray[np.int64]) -> Batch:
        length = self._source.record_bytes
        records = gathered(units, sample_numbers, self._take) if len(sample_numbers) else np.empty((0, length), np.uint8)
        columns = [field.column(records) for field in self._fields]
        schema = self.schema().append(pa.field(SAMPLE, pa.int64()))
        record_batch = pa.RecordBatch.from_arrays([*columns, to_arrow(sample_numbers)], schema=schema)
        return Batch(records=record_batch, bad=[], bytes_in=self._files.taken())

    def _take(self, unit: Unit, rows: npt.NDArray[np.int64]) -> Bytes:
        return self._files.rows(unit.uri, unit.pin, start=unit.offset, row_bytes=self._source.record_bytes).take(rows)


def _units(source: FixedLengthSource, access: Access) -> Listing[Unit]:
    around = source.header_bytes + source.footer_bytes
    for root, path, entry in input_files(access, source.uris):
        records, rest = divmod(entry.size - around, source.record_bytes)
        if rest or records < 0:
            raise _no_whole_number(source, entry, records, rest)
        if records:
            yield Unit(root=root, path=path, uri=entry.uri, records=records, size=entry.size, pin=entry.pin, offset=source.header_bytes)
    return {}


def _no_whole_number(source: FixedLengthSource, entry: Entry, records: int, rest: int) -> BadData:
    frame = f" after {source.header_bytes:,} bytes of header and {source.footer_bytes:,} of footer"
    around = frame if source.header_bytes or source.footer_bytes else ""
    what = (
        f"it has {records:,} records, and {rest:,} bytes are left over" if records >= 0 else "it is shorter than the header and the footer"
    )
    return BadData(
        f"{entry.uri}: expected a whole number of records of {source.record_bytes:,} bytes{around}, got a file of {entry.size:,} bytes: {what}.",
        uri=entry.uri,
    )


@dataclass(frozen=True)
class _Field:
    """A field and its position in the record."""

    name: str
    offset: int
    dtype: np.dtype[Any] | None
    """The type of the stored numbers, or None for a field of bytes."""
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """The field's size in bytes."""
        return math.prod(self.shape) * (self.dtype.itemsize if self.dtype is not None else 1)

    @property
    def kind(self) -> pa.DataType:
        """The type of the column."""
        return pa.large_binary() if self.dtype is None else arrow_type(self.dtype.name, self.shape)

    def column(self, records: Bytes) -> Array:
        """The field's column for these records. `records` is a byte array of shape (records, bytes per record)."""
        field_bytes = records[:, self.offset : self.offset + self.width]
        if self.dtype is None:
            return binary(np.ascontiguousarray(field_bytes).reshape(-1), np.arange(len(records) + 1, dtype=np.int64) * self.width)
        if self.dtype.kind == "b":
            return to_arrow((field_bytes != 0).reshape(len(records), *self.shape))
        values = np.ascontiguousarray(field_bytes).view(self.dtype).reshape(len(records), *self.shape)
        return to_arrow(values.astype(self.dtype.newbyteorder("="), copy=False))


def _fields(source: FixedLengthSource) -> list[_Field]:
    """The fields with their offsets. Raises BadSpec for a field that ends outside the record."""
    if source.fields is None:
        return [_Field(RECORD, 0, None, (source.record_bytes,))]
    fields: list[_Field] = []
    for field in source.fields:
        after = fields[-1].offset + fields[-1].width if fields else 0
        placed_field = _place_field(field, after)
        end = placed_field.offset + placed_field.width
        if end > source.record_bytes:
            raise BadSpec(
                f"source.fixedLength: the field {field.name!r} begins at offset {placed_field.offset:,} and has {placed_field.width:,} bytes, "
                f"but recordBytes is {source.record_bytes:,}."
            )
        fields.append(placed_field)
    return fields


def _place_field(field: FixedField, after: int) -> _Field:
    offset = after if field.offset is None else field.offset
    if field.length is not None:
        return _Field(field.name, offset, None, (field.length,))
    dtype = np.dtype(field.dtype).newbyteorder("<" if field.byte_order == "Little" else ">")
    return _Field(field.name, offset, dtype, tuple(field.shape))
