"""The source `csv` reads text in rows and columns, and parses it with Arrow.

The planner reads every file once. The planner splits the files at row ends into units of about 4 MiB (`stretches.py`), counts the rows and
freezes the types of the columns. Workers parse one unit at a time (`csv_cells.py`). Only faulty rows become bad records, each with its line
and cell in the reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import pyarrow as pa

from dataprep_api.spec import CsvColumn, CsvSource
from dataprep_converter.core.errors import BadData, BadSample, BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.encodings import Encoding, in_utf8
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.base.examined import ListedFile, open_once
from dataprep_converter.readers.base.partitions import (
    ListFiles,
    Partitions,
    discover_with_partitions,
    names_from,
    without_partition_columns,
)
from dataprep_converter.readers.columnar.columns import check_names
from dataprep_converter.readers.text import csv_rows, csv_starts, stretches
from dataprep_converter.readers.text.csv_cells import Dialect, Parser
from dataprep_converter.readers.text.csv_inference import with_missing
from dataprep_converter.readers.text.csv_rows import Rows
from dataprep_converter.readers.text.csv_starts import FileStart, Preamble, dialect_of, infer_columns, selected_names
from dataprep_converter.readers.text.defaults import check_exist, with_defaults
from dataprep_converter.readers.text.not_text import refuse_binary
from dataprep_converter.readers.text.stretches import StretchReader, open_forward
from dataprep_converter.readers.text_scan.files import TextStart, examined_texts, plain_encoding
from dataprep_converter.readers.text_scan.stored import FORM
from dataprep_converter.readers.text_scan.text_file import TextFile, examine_rest
from dataprep_converter.records.batch import TEXT, TEXTS, marked
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry, Input

_OF: Final = "source.csv"
_HEADER_BYTES: Final = 64 << 10
"""At first, this many bytes are read to find the end of the header. Most headers are shorter."""
_LIMIT: Final = "a row of more than {} MiB; is a quote never closed, or is the file not CSV?"


class CsvReader(StretchReader):
    """See the module. The names of the columns come from the header or the spec; otherwise they are `0`, `1`, …"""

    stored_form: ClassVar[int] = FORM

    @staticmethod
    def discover(source: CsvSource, access: Access) -> Discovery:
        """Reads every file once. Raises NotFound for a URI without files, and BadSpec for a header that doesn't match the columns."""
        return discover_with_partitions(source, access, of=_OF, units=lambda csv, files: _Planner(csv, access).units(files))

    def __init__(self, source: CsvSource, state: Mapping[str, Any], access: Access) -> None:
        file_source = without_partition_columns(source, names_from(state), of=_OF)
        super().__init__(access, Partitions(file_source.uris, state, of=_OF, keep_nulls=access.keeps_nulls))
        self._dialect = replace(_dialect(file_source), missing=tuple(state.get("nullWords", ())))
        columns = [CsvColumn.model_validate(column) for column in state.get("columns", [])]
        self._parser = _parser(file_source, self._dialect, columns, keep_nulls=access.keeps_nulls)
        self._parser.schema = marked(self._parser.schema, TEXT, state.get(TEXTS, {}))

    def schema(self) -> pa.Schema:
        """All columns in the order of the files or, if the spec selects columns, the selected columns in the order of the spec."""
        return self.with_partitions(self._parser.schema)

    def scan(self, data: bytes, at_end: bool) -> Rows:
        """Finds the rows of `data`, exactly as Arrow's parser would."""
        return self._dialect.rows(data, at_end=at_end)

    def parse(self, data: bytes, *, records: int, line: int, uri: str) -> Block:
        """Parses the rows. Faulty rows become bad records, with their line in the reason."""
        return self._parser.parse(data, records=records, line=line, uri=uri)


def _dialect(source: CsvSource) -> Dialect:
    by_column = {name: tuple(words) for name, words in (source.null_words_of or {}).items()}
    return replace(dialect_of(source.delimiter, source.quote, source.null_words, of=_OF), by_column=by_column)


def _parser(source: CsvSource, dialect: Dialect, columns: Sequence[CsvColumn], *, keep_nulls: bool = False) -> Parser:
    """A parser that returns the selected columns. Raises BadSpec if a column that the spec names doesn't exist."""
    columns = with_defaults(columns, source.defaults, of=_OF)
    check_exist(source.null_words_of or {}, columns, of=f"{_OF}.nullWordsOf")
    return Parser(columns, dialect, select=selected_names(columns, source.select, of=_OF), of=_OF, keep_nulls=keep_nulls)


class _Planner:
    """Lists the files of a source, splits them into units, and freezes the columns. This class is also the `TextRule` of these files."""

    limit = _LIMIT

    def __init__(self, source: CsvSource, access: Access) -> None:
        self._source = source
        self._encoding = source.encoding or "Utf8"
        self._access = access
        self._inference: dict[str, Any] = {}
        """The entries of the state that describe inferred columns: `TEXTS` and `warnings`."""
        self._rule = access.version_of("inference")
        self._dialect = _dialect(source) if source.columns is not None else with_missing(_dialect(source), rule=self._rule)
        self._preamble = Preamble(self._dialect, source.skip_lines, source.header)
        self._columns: list[CsvColumn] | None = source.columns
        self._named_by = "source.csv.columns"
        if source.columns is not None:
            check_names([column.name for column in source.columns], self._named_by)
            _parser(source, self._dialect, source.columns)

    def units(self, files: ListFiles) -> Listing[Unit]:
        """Yields the units in the order of the URIs and, for each URI, sorted by path."""
        for file in examined_texts(self._access, self._with_columns(files()), self):
            self._check_header(file.result.names, file.entry.uri)
            yield from file.result.units(file.root, file.path, file.entry)
        columns = [column.model_dump(by_alias=True, exclude_none=True) for column in self._columns or []]
        return self._inference | {"columns": columns} | ({"nullWords": list(self._dialect.missing)} if self._dialect.missing else {})

    def _with_columns(self, files: Iterator[ListedFile]) -> Iterator[ListedFile]:
        """Yields the files. Determines the columns from the first file that has columns, before yielding this file."""
        for root, path, entry in files:
            # Don't open empty files: they have no columns, and a listing may begin with thousands of empty files.
            if self._columns is None and entry.size > 0 and not self._access.only_scans:
                with (
                    open_once(self._access.store(entry.uri), entry) as source,
                    open_forward(source, entry, self._encoding, ahead=False, first=csv_starts.INFERRED_BYTES + _HEADER_BYTES) as forward,
                ):
                    start = self._start(forward, entry.uri, least=csv_starts.INFERRED_BYTES)
                    self._infer_columns(replace(start, data=in_utf8(start.data, forward.encoding)), entry.uri)
            yield root, path, entry

    def examine(self, source: Input, entry: Entry, *, ahead: bool) -> TextFile:
        """See `TextRule`."""
        with open_forward(source, entry, self._encoding, ahead=ahead) as forward:
            start = self._start(forward, entry.uri)
            # Don't read a large file to its end if its header is wrong.
            self._check_header(start.names, entry.uri)
            found = examine_rest(forward, start.data, line=start.line, scan=self.scan, uri=entry.uri, limit=self.limit)
            return replace(found, names=start.names)

    def encoding_of_cells(self, source: Input) -> Encoding | None:
        """See `plain_encoding`."""
        return plain_encoding(source, self._encoding)

    def start_of_cells(self, source: Input, entry: Entry) -> TextStart:
        """The place after the header."""
        with open_forward(source, entry, self._encoding, ahead=False, first=_HEADER_BYTES) as forward:
            start = self._start(forward, entry.uri, least=0)
        self._check_header(start.names, entry.uri)
        return TextStart(start.offset, start.line, start.names)

    def scan(self, data: bytes, at_end: bool) -> Rows:
        """See `TextRule`."""
        return self._dialect.rows(data, at_end=at_end)

    def prefixes(self, previous: bytes) -> Sequence[bytes]:
        """See `TextRule`."""
        return csv_rows.prefixes(previous, delimiter=self._dialect.delimiter, quote=self._dialect.quote)

    def prefix_after(self, data: bytes, records: Rows) -> bytes:
        """See `TextRule`."""
        return csv_rows.prefix_after(data, records.quotes, delimiter=self._dialect.delimiter, quote=self._dialect.quote)

    def _start(self, forward: ForwardReader, uri: str, *, least: int | None = None) -> FileStart:
        """Reads the start of a file, and removes the byte order mark, the skipped lines and the header. Raises BadData if the header
        doesn't end.

        With `least`, at first reads only a little more than `least` bytes, because a slow store may take half a second to send 4 MiB. Reads
        more if at most `least` bytes follow the header, or if no row ends in the first `least` bytes after the header.
        """
        unit = stretches.UNIT_BYTES
        length = unit if least is None else min(least + _HEADER_BYTES, unit)
        data = b""
        while True:
            data += forward.read(length - len(data))
            at_end = len(data) < length
            refuse_binary(data, uri)
            try:
                start = self._preamble.strip_from(data, at_end=at_end, encoding=forward.encoding)
            except BadSample as exc:
                raise BadData(f"{uri}, {exc}.", uri=uri) from exc
            if start is not None and (length >= unit or start.at_end or self._has_rows(start.data, least or 0)):
                return start
            if len(data) >= stretches.LONGEST_RECORD:
                raise BadData(
                    f"{uri}: the header doesn't end within {stretches.LONGEST_RECORD >> 20} MiB; is a quote never closed?", uri=uri
                )
            length = unit if length < unit else 2 * length

    def _has_rows(self, data: bytes, least: int) -> bool:
        """Whether there are more than `least` bytes, and a row ends in the first `least` bytes. Always true if `least` is 0."""
        return not least or (len(data) > least and len(self._dialect.rows(data[:least], at_end=False)) > 0)

    def _infer_columns(self, start: FileStart, uri: str) -> None:
        """Takes the columns from a file that begins with `start`. Does nothing if the file has neither a header nor a row. For an invalid
        column, raises BadSpec, which names the file."""
        inferred = infer_columns(start, self._dialect, rule=self._rule, uri=uri, of=_OF)
        if inferred is None:
            return
        self._columns = inferred.columns
        self._named_by = uri
        if inferred.texts:
            self._inference[TEXTS] = inferred.texts
        _parser(self._source, self._dialect, inferred.columns)
        warnings = inferred.warnings(selected_names(inferred.columns, self._source.select, of=_OF), of=_OF)
        if warnings:
            self._inference["warnings"] = warnings

    def _check_header(self, names: Sequence[str] | None, uri: str) -> None:
        """Raises BadSpec, which names the file, if the names in the file's header differ from the names of the columns."""
        if self._columns is None or names is None:
            return
        expected = [column.name for column in self._columns]
        if list(names) != expected:
            raise BadSpec(f"{uri}: its header has the columns {', '.join(names)}; {self._named_by} has {', '.join(expected)}.")
