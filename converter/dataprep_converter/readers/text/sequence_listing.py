"""Plans the source `csvSequences`: lists the sequence files in their order, finds their label files, and determines the columns.

If the spec gives the columns, the planner only lists the files. If the spec doesn't give the columns, the planner also reads the first
files, up to a total of one MiB or 16 files.
"""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from dataprep_api.spec import CsvColumn
from dataprep_api.spec.sources.csv_sequences import CsvSequencesSource
from dataprep_converter.core.errors import BadData, BadSample, BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import without_suffix
from dataprep_converter.inputs.encodings import Encoding, in_utf8
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.readers import Listing
from dataprep_converter.readers.base.files_ahead import File
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.columnar.columns import check_names
from dataprep_converter.readers.text.csv_cells import Dialect, Parser
from dataprep_converter.readers.text.csv_inference import kinds_of, with_missing
from dataprep_converter.readers.text.csv_starts import FileStart, Preamble, dialect_of, infer_columns, selected_names
from dataprep_converter.readers.text.stretches import compression_in
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry

OF: Final = "source.csvSequences"
LABELS: Final = "source.csvSequences.labels"

_SAMPLE_BYTES: Final = 1 << 20
_SAMPLE_FILES: Final = 16
_NUMBERS: Final = frozenset({"Int64", "Float32", "Float64"})
PACKED: Final = "packed"
"""This mark is in the `extra` of a unit if the name of one of its files indicates a compression other than gzip.

Units of earlier releases have no such mark.
"""
_DIGITS: Final = re.compile(r"(\d+)")

_ListedFile: TypeAlias = tuple[int, str, Entry]


class SequencePlanner:
    """Lists the files and freezes the columns in `state`."""

    def __init__(self, source: CsvSequencesSource, access: Access) -> None:
        self._source = source
        self._access = access
        dialect = dialect_of_source(source)
        encoding = source.encoding
        self._steps = _Columns(
            Preamble(dialect, source.skip_lines, source.header), source.columns, access, encoding=encoding, select=source.select, of=OF
        )
        self._labels: _Columns | None = None
        if source.labels is not None:
            preamble = Preamble(dialect, source.labels.skip_lines, source.labels.header)
            self._labels = _Columns(preamble, source.labels.columns, access, encoding=encoding, of=LABELS)

    def units(self) -> Listing[Unit]:
        """Yields a unit for each sequence file, in order."""
        state: dict[str, Any] = {}
        groups = itertools.groupby(input_files(self._access, self._source.uris), key=lambda each: each[0])
        for root, files in groups:
            labels = self._labels_of(root)
            for _, path, entry in _sort_files(files, self._source.order):
                self._steps.look_at(entry)
                partner = self._partner(root, path, labels)
                extra = partner | ({PACKED: True} if any(map(_is_packed, (entry.uri, partner.get("uri", "")))) else {})
                yield Unit(
                    root=root,
                    path=path,
                    uri=entry.uri,
                    records=1,
                    size=entry.size,
                    pin=entry.pin,
                    extra=json.dumps(extra) if extra else "",
                )
                labels.pop(path, None)
            if labels:
                state["ignored"] = state.get("ignored", 0) + len(labels)
        state["columns"] = self._steps.final_columns()
        if self._steps.missing:
            state["nullWords"] = list(self._steps.missing)
        warnings = self._steps.warnings
        if self._labels is not None:
            state["labels"] = self._labels.final_columns(alone="label")
            if self._labels.missing:
                state["labelNullWords"] = list(self._labels.missing)
            warnings = [*warnings, *self._labels.warnings]
        if warnings:
            state["warnings"] = warnings
        return state

    def _labels_of(self, root: int) -> dict[str, Entry]:
        """The label files that belong to the URI with index `root`, keyed by path."""
        if self._source.labels is None:
            return {}
        return {path: entry for _, path, entry in input_files(self._access, [self._source.labels.uris[root]])}

    def _partner(self, root: int, path: str, labels: Mapping[str, Entry]) -> dict[str, Any]:
        if self._source.labels is None or self._labels is None:
            return {}
        entry = labels.get(path)
        if entry is None:
            return {"missing": f"{self._source.labels.uris[root].rstrip('/')}/{path}"}
        self._labels.look_at(entry)
        return asdict(File(entry.uri, entry.size, entry.pin))


def dialect_of_source(source: CsvSequencesSource) -> Dialect:
    """The dialect of the source's files. Raises BadSpec for an unusable delimiter or quote."""
    return dialect_of(source.delimiter, source.quote, source.null_words, of=OF)


def _is_packed(uri: str) -> bool:
    """Whether a file's name indicates a compression other than gzip.

    Gzip doesn't matter here, because it has always been recognised by a file's content.
    """
    return without_suffix(uri) != uri and not uri.lower().endswith(".gz")


def _sort_files(files: Iterable[_ListedFile], order: str) -> Iterable[_ListedFile]:
    # The listing is already sorted by the bytes of the paths.
    return sorted(files, key=lambda each: _by_numbers(each[1])) if order == "Numbers" else files


def _by_numbers(path: str) -> tuple[list[Any], bytes]:
    """A sort key that treats runs of digits as numbers. Paths that differ only in leading zeros, such as `1` and `01`, are ordered by their
    bytes."""
    parts = _DIGITS.split(path)
    return [int(part) if place % 2 else part.encode() for place, part in enumerate(parts)], path.encode()


class _Columns:
    """The columns of the sequence files or of the label files: the columns in the spec, or else columns inferred from the first files."""

    def __init__(
        self,
        preamble: Preamble,
        columns: list[CsvColumn] | None,
        access: Access,
        *,
        encoding: Encoding | None,
        select: Sequence[str] | None = None,
        of: str,
    ) -> None:
        self._encoding = encoding
        self._rule = access.version_of("inference")
        self._preamble = preamble if columns is not None else replace(preamble, dialect=with_missing(preamble.dialect, rule=self._rule))
        self._select = select
        self._access = access
        self._of = of
        self._spec_columns = columns
        self._starts: list[tuple[str, FileStart]] = []
        self._files = 0
        self._bytes = 0
        self.missing = self._preamble.dialect.missing
        """The words for missing values, if the columns are inferred."""
        self.warnings: list[str] = []
        """Warnings for the user. The list is complete after `final_columns` was called."""
        if columns is not None:
            check_names([column.name for column in columns], f"{of}.columns")
            Parser(columns, preamble.dialect, of=of)

    def look_at(self, entry: Entry) -> None:
        """Reads the beginning of one of the first files. Does nothing if the columns are given, or if enough bytes or files have been
        read."""
        self._files += 1
        is_enough = self._starts and (self._bytes >= _SAMPLE_BYTES or len(self._starts) >= _SAMPLE_FILES)
        if self._spec_columns is not None or is_enough:
            return
        try:
            with self._access.store(entry.uri).open(entry.uri) as source:
                forward = ForwardReader(
                    source, entry.uri, compression=compression_in(source), encoding=self._encoding, obeys_mark=self._encoding is not None
                )
                data = in_utf8(forward.read(_SAMPLE_BYTES), forward.encoding)
            at_end = forward.position < _SAMPLE_BYTES
            start = self._preamble.strip_from(data, at_end=at_end)
        except (BadData, BadSample):
            # Ignore a file with broken gzip or a header that never ends, because such a file becomes a bad record later.
            return
        if start is None:
            raise BadData(f"{entry.uri}: the header doesn't end within {_SAMPLE_BYTES >> 20} MiB; is a quote never closed?", uri=entry.uri)
        rows = self._preamble.dialect.rows(start.data, at_end=at_end)
        if len(rows) and len(rows.quotes) % 2 == 0:
            text = start.data[: rows.size].rstrip(b"\r\n") + b"\n"
            self._starts.append((entry.uri, FileStart(text, start.offset, start.line, start.names, at_end=True)))
            self._bytes += len(text)

    def final_columns(self, *, alone: str | None = None) -> list[dict[str, Any]]:
        """The columns as JSON values for `state`. If there is only one column, and neither the spec nor a header names it, the column gets
        the name `alone`. Raises BadData if no file has a row."""
        columns = self._spec_columns if self._spec_columns is not None else self._infer_columns()
        if alone is not None and self._spec_columns is None and not self._preamble.header and len(columns) == 1:
            columns = [columns[0].model_copy(update={"name": alone})]
        return [column.model_dump(by_alias=True, exclude_none=True) for column in columns]

    def _infer_columns(self) -> list[CsvColumn]:
        if not self._files:
            return []
        if not self._starts:
            raise BadData(f"{self._of}: none of the {self._files:,} files has a row.")
        uri, first = self._starts[0]
        combined = FileStart(b"".join(start.data for _, start in self._starts), first.offset, first.line, first.names, at_end=True)
        inferred = infer_columns(combined, self._preamble.dialect, rule=self._rule, uri=uri, of=self._of)
        columns = inferred.columns if inferred is not None else []
        if first.names is None and (self._rule > 1 or any(column.type == "String" for column in columns)):
            self._check_for_headers(columns)
        if inferred is not None:
            self.warnings = inferred.warnings(selected_names(columns, self._select, of=self._of), of=self._of)
        return columns

    def _check_for_headers(self, columns: list[CsvColumn]) -> None:
        """Raises BadSpec if a file's first row has no number but is followed by rows of numbers, because that row is probably a header. If
        a header were read as data, all columns would become text."""
        dialect = self._preamble.dialect
        names = [column.name for column in columns]
        firsts: list[bytes] = []
        others: list[bytes] = []
        for _, start in self._starts:
            rows = dialect.rows(start.data)
            end = int(rows.starts[1]) if len(rows) > 1 else rows.size
            firsts.append(start.data[:end])
            others.append(start.data[end:])
        try:
            kinds = kinds_of(b"".join(others), names, dialect, rule=self._rule)
        except pa.ArrowInvalid:
            return
        numbers = [place for place, kind in enumerate(kinds) if kind.type in _NUMBERS]
        words = {"", *dialect.nulls, *dialect.missing}
        for (uri, start), row in zip(self._starts, firsts, strict=True):
            cells = dialect.cells(row)
            if any(map(_is_number, cells)):
                continue
            if any(place < len(cells) and cells[place] not in words for place in numbers):
                raise BadSpec(
                    f"{uri}, line {start.line}: this row looks like a header above rows of numbers. Set {self._of}.header: true if every file "
                    f"has a header; otherwise, list the columns in {self._of}.columns.",
                    uri=uri,
                )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
