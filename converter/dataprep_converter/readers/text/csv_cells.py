"""Parses CSV text into columns with Arrow.

If Arrow rejects a block of rows, regular expressions find most of the faulty rows, and halving the block repeatedly finds the others.
"""

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv as arrow_csv

from dataprep_api.spec import CsvColumn
from dataprep_converter.core.errors import BadSpec, InputChanged
from dataprep_converter.core.good_runs import good_runs
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.columnar.columns import TYPES, narrowed, shown
from dataprep_converter.readers.text.csv_rows import Rows, scan

_arrow_csv: Any = arrow_csv  # the type stubs lack the types of the options

# If Arrow rejects a row, Python's parser reads the row to find the reason. By default, Python's parser limits cells to 128 KiB.
csv.field_size_limit(sys.maxsize)

BLANKS: Final = " \t"
"""The characters that Arrow allows around a number."""
_HEXADECIMAL: Final = "^0[xX][0-9a-fA-F]{1,16}$"
DECIMAL: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$"
NUMBER: Final = f"{DECIMAL}|{_HEXADECIMAL}"
"""Matches decimal and hexadecimal numbers. Only whole numbers can be hexadecimal."""
TRUTH: Final = "^(true|True|TRUE|false|False|FALSE|0|1)$"
_PATTERNS: Final = {"Int64": f"^[+-]?[0-9]+$|{_HEXADECIMAL}", "Float32": DECIMAL, "Float64": DECIMAL, "Bool": TRUTH}


@dataclass(frozen=True)
class Dialect:
    """The syntax of cells in a CSV file."""

    delimiter: str
    quote: str
    nulls: tuple[str, ...] = ()
    """Words that mean the same as an empty cell, in any column."""
    missing: tuple[str, ...] = ()
    """Words that mean the same as an empty cell in numeric and Boolean columns, but are text in other columns.

    `missing` can't be combined with `nulls`, because Arrow accepts only one list of words for missing values.
    """
    by_column: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Additional words for missing values, for some columns. In a text column, such a word is a null rather than an empty string."""

    @property
    def literal(self) -> "Dialect":
        """The same syntax without words for missing values."""
        return replace(self, nulls=(), missing=(), by_column={})

    def words(self, column: str) -> list[str]:
        """The cells that are missing values in a numeric or Boolean column."""
        return ["", *self.nulls, *self.missing, *self.by_column.get(column, ())]

    def rows(self, data: bytes, *, at_end: bool = True) -> Rows:
        """The complete rows of `data`, which must begin at the start of a row."""
        return scan(data, delimiter=self.delimiter, quote=self.quote, at_end=at_end)

    def cells(self, row: bytes) -> list[str]:
        """The cells of one row as text."""
        text = row.decode("utf-8", "replace")
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter, quotechar=self.quote, strict=False), [])


def parse_rows(
    data: bytes,
    names: Sequence[str],
    types: Mapping[str, pa.DataType],
    dialect: Dialect,
    *,
    skipped: list[tuple[int, int]],
    only: Sequence[str] | None = None,
) -> pa.Table:
    """Parses complete rows with Arrow. If `only` is given, parses only these columns. Rows with a wrong number of cells are skipped. For
    each skipped row, a pair (row number, number of cells) is appended to `skipped`."""
    every_word = {word for name, words in dialect.by_column.items() if types.get(name) != pa.string() for word in words}
    table = _parse(data, names, types, dialect, words=["", *dialect.nulls, *dialect.missing, *every_word], skipped=skipped, only=only)
    # Arrow takes one list of words for all columns. So a cell of one numeric column may have become a null because of another column's
    # word. Parse these numeric columns again, with only their own words.
    doubtful: dict[tuple[str, ...], list[str]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True) if every_word else ():
        if column.null_count and not pa.types.is_string(column.type) and not every_word <= set(words := dialect.words(name)):
            doubtful.setdefault(tuple(words), []).append(name)
    for own_words, group in doubtful.items():
        part = _parse(data, names, types, dialect, words=own_words, skipped=[], only=group)
        for name in group:
            table = table.set_column(table.schema.get_field_index(name), name, part.column(name))
    return table


def _parse(
    data: bytes,
    names: Sequence[str],
    types: Mapping[str, pa.DataType],
    dialect: Dialect,
    *,
    words: Sequence[str],
    skipped: list[tuple[int, int]],
    only: Sequence[str] | None,
) -> pa.Table:
    """Parses complete rows with Arrow. In numeric and Boolean columns, each of `words` is a null."""

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
            # Set the handler only for UTF-8, because Arrow passes the skipped row to the handler as text. For a row that isn't UTF-8, Arrow
            # would print a traceback.
            invalid_row_handler=skip if _is_utf8(data) else None,
        ),
        convert_options=_arrow_csv.ConvertOptions(
            column_types=dict(types),
            null_values=list(words),
            strings_can_be_null=bool(dialect.nulls) and not dialect.by_column,
            include_columns=list(only or []),
        ),
    )
    return table


class Parser:
    """Parses blocks of text into records that have the source's columns."""

    def __init__(
        self, columns: Sequence[CsvColumn], dialect: Dialect, *, select: Sequence[str] | None = None, of: str, keep_nulls: bool = False
    ) -> None:
        """`select` names the columns to return, in this order; None means all.

        `of` is the source's name in messages, such as `source.csv`. `keep_nulls` applies to empty cells in columns that have no default and
        aren't text. If it is set, such a cell is a null; otherwise, the cell's row is bad.
        """
        self._source_name = of
        self._keep_nulls = keep_nulls
        self._select = None if select is None else list(select)
        by_name = {column.name: column for column in columns}
        self._columns = list(columns) if select is None else [by_name[name] for name in select]
        self._dialect = dialect
        self._names = [column.name for column in columns]
        # Read a Float32 as Float64 first, because Arrow rejects numbers that are too small for a float32 instead of rounding them to zero.
        self._types = {c.name: pa.float64() if c.type == "Float32" else TYPES[c.type] for c in columns}
        self._defaults = {column.name: self._default(column) for column in columns if column.default is not None}
        self.schema: pa.Schema = pa.schema([(column.name, TYPES[column.type]) for column in self._columns])

    def parse(self, data: bytes, *, records: int, line: int, uri: str) -> Block:
        """Parses the rows of a block that begins on line `line`. Raises InputChanged if the number of rows differs from the plan."""
        skipped: list[tuple[int, int]] = []
        rejections: dict[int, str] = {}
        try:
            table = parse_rows(data, self._names, self._types, self._dialect, skipped=skipped, only=self._select)
        except pa.ArrowInvalid:
            skipped.clear()
            rejections = self._misfits(data)
            table = self._parse_good_rows(data, skipped, rejections)
        if table.num_rows + len(skipped) + len(rejections) != records:
            raise InputChanged(f"{uri}: {records:,} rows were planned from line {line} on, got {table.num_rows + len(skipped):,}.", uri=uri)
        missing = {row: f"expect {len(self._names)} fields but have {cells}" for row, cells in skipped} | rejections
        numbers = np.setdiff1d(np.arange(records), list(missing), assume_unique=True) if missing else np.arange(records)
        columns, misfits = self._final_columns(table)
        reasons = missing | {int(numbers[place]): reason for place, reason in misfits.items()} | self._too_large(table, numbers, data)
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Block.of(batch, self._with_lines(reasons, data, line) if reasons else {}, missing=missing)

    def _misfits(self, data: bytes) -> dict[int, str]:
        """Finds rows with an invalid cell, and the reason for each.

        Looks only for faults that can occur in thousands of rows: regular expressions find these rows in one pass, and Arrow then checks
        each distinct string once. To find the remaining faulty rows, such as rows with numbers that are too large, the caller halves the
        block repeatedly.
        """
        typed = [column for column in self._columns if column.type in _PATTERNS]
        skipped: list[tuple[int, int]] = []
        try:
            names = [column.name for column in typed]
            as_text = dict.fromkeys(names, pa.string())
            table = parse_rows(data, self._names, as_text, self._dialect.literal, skipped=skipped, only=names) if typed else None
        except pa.ArrowInvalid:
            table = None
        if table is None:
            return {}
        numbers = np.setdiff1d(np.arange(table.num_rows + len(skipped)), [row for row, _ in skipped], assume_unique=True)
        misfits: dict[int, str] = {}
        for column in typed:
            words: Any = pa.array(self._dialect.words(column.name))
            cells: Any = _as_array(table.column(column.name))
            fits = pc.match_substring_regex(pc.utf8_trim(cells, BLANKS), _PATTERNS[column.type])
            places = np.flatnonzero(pc.invert(pc.or_(fits, pc.is_in(cells, value_set=words))).to_numpy(zero_copy_only=False))
            doubtful = cells.take(pa.array(places)).dictionary_encode()
            reasons = [None if self._is_value(text, column) else _type_mismatch(text, column) for text in doubtful.dictionary.to_pylist()]
            for number, word in zip(numbers[places].tolist(), doubtful.indices.to_pylist(), strict=True):
                if (reason := reasons[word]) is not None:
                    misfits.setdefault(number, reason)
        return misfits

    def _is_value(self, text: str, column: CsvColumn) -> bool:
        """Whether Arrow accepts a cell as a value of the column."""
        quote = self._dialect.quote
        cell = f"{quote}{text.replace(quote, quote * 2)}{quote}".encode()
        try:
            parse_rows(cell, [column.name], {column.name: self._types[column.name]}, self._dialect, skipped=[])
        except pa.ArrowInvalid:
            return False
        return True

    def _parse_good_rows(self, data: bytes, skipped: list[tuple[int, int]], rejections: dict[int, str]) -> pa.Table:
        """The good rows of a block that has faulty rows. Leaves out the rows in `rejections`. If Arrow rejects any other rows, adds them to
        `rejections`."""
        rows = self._dialect.rows(data)
        row_numbers = np.setdiff1d(np.arange(len(rows)), list(rejections), assume_unique=True)
        if rejections:
            borders = [0, *rows.starts[1:].tolist(), len(data)]
            ends = np.append(np.flatnonzero(np.diff(row_numbers) > 1) + 1, len(row_numbers)).tolist()
            runs = [(row_numbers[begin], row_numbers[end - 1] + 1) for begin, end in zip([0, *ends], ends, strict=False) if begin < end]
            data = b"".join(data[borders[low] : borders[high]] for low, high in runs)
            rows = self._dialect.rows(data)

        def read(low: int, high: int) -> pa.Table:
            left_out: list[tuple[int, int]] = []
            part = data[int(rows.starts[low]) : int(rows.stops[high - 1])]
            table = parse_rows(part, self._names, self._types, self._dialect, skipped=left_out, only=self._select)
            skipped.extend((int(row_numbers[low + row]), cells) for row, cells in left_out)
            return table

        def refuse(row: int, error: pa.ArrowInvalid) -> None:
            rejections[int(row_numbers[row])] = self._fault(data[int(rows.starts[row]) : int(rows.stops[row])], error)

        tables = list(good_runs(0, len(rows), read=read, refuse=refuse))
        return pa.concat_tables(tables) if tables else pa.schema([(c.name, self._types[c.name]) for c in self._columns]).empty_table()

    def _fault(self, row: bytes, error: pa.ArrowInvalid) -> str:
        """The reason why Arrow rejects a row."""
        cells = self._dialect.cells(row)
        if len(cells) != len(self._names):
            return f"expect {len(self._names)} fields but have {len(cells)}"
        for column in self._columns:
            try:
                parse_rows(row, self._names, self._types, self._dialect, skipped=[], only=[column.name])
            except pa.ArrowInvalid:
                if column.type == "String":
                    return f"column {column.name!r} is not UTF-8"
                number = self._names.index(column.name)
                return _type_mismatch(cells[number] if number < len(cells) else "", column)
        return f"not a row: {error}"

    def _final_columns(self, table: pa.Table) -> tuple[list[Array], dict[int, str]]:
        """Returns the columns in their final types, with defaults filled in, and a dict that maps the position of each bad row to the
        reason."""
        columns: list[Array] = []
        wrong: dict[int, str] = {}
        for column in self._columns:
            values: Array = _as_array(table.column(column.name))
            if column.type == "String":
                values, empty = self._final_texts(column, values)
                wrong = empty | wrong
                columns.append(values)
                continue
            if values.null_count and column.name in self._defaults:
                values = pc.fill_null(values, self._defaults[column.name])
            elif values.null_count and not self._keep_nulls:
                wrong = self._empty_cells(column, values.is_null()) | wrong
            if column.type == "Float32":
                values, too_large = narrowed(values)
                wrong = {place: f"{value!r} is not a Float32 (column {column.name!r})" for place, value in too_large.items()} | wrong
            columns.append(values)
        return columns, wrong

    def _final_texts(self, column: CsvColumn, values: Any) -> tuple[Array, dict[int, str]]:
        """Returns a text column with defaults and nulls filled in, and the reason for each row that lacks a value."""
        if values.null_count:
            values = pc.fill_null(values, "")
        if self._dialect.by_column and self._dialect.nulls:
            # If some columns have their own null words, Arrow hasn't applied the words in `nulls`. So apply them to this column here.
            values = pc.if_else(pc.is_in(values, value_set=_texts(self._dialect.nulls)), "", values)
        own_words = self._dialect.by_column.get(column.name, ())
        missing = pc.is_in(values, value_set=_texts(own_words)) if own_words else None
        is_empty = pc.equal(values, "") if missing is None else pc.or_(pc.equal(values, ""), missing)
        if column.default:
            return pc.if_else(is_empty, column.default, values), {}
        if column.required:
            return values, self._empty_cells(column, is_empty)
        if missing is None:
            return values, {}
        if not self._keep_nulls:
            return values, self._empty_cells(column, missing)
        return pc.if_else(missing, pa.scalar(None, pa.string()), values), {}

    def _too_large(self, table: pa.Table, numbers: npt.NDArray[np.int64], data: bytes) -> dict[int, str]:
        """The rows that have a number beyond the largest float64, and the reasons. Arrow reads both the word `inf` and numbers that are too
        large as infinity, so this method looks for digits in the text."""
        misfits: dict[int, str] = {}
        for column in self._columns:
            values: Any = table.column(column.name)
            if not pa.types.is_floating(values.type) or not pc.any(pc.is_inf(values)).as_py():
                continue
            rows = self._dialect.rows(data)
            place = self._names.index(column.name)
            for number in numbers[np.isinf(values.to_numpy())].tolist():
                cell = self._dialect.cells(data[int(rows.starts[number]) : int(rows.stops[number])])[place]
                if _has_digits(cell):
                    misfits.setdefault(number, _type_mismatch(cell, column))
        return misfits

    def _empty_cells(self, column: CsvColumn, is_empty: Array) -> dict[int, str]:
        given = [word for word in (*self._dialect.nulls, *self._dialect.by_column.get(column.name, ())) if word]
        words = f" or one of {', '.join(given)}" if given else ""
        if self._dialect.missing and column.type != "String" and not given:
            words = f" or a word such as {self._dialect.missing[0]},"
        places = np.flatnonzero(is_empty.to_numpy(zero_copy_only=False)).tolist()
        return dict.fromkeys(places, f"column {column.name!r} is empty{words} and has no default")

    def _default(self, column: CsvColumn) -> Any:
        quoted = self._dialect.quote + (column.default or "").replace(self._dialect.quote, self._dialect.quote * 2) + self._dialect.quote
        try:
            types = {column.name: self._types[column.name]}
            value = parse_rows(quoted.encode(), [column.name], types, self._dialect.literal, skipped=[])[0][0]
        except pa.ArrowInvalid:
            value = None
        if value is None or not value.is_valid or (pa.types.is_floating(value.type) and self._is_infinite(value.as_py(), column)):
            raise BadSpec(
                f"{self._source_name}.columns: the default {shown(column.default or '')} of {column.name!r} "
                f"is not {'an' if column.type[0] in 'AEIOU' else 'a'} {column.type}."
            )
        return value

    def _is_infinite(self, value: float, column: CsvColumn) -> bool:
        """Whether a column's default, although written in digits, becomes infinite in the column's type."""
        with np.errstate(over="ignore"):
            number = np.float32(value) if column.type == "Float32" else value
        return bool(np.isinf(number)) and _has_digits(column.default or "")

    def _with_lines(self, reasons: Mapping[int, str], data: bytes, line: int) -> dict[int, str]:
        rows = self._dialect.rows(data)
        return {row: f"line {line + rows.lines_before(int(rows.starts[row]))}: {reason}" for row, reason in reasons.items()}


def _type_mismatch(text: str, column: CsvColumn) -> str:
    return f"{shown(text)} is not a {column.type} (column {column.name!r})"


def _has_digits(text: str) -> bool:
    """Whether a number is written with digits, rather than as a word such as `inf`."""
    return any(sign.isdigit() for sign in text)


def _is_utf8(data: bytes) -> bool:
    """Whether `data` is UTF-8. Uses Arrow, which checks the data in place; decoding in Python would make a copy."""
    if data.isascii():
        return True
    ends = pa.py_buffer(np.array([0, len(data)], np.int64).tobytes())
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(data)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _texts(words: Sequence[str]) -> Any:
    return pa.array(words, pa.string())


def _as_array(column: Any) -> Array:
    """A table's column as one array. Copies the column only if it has several chunks."""
    if column.num_chunks == 1:
        one: Array = column.chunk(0)
        return one
    combined: Array = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
