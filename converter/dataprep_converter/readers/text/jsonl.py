"""The source `jsonl` reads files with one JSON object per line, or files that each contain a single array of objects (`json_arrays.py`).
Arrow parses the objects with a schema that the planner fixed (`json_columns.py`).

Files are split at line ends (`stretches.py`). Lines that Arrow rejects are found by repeatedly halving the text. Only the rejected lines
become bad records, each with a reason.
"""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from dataprep_api.spec.sources.jsonl import JsonlColumn, JsonlSource
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.core.good_runs import good_runs
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.formats.nested.json_texts import json_column
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.encodings import Encoding
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.base.partitions import (
    ListFiles,
    Partitions,
    discover_with_partitions,
    names_from,
    without_partition_columns,
)
from dataprep_converter.readers.columnar.columns import TYPES, Column, default_of, narrowed, settled, shown
from dataprep_converter.readers.columnar.defaults import nested_default
from dataprep_converter.readers.text import json_arrays
from dataprep_converter.readers.text.defaults import with_defaults
from dataprep_converter.readers.text.json_columns import AnyColumn, Path, infer_columns
from dataprep_converter.readers.text.json_nested import NestedColumn, unknown_key
from dataprep_converter.readers.text.json_starts import first_records
from dataprep_converter.readers.text.lines import LIMIT, Lines, not_utf8, scan, with_lines
from dataprep_converter.readers.text.stretches import Reading, StretchReader, open_forward
from dataprep_converter.readers.text_scan.files import examined_texts
from dataprep_converter.readers.text_scan.line_rule import LineRule
from dataprep_converter.readers.text_scan.stored import FORM
from dataprep_converter.readers.text_scan.text_file import TextFile, examine_rest
from dataprep_converter.records.batch import STRUCTS
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry, Input

_OF: Final = "source.jsonl"

_arrow_json: Any = arrow_json  # the type stubs lack the types of the options


class JsonlReader(StretchReader):
    """See the module. The columns are the keys. The key `b` inside the object `a` is the column `a/b`."""

    stored_form: ClassVar[int] = FORM

    @staticmethod
    def discover(source: JsonlSource, access: Access) -> Discovery:
        """Reads every file once. Raises NotFound for a URI without files, and BadSpec if the columns can't be determined."""
        return discover_with_partitions(source, access, of=_OF, units=lambda jsonl, files: _units(jsonl, files, access))

    def __init__(self, source: JsonlSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access, Partitions(source.uris, state, of=_OF, keep_nulls=access.keeps_nulls))
        columns = [(_column_of(column), tuple(path)) for column, path in state.get("columns", [])]
        file_source = without_partition_columns(source, names_from(state), of=_OF)
        columns = _with_defaults(columns, file_source.defaults)
        self._parser = _Parser(columns, strict=source.columns is None, keep_nulls=access.keeps_nulls)

    def schema(self) -> pa.Schema:
        """The columns in the spec, or else the keys in the order of their first occurrence."""
        return self.with_partitions(self._parser.schema)

    def scan(self, data: bytes, at_end: bool) -> Lines:
        """Finds the lines of `data` that aren't blank."""
        return scan(data, at_end, skip_blank=True)

    def reading_of(self, extra: Mapping[str, Any]) -> Reading:
        """Scans and parses the elements of an array, or lines."""
        return Reading(json_arrays.scan_stretch, self._parse_elements) if extra.get("array") else super().reading_of(extra)

    def parse(self, data: bytes, *, records: int, line: int, uri: str) -> Block:
        """Parses the lines. Faulty lines are bad."""
        return self._parse(data, self.scan(data, True), records=records, line=line, uri=uri)

    def _parse_elements(self, data: bytes, *, records: int, line: int, uri: str) -> Block:
        """Parses the elements of an array. Faulty elements are bad."""
        elements = json_arrays.scan_stretch(data, True)
        return self._parse(json_arrays.in_lines(data, elements), elements, records=records, line=line, uri=uri)

    def _parse(self, data: bytes, lines: Lines, *, records: int, line: int, uri: str) -> Block:
        if len(lines) != records:
            raise InputChanged(f"{uri}: {records:,} records were planned from line {line} on, got {len(lines):,}.", uri=uri)
        return self._parser.parse(data, lines, line)


# --- planning -----------------------------------------------------------------------------------------------------


def _units(jsonl: JsonlSource, files: ListFiles, access: Access) -> Listing[Unit]:
    uri, columns = _columns(jsonl, files, access) if not access.only_scans else ("", [])
    for file in examined_texts(access, files(), _JsonRule(partial(scan, skip_blank=True), jsonl.encoding or "Utf8", LIMIT)):
        yield from file.result.units(file.root, file.path, file.entry)
        if file.result.is_unlike_its_start and file.entry.uri == uri:
            _, columns = _columns(jsonl, files, access, has_lines=True)
    state: dict[str, Any] = {"columns": [[_document(column), list(path)] for column, path in columns]}
    is_kept = access.structs.keeps and any(isinstance(column, NestedColumn) and pa.types.is_struct(column.kind) for column, _ in columns)
    return state | ({STRUCTS: True} if is_kept else {})


class _JsonRule(LineRule):
    """Finds the lines of a file or, if the file is a single array, the elements of the array."""

    def examine(self, source: Input, entry: Entry, *, ahead: bool) -> TextFile:
        """Reads a complete file."""
        with open_forward(source, entry, self.encoding, ahead=ahead) as forward:
            start, is_array = json_arrays.read_start(forward)
            if not is_array:
                return self._examine_lines(entry, start, forward)
            try:
                return json_arrays.examine_array(entry, start, forward)
            except json_arrays.ArrayInFirstLine:
                pass
        with open_forward(source, entry, self.encoding, ahead=ahead) as forward:
            start, _ = json_arrays.read_start(forward)
            return replace(self._examine_lines(entry, start, forward), is_unlike_its_start=True)

    def encoding_of_cells(self, source: Input) -> Encoding | None:
        """See `LineRule`. Returns None for an array, because an array must be read from its beginning."""
        encoding = super().encoding_of_cells(source)
        return None if encoding is None or json_arrays.begins_as_array(source) else encoding

    def _examine_lines(self, entry: Entry, start: bytes, forward: ForwardReader) -> TextFile:
        return examine_rest(forward, start, line=1, scan=self.scan, uri=entry.uri, limit=self.limit)


def _columns(jsonl: JsonlSource, files: ListFiles, access: Access, *, has_lines: bool = False) -> tuple[str, list[tuple[AnyColumn, Path]]]:
    """The URI of the first file with a record, and the columns inferred from this file. If `has_lines`, no file is read as an array."""
    uri, lines = first_records(jsonl, files, access, has_lines=has_lines)
    columns = infer_columns(
        lines, jsonl.columns, uri, rule=access.version_of("inference"), structs=access.structs, asked=jsonl.nested or ()
    )
    _Parser(_with_defaults(columns, jsonl.defaults), strict=False)
    return uri, columns


def _document(column: AnyColumn) -> dict[str, Any]:
    return column.document() if isinstance(column, NestedColumn) else column.model_dump(by_alias=True, exclude_none=True)


def _column_of(document: Mapping[str, Any]) -> AnyColumn:
    return NestedColumn.of(document) if "nested" in document else JsonlColumn.model_validate(document)


def _with_defaults(columns: Sequence[tuple[AnyColumn, Path]], defaults: Mapping[str, str] | None) -> list[tuple[AnyColumn, Path]]:
    completed = with_defaults([column for column, _ in columns], defaults, of=_OF)
    return [(column, path) for column, (_, path) in zip(completed, columns, strict=True)]


# --- parsing ------------------------------------------------------------------------------------------------------


@dataclass
class _Objects:
    """A tree of keys and their types, from which Arrow's schema is made."""

    keys: dict[str, "pa.DataType | _Objects"]

    def add(self, path: Sequence[str], kind: pa.DataType) -> None:
        """Adds a key with this type at a path."""
        if len(path) == 1:
            self.keys[path[0]] = kind
            return
        inner = self.keys.setdefault(path[0], _Objects({}))
        if isinstance(inner, _Objects):
            inner.add(path[1:], kind)

    def fields(self) -> list[tuple[str, pa.DataType]]:
        """The keys as Arrow fields. Nested objects become structs."""
        return [(key, pa.struct(kind.fields()) if isinstance(kind, _Objects) else kind) for key, kind in self.keys.items()]


class _Parser:
    """Parses lines into records that have the source's columns. If `strict`, a record with a key that isn't a column is bad."""

    def __init__(self, columns: Sequence[tuple[AnyColumn, Path]], *, strict: bool, keep_nulls: bool = False) -> None:
        self._strict = strict
        self._keep_nulls = keep_nulls
        self._spec_columns = [column for column, _ in columns]
        kept = {path for column, path in columns if isinstance(column, NestedColumn) and pa.types.is_struct(column.kind)}
        self._columns = [_read_column(column, path, kept) for column, path in columns]
        self._schemas = [_schema([column]) for column in self._columns]
        self._schema = _schema(self._columns)
        self._defaults = {column.name: _default(column, column.default) for column in self._spec_columns if column.default is not None}
        self.schema: pa.Schema = pa.schema([column.field() for column in self._columns])

    def parse(self, data: bytes, lines: Lines, line: int) -> Block:
        """Parses some lines. `line` is the line number of the first byte of `data`."""
        rejections = self._suspects(data, lines)
        table = None
        if not rejections:
            try:
                table = self._parse_lines(data, len(lines))
            except pa.ArrowInvalid:
                table = None
        if table is None:
            table = self._parse_good_lines(data, lines, rejections)
        numbers = np.setdiff1d(np.arange(len(lines)), list(rejections), assume_unique=True) if rejections else np.arange(len(lines))
        columns, wrong = self._final_columns(table)
        reasons = rejections | {int(numbers[place]): reason for place, reason in wrong.items()}
        records = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Block.of(records, with_lines(reasons, lines, line) if reasons else {}, missing=rejections)

    def _suspects(self, data: bytes, lines: Lines) -> dict[int, str]:
        """The lines that clearly aren't a single object, and the reasons.

        The check is needed because Arrow accepts any white space between records, not only line ends. Inside an object, `{` can't follow
        `}`. So each line is a record if each line begins with `{` and ends with `}`, and Arrow finds as many records as lines.
        """
        text = np.frombuffer(data, np.uint8)
        faults: dict[int, str] = {}
        try:
            data.decode()
        except UnicodeDecodeError:
            faults = not_utf8(data, lines)
        last = lines.ends - 1
        last = last - (text[last] == ord("\n"))
        last = last - (text[last] == ord("\r"))
        unlike = np.flatnonzero((text[lines.starts] != ord("{")) | (text[last] != ord("}")))
        for row in unlike.tolist():
            line = data[int(lines.starts[row]) : int(lines.ends[row])].strip(b" \t\r\n")
            if row not in faults and not (line.startswith(b"{") and line.endswith(b"}")):
                faults[row] = self._fault(line, "no object")
        return faults

    def _parse_lines(self, data: bytes, records: int, schema: pa.Schema | None = None, *, strict: bool | None = None) -> pa.Table:
        """Parses some lines with Arrow. Raises ArrowInvalid if Arrow rejects a line, or if the number of records isn't `records`."""
        strict = self._strict if strict is None else strict
        table: pa.Table = _arrow_json.read_json(
            pa.BufferReader(data),
            read_options=_arrow_json.ReadOptions(use_threads=False, block_size=max(len(data) + 1, 1 << 16)),
            parse_options=_arrow_json.ParseOptions(
                explicit_schema=self._schema if schema is None else schema, unexpected_field_behavior="error" if strict else "ignore"
            ),
        )
        if table.num_rows != records:
            raise pa.ArrowInvalid(f"{table.num_rows} records in {records} lines")
        return table

    def _parse_good_lines(self, data: bytes, lines: Lines, rejections: dict[int, str]) -> pa.Table:
        """Parses the good lines of a text in which Arrow rejects some lines. Adds the rejected lines to `rejections`."""

        def read(low: int, high: int) -> pa.Table:
            return self._parse_lines(data[int(lines.starts[low]) : int(lines.ends[high - 1])], high - low)

        def refuse(row: int, error: pa.ArrowInvalid) -> None:
            rejections[row] = self._fault(data[int(lines.starts[row]) : int(lines.ends[row])], str(error))

        suspects = sorted(rejections)
        tables: list[pa.Table] = []
        for first, end in zip([0, *(row + 1 for row in suspects)], [*suspects, len(lines)], strict=True):
            tables += good_runs(first, end, read=read, refuse=refuse)
        return pa.concat_tables(tables) if tables else self._schema.empty_table()

    def _fault(self, line: bytes, error: str) -> str:
        """The reason why a line isn't a record."""
        try:
            record = json.loads(line, object_pairs_hook=_object_with_unique_keys)
        except json.JSONDecodeError as exc:
            return f"not JSON: {exc.msg} at character {exc.colno}"
        except RecursionError:
            return "not a record: it is nested too deeply"
        except _DuplicateKey as exc:
            return f"the key {exc.args[0]!r} is there twice"
        except ValueError:
            # Python raises ValueError for an integer with too many digits.
            return f"not a record: it has an integer of more than {sys.get_int_max_str_digits():,} digits"
        if not isinstance(record, dict):
            return f"expect an object but have {shown(json.dumps(record))}"
        for spec_column, column, schema in zip(self._spec_columns, self._columns, self._schemas, strict=True):
            try:
                self._parse_lines(line, 1, schema, strict=False)
            except pa.ArrowInvalid:
                return f"{shown(json.dumps(_at(record, column.path), ensure_ascii=False))} is not a {_type_name(spec_column)} (column {column.name!r})"
        if self._strict and (unknown := self._unknown_key(record, ())):
            return f"the key {unknown!r} is no column; give source.jsonl.columns to pass over such keys"
        return f"not a record: {error}"

    def _unknown_key(self, record: Mapping[str, Any], path: Path) -> str | None:
        """The path of the first key that isn't part of a column."""
        for key, value in record.items():
            inner_path = (*path, key)
            nested = next((column.nested for column in self._columns if column.path == inner_path and column.nested is not None), None)
            if nested is not None:
                unknown = unknown_key(value, nested)
                if unknown is not None:
                    return "/".join((*inner_path, unknown))
                continue
            if not any(column.path[: len(inner_path)] == inner_path for column in self._columns):
                return "/".join(inner_path)
            if isinstance(value, dict) and (unknown := self._unknown_key(value, inner_path)):
                return unknown
        return None

    def _final_columns(self, table: pa.Table) -> tuple[list[Array], dict[int, str]]:
        """Returns the columns in their final types, with defaults filled in, and a dict that maps each row with an unsuitable value to the
        reason."""
        combined = table.combine_chunks()
        columns = [_column_at(combined, column.path) for column in self._columns]
        columns = [values if column.nested is None else json_column(values) for values, column in zip(columns, self._columns, strict=True)]
        columns, wrong = settled(columns, self._columns, self._defaults, keep_nulls=self._keep_nulls, of=_OF)
        for number, column in enumerate(self._columns):
            if pa.types.is_floating(_value_type(column.type)) and columns[number].type != column.type:
                columns[number], too_large = _narrow(columns[number])
                wrong = {row: f"{value!r} is not a Float32 (column {column.name!r})" for row, value in too_large.items()} | wrong
        return columns, wrong


def _type_name(column: AnyColumn) -> str:
    return f"list of {column.type}" if column.list else column.type


def _read_column(column: AnyColumn, path: Path, kept: Collection[Path]) -> Column:
    """A column of the records. `kept` contains the objects that become columns themselves; the fields of these objects aren't written by
    default."""
    if isinstance(column, NestedColumn):
        return Column(column.name, path, pa.large_string(), nested=column.kind, by_default=column.by_default)
    is_inside = any(path[:length] in kept for length in range(1, len(path)))
    return Column(column.name, path, _type(column), by_default=not is_inside)


def _default(column: AnyColumn, text: str) -> Any:
    of = "source.jsonl.columns"
    if isinstance(column, NestedColumn):
        return nested_default(text, column.kind, column=column.name, of=of)
    return default_of(text, _wide(_type(column)), column=column.name, of=of, called=_type_name(column))


def _type(column: JsonlColumn) -> pa.DataType:
    return pa.list_(TYPES[column.type]) if column.list else TYPES[column.type]


def _value_type(kind: Any) -> pa.DataType:
    value: pa.DataType = kind.value_type if pa.types.is_list(kind) else kind
    return value


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type in which a column is parsed.

    Float32 columns are parsed as float64, so that numbers that are too large for float32 can be found.
    """
    if _value_type(kind) != pa.float32():
        return kind
    return pa.list_(pa.float64()) if pa.types.is_list(kind) else pa.float64()


def _schema(columns: Sequence[Column]) -> pa.Schema:
    tree = _Objects({})
    for column in columns:
        tree.add(column.path, _wide(column.type) if column.nested is None else column.nested)
    return pa.schema(tree.fields())


def _column_at(table: pa.Table, path: Path) -> Array:
    values: Any = table.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, name)
    combined: Array = values.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _narrow(values: Any) -> tuple[Array, dict[int, float]]:
    """Converts numbers, or lists of numbers, to float32. Returns the converted values, and a map from rows to the finite values that became
    infinite."""
    if not pa.types.is_list(values.type):
        return narrowed(values)
    flat, too_large = narrowed(pc.list_flatten(values))
    rows = pc.list_parent_indices(values).to_numpy()
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    lists: Any = pa.ListArray
    narrowed_lists: Array = lists.from_arrays(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32), flat, mask=values.is_null())
    return narrowed_lists, {int(rows[place]): value for place, value in too_large.items()}


class _DuplicateKey(ValueError):
    """Raised for an object that has the same key twice."""


def _object_with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise _DuplicateKey(key)
        members[key] = value
    return members


def _at(record: Mapping[str, Any], path: Path) -> Any:
    """The value at a path, or the first value along the path that is not an object."""
    value: Any = record
    for key in path:
        if not isinstance(value, dict):
            break
        value = value.get(key)
    return value
