"""The source `table` reads rows of MaxCompute tables, through download sessions that all workers share.

The planner opens a session for each table or partition, and divides the rows into slices. The plan identifies a slice by its position, the
time of the table's last change, and a digest of the slice's first rows. With `pin: Content`, the plan has a digest of each block instead.
As long as rows are requested in order, a worker reads them from one stream. If a session has ended, the worker opens another session and
checks the rows of this session against the plan.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api import canonical
from dataprep_api.spec.sources.table import TableSource
from dataprep_converter.core.closeable import Closeable, close_generator
from dataprep_converter.core.errors import BadSpec, InputChanged, NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.maxcompute import Session, SessionEnded, Table
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block, BlockReader, bytes_for_digest
from dataprep_converter.readers.base.equal_batches import equal_batches
from dataprep_converter.readers.columnar.columns import Column, columns_of
from dataprep_converter.readers.columnar.defaults import check_digits, column_default
from dataprep_converter.readers.columnar.tables import block_of, lost_of
from dataprep_converter.records.columns import similar
from dataprep_converter.records.schemas import parse_schema, schema_text
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Input

logger = logging.getLogger(__name__)

BLOCK_BYTES: Final = 2 << 20
MOST_BLOCK_ROWS: Final = 16_384
SLICE_BLOCKS: Final = 16
HEAD_ROWS: Final = 16

_PLANNED_AT_ONCE = 8
_SKIPPED_BLOCKS = 8
"""The maximum number of blocks that are read and discarded to reach a later block.

If more blocks must be skipped, a new stream is requested.
"""

_arrow: Any = pa  # the type stubs lack some functions
_NO_FILE: Final[Any] = None
"""Used in place of an open file, because rows come from a session."""


class TableReader(BlockReader):
    """See the module."""

    @staticmethod
    def discover(source: TableSource, access: Access) -> Discovery:
        """Opens the sessions. Raises BadSpec for columns that don't exist or that records can't hold, and other errors for missing tables,
        permissions or credentials."""
        tables = [Table(uri, access) for uri in source.uris]
        versions = [table.version() for table in tables]
        sessions = [table.session() for table in tables]
        rows = _Rows.of(source, _schema(source, sessions), keep_nulls=access.keeps_nulls)
        if not access.rounds_defaults:
            check_digits(source.record_defaults, rows.columns, of="source.table.recordDefaults")
        return Discovery(_units(source, rows, sessions, versions))

    def __init__(self, source: TableSource, state: Mapping[str, Any], access: Access) -> None:
        self._source = source
        self._rows = _Rows.of(self._source, parse_schema(state["schema"]), keep_nulls=access.keeps_nulls)
        super().__init__(access, lost_of=lost_of(self._rows.columns))
        self._planned_sessions: Sequence[str] = state["sessions"]
        self._sessions: dict[int, tuple[Session, bool]] = {}
        self._checked_slices: set[tuple[int, int]] = set()
        self._stream: _Stream | None = None

    def schema(self) -> pa.Schema:
        """The selected columns."""
        return self._rows.schema

    def parts(self, unit: Unit, source: Input, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Block]]:  # noqa: ARG002 - _NO_FILE
        """Yields the blocks of a slice that contain the rows."""
        extra = _Extra.loads(unit.extra)
        for number in np.unique(rows // extra.block_rows).tolist():
            yield number * extra.block_rows, self.cached_block(unit, unit.row, number, partial(self._block, unit, extra, number))

    def _file(self, unit: Unit) -> Input:  # noqa: ARG002 - see parts
        file: Input = _NO_FILE
        return file

    def _block(self, unit: Unit, extra: "_Extra", number: int) -> Block:
        try:
            try:
                block = self._read(unit, extra, number)
            except SessionEnded as exc:
                logger.info("%s A new session is opened.", exc)
                self._sessions[unit.root] = (self._renew_session(unit, extra), True)
                block = self._read(unit, extra, number)
        except NotFound as exc:
            raise InputChanged(f"{unit.uri} was in the plan, but no longer exists.", uri=unit.uri) from exc
        self._count.add(block.records.nbytes)
        return block

    def _read(self, unit: Unit, extra: "_Extra", number: int) -> Block:
        session, is_renewed = self._session(unit)
        if is_renewed and extra.digests is None and (unit.root, unit.row) not in self._checked_slices:
            head = self._rows.block(_concat_batches(session.batches(unit.row, min(HEAD_ROWS, unit.records), self._rows.names)))
            _compare(unit, unit.pin.rpartition(":")[2], head, f"rows {unit.row:,} to {unit.row + len(head) - 1:,}")
            self._checked_slices.add((unit.root, unit.row))
        if self._stream is None or not self._stream.reaches(unit, number):
            self._end_stream()
            self._stream = _Stream(unit, extra.block_rows, session, self._rows.names, number)
        try:
            records = self._stream.block(number)
        except BaseException:
            self._end_stream()
            raise
        block = self._rows.block(records)
        if extra.digests is not None:
            first = unit.row + number * extra.block_rows
            _compare(unit, extra.digests[number], block, f"rows {first:,} to {first + len(block) - 1:,}")
        return block

    def close(self) -> None:
        """Closes the stream of rows."""
        super().close()
        self._end_stream()

    def _end_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _session(self, unit: Unit) -> tuple[Session, bool]:
        """The session for a unit, and whether it is a new session that replaces the plan's session."""
        if unit.root not in self._sessions:
            self._sessions[unit.root] = (Table(unit.uri, self._access).session(self._planned_sessions[unit.root]), False)
        return self._sessions[unit.root]

    def _renew_session(self, unit: Unit, extra: "_Extra") -> Session:
        """Opens a new session of the table. Raises InputChanged if the table has changed since planning."""
        table = Table(unit.uri, self._access)
        version = table.version()
        session = table.session()
        if version != unit.pin.rpartition(":")[0] or session.count != extra.rows:
            raise InputChanged(
                f"{unit.uri} has changed since it was planned, and the download session of the plan has ended: "
                f"{extra.rows:,} rows then, {session.count:,} now. Plan again.",
                uri=unit.uri,
            )
        self._checked_slices = {(root, row) for root, row in self._checked_slices if root != unit.root}
        return session


@dataclass(frozen=True)
class _Rows:
    """The selected columns, and how their values are converted."""

    schema_of_table: pa.Schema
    """The schema of the selected columns, as the service sends them."""
    columns: list[Column]
    defaults: Mapping[str, Any]
    keep_nulls: bool

    @classmethod
    def of(cls, source: TableSource, schema: pa.Schema, *, keep_nulls: bool) -> Self:
        """The rows of a table with the given schema. Raises BadSpec for a default whose column doesn't exist or has another type."""
        columns = columns_of(schema, None, of="source.table", uri=source.uris[0])
        by_name = {column.name: column for column in columns}
        defaults = {}
        for name, text in (source.record_defaults or {}).items():
            _check_column(name, list(by_name), "source.table.recordDefaults", source.uris[0])
            defaults[name] = column_default(text, by_name[name], of="source.table.recordDefaults")
        return cls(schema, columns, defaults, keep_nulls)

    @property
    def names(self) -> list[str]:
        """The names of the table's columns to request."""
        return list(self.schema_of_table.names)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the blocks."""
        return pa.schema([column.field() for column in self.columns])

    def block(self, records: pa.RecordBatch) -> Block:
        """Turns rows from the service into a block, with defaults in place of NULLs."""
        return block_of(records, self.columns, self.defaults, keep_nulls=self.keep_nulls)


def _check_column(name: str, names: Sequence[str], of: str, uri: str) -> None:
    if name not in names:
        raise BadSpec(f"{of}: {uri} has no column {name!r}.{similar(name, names)} It has {', '.join(names)[:512]}.")


@dataclass(frozen=True)
class _Extra:
    """The `extra` of a slice's unit."""

    rows: int
    """The number of rows in the complete table."""
    block_rows: int
    digests: list[str] | None
    """The digests of the slice's blocks, if the source has `pin: Content`."""

    def dumps(self) -> str:
        return json.dumps({"rows": self.rows, "block": self.block_rows, "digests": self.digests})

    @classmethod
    def loads(cls, text: str) -> Self:
        fields = json.loads(text)
        return cls(fields["rows"], fields["block"], fields["digests"])


class _Stream(Closeable):
    """Streams the rows from a given block of a slice to the end of the slice."""

    def __init__(self, unit: Unit, block_rows: int, session: Session, columns: Sequence[str], number: int) -> None:
        self._slice = (unit.root, unit.row)
        self._following = number
        start = number * block_rows
        self._batches = session.batches(unit.row + start, unit.records - start, columns)
        self._blocks = equal_batches(self._batches, block_rows)

    def reaches(self, unit: Unit, number: int) -> bool:
        """Whether the stream can reach the block by skipping at most a few blocks."""
        return self._slice == (unit.root, unit.row) and 0 <= number - self._following <= _SKIPPED_BLOCKS

    def block(self, number: int) -> pa.RecordBatch:
        """The rows of a block. Call this method only if `reaches` is true for the block."""
        while True:
            records = next(self._blocks)
            self._following += 1
            if self._following > number:
                return records

    def close(self) -> None:
        """Stops reading."""
        close_generator(self._blocks)
        close_generator(self._batches)


def _concat_batches(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    records: pa.RecordBatch = _arrow.concat_batches(list(batches))
    return records


def _digest(block: Block) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in bytes_for_digest(block.records):
        digest.update(part)
    digest.update(canonical.dumps({str(row): reason for row, reason in block.reasons.items()}))
    return digest.hexdigest()


def _compare(unit: Unit, planned_digest: str, block: Block, which: str) -> None:
    if _digest(block) != planned_digest:
        raise InputChanged(f"{unit.uri}: {which} have changed since they were planned. Plan again.", uri=unit.uri)


# --- planning -----------------------------------------------------------------------------------------------------


def _schema(source: TableSource, sessions: Sequence[Session]) -> pa.Schema:
    """The schema of the selected columns, which must be the same in all tables. Raises BadSpec, which names the column, if a column is
    missing or differs, or if records can't hold it."""
    kinds = sessions[0].columns()
    names = list(kinds)
    for session in sessions[1:]:
        if session.columns() != kinds:
            raise BadSpec(
                f"{session.uri} has different columns from {sessions[0].uri}: {_describe_columns(session.columns())}, not {_describe_columns(kinds)}."
            )
    for name in source.selected_cols or ():
        _check_column(name, names, "source.table.selectedCols", sessions[0].uri)
    for name in source.excluded_cols or ():
        _check_column(name, names, "source.table.excludedCols", sessions[0].uri)
    excluded = set(source.excluded_cols or ())
    selected = source.selected_cols or [name for name in names if name not in excluded]
    if not selected:
        raise BadSpec(f"source.table.excludedCols leaves no column of {sessions[0].uri}.")
    return pa.schema([(name, _column_type(sessions[0], name, kinds[name])) for name in selected])


def _column_type(session: Session, name: str, kind: str) -> pa.DataType:
    column_type = session.type_of(name)
    if column_type is not None:
        try:
            columns_of(pa.schema([(name, column_type)]), None, of="source.table", uri=session.uri)
        except BadSpec:
            column_type = None
    if column_type is None:
        raise BadSpec(f"{session.uri}: the column {name!r} is {kind}, which records can't contain. Name it in source.table.excludedCols.")
    return column_type


def _describe_columns(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())[:512]


def _units(source: TableSource, rows: _Rows, sessions: Sequence[Session], versions: Sequence[str]) -> Listing[Unit]:
    """Yields a unit for each slice."""
    for root, (session, version) in enumerate(zip(sessions, versions, strict=True)):
        if not session.count:
            continue
        head = rows.block(_concat_batches(session.batches(0, min(HEAD_ROWS, session.count), rows.names)))
        row_bytes = max(1, head.records.nbytes // max(1, head.records.num_rows))
        block_rows = max(1, min(MOST_BLOCK_ROWS, BLOCK_BYTES // row_bytes))
        slice_rows = SLICE_BLOCKS * block_rows
        with ThreadPoolExecutor(_PLANNED_AT_ONCE, thread_name_prefix="slices") as threads:
            starts = range(0, session.count, slice_rows)
            counts = [min(slice_rows, session.count - start) for start in starts]
            look = partial(_look_at_all, rows, session, block_rows) if source.pin == "Content" else partial(_look_at_head, rows, session)
            slice_digests = threads.map(look, starts, counts)
            for start, count, digests in zip(starts, counts, slice_digests, strict=True):
                yield Unit(
                    root=root,
                    path="rows",
                    uri=session.uri,
                    records=count,
                    size=count * row_bytes,
                    pin=f"{version}:{digests[0]}",
                    row=start,
                    extra=_Extra(session.count, block_rows, digests if source.pin == "Content" else None).dumps(),
                )
    return {"schema": schema_text(rows.schema_of_table), "sessions": [session.id for session in sessions]}


def _look_at_head(rows: _Rows, session: Session, start: int, count: int) -> list[str]:
    return [_digest(rows.block(_concat_batches(session.batches(start, min(HEAD_ROWS, count), rows.names))))]


def _look_at_all(rows: _Rows, session: Session, block_rows: int, start: int, count: int) -> list[str]:
    return [_digest(rows.block(records)) for records in equal_batches(session.batches(start, count, rows.names), block_rows)]
