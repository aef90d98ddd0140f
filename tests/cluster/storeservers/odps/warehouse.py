"""Tables, partitions and sessions, in memory. Rows come from an Arrow table or from a formula."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from storeservers.odps.errors import OdpsError, no_such_partition, no_such_table, session_ended, table_modified

_BATCH_ROWS = 4_999
"""A number that divides none of the other sizes in use, so clients have to split batches."""
_arrow: Any = pa  # the stubs lack some functions


@dataclass(frozen=True)
class Rows:
    """Rows that can be generated on demand."""

    count: int
    at: Callable[[int, int], pa.Table]
    """Returns `count` rows from `start` on."""
    schema: pa.Schema


def rows_of(table: pa.Table) -> Rows:
    """Rows of an Arrow table."""
    return Rows(table.num_rows, lambda start, count: table.slice(start, count), table.schema)


@dataclass
class Part:
    """A partition, or a complete table without partitions."""

    rows: Rows
    modified: int


@dataclass
class Table:
    """A table."""

    columns: Mapping[str, str]
    """The MaxCompute type of each column."""
    schema: pa.Schema
    keys: list[str]
    """Partition columns, which are strings."""
    parts: dict[str, Part] = field(default_factory=dict)
    """Maps partition specifications, such as `pt=1,region=cn`, to partitions. The key is empty for a table without partitions."""


@dataclass
class Download:
    """A download session: a snapshot of a partition, or of a table without partitions."""

    part: Part
    rows: Rows
    modified: int
    ended: bool = False


@dataclass
class Upload:
    """An upload session: blocks that are being uploaded to a partition, or to a table without partitions."""

    table: Table
    spec: str
    overwrite: bool
    blocks: dict[int, pa.Table] = field(default_factory=dict)
    status: str = "NORMAL"


class Warehouse:
    """All tables of all projects, by (project, name). Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.tables: dict[tuple[str, str], Table] = {}
        self.downloads: dict[str, Download] = {}
        self.uploads: dict[str, Upload] = {}
        self._clock = itertools.count(1_700_000_000)
        self._ids = itertools.count(1)

    def now(self) -> int:
        """Return seconds since 1970. Each call returns one more than the previous call."""
        return next(self._clock)

    def table(self, project: str, name: str) -> Table:
        if (project, name) not in self.tables:
            raise no_such_table(project, name)
        return self.tables[project, name]

    def part(self, table: Table, spec: str) -> Part:
        spec = spec.replace("'", "").replace('"', "")
        if table.keys and not spec:
            raise OdpsError(400, "MissingPartitionSpec", "You need to specify a partitionspec along with the specified table.")
        if spec not in table.parts:
            raise no_such_partition()
        return table.parts[spec]

    # --- downloads -------------------------------------------------------------------------------------------------

    def open_download(self, table: Table, spec: str) -> tuple[str, Download]:
        with self.lock:
            part = self.part(table, spec)
            name = f"{next(self._ids):032x}"
            self.downloads[name] = Download(part, part.rows, part.modified)
            return name, self.downloads[name]

    def download(self, name: str) -> Download:
        if name not in self.downloads:
            raise OdpsError(404, "NoSuchDownload", "The specified download id does not exist")
        return self.downloads[name]

    def downloaded(self, table: Table, name: str, start: int, count: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        found = self.download(name)
        if found.ended:
            raise session_ended("download")
        if found.part.modified != found.modified or found.part not in table.parts.values():
            raise table_modified()
        if start < 0 or count < 0 or start + count > found.rows.count:
            raise OdpsError(400, "InvalidRowRange", "The specified row range is not valid.")
        unknown = [each for each in columns if each not in table.columns]
        if unknown:
            raise OdpsError(400, "InvalidColumnSpec", "The specified columns is not valid.")
        # Columns are in the table's order, regardless of the order in the request.
        chosen = [each for each in table.columns if not columns or each in columns]
        steps = range(start, start + count, _BATCH_ROWS)
        return (
            batch
            for first in steps
            for batch in found.rows.at(first, min(_BATCH_ROWS, start + count - first)).select(chosen).combine_chunks().to_batches()
        )

    # --- uploads ---------------------------------------------------------------------------------------------------

    def open_upload(self, table: Table, spec: str, *, overwrite: bool, create: bool) -> tuple[str, Upload]:
        with self.lock:
            if create and spec not in table.parts:
                table.parts[spec] = Part(rows_of(table.schema.empty_table()), self.now())
            self.part(table, spec)
            name = f"{next(self._ids):032x}"
            self.uploads[name] = Upload(table, spec, overwrite)
            return name, self.uploads[name]

    def upload(self, name: str) -> Upload:
        if name not in self.uploads:
            raise OdpsError(404, "NoSuchUpload", "The specified upload id does not exist")
        return self.uploads[name]

    def put_block(self, name: str, block: int, rows: pa.Table) -> None:
        found = self.upload(name)
        if found.status != "NORMAL":
            raise session_ended("upload")
        if not 0 <= block < 20_000:
            raise OdpsError(400, "InvalidBlockID", "The specified block id is not valid.")
        with self.lock:
            found.blocks[block] = rows

    def commit(self, name: str) -> Upload:
        """Adds the blocks in the order of their numbers. An upload can be committed only once."""
        with self.lock:
            found = self.upload(name)
            if found.status != "NORMAL":
                raise session_ended("upload")
            part = self.part(found.table, found.spec)
            old = part.rows.at(0, 0 if found.overwrite else part.rows.count)
            part.rows = rows_of(_arrow.concat_tables([old, *(found.blocks[block] for block in sorted(found.blocks))]))
            part.modified = self.now()
            found.status = "CLOSED"
            return found
