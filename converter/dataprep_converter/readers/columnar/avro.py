"""The source `avro` reads the blocks of Avro container files.

The planner reads the file headers and the counts at the start of each block (`avro_blocks.py`). A unit consists of consecutive blocks, and
is read and decoded as a whole (`avro_records.py`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from dataprep_api.spec.sources.avro import AvroSource
from dataprep_converter.core.errors import BadData
from dataprep_converter.core.lru import LruCache
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.base.examined import cost_of_file
from dataprep_converter.readers.columnar.avro_blocks import AvroBlock, Header, blocks_of, contents_of, header_of
from dataprep_converter.readers.columnar.avro_records import RecordType, batches_of, record_type
from dataprep_converter.readers.columnar.table_file import Span, TableFile
from dataprep_converter.readers.columnar.table_reader import TableReader, discover_tables
from dataprep_converter.readers.columnar.unified import Selection
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Input

UNIT_BYTES: Final = 1 << 20
"""A unit ends with the block that brings it to at least this size in bytes."""
UNIT_RECORDS: Final = 65_536
_HEADER: Final = 1 << 16
_OF: Final = "source.avro"
_arrow: Any = pa  # the type stubs lack some functions


class AvroReader(TableReader):
    """See the module. The reader's columns are the fields of the records. The field `b` of the record `a` becomes the column `a/b`."""

    of = _OF

    @staticmethod
    def discover(source: AvroSource, access: Access) -> Discovery:
        """Reads headers and counts. Raises NotFound for a URI without files, BadData for a file that isn't Avro, and BadSpec for columns
        that can't be read or that differ between files."""
        return discover_tables(source, access, of=_OF, examine=_examine, bytes_of=cost_of_file)

    def __init__(self, source: AvroSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(source, state, access)
        self._fields = list(dict.fromkeys(column.path[0] for column in self._table.columns))
        self._types: LruCache[str, tuple[Header, RecordType]] = self._files.views()

    def load(self, unit: Unit, source: Input) -> Block:
        """Reads and decodes the blocks of the unit."""
        header, kind = self._types.get(unit.uri, lambda: _type_of(source, unit.uri, length=json.loads(unit.extra)["header"]))
        fields = [name for name in self._fields if name in kind.schema.names]
        data = source.read_at(unit.offset, unit.size)
        try:
            parts: list[pa.RecordBatch] = []
            bad: dict[int, str] = {}
            row = 0
            for records, content in contents_of(data, header):
                for batch, inexact in batches_of(kind, records, content, fields):
                    bad |= {row + each.row: each.reason() for each in reversed(inexact) if self._is_selected(each.path)}
                    row += batch.num_rows
                    parts.append(batch)
            # Text columns are reinterpreted byte columns, so Arrow hasn't checked their text. `Table` finds text that is not UTF-8.
            return self._table.block(parts[0] if len(parts) == 1 else _arrow.concat_batches(parts), bad)
        except ValueError as exc:
            raise BadData(f"{unit.uri}: the blocks from byte {unit.offset:,} on can't be read: {exc}.", uri=unit.uri) from exc

    def _is_selected(self, path: Sequence[str]) -> bool:
        """Whether one of the columns contains the field at this path."""
        return any(column.path == tuple(path[: len(column.path)]) for column in self._table.columns)


def _type_of(source: Input, uri: str, *, length: int) -> tuple[Header, RecordType]:
    header = header_of(source, uri, length=length)
    return header, record_type(header.schema, uri)


# --- planning -----------------------------------------------------------------------------------------------------


def _examine(source: Input, uri: str, _: Selection) -> TableFile:
    header, kind = _type_of(source, uri, length=_HEADER)
    return TableFile(kind.schema, [*_groups(blocks_of(source, header, uri), header)])


def _groups(blocks: Iterator[AvroBlock], header: Header) -> Iterator[Span]:
    """Yields groups of blocks that have records."""
    group: list[AvroBlock] = []

    def span() -> Span:
        records, size = sum(block.records for block in group), sum(block.size for block in group)
        return Span(records, size, group[0].offset, json.dumps({"header": header.size}))

    for block in blocks:
        group.append(block)
        records = sum(each.records for each in group)
        if sum(each.size for each in group) >= UNIT_BYTES or records >= UNIT_RECORDS:
            if records:
                yield span()
            group = []
    if sum(each.records for each in group):
        yield span()
