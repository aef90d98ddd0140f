"""The preamble of a CSV file (byte order mark, skipped lines, header), and the columns inferred from its first rows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from dataprep_api.spec import CsvColumn
from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.inputs.encodings import Encoding, in_utf8
from dataprep_converter.readers.columnar.columns import check_names, shown
from dataprep_converter.readers.text.csv_cells import Dialect
from dataprep_converter.readers.text.csv_inference import kinds_of
from dataprep_converter.readers.text.stretches import BOM
from dataprep_converter.records.columns import find_columns

INFERRED_BYTES: Final = 1 << 20
_LONGEST_NAME: Final = 256
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True)
class FileStart:
    """The first bytes of a file after its preamble."""

    data: bytes
    offset: int
    line: int
    names: list[str] | None
    """The column names in the header. A column without a name is named by its number."""
    at_end: bool
    """Whether `data` reaches the end of the file."""


@dataclass(frozen=True)
class Preamble:
    """The expected preamble of every file."""

    dialect: Dialect
    skip_lines: int
    header: bool

    def strip_from(self, data: bytes, *, at_end: bool, encoding: Encoding = "Utf8") -> FileStart | None:
        """The first bytes after the preamble of a file that begins with `data`. Returns None if more bytes are needed. Raises BadSample for
        a header that never ends. `encoding` is the encoding of the header."""
        at = len(BOM) if data.startswith(BOM) else 0
        for skipped in range(self.skip_lines):
            # A skipped line ends at the next line end, even if that line end is inside quotes.
            end = _LINE_END.search(data, at)
            if end is None:
                return FileStart(b"", len(data), skipped + 1, None, at_end=True) if at_end else None
            at = end.end()
        line = self.skip_lines + 1
        if not self.header:
            return FileStart(data[at:], at, line, None, at_end=at_end)
        rows = self.dialect.rows(data[at:], at_end=at_end)
        if not len(rows):
            return FileStart(b"", len(data), line, None, at_end=True) if at_end else None
        if len(rows) == 1 and at_end and (place := rows.unclosed_quote()) is not None:
            raise BadSample(f"line {line + rows.lines_before(place)}: a quote is never closed")
        cells = self.dialect.cells(in_utf8(data[at + int(rows.starts[0]) : at + int(rows.stops[0])], encoding))
        after = int(rows.starts[1]) if len(rows) > 1 else rows.size
        return FileStart(data[at + after :], at + after, line + rows.lines_before(after), header_names(cells), at_end=at_end)


def header_names(cells: Sequence[str]) -> list[str]:
    """The names in a header. A column without a name is named by its number or, if another column has this name, `unnamed_<number>`."""
    names = [name or str(number) for number, name in enumerate(cells)]
    return [
        f"unnamed_{number}" if not cell and name in cells else name for number, (cell, name) in enumerate(zip(cells, names, strict=True))
    ]


def dialect_of(delimiter: str, quote: str, nulls: Sequence[str], *, of: str) -> Dialect:
    """The dialect with these characters. Raises BadSpec for unusable characters. `of` is the source's name in messages, such as
    `source.csv`."""
    for option, character in (("delimiter", delimiter), ("quote", quote)):
        if ord(character) > 0x7F or character in "\r\n\0":
            raise BadSpec(f"{of}.{option} must be one ASCII character, got {character!r}.")
    if delimiter == quote:
        raise BadSpec(f"{of}.delimiter and quote are both {quote!r}.")
    return Dialect(delimiter, quote, tuple(nulls))


def selected_names(columns: Sequence[CsvColumn], references: Sequence[str] | None, *, of: str) -> list[str] | None:
    """The names of the columns that a source selects, or None for all columns. Raises BadSpec for a missing or duplicate column."""
    # If no file has a row, there are no columns to select from.
    if references is None or not columns:
        return None
    names = find_columns(references, pa.schema([(column.name, pa.null()) for column in columns]), of=f"{of}.select")
    check_names(names, f"{of}.select")
    return names


@dataclass(frozen=True)
class InferredColumns:
    """The columns inferred from the first rows of a file."""

    columns: list[CsvColumn]
    misfits: dict[str, str]
    """A message for each column in which some cells don't have the column's type. The message gives the number of these cells, and an
    example."""
    seems_headed: bool = False
    """Whether all cells that are not of their column's type are in the first row, which might then be a header."""
    texts: dict[str, str] = field(default_factory=dict)
    """For each text column, the reason why it isn't numeric (see `TEXT`)."""

    def warnings(self, select: Sequence[str] | None, *, of: str) -> list[str]:
        """Warnings for the user about the selected columns."""
        advice = f"set {of}.header: true if the first line is a header" if self.seems_headed else f"give {of}.columns if the column is text"
        return [f"{misfit}; {advice}" for name, misfit in self.misfits.items() if select is None or name in select]


def infer_columns(start: FileStart, dialect: Dialect, *, rule: int, uri: str, of: str) -> InferredColumns | None:
    """Infers the names and types of the columns from the first rows. `rule` is the version of the inference rule.

    Returns None if there is neither a header nor a row. Raises BadSpec, which names the file, if the types can't be determined.
    """
    sample = start.data[:INFERRED_BYTES]
    rows = dialect.rows(sample, at_end=start.at_end and len(sample) == len(start.data))
    if not len(rows):
        rows = dialect.rows(start.data, at_end=start.at_end)
    if start.names is not None:
        names = start.names
    elif len(rows):
        names = [str(number) for number in range(len(dialect.cells(start.data[int(rows.starts[0]) : int(rows.stops[0])])))]
    else:
        return None
    check_names(names, uri)
    for number, name in enumerate(names):
        if len(name) > _LONGEST_NAME:
            raise BadSpec(
                f"{uri}: the header's name for column {number} has {len(name):,} characters, but column names have 1 to {_LONGEST_NAME}. "
                f"Check {of}.delimiter. If it is right, list the columns in {of}.columns.",
                uri=uri,
            )
    if not len(rows):
        return InferredColumns([CsvColumn(name=name, type="String") for name in names], {})
    try:
        # Rows that aren't UTF-8 become bad records later, but must not affect the inferred types of the columns.
        text = start.data[: rows.size].decode("utf-8", "replace").encode()
        kinds = kinds_of(text, names, dialect, rule=rule)
    except pa.ArrowInvalid as exc:
        raise BadSpec(f"{uri}: the columns' types can't be determined ({exc}); give {of}.columns.") from exc
    columns = [CsvColumn.model_validate({"name": name, "type": kind.type}) for name, kind in zip(names, kinds, strict=True)]
    misfits = {
        name: f"{uri}: among {kind.cells:,} cells of the column {name!r} in the first rows, {kind.misfits}"
        for name, kind in zip(names, kinds, strict=True)
        if kind.misfits
    }
    firsts = dialect.cells(start.data[int(rows.starts[0]) : int(rows.stops[0])]) if start.names is None else []
    seems_headed = all(kind.others == 1 and [kind.other] == firsts[place : place + 1] for place, kind in enumerate(kinds) if kind.misfits)
    texts = {
        name: f"In the first rows of {uri} {kind.others:,} of {kind.cells:,} cells of the column {name!r} are not numbers; the first of these cells is in line "
        f"{start.line + rows.lines_before(int(rows.starts[kind.row]))}, {shown(kind.other)}, so the column is text. If such cells are bad or "
        f"missing values, give the column a numeric type in {of}.columns and set onBadRecord.policy: Skip, or name the words for missing values in {of}.nullWords."
        for name, kind in zip(names, kinds, strict=True)
        if kind.type == "String" and kind.others
    }
    return InferredColumns(columns, misfits, seems_headed, texts)
