"""The source `sql` reads the rows of a query. The rows are divided into parts, which workers can fetch concurrently.

The planner determines the columns, and the bounds and row count of each part. By default, the planner also reads every row once, to compute
a digest of each part. A worker fetches a complete part into a temporary file and checks the part against the plan. From the temporary file,
the worker reads blocks in any order.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api import canonical
from dataprep_api.spec.sources.sql import SqlSource
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadSpec, InputChanged, NotFound
from dataprep_converter.core.lru import LruCache
from dataprep_converter.core.tensors import pc
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block, BlockReader, bytes_for_digest, lost_name, without_lost
from dataprep_converter.readers.base.equal_batches import equal_batches
from dataprep_converter.readers.base.open_files import KEPT_FILES
from dataprep_converter.readers.columnar.columns import Column, columns_of, settled, taken
from dataprep_converter.readers.columnar.defaults import column_default
from dataprep_converter.readers.databases.databases import Database, connect, quoted
from dataprep_converter.records.columns import similar
from dataprep_converter.records.schemas import parse_schema, schema_text
from dataprep_converter.runtime.temporary import TemporaryFile
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Input

# ruff: noqa: S608 - the query comes from the user and runs on a read-only connection; names are quoted.

BLOCK_ROWS: Final = 4096
_arrow: Any = pa  # the type stubs lack some functions


class SqlReader(BlockReader):
    """See the module."""

    @staticmethod
    def discover(source: SqlSource, access: Access) -> Discovery:
        """Queries the database. Raises BadSpec if the database rejects the query or if columns are missing, and other errors if the
        connection fails."""
        return Discovery(_units(source, access))

    def __init__(self, source: SqlSource, state: Mapping[str, Any], access: Access) -> None:
        self._source = source
        self._rows = _Rows.of(self._source, parse_schema(state["schema"]), keep_nulls=access.keeps_nulls)
        super().__init__(access, lost_of=self._rows.numerics)
        self._parts: LruCache[int, _Part] = LruCache(KEPT_FILES, evicted=lambda _row, part: part.close())

    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._rows.schema

    def parts(self, unit: Unit, source: Input, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
        """Yields the blocks of a part that contain the rows."""
        part = source
        if not isinstance(part, _Part):
            raise TypeError(f"expected a fetched part, got {type(part).__name__}")
        for number in np.unique(rows // BLOCK_ROWS).tolist():
            first = number * BLOCK_ROWS
            yield first, self.cached_block(unit, unit.offset, first, partial(self._block, part, number))

    def _block(self, part: "_Part", number: int) -> Block:
        data, reasons = part.block(number)
        self._count.add(len(data))
        return Block.of(_arrow.ipc.read_record_batch(pa.py_buffer(data), self._rows.with_lost), reasons)

    def _file(self, unit: Unit) -> Input:
        return self._parts.get(unit.row, lambda: self._fetch_part(unit))

    def _fetch_part(self, unit: Unit) -> "_Part":
        """Fetches the rows of a part. Raises InputChanged, which names the part, if the rows have changed since planning."""
        extra = json.loads(unit.extra)
        bounds = _Bounds(extra["low"], extra["high"])
        try:
            with connect(self._source.url, self._access) as database:
                part = _Part(self._rows.blocks(database, self._source, bounds))
        except NotFound as exc:
            raise InputChanged(f"{unit.uri} was in the plan, but no longer exists.", uri=unit.uri) from exc
        with ExitStack() as cleanup:
            cleanup.enter_context(part)
            which = f"{unit.uri}, {bounds.describe(self._source)}"
            if part.rows != unit.records:
                raise InputChanged(
                    f"{which}: {unit.records:,} rows were planned, but now there are {part.rows:,}. Plan again.", uri=unit.uri
                )
            if extra["pinned"] and part.pin != unit.pin:
                raise InputChanged(f"{which}: the rows have changed since they were planned. Plan again.", uri=unit.uri)
            cleanup.pop_all()
        return part

    def close(self) -> None:
        """Removes the fetched parts."""
        super().close()
        self._parts.clear()


@dataclass(frozen=True)
class _Bounds:
    """The bounds of a part. The part contains the rows whose value in the partition column is in [low, high). None means no bound. NULL is
    below all values."""

    low: int | None
    high: int | None

    def where(self, column: str) -> str:
        """The bounds as an SQL condition on the column."""
        name = quoted(column)
        if self.low is None and self.high is None:
            return "1 = 1"
        if self.low is None:
            return f"({name} < {self.high} OR {name} IS NULL)"
        return f"{name} >= {self.low}" + (f" AND {name} < {self.high}" if self.high is not None else "")

    def describe(self, source: SqlSource) -> str:
        """How messages name the part."""
        if source.partition_by is None or (self.low is None and self.high is None):
            return "all rows"
        low = f"{self.low} <= " if self.low is not None else ""
        high = f" < {self.high}" if self.high is not None else ""
        return f"the part {low}{source.partition_by.column}{high}"


@dataclass(frozen=True)
class _Rows:
    """Runs the query, and converts the rows of its result into the columns of batches."""

    result: pa.Schema
    """The schema of the query's result in the database."""
    columns: list[Column]
    defaults: Mapping[str, Any]
    order_by: Sequence[int]
    keep_nulls: bool

    @classmethod
    def of(cls, source: SqlSource, result: pa.Schema, *, keep_nulls: bool) -> "_Rows":
        """Creates the `_Rows` of a query whose result has the schema `result`. Raises BadSpec for columns that don't exist or that records
        can't hold, and for invalid defaults."""
        columns = [
            replace(column, was=pa.string()) if column.path == (column.name,) and column.type == pa.float64() else column
            for column in columns_of(result, None, of="source.sql", uri=_uri(source))
        ]
        defaults = {}
        for name, text in (source.defaults or {}).items():
            option = "source.sql.defaults"
            defaults[name] = column_default(text, columns[_place(name, result, of=option)], of=option)
        order_by = [_place(name, result, of="source.sql.orderBy") for name in source.order_by]
        return cls(result, columns, defaults, order_by, keep_nulls)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return pa.schema([column.field() for column in self.columns])

    @property
    def numerics(self) -> list[str]:
        """The names of the columns that might be of PostgreSQL's type numeric, which is received as text."""
        return [column.name for column in self.columns if column.was == pa.string()]

    @property
    def with_lost(self) -> pa.Schema:
        """The schema of the blocks, including their columns for lost digits."""
        return pa.schema([*self.schema, *((lost_name(name), pa.string()) for name in self.numerics)])

    def blocks(self, database: Database, source: SqlSource, bounds: _Bounds) -> Iterator[tuple[pa.RecordBatch, dict[int, str]]]:
        """Yields the rows of a part in blocks of BLOCK_ROWS rows; the last block can be shorter. Each block is a pair of its rows,
        including the bad ones, and the reason for each bad row. Raises BadSpec if the order of the rows isn't unique."""
        where = bounds.where(source.partition_by.column) if source.partition_by else "1 = 1"
        order = ", ".join(quoted(name) for name in source.order_by)
        statement = f"SELECT {database.selected(self.result)} FROM ({_query(source)}) AS q WHERE {where} ORDER BY {order}"
        last: pa.RecordBatch | None = None
        for rows in equal_batches(database.batches(statement, self.result, lost_of=self.numerics), BLOCK_ROWS):
            self._refuse_ties(last, rows, source)
            last = rows.slice(rows.num_rows - 1)
            values, wrong = settled(
                [taken(rows, column) for column in self.columns], self.columns, self.defaults, keep_nulls=self.keep_nulls
            )
            wrong = database.unfit(rows) | wrong
            values += [rows.column(lost_name(name)) for name in self.numerics]
            yield pa.RecordBatch.from_arrays(values, schema=self.with_lost), wrong

    def _refuse_ties(self, last: pa.RecordBatch | None, rows: pa.RecordBatch, source: SqlSource) -> None:
        """Raises BadSpec if adjacent rows are equal in all columns of `orderBy`, because the database could then return them in any
        order."""
        records: pa.RecordBatch = _arrow.concat_batches([last, rows]) if last is not None else rows
        same = np.ones(records.num_rows - 1, np.bool_)
        for place in self.order_by:
            values: Any = records.column(place)
            before, after = values.slice(0, len(values) - 1), values.slice(1)
            equal = pc.fill_null(pc.equal(before, after), False)
            both_null = pc.and_(before.is_null(), after.is_null())
            same &= pc.or_(equal, both_null).to_numpy(zero_copy_only=False)
        if same.any():
            at = int(np.flatnonzero(same)[0])
            examples = ", ".join(
                f"{name}={records.column(place)[at].as_py()!r}" for name, place in zip(source.order_by, self.order_by, strict=True)
            )
            raise BadSpec(
                f"{_uri(source)}: source.sql.orderBy doesn't distinguish all rows: two rows have {examples[:256]}. "
                "Add a column in which the rows differ."
            )


class _Part(Closeable):
    """The rows of a part, in a temporary file. This class is an `Input`, so that parts are cached like open files."""

    def __init__(self, blocks: Iterator[tuple[pa.RecordBatch, dict[int, str]]]) -> None:
        """Writes the blocks to the file. Raises StoreFull if the disk is full."""
        self._blocks: list[tuple[int, int, dict[int, str]]] = []
        self.rows = 0
        digest = _Digest()
        with ExitStack() as cleanup:
            self._file = cleanup.enter_context(TemporaryFile("the rows of a query"))
            for rows, reasons in blocks:
                digest.add(rows, reasons)
                data = rows.serialize().to_pybytes()
                self._blocks.append((self._file.size, len(data), reasons))
                self._file.write(data)
                self.rows += rows.num_rows
            cleanup.pop_all()
        self.size = self._file.size
        self.pin = digest.pin()

    def block(self, number: int) -> tuple[bytes, dict[int, str]]:
        """A record batch as an Arrow message, and the reason for each of its bad rows."""
        offset, size, reasons = self._blocks[number]
        return self.read_at(offset, size), reasons

    def read_at(self, offset: int, length: int) -> bytes:
        """Reads bytes of the file."""
        return self._file.read_at(offset, length)

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yields bytes of the file."""
        yield self.read_at(offset, self.size - offset if length is None else length)

    def close(self) -> None:
        """Removes the file."""
        self._file.close()


class _Digest:
    """Computes the digest of a part's values and of the reasons for its bad rows."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, rows: pa.RecordBatch, reasons: dict[int, str]) -> int:
        """Adds a block, and returns the serialized size of the rows in bytes."""
        rows = without_lost(rows)
        for part in bytes_for_digest(Block.of(rows, reasons).records):
            self._digest.update(part)
        self._digest.update(canonical.dumps({str(row): reason for row, reason in reasons.items()}))
        return rows.serialize().size

    def pin(self) -> str:
        """The digest, which is the pin of the part."""
        return self._digest.hexdigest()


# --- planning -----------------------------------------------------------------------------------------------------


def _units(source: SqlSource, access: Access) -> Listing[Unit]:
    """Yields a unit for each part that has rows."""
    with connect(source.url, access) as database:
        result = database.columns(_query(source))
        rows = _Rows.of(source, result, keep_nulls=access.keeps_nulls)
        parts = _divide(database, source, result)
        counts = _counts(database, source, parts) if source.pin == "Count" else [None] * len(parts)
        first = 0
        for number, (bounds, count) in enumerate(zip(parts, counts, strict=True)):
            size = 0
            digest = _Digest()
            if count is None:
                count = 0
                for block, reasons in rows.blocks(database, source, bounds):
                    size += digest.add(block, reasons)
                    count += block.num_rows
            if count:
                yield Unit(
                    root=0,
                    path="rows",
                    uri=_uri(source),
                    records=count,
                    size=size,
                    pin=digest.pin() if source.pin == "Content" else "",
                    offset=number,
                    row=first,
                    extra=json.dumps({"low": bounds.low, "high": bounds.high, "pinned": source.pin == "Content"}),
                )
            first += count
    return {"schema": schema_text(result)}


def _divide(database: Database, source: SqlSource, result: pa.Schema) -> list[_Bounds]:
    """Divides the range of the column into parts of equal width. The first part has no lower bound, and the last has no upper bound."""
    all_rows = [_Bounds(None, None)]
    if source.partition_by is None:
        return all_rows
    name = source.partition_by.column
    kind = result.field(_place(name, result, of="source.sql.partitionBy.column")).type
    if not pa.types.is_integer(kind):
        raise BadSpec(f"source.sql.partitionBy.column: {name!r} is {kind}; use a column of whole numbers.")
    low, high = database.row(f"SELECT min({quoted(name)}), max({quoted(name)}) FROM ({_query(source)}) AS q")
    if low is None:
        return all_rows
    count = min(source.partition_by.count, high - low + 1)
    inner = [low + (high - low + 1) * number // count for number in range(1, count)]
    return [_Bounds(*pair) for pair in itertools.pairwise([None, *inner, None])]


def _counts(database: Database, source: SqlSource, parts: Sequence[_Bounds]) -> list[int]:
    """The number of rows of each part, counted by a single statement."""
    column = source.partition_by.column if source.partition_by else ""
    counts = ", ".join(f"count(CASE WHEN {bounds.where(column)} THEN 1 END)" for bounds in parts)
    return [int(count) for count in database.row(f"SELECT {counts} FROM ({_query(source)}) AS q")]


def _query(source: SqlSource) -> str:
    # If the query ends with a comment, the newline keeps the comment from swallowing the SQL text that follows the query.
    return source.query.strip().rstrip(";") + "\n"


def _uri(source: SqlSource) -> str:
    """The URI of the database for messages and units."""
    return next(iter(source.inputs()), source.url)


def _place(name: str, result: pa.Schema, *, of: str) -> int:
    if name not in result.names:
        raise BadSpec(f"{of}: the query has no column {name!r}.{similar(name, result.names)} It has {', '.join(result.names)}.")
    return int(result.get_field_index(name))
