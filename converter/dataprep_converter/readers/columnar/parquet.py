"""The source `parquet` reads the row groups of Parquet files. Arrow decodes them.

The planner reads only the footers. Each row group is a unit. Workers read only the bytes of the selected columns. A large row group is
decoded in parts, up to the last requested row. If rows are requested in order, a single pass over the row group suffices. Each request for
an earlier row begins another pass.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_api.spec.sources.parquet import ParquetSource
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.core.lru import LruCache
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.ranged import RangedFile
from dataprep_converter.readers import Discovery
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.base.equal_batches import equal_batches
from dataprep_converter.readers.columnar.columns import Column
from dataprep_converter.readers.columnar.table_file import Span, TableFile
from dataprep_converter.readers.columnar.table_reader import TableReader, discover_tables, errors_as_bad_data
from dataprep_converter.readers.columnar.unified import Selection
from dataprep_converter.records.batch import INT96
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Input

PART_BYTES: Final = 8 << 20
"""The approximate size in bytes of the parts in which a row group is decoded."""
PART_RECORDS: Final = 65_536
LOADED_BYTES: Final = 16 << 20
"""The maximum size in bytes of a row group whose columns are all fetched together. Larger row groups are fetched column by column."""
INT96_UNIT: Final = "us"
"""The unit in which Arrow reads times of the old type INT96. Nanoseconds, Arrow's default, can't represent all INT96 times."""

_GAP: Final = 1 << 20
_BUFFERS: Final = 32 << 20
_OF: Final = "source.parquet"
_pq: Any = pq  # the type stubs lack some options


class ParquetReader(TableReader):
    """See the module. The reader's columns are the columns of the files. The field `b` of the struct `a` is the column `a/b`."""

    of = _OF

    default_label: ClassVar[str] = "label"

    @staticmethod
    def discover(source: ParquetSource, access: Access) -> Discovery:
        """Reads the footers. Raises NotFound for a URI without files, BadData for a file that isn't Parquet, and BadSpec for columns that
        can't be read or that differ between files."""
        return discover_tables(source, access, of=_OF, examine=partial(_examine, unit=_unit_of_int96(access)))

    def __init__(self, source: ParquetSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(source, state, access)
        self._parquet_files: LruCache[str, _File] = self._files.views()
        self._unit = _unit_of_int96(access)

    def parts(self, unit: Unit, source: Input, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
        """Yields the parts of the row group that contain the rows. All parts have the same length, except for the last."""
        file = self._parquet_files.get(unit.uri, lambda: _File(source, unit.uri, self._table.columns, unit=self._unit))
        group = json.loads(unit.extra)["group"]
        size = file.part_records(group)
        for number in np.flatnonzero(np.bincount(rows // size)).tolist():
            first = number * size
            yield first, self.cached_block(unit, unit.offset, unit.row + first, partial(self._part, unit, file, group, number))

    def _part(self, unit: Unit, file: "_File", group: int, number: int) -> Block:
        return self._table.block(file.part(unit, group, number))


def _unit_of_int96(access: Access) -> str | None:
    """The unit of INT96 times. None stands for nanoseconds, the unit in version 1 of the part `int96`."""
    return INT96_UNIT if access.version_of(INT96) > 1 else None


# --- planning -----------------------------------------------------------------------------------------------------


def fields_of(source: Input, uri: str) -> list[str]:
    """The names of a file's columns. A struct is one column. Raises BadData for a file that isn't Parquet."""
    with errors_as_bad_data(uri, "not a readable Parquet file"):
        names: list[str] = _pq.ParquetFile(RangedFile(source)).schema_arrow.names
    return names


def _examine(source: Input, uri: str, selection: Selection, *, unit: str | None) -> TableFile:
    with errors_as_bad_data(uri, "not a readable Parquet file"):
        file = _pq.ParquetFile(RangedFile(source), coerce_int96_timestamp_unit=unit)
        schema: pa.Schema = file.schema_arrow
        owners = _owners(schema, selection.columns_of(schema, uri))
        leaves = sorted(owners)
        spans = [*_row_groups(file.metadata, leaves)]
        of_leaves = file.metadata.schema
        int96 = dict.fromkeys(owners[leaf].name for leaf in leaves if of_leaves.column(leaf).physical_type == "INT96")
    return TableFile(schema.remove_metadata(), spans, [*int96])


def _row_groups(metadata: Any, leaves: Sequence[int]) -> Iterator[Span]:
    """The row groups that have rows. `metadata` is a `pyarrow.parquet.FileMetaData`."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows:
            chunks = [_span(group.column(leaf)) for leaf in leaves]
            size = sum(end - start for start, end in chunks)
            yield Span(group.num_rows, size, min((start for start, _ in chunks), default=0), json.dumps({"group": number}))


def _owners(schema: pa.Schema, columns: Sequence[Column]) -> dict[int, Column]:
    """Maps the index of each physical column in the file to the member of `columns` to which it belongs, if any. A nested column consists
    of several physical columns."""
    owners: dict[int, Column] = {}
    of_path = {column.path: column for column in columns}
    at = 0

    def walk(path: tuple[str, ...], kind: Any, owner: Column | None) -> None:
        nonlocal at
        owner = owner or of_path.get(path)
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_nested(kind):
            for number in range(kind.num_fields):
                walk((*path, kind.field(number).name), kind.field(number).type, owner)
            return
        if owner is not None:
            owners[at] = owner
        at += 1

    for field in schema:
        walk((field.name,), field.type, None)
    return owners


def _span(chunk: Any) -> tuple[int, int]:
    """The offset of a column chunk's first byte, and the offset after the chunk's last byte."""
    start = chunk.data_page_offset if chunk.dictionary_page_offset is None else min(chunk.dictionary_page_offset, chunk.data_page_offset)
    return start, start + chunk.total_compressed_size


# --- working ------------------------------------------------------------------------------------------------------


class _File:
    """An open Parquet file, and the current pass over one of its row groups."""

    def __init__(self, source: Input, uri: str, columns: list[Column], *, unit: str | None) -> None:
        self._uri = uri
        paths = {column.path for column in columns}
        # If a struct is a column, reading it also reads its fields, so don't name the fields separately.
        outer = [path for path in paths if not any(path[:length] in paths for length in range(1, len(path)))]
        self._names = [".".join(column.path) for column in columns if column.path in outer]
        self._ranged_file = RangedFile(source)
        buffer = max(1 << 16, min(4 << 20, _BUFFERS // len(columns)))
        with errors_as_bad_data(uri, "not a readable Parquet file"):
            self._file = _pq.ParquetFile(
                self._ranged_file,
                coerce_int96_timestamp_unit=unit,
                buffer_size=buffer,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        self._leaves = sorted(_owners(self._file.schema_arrow, columns))
        self._group = -1
        self._next = 0
        self._ahead: Iterator[pa.RecordBatch] = iter(())

    def part_records(self, group: int) -> int:
        """The number of rows in each part of the row group. The last part can be shorter."""
        row_group = self._file.metadata.row_group(group)
        size = sum(row_group.column(leaf).total_uncompressed_size for leaf in self._leaves)
        return int(max(1, min(PART_RECORDS, PART_BYTES * row_group.num_rows // max(1, size))))

    def part(self, unit: Unit, group: int, number: int) -> pa.RecordBatch:
        """Decodes a part. If parts are requested in order, one pass over the row group suffices. Going back begins another pass."""
        with errors_as_bad_data(self._uri, f"damaged in row group {group}"):
            if group != self._group or number < self._next:
                self._begin(group)
            while True:
                records = next(self._ahead, None)
                if records is None:
                    raise InputChanged(
                        f"{self._uri}: the row group {group} has fewer than the {unit.records:,} rows that were planned.", uri=unit.uri
                    )
                self._next += 1
                if self._next > number:
                    return records

    def _begin(self, group: int) -> None:
        spans = sorted(_span(self._file.metadata.row_group(group).column(leaf)) for leaf in self._leaves)
        small = sum(end - start for start, end in spans) <= LOADED_BYTES
        self._ranged_file.load(_join_spans(spans) if small else [])
        size = self.part_records(group)
        batches = self._file.iter_batches(batch_size=size, row_groups=[group], columns=self._names, use_threads=False)
        # Arrow returns a shorter batch if the batch's text is too long for one array.
        self._ahead = equal_batches(batches, size)
        self._group, self._next = group, 0


def _join_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Joins spans that are close together."""
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and start - out[-1][1] <= _GAP // len(spans):
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out
