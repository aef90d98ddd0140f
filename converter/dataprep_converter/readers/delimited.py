"""`csv`: text in rows and columns, parsed by Arrow.

Planning reads every file once, cuts it into units of about 4 MiB at true row ends, counts rows and freezes the columns' types. Working parses
one unit at a time. A unit that Arrow refuses is halved until the rows at fault are alone: only they are bad, each with its line and cell.
A gzip file is one unit, read as a stream; out of order, from an unlinked temporary copy.
"""

import csv
import io
import json
import re
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv as arrow_csv

from dataprep_api.spec import CsvColumn, CsvSource, Source
from dataprep_converter.access import Access, Entry, Input, Store
from dataprep_converter.errors import BadData, BadSpec, InputChanged, NotFound
from dataprep_converter.readers import SAMPLE, Bad, Batch, Discovery
from dataprep_converter.readers.csv_rows import Rows, scan
from dataprep_converter.readers.inputs import GZIP_MAGIC, Forward, Spool, is_hidden, open_pinned, relative_path
from dataprep_converter.tensors import Array, kernels, to_arrow
from dataprep_converter.units import Unit, Units

UNIT_BYTES: Final = 4 << 20
LONGEST_ROW: Final = 64 << 20
TYPES: Final[Mapping[str, pa.DataType]] = {
    "Int64": pa.int64(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "String": pa.string(),
    "Bool": pa.bool_(),
}

_INFERRED_BYTES = 1 << 20
_KEPT_BLOCKS = 4
_KEPT_FILES = 16
_WILDCARD = re.compile(r"[*?\[]")
_BOM = b"\xef\xbb\xbf"
_SHOWN_CELL = 64
_arrow_csv: Any = arrow_csv  # the stubs don't know the options' own types
_arrow: Any = pa  # nor all functions


@dataclass(frozen=True)
class _Dialect:
    """How cells are written."""

    delimiter: str
    quote: str

    def rows(self, data: bytes, *, at_end: bool = True) -> Rows:
        return scan(data, delimiter=self.delimiter, quote=self.quote, at_end=at_end)

    def cells(self, row: bytes) -> list[str]:
        """The cells of one row as text."""
        text = row.decode("utf-8", "replace")
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter, quotechar=self.quote, strict=False), [])


@dataclass(frozen=True)
class _Block:
    """Some rows of a file that are parsed together."""

    offset: int
    size: int
    first: int
    """Number of the first row within the unit."""
    records: int
    line: int
    """Line of the first byte, from 1."""


@dataclass(frozen=True)
class _Parsed:
    """The good rows of a block, where each row is among them (-1: nowhere), and why the others are bad."""

    records: pa.RecordBatch
    places: npt.NDArray[np.int64]
    reasons: Mapping[int, str]


class CsvReader:
    """See the module. Columns are named by the header, by the spec, or `0`, `1`, …"""

    default_label: ClassVar[str] = "label"

    @staticmethod
    def discover(source: Source, access: Access) -> Discovery:
        """Reads every file once. Raises NotFound for a URI without files, BadSpec for headers and columns that don't match."""
        state: dict[str, Any] = {}
        return Discovery(units=_Planner(_csv(source), access, state).units(), state=state)

    def __init__(self, source: Source, state: Mapping[str, Any], access: Access) -> None:
        written = _csv(source)
        self._access = access
        self._dialect = _Dialect(written.delimiter, written.quote)
        self._parser = _Parser([CsvColumn.model_validate(column) for column in state.get("columns", [])], self._dialect)
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._parsed: OrderedDict[tuple[str, int], _Parsed] = OrderedDict()

    def schema(self) -> pa.Schema:
        """The columns in the order of the files."""
        return self._parser.schema

    def classes(self) -> dict[str, list[str]]:
        """None."""
        return {}

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """In order, each unit is parsed once; the last few are kept for any other order."""
        for wanted in samples:
            yield self._batch(units, wanted)

    def _batch(self, units: Units, wanted: npt.NDArray[np.int64]) -> Batch:
        index, rows = units.locate(wanted)
        pieces: list[pa.RecordBatch] = []
        order: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        bad: dict[int, Bad] = {}
        taken = 0
        for number in np.unique(index).tolist():
            unit = units.unit(number)
            file = self._file(unit)
            for block, here in file.blocks(unit, rows, np.flatnonzero(index == number)):
                parsed = self._block(unit, file, block)
                within = rows[here] - block.first
                places = parsed.places[within]
                pieces.append(_rows_of(parsed.records, places[places >= 0]))
                order.append(here[places >= 0])
                for at, row in zip(here[places < 0].tolist(), within[places < 0].tolist(), strict=True):
                    bad[at] = Bad(int(wanted[at]), parsed.reasons[row])
            taken += file.taken()
        asked = np.concatenate(order)
        records = _in_order(pieces, asked, self.schema())
        columns: list[Any] = [*records.columns, to_arrow(wanted[np.sort(asked)])]
        found = pa.RecordBatch.from_arrays(columns, schema=self.schema().append(pa.field(SAMPLE, pa.int64())))
        return Batch(records=found, bad=[bad[at] for at in sorted(bad)], bytes_in=taken)

    def _block(self, unit: Unit, file: "_File", block: _Block) -> _Parsed:
        key = (unit.uri, block.offset)
        if key not in self._parsed:
            data = file.data(block)
            if len(data) != block.size:
                raise InputChanged(f"{unit.uri} became shorter while it was read.", uri=unit.uri)
            self._parsed[key] = self._parser.parse(data, records=block.records, line=block.line, uri=unit.uri)
            if len(self._parsed) > _KEPT_BLOCKS:
                self._parsed.popitem(last=False)
        self._parsed.move_to_end(key)
        return self._parsed[key]

    def _file(self, unit: Unit) -> "_File":
        if unit.uri not in self._files:
            source = open_pinned(self._access.store(unit.uri), unit.uri, unit.pin)
            self._files[unit.uri] = _File(source, unit.uri, self._dialect)
            if len(self._files) > _KEPT_FILES:
                self._files.popitem(last=False)
        self._files.move_to_end(unit.uri)
        return self._files[unit.uri]


def _csv(source: Source) -> CsvSource:
    if source.csv is None:
        raise BadSpec("The source has no csv.")
    return source.csv


def _rows_of(records: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    if len(places) and np.all(np.diff(places) == 1):
        return records.slice(int(places[0]), len(places))
    return records.take(pa.array(places.tolist(), pa.int64()))


def _in_order(pieces: Sequence[pa.RecordBatch], order: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of the pieces as `order` numbers them."""
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema=schema)
    whole = pieces[0] if len(pieces) == 1 else _arrow.concat_batches(pieces)
    if np.all(np.diff(order) > 0):
        return whole
    return whole.take(pa.array(np.argsort(order).tolist(), pa.int64()))


# --- files --------------------------------------------------------------------------------------------------------


class _File:
    """One open file and its blocks: the units of a plain file; of a gzip file, stretches that are found while it is read."""

    def __init__(self, source: Input, uri: str, dialect: "_Dialect") -> None:
        self._source = source
        # A reader has no end of its own: the file is closed with it.
        weakref.finalize(self, source.close)
        self._uri = uri
        self._dialect = dialect
        self._read = 0
        self._forward: Forward | None = None
        self._found: list[_Block] = []
        self._found_blocks: Iterator[tuple[_Block, bytes]] = iter(())
        self._latest: tuple[_Block, bytes] | None = None
        self._spool: Spool | None = None

    def blocks(
        self, unit: Unit, rows: npt.NDArray[np.int64], here: npt.NDArray[np.int64]
    ) -> Iterator[tuple[_Block, npt.NDArray[np.int64]]]:
        """The blocks that have the unit's rows `rows[here]`, each with its part of `here`."""
        extra = json.loads(unit.extra)
        if not extra.get("gzip"):
            yield _Block(offset=unit.offset, size=unit.size, first=0, records=unit.records, line=extra["line"]), here
            return
        last = int(rows[here].max())
        while not self._found or self._found[-1].first + self._found[-1].records <= last:
            self._find_next(extra)
            # The latest block is at hand now, and would have to be read again later.
            block = self._found[-1]
            inside = here[(rows[here] >= block.first) & (rows[here] < block.first + block.records)]
            if len(inside):
                yield block, inside
                here = np.setdiff1d(here, inside)
        firsts = np.array([block.first for block in self._found])
        which = np.searchsorted(firsts, rows[here], side="right") - 1
        for number in np.unique(which).tolist():
            yield self._found[number], here[which == number]

    def data(self, block: _Block) -> bytes:
        """The block's bytes, uncompressed."""
        if self._forward is None:
            self._read += block.size
            return self._source.read_at(block.offset, block.size)
        if self._latest is not None and self._latest[0] == block:
            return self._latest[1]
        if self._spool is None:
            whole = Forward(self._source, self._uri, zipped=True)
            self._spool = Spool(whole)
            self._read += whole.taken()
        return self._spool.read_at(block.offset, block.size)

    def taken(self) -> int:
        """Bytes read from the store since the last call."""
        taken, self._read = self._read, 0
        return taken + (self._forward.taken() if self._forward is not None else 0)

    def _find_next(self, extra: Mapping[str, Any]) -> None:
        if self._forward is None:
            self._forward = Forward(self._source, self._uri, zipped=True)
            self._forward.skip_to(extra["start"])
            self._found_blocks = _cut(self._forward, b"", line=extra["line"], dialect=self._dialect, uri=self._uri)
        self._latest = next(self._found_blocks, None)
        if self._latest is None:
            raise InputChanged(f"{self._uri} has fewer rows than were planned.", uri=self._uri)
        self._found.append(self._latest[0])


def _cut(forward: Forward, begun: bytes, *, line: int, dialect: _Dialect, uri: str) -> Iterator[tuple[_Block, bytes]]:
    """The rest of a file as blocks of whole rows; `begun` has been read already. Raises BadData for a row beyond all bounds."""
    data = begun
    first = 0
    wanted = UNIT_BYTES
    while True:
        more = forward.read(max(0, wanted - len(data)))
        data += more
        at_end = len(data) < wanted
        rows = dialect.rows(data, at_end=at_end)
        if rows.size == 0 and not at_end:
            if len(data) >= LONGEST_ROW:
                raise BadData(
                    f"{uri}, line {line}: a row of more than {LONGEST_ROW >> 20} MiB; is a quote never closed, or the file no CSV?", uri=uri
                )
            wanted *= 2
            continue
        if len(rows):
            block = _Block(offset=forward.position - len(data), size=rows.size, first=first, records=len(rows), line=line)
            yield block, data[: rows.size]
        first += len(rows)
        line += rows.lines_before(rows.size)
        data = data[rows.size :]
        wanted = UNIT_BYTES
        if at_end:
            return


# --- planning -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Start:
    """The first bytes of a file, after what stands before its rows."""

    data: bytes
    offset: int
    line: int
    names: list[str] | None
    """The header's."""
    at_end: bool


class _Planner:
    """Lists and cuts the files of a source, and freezes the columns in `state`."""

    def __init__(self, source: CsvSource, access: Access, state: dict[str, Any]) -> None:
        for option, character in (("delimiter", source.delimiter), ("quote", source.quote)):
            if ord(character) > 0x7F or character in "\r\n\0":
                raise BadSpec(f"source.csv.{option} is one ASCII character, got {character!r}.")
        if source.delimiter == source.quote:
            raise BadSpec(f"source.csv.delimiter and quote are both {source.quote!r}.")
        self._source = source
        self._access = access
        self._state = state
        self._dialect = _Dialect(source.delimiter, source.quote)
        self._columns: list[CsvColumn] | None = source.columns
        self._named_by = "source.csv.columns"
        if source.columns is not None:
            _check_names([column.name for column in source.columns], self._named_by)
            _Parser(source.columns, self._dialect)

    def units(self) -> Iterator[Unit]:
        """In the order of the URIs and, within one, of the paths."""
        for root, uri in enumerate(self._source.uris):
            is_empty = True
            for entry, path in _files(self._access.store(uri), uri):
                is_empty = False
                yield from self._units_of(root, path, entry)
            if is_empty:
                raise NotFound(f"{uri} names no file.", uri=uri)
        self._state["columns"] = [column.model_dump(by_alias=True, exclude_none=True) for column in self._columns or []]

    def _units_of(self, root: int, path: str, entry: Entry) -> Iterator[Unit]:
        with self._access.store(entry.uri).open(entry.uri) as source:
            zipped = source.read_at(0, 2) == GZIP_MAGIC
            forward = Forward(source, entry.uri, zipped=zipped)
            start = self._start(forward, entry.uri)
            self._settle(start, entry.uri)
            records = 0
            for block, _ in _cut(forward, start.data, line=start.line, dialect=self._dialect, uri=entry.uri):
                if not zipped:
                    yield Unit(
                        root=root,
                        path=path,
                        uri=entry.uri,
                        records=block.records,
                        size=block.size,
                        pin=entry.pin,
                        offset=block.offset,
                        row=block.first,
                        extra=json.dumps({"line": block.line}),
                    )
                records += block.records
            if zipped and records:
                extra = {"gzip": True, "start": start.offset, "line": start.line}
                yield Unit(root=root, path=path, uri=entry.uri, records=records, size=entry.size, pin=entry.pin, extra=json.dumps(extra))

    def _start(self, forward: Forward, uri: str) -> _Start:
        """Byte order mark, skipped lines and header taken off. Raises BadData when they don't end."""
        wanted = UNIT_BYTES
        data = b""
        while True:
            data += forward.read(wanted - len(data))
            at_end = len(data) < wanted
            start = self._without_preamble(data, at_end=at_end)
            if start is not None:
                return start
            if len(data) >= LONGEST_ROW:
                raise BadData(f"{uri}: the header doesn't end within {LONGEST_ROW >> 20} MiB; is a quote never closed?", uri=uri)
            wanted *= 2

    def _without_preamble(self, data: bytes, *, at_end: bool) -> _Start | None:
        """None when more bytes are needed."""
        at = len(_BOM) if data.startswith(_BOM) else 0
        for _ in range(self._source.skip_lines):
            # A skipped line is a line as it stands in the file, whatever quotes it has.
            end = re.compile(rb"\r\n|\n|\r").search(data, at)
            if end is None:
                return _Start(b"", len(data), self._source.skip_lines + 1, None, at_end=True) if at_end else None
            at = end.end()
        line = self._source.skip_lines + 1
        names = None
        if self._source.header:
            rows = self._dialect.rows(data[at:], at_end=at_end)
            if not len(rows):
                return _Start(b"", len(data), line, None, at_end=True) if at_end else None
            names = self._dialect.cells(data[at + int(rows.starts[0]) : at + int(rows.stops[0])])
            after = int(rows.starts[1]) if len(rows) > 1 else rows.size
            line += rows.lines_before(after)
            at += after
        return _Start(data[at:], at, line, names, at_end=at_end)

    def _settle(self, start: _Start, uri: str) -> None:
        """Checks a file's header against the columns, or takes the columns from it. Raises BadSpec naming the file."""
        if start.names is not None:
            _check_names(start.names, uri)
        if self._columns is None:
            self._columns = self._inferred(start, uri)
            self._named_by = uri
        elif start.names is not None:
            names = [name or str(number) for number, name in enumerate(start.names)]
            expected = [column.name for column in self._columns]
            if names != expected:
                raise BadSpec(f"{uri}: its header has the columns {', '.join(names)}; {self._named_by} has {', '.join(expected)}.")

    def _inferred(self, start: _Start, uri: str) -> list[CsvColumn] | None:
        """Names and types from the first rows: whole numbers Int64, other numbers Float32, true and false Bool, all else String."""
        sample = start.data[:_INFERRED_BYTES]
        rows = self._dialect.rows(sample, at_end=start.at_end and len(sample) == len(start.data))
        if not len(rows):
            rows = self._dialect.rows(start.data, at_end=start.at_end)
        if start.names is not None:
            names = [name or str(number) for number, name in enumerate(start.names)]
        elif len(rows):
            names = [str(number) for number in range(len(self._dialect.cells(start.data[int(rows.starts[0]) : int(rows.stops[0])])))]
        else:
            return None
        if not len(rows):
            return [CsvColumn(name=name, type="String") for name in names]
        try:
            kinds = _read(start.data[: rows.size], names, {}, self._dialect, skipped=[]).schema.types
        except pa.ArrowInvalid as exc:
            raise BadSpec(f"{uri}: the columns' types can't be told ({exc}); give source.csv.columns.") from exc
        return [CsvColumn.model_validate({"name": name, "type": _type_name(kind)}) for name, kind in zip(names, kinds, strict=True)]


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "Int64"
    if pa.types.is_floating(kind):
        return "Float32"
    return "Bool" if pa.types.is_boolean(kind) else "String"


def _check_names(names: Sequence[str], where: str) -> None:
    for name in names:
        if name and names.count(name) > 1:
            raise BadSpec(f"{where}: the column {name!r} is there twice.")


def _files(store: Store, uri: str) -> Iterator[tuple[Entry, str]]:
    """The files that a URI names, with their paths below it: a file, a glob, or a folder."""
    entry = store.stat(uri)
    if entry is not None:
        yield entry, uri.rpartition("/")[2]
        return
    folder, pattern = uri, None
    if wildcard := _WILDCARD.search(uri):
        folder = uri[: uri.rfind("/", 0, wildcard.start()) + 1].rstrip("/") or ("/" if uri.startswith("/") else ".")
        pattern = _glob(uri[len(folder) :].lstrip("/") if folder != "." else uri)
    for found in store.list(folder):
        path = relative_path(folder, found.uri)
        if not is_hidden(path) and (pattern is None or pattern.fullmatch(path)):
            yield found, path


def _glob(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stay within a folder, `**/` is any folders, `[…]` a set of characters."""
    out = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", pattern, re.DOTALL):
        known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        if part in known:
            out += known[part]
        elif part.startswith("[") and len(part) > 1:
            negated = part[1] == "!"
            out += f"[{'^/' if negated else ''}{re.escape(part[1 + negated : -1]).replace(chr(92) + '-', '-')}]"
        else:
            out += re.escape(part)
    return re.compile(out, re.DOTALL)


# --- parsing ------------------------------------------------------------------------------------------------------


def _read(
    data: bytes,
    names: Sequence[str],
    types: Mapping[str, pa.DataType],
    dialect: _Dialect,
    *,
    skipped: list[tuple[int, int]],
    only: Sequence[str] | None = None,
) -> pa.Table:
    """Arrow's parse of whole rows. Rows of another number of cells are left out: `skipped` gets (row, its cells)."""

    def skip(row: Any) -> str:
        skipped.append((row.number - 1, row.actual_columns))
        return "skip"

    table: pa.Table = _arrow_csv.read_csv(
        pa.BufferReader(data),
        read_options=_arrow_csv.ReadOptions(column_names=list(names), use_threads=False, block_size=max(len(data) + 1, 1 << 16)),
        parse_options=_arrow_csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote,
            newlines_in_values=dialect.quote.encode() in data,
            invalid_row_handler=skip,
        ),
        convert_options=_arrow_csv.ConvertOptions(
            column_types=dict(types), null_values=[""], strings_can_be_null=False, include_columns=list(only or [])
        ),
    )
    return table


class _Parser:
    """Blocks of text to records of the columns."""

    def __init__(self, columns: Sequence[CsvColumn], dialect: _Dialect) -> None:
        self._columns = list(columns)
        self._dialect = dialect
        self._names = [column.name for column in columns]
        # A Float32 is read as Float64 first: Arrow refuses what is too small for a float32 instead of rounding it to zero.
        self._types = {c.name: pa.float64() if c.type == "Float32" else TYPES[c.type] for c in columns}
        self._defaults = {column.name: self._default(column) for column in columns if column.default is not None}
        self.schema: pa.Schema = pa.schema([(column.name, TYPES[column.type]) for column in columns])

    def parse(self, data: bytes, *, records: int, line: int, uri: str) -> _Parsed:
        """The rows of a block that begins on `line`. Raises InputChanged when there are not as many rows as were counted."""
        skipped: list[tuple[int, int]] = []
        refused: dict[int, str] = {}
        try:
            table = _read(data, self._names, self._types, self._dialect, skipped=skipped)
        except pa.ArrowInvalid:
            skipped.clear()
            table = self._halved(data, self._dialect.rows(data), skipped, refused)
        if table.num_rows + len(skipped) + len(refused) != records:
            raise InputChanged(f"{uri}: {records:,} rows were planned from line {line} on, got {table.num_rows + len(skipped):,}.", uri=uri)
        read = np.ones(records, np.bool_)
        read[[row for row, _ in skipped] + list(refused)] = False
        numbers = np.flatnonzero(read)
        columns, wrong = self._finished(table)
        reasons = {row: f"expect {len(self._names)} fields but have {cells}" for row, cells in skipped} | refused
        reasons |= {int(numbers[place]): reason for place, reason in wrong.items()}
        whole = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        places = np.full(records, -1, np.int64)
        if wrong:
            kept = np.ones(len(numbers), np.bool_)
            kept[list(wrong)] = False
            whole = whole.filter(pa.array(kept))
            numbers = numbers[kept]
        places[numbers] = np.arange(len(numbers))
        return _Parsed(records=whole, places=places, reasons=self._with_lines(reasons, data, line) if reasons else {})

    def _halved(self, data: bytes, rows: Rows, skipped: list[tuple[int, int]], refused: dict[int, str]) -> pa.Table:
        """The good rows of a block in which Arrow refuses some; these are found by halving."""
        tables: list[pa.Table] = []
        waiting = [(0, len(rows))]
        while waiting:
            low, high = waiting.pop()
            part = data[int(rows.starts[low]) : int(rows.stops[high - 1])]
            left_out: list[tuple[int, int]] = []
            try:
                tables.append(_read(part, self._names, self._types, self._dialect, skipped=left_out))
                skipped += [(low + row, cells) for row, cells in left_out]
            except pa.ArrowInvalid as exc:
                if high - low == 1:
                    refused[low] = self._fault(part, exc)
                else:
                    middle = (low + high) // 2
                    waiting += [(middle, high), (low, middle)]
        return pa.concat_tables(tables) if tables else pa.schema(list(self._types.items())).empty_table()

    def _fault(self, row: bytes, error: pa.ArrowInvalid) -> str:
        """Why Arrow refuses a single row."""
        cells = self._dialect.cells(row)
        for number, column in enumerate(self._columns):
            try:
                _read(row, self._names, self._types, self._dialect, skipped=[], only=[column.name])
            except pa.ArrowInvalid:
                if column.type == "String":
                    return f"column {column.name!r} is not UTF-8"
                return f"{_shown(cells[number] if number < len(cells) else '')} is not a {column.type} (column {column.name!r})"
        return f"not a row: {error}"

    def _finished(self, table: pa.Table) -> tuple[list[Array], dict[int, str]]:
        """The columns in their own types, with defaults; and the places of the values that don't fit, with the reason."""
        columns: list[Array] = []
        wrong: dict[int, str] = {}
        for column in self._columns:
            values: Array = _whole(table.column(column.name))
            if column.type == "String":
                if column.default:
                    values = kernels.if_else(kernels.equal(values, ""), column.default, values)
                columns.append(values)
                continue
            if values.null_count and column.name in self._defaults:
                values = kernels.fill_null(values, self._defaults[column.name])
            elif values.null_count:
                empty = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
                wrong = {int(place): f"column {column.name!r} is empty and has no default" for place in empty} | wrong
            if column.type == "Float32":
                values, too_large = _narrowed(values)
                wrong = {place: f"{value!r} is not a Float32 (column {column.name!r})" for place, value in too_large.items()} | wrong
            columns.append(values)
        return columns, wrong

    def _default(self, column: CsvColumn) -> Any:
        written = self._dialect.quote + (column.default or "").replace(self._dialect.quote, self._dialect.quote * 2) + self._dialect.quote
        try:
            value = _read(written.encode(), [column.name], {column.name: self._types[column.name]}, self._dialect, skipped=[])[0][0]
        except pa.ArrowInvalid:
            value = None
        if value is None or not value.is_valid:
            raise BadSpec(f"source.csv.columns: the default {_shown(column.default or '')} of {column.name!r} is not a {column.type}.")
        return value

    def _with_lines(self, reasons: Mapping[int, str], data: bytes, line: int) -> dict[int, str]:
        rows = self._dialect.rows(data)
        return {row: f"line {line + rows.lines_before(int(rows.starts[row]))}: {reason}" for row, reason in reasons.items()}


def _whole(column: Any) -> Array:
    """A column of a table in one piece."""
    whole: Array = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def _narrowed(values: Array) -> tuple[Array, dict[int, float]]:
    """float64 to float32, and the finite values that became infinite, by place."""
    wide = kernels.fill_null(values, 0.0).to_numpy()
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    too_large = np.flatnonzero(np.isinf(narrow) & np.isfinite(wide))
    return to_arrow(narrow), {int(place): float(wide[place]) for place in too_large}


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= _SHOWN_CELL else cell[:_SHOWN_CELL] + "…")
