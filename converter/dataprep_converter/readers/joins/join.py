"""The source `join` joins tables by key.

The planner reads every table once through the table's reader, and joins the tables (`joining.py`). The planner writes the joined
records, in the order of their keys, to Arrow files that are stored next to the plan. Workers read these files. Each unit is a record batch
of a few MiB, and the unit's pin is a digest of the batch's content. Each bad row of a table is a separate unit, so that it is counted and
reported like a bad record of any other source.
"""

import hashlib
import json
import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec.sources.join import JoinSource, JoinTable
from dataprep_converter.core.arrow_types import is_bytes, is_text
from dataprep_converter.core.errors import BadData, BadSpec, InputChanged
from dataprep_converter.dataset import overlaps
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing, Reader, reader_class
from dataprep_converter.readers.base.blocks import Block, BlockReader
from dataprep_converter.readers.joins import open_table
from dataprep_converter.readers.joins.in_memory import is_for_memory
from dataprep_converter.readers.joins.joined_tables import JOINS, may_be_cut_otherwise
from dataprep_converter.readers.joins.joining import JoinHere, Joining
from dataprep_converter.readers.joins.joining_by_sql import JoinBySql, fault
from dataprep_converter.readers.joins.keys import KeyCounts
from dataprep_converter.readers.joins.open_table import OpenTable
from dataprep_converter.readers.joins.tables import Columns, Count
from dataprep_converter.records.batch import INT96, KEPT, SAMPLE, TEXT, TEXTS, WAS, marked
from dataprep_converter.records.columns import IS_SEQUENCE, NOT_BY_DEFAULT, find_columns
from dataprep_converter.records.schemas import parse_schema, schema_text
from dataprep_converter.runtime.prefetch import prefetched
from dataprep_converter.sampling.intermediate_files import IntermediateFiles
from dataprep_converter.sampling.units import Unit, UnitTable
from dataprep_converter.stores import Input

logger = logging.getLogger(__name__)

UNIT_BYTES: Final = 4 << 20
UNIT_RECORDS: Final = 8192
_FILE_BYTES: Final = 1 << 30
_SHOWN: Final = 64

_arrow: Any = pa  # the type stubs lack some functions


class JoinReader(BlockReader):
    """See the module."""

    @staticmethod
    def discover(source: JoinSource, access: Access) -> Discovery:
        """Performs the join. For a duplicate or missing key that the spec doesn't permit, raises BadData, which names the key, the table
        and the rows."""
        files = IntermediateFiles()
        return Discovery(_Planner(source, access, files).units(), files)

    def __init__(self, source: JoinSource, state: Mapping[str, Any], access: Access) -> None:  # noqa: ARG002 - the state has all settings
        super().__init__(access)
        schema = marked(parse_schema(state["schema"]), WAS, state.get("were", {}))
        schema = marked(schema, KEPT, state.get(KEPT, {}))
        self._schema: pa.Schema = marked(schema, TEXT, state.get(TEXTS, {}))

    def schema(self) -> pa.Schema:
        """The keys, followed by the other columns of each table."""
        return self._schema

    def load(self, unit: Unit, source: Input) -> Block:
        """A record batch of the joined rows, or a single bad row of a table."""
        extra = json.loads(unit.extra)
        if "bad" in extra:
            empty = pa.RecordBatch.from_arrays([_arrow.array([], field.type) for field in self._schema], schema=self._schema)
            return Block(empty, np.full(1, -1, np.int64), {0: extra["bad"]})
        data = source.read_at(unit.offset, unit.size)
        if _pin(data) != unit.pin:
            raise InputChanged(f"{unit.uri} has changed since the plan step wrote it. Plan again.", uri=unit.uri)
        records: pa.RecordBatch = _arrow.ipc.read_record_batch(_arrow.ipc.read_message(pa.py_buffer(data)), self._schema)
        return Block.of(records)

    def _file(self, unit: Unit) -> Input:
        if "bad" in json.loads(unit.extra):
            return super()._file(unit)
        return self._files.get(unit.uri, lambda: self._open_joined(unit.uri))

    def _open_joined(self, uri: str) -> Input:
        # Each unit is checked against a digest of its content. The file's pin can't be checked, because the file is stored after the plan.
        store = self._access.store(uri)
        if store.stat(uri) is None:
            raise InputChanged(f"{uri} was written by the plan step, but no longer exists. Plan again.", uri=uri)
        return store.open(uri)


def _pin(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class _Planner:
    """Reads and joins the tables of a source, and writes the records."""

    def __init__(self, source: JoinSource, access: Access, files: IntermediateFiles) -> None:
        self._source = source
        self._access = access
        self._state: dict[str, Any] = {}
        self._files = files
        self._bad: list[Unit] = []

    def units(self) -> Listing[Unit]:
        """Yields the units of the joined records, followed by the units of the bad rows."""
        with ExitStack() as failed:
            failed.callback(self._files.remove)
            with ExitStack() as readers:
                yield from self._join(self._open_tables(readers))
            failed.pop_all()
        return self._state

    def _join(self, tables: Sequence[OpenTable]) -> Iterator[Unit]:
        schema = _schema(self._source, tables)
        self._state["schema"] = schema_text(schema)
        original_types = _field_metadata(tables, WAS)
        if original_types:
            self._state["were"] = original_types
        if kept := _field_metadata(tables, KEPT):
            self._state[KEPT] = kept
        if texts := _field_metadata(tables, TEXT):
            self._state[TEXTS] = texts
        if not any(len(table.units) for table in tables):
            return
        with closing(self._joining(_with_types_of_keys(tables))) as joining:
            self._read(joining, tables)
            keys = joining.match()
            self._refuse_duplicates(keys, tables)
            self._check_missing(keys, tables)
            yield from _write_units(self._records(joining, tables), schema, self._files.folder)
        yield from self._bad

    def _records(self, joining: Joining, tables: Sequence[OpenTable]) -> Iterator[pa.RecordBatch]:
        """Yields the joined records. Sets `Access.may_cut_otherwise`, which says whether version 1 of JOINS may have divided them
        differently."""
        if is_for_memory([table.columns for table in tables]):
            self._access.may_cut_otherwise = yield from may_be_cut_otherwise(joining.records())
        else:
            yield from joining.records()

    def _joining(self, tables: Sequence[OpenTable]) -> Joining:
        """Chooses how to join these tables. The job's SQL engine joins tables that it supports and that are large enough. Other tables are
        joined in this process.

        If the plan uses version 1 of JOINS, tables that can be joined in memory are also joined in this process.
        """
        engine, version = self._access.sql_engine, self._access.version_of(JOINS)
        if engine is None or (version == 1 and is_for_memory([table.columns for table in tables])):
            return JoinHere(tables, version)
        size = sum(table.units.size for table in tables)
        if not engine.helps(size):
            logger.info("source.join: the tables have %d MiB, so they are joined in this process.", size >> 20)
            return JoinHere(tables, version)
        if (reason := fault(tables)) is not None:
            logger.warning("source.join: the tables are joined in this process, because %s.", reason)
            return JoinHere(tables, version)
        return JoinBySql(tables, engine, self._access)

    def _open_tables(self, readers: ExitStack) -> list[OpenTable]:
        """Opens the tables. Closing `readers` closes the readers of all tables.

        In a table of sequences, a row with a null is a bad row, because the steps of a sequence can't be null.
        """
        tables: list[OpenTable] = []
        for number, spec in enumerate(self._source.tables):
            with self._access.refusing_nulls() if spec.order_by is not None else nullcontext():
                tables.append(self._open_table(number, spec, readers))
        return tables

    def _open_table(self, number: int, spec: JoinTable, readers: ExitStack) -> OpenTable:
        kind = spec.source.kind
        source = spec.source.member
        reader_type = reader_class(kind)
        units, state = reader_type.discover(source, self._access).collect()
        if "warnings" in state:
            self._state.setdefault("warnings", []).extend(f"join, table {spec.name}: {each}" for each in state["warnings"])
        if INT96 in state:
            self._state[INT96] = True
        if self._access.output is not None:
            overlaps.check_units(units, self._access.output, self._access)
        reader = readers.enter_context(reader_type(source, state, self._access))
        return replace(_table(number, spec, reader, units, self._source), state=state, rules=self._access.rules())

    def _read(self, joining: Joining, tables: Sequence[OpenTable]) -> None:
        """Reads all tables, and collects their bad rows and the decimals that have lost digits."""
        lost: list[str] = []
        with closing(joining.read()) as found:
            for table, findings in zip(tables, found, strict=True):
                for row, reason in findings.bad:
                    self._add_bad_row(table, row, reason)
                for column, (count, first) in sorted(findings.lost.items()):
                    lost.append(
                        f"join, table {table.name}: decimals of {count:,} row{'s' * (count != 1)} of the column {column!r} have more digits than float64 holds, such as {first}"
                    )
        self._state.setdefault("warnings", []).extend(lost)

    def _add_bad_row(self, table: OpenTable, row: int, reason: str) -> None:
        if len(self._bad) >= open_table.MOST_BAD:
            raise BadData(f"source.join: the tables have more than {open_table.MOST_BAD:,} bad rows; {table.place(row)}: {reason}")
        index, within = table.units.locate(np.array([row], np.int64))
        unit = table.units.unit(int(index[0]))
        self._bad.append(
            Unit(
                root=1 + table.number,
                path=unit.path,
                uri=unit.uri,
                records=1,
                size=0,
                pin=unit.pin,
                row=unit.row + int(within[0]),
                extra=json.dumps({"bad": f"{table.name}: {reason}"}),
            )
        )

    def _refuse_duplicates(self, keys: KeyCounts, tables: Sequence[OpenTable]) -> None:
        for table in tables:
            if table.spec.duplicates != "Refuse" or table.columns.order_by is not None:
                continue
            count = keys.duplicates(table.number)
            if count.keys:
                first, last = (table.place(row) for row in count.rows)
                raise BadData(
                    f"source.join: {_describe_count(count)} of the table {table.name} {_are(count)} duplicated: {self._key(count)} in {first}, and in {last}. "
                    "Set duplicates: First or Last to use one of the rows, or orderBy to make sequences of them."
                )

    def _check_missing(self, keys: KeyCounts, tables: Sequence[OpenTable]) -> None:
        missing: list[str] = []
        incomplete: list[OpenTable] = []
        for table in tables:
            count = keys.missing(table.number)
            if count.keys:
                incomplete.append(table)
                other = tables[count.table]
                place = f"which is in {other.name} ({other.place(count.rows[0])})"
                missing.append(f"{_describe_count(count)} {_are(count)} missing in the table {table.name}: {self._key(count)}, {place}")
        if missing and self._source.missing == "Refuse":
            raise BadData(f"source.join: {'; '.join(missing)}. Set missing: Drop to leave such keys out.{self._bad_rows(incomplete)}")
        self._state.setdefault("warnings", []).extend(f"join: left out because {each}" for each in missing)
        self._state["ignored"] = keys.keys_in_any() - keys.keys_in_all()

    def _bad_rows(self, tables: Sequence[OpenTable]) -> str:
        """Returns a sentence about the bad rows of these tables, because the keys of bad rows count as missing. Empty if there are no bad
        rows."""
        bad = [unit for unit in self._bad if unit.root in [1 + table.number for table in tables]]
        if not bad:
            return ""
        reason = json.loads(bad[0].extra)["bad"]
        return f" Bad rows have no key, such as {bad[0].uri}, record {bad[0].row} of the table {reason}."

    def _key(self, count: Count) -> str:
        values = [repr(value)[:_SHOWN] for value in count.example]
        example = (
            values[0] if len(values) == 1 else ", ".join(f"{key}={value}" for key, value in zip(self._source.keys, values, strict=True))
        )
        return example if count.keys == 1 else f"the first is {example}"


def _describe_count(count: Count) -> str:
    return f"{count.keys:,} key{'s' if count.keys > 1 else ''}"


def _are(count: Count) -> str:
    return "are" if count.keys > 1 else "is"


def _table(number: int, spec: JoinTable, reader: Reader, units: UnitTable, source: JoinSource) -> OpenTable:
    """The open table. Raises BadSpec for columns that don't exist or can't be keys."""
    of = f"source.join: the table {spec.name}"
    schema = reader.schema()
    if SAMPLE in schema.names:
        raise BadSpec(f"{of}: the column {SAMPLE!r} has a reserved name; leave it out of the table's source, or give it another name.")
    if not units.samples and not len(schema):
        empty = Columns(pa.schema([(key, pa.string()) for key in source.keys]), pa.schema([]), None)
        return OpenTable(number, spec, reader, units, [], [], empty, {}, {})
    keys = find_columns(spec.keys or source.keys, schema, of=of)
    if len(keys) != len(source.keys):
        raise BadSpec(f"{of} has the key columns {', '.join(keys)}, but join.keys are {', '.join(source.keys)}.")
    others = [name for name in schema.names if name not in keys]
    order_by = None
    if spec.order_by is not None:
        order_by = [others.index(name) for name in find_columns(spec.order_by, pa.schema([schema.field(name) for name in others]), of=of)]
    columns = Columns(
        keys=pa.schema([pa.field(key, _key_type(schema.field(name).type, name, of)) for key, name in zip(source.keys, keys, strict=True)]),
        others=pa.schema([schema.field(name) for name in others]),
        order_by=order_by,
        last=spec.duplicates == "Last",
    )
    return OpenTable(number, spec, reader, units, keys, others, columns, {}, {})


def _with_types_of_keys(tables: Sequence[OpenTable]) -> list[OpenTable]:
    """The tables. A table without columns gets the key types of the other tables."""
    keys = next((table.columns.keys for table in tables if table.keys), tables[0].columns.keys)
    return [table if table.keys else replace(table, columns=replace(table.columns, keys=keys)) for table in tables]


def _key_type(kind: pa.DataType, name: str, of: str) -> pa.DataType:
    """The type to which keys are converted to compare them. All whole numbers except uint64 become int64, and all text becomes the same
    type."""
    types = pa.types
    if isinstance(kind, pa.DictionaryType):
        return _key_type(kind.value_type, name, of)
    if types.is_integer(kind):
        return kind if kind == pa.uint64() else pa.int64()
    if is_text(kind):
        return pa.string()
    if is_bytes(kind):
        return pa.binary()
    if types.is_boolean(kind) or types.is_date(kind) or types.is_timestamp(kind):
        return kind
    raise BadSpec(f"{of}: the column {name!r} is {kind}, which can't be a key; make it a column of whole numbers or text.")


def _schema(source: JoinSource, tables: Sequence[OpenTable]) -> pa.Schema:
    """The columns of the records. Raises BadSpec for keys of different types and for duplicate names."""
    fields: list[Any] = []
    owners: dict[str, str] = {}
    for place, key in enumerate(source.keys):
        kinds = [(table.columns.keys.field(place).type, table.name) for table in tables if table.keys]
        for kind, name in kinds[1:]:
            if kind != kinds[0][0]:
                raise BadSpec(
                    f"source.join: the key {key} is {kinds[0][0]} in the table {kinds[0][1]} and {kind} in the table {name}; give both the same type."
                )
        fields.append(pa.field(key, kinds[0][0] if kinds else pa.string(), metadata=NOT_BY_DEFAULT))
        owners[key] = "the keys"
    for table in tables:
        for field in table.columns.others:
            name = table.spec.prefix + field.name
            if name in owners:
                raise BadSpec(
                    f"source.join: the column {name!r} is in {owners[name]} and in the table {table.name}; give one of the tables a prefix."
                )
            owners[name] = f"the table {table.name}"
            if table.columns.order_by is None:
                # Remove the metadata entries WAS, KEPT and TEXT. The schema is written to the files, so it affects the offsets of the units
                # and thereby the run id.
                metadata = {
                    key: value for key, value in (field.metadata or {}).items() if key not in (WAS.encode(), KEPT.encode(), TEXT.encode())
                }
                fields.append(pa.field(name, field.type, metadata=metadata or None))
            else:
                fields.append(pa.field(name, pa.large_list(field.type), metadata=IS_SEQUENCE))
    return pa.schema(fields)


def _field_metadata(tables: Sequence[OpenTable], key: str) -> dict[str, str]:
    """Maps each column's name in the join to the value of the entry `key` in the column's metadata. Columns without this entry are left
    out."""
    return {
        table.spec.prefix + field.name: (field.metadata or {})[key.encode()].decode()
        for table in tables
        for field in table.columns.others
        if key.encode() in (field.metadata or {})
    }


def _write_units(pieces: Iterator[pa.RecordBatch], schema: pa.Schema, folder: Path) -> Iterator[Unit]:
    """Writes the records to files and yields their units. While a unit is written, the next one is built in the background."""
    writer = _Writer(schema, folder)
    with closing(prefetched(_cut(pieces, schema))) as units:
        for records in units:
            yield writer.write(records)
    writer.close()


def _cut(pieces: Iterator[pa.RecordBatch], schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    """Yields the records in batches of a few MiB or a few thousand records, each of which becomes a unit."""
    batches: list[pa.RecordBatch] = []
    size = records = 0
    for piece in pieces:
        batches.append(pa.RecordBatch.from_arrays(list(piece.columns), schema=schema))
        size += _arrow.ipc.get_record_batch_size(batches[-1])
        records += piece.num_rows
        if size >= UNIT_BYTES or records >= UNIT_RECORDS:
            yield _arrow.concat_batches(batches)
            batches = []
            size = records = 0
    if batches:
        yield _arrow.concat_batches(batches)


class _Writer:
    """Writes Arrow streams `00000.arrow`, `00001.arrow`, … Begins a new file when the current one has reached a certain size. Each unit is
    an Arrow message."""

    # The layout of a file:  message schema | message record batch … | uint32 0xffffffff | uint32 0

    def __init__(self, schema: pa.Schema, folder: Path) -> None:
        self._schema = schema
        self._folder = folder
        self._file: BinaryIO | None = None
        self._files = 0
        self._records = 0

    def write(self, records: pa.RecordBatch) -> Unit:
        """Writes a record batch, and returns its unit."""
        if self._file is not None and self._file.tell() >= _FILE_BYTES:
            self.close()
        if self._file is None:
            self._file = (self._folder / f"{self._files:05d}.arrow").open("wb")
            self._file.write(self._schema.serialize())
            self._files += 1
        offset = self._file.tell()
        data = memoryview(records.serialize())
        self._file.write(data)
        first = self._records
        self._records += records.num_rows
        # Use the same path for all files, because the path and the row determine the split.
        return Unit(
            root=0,
            path="joined",
            uri=self._file.name,
            records=records.num_rows,
            size=len(data),
            pin=_pin(data),
            offset=offset,
            row=first,
            extra="{}",
        )

    def close(self) -> None:
        """Completes the last file."""
        if self._file is not None:
            self._file.write(b"\xff\xff\xff\xff\0\0\0\0")
            self._file.close()
            self._file = None
