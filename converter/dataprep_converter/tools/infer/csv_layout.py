"""Detects the layout of a CSV file from its first rows: the delimiter, the lines above the rows, and whether there is a header.

The cells of a header are distinct and usually not numbers. The cells below the header matter too: one column with a name above numbers is
enough to prove a header. Headers written by pandas' `to_csv()` and R's `write.csv` begin with an empty cell above the row names.
"""

import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from dataprep_converter.readers.text.csv_cells import NUMBER
from dataprep_converter.readers.text.csv_inference import MISSING
from dataprep_converter.readers.text.csv_starts import header_names

_DELIMITERS: Final = ",\t;|"
_SAMPLE_ROWS: Final = 200
_MOST_LINES_ABOVE: Final = 20
_FITTING: Final = 0.8
_YEARS: Final = range(1500, 2200)
_NUMBER: Final = re.compile(NUMBER)
_WITH_COMMA: Final = re.compile(r"[+-]?\d+,\d+")
_EMPTY: Final = frozenset(("", *MISSING))


@dataclass(frozen=True)
class CsvLayout:
    """The layout of a CSV file."""

    delimiter: str
    rows: Sequence[Sequence[str]]
    """The first rows that have the most common number of cells. If no delimiter fits, each row has a single cell."""
    lines_above: int = 0
    """The number of lines before the first of these rows."""
    above: Sequence[str] = field(default=())
    """The cells of the last line before these rows, if there are such lines."""

    @property
    def columns(self) -> int:
        """The number of columns."""
        return len(self.rows[0]) if self.rows else 0

    @property
    def header(self) -> bool:
        """Whether the first row is a header."""
        return self._is_named and not self.short_header

    @cached_property
    def _is_named(self) -> bool:
        """Whether the first row looks like column names.

        Column names are distinct. Names that are numbers must count up, as years do. A name above numbers proves a header. If no name is
        above numbers, two conditions must hold. No name may occur again in its own column. In a column without a name, the cells below must
        be all filled, as in an index, or all empty.
        """
        if not self.rows or not self._names:
            return False
        if len(set(self._names)) < len(self._names) or (any(map(_is_amount, self._names)) and not self._counts_up):
            return False
        if self.rows[1:] and self._is_above_numbers:
            return True
        words = [at for at, name in enumerate(self.rows[0]) if name.strip() and not is_number(name)]
        repeats = any(self.rows[0][at] in {row[at] for row in self.rows[1:]} for at in words)
        return not repeats and all(name.strip() or self._may_be_unnamed(at) for at, name in enumerate(self.rows[0]))

    @property
    def short_header(self) -> list[str]:
        """All column names, if the line above the rows is a header without a name for the first column. Otherwise an empty list.

        R's `write.table` writes such lines. The first column then contains the row names.
        """
        names = list(self.above)
        # If the first row looks like a header itself, the line above it is a title.
        is_title = self._is_named and (self.columns < 3 or self._is_above_numbers)
        if (
            is_title
            or len(names) != self.columns - 1
            or len(set(names)) < len(names)
            or not all(name.strip() and not _is_amount(name) for name in names)
        ):
            return []
        return header_names(["", *names])

    @property
    def unnamed(self) -> list[int]:
        """The columns that have no name in the header."""
        return [at for at, name in enumerate(self.rows[0]) if not name.strip()] if self.header else []

    @property
    def first_is_foreign(self) -> bool:
        """Whether the first row has text in a column where all other rows have numbers, but wasn't recognised as a header."""
        return not self.header and len(self.rows) >= 3 and self._is_above_numbers

    @property
    def duplicate_name(self) -> str | None:
        """The first name that two columns share, if the first row would otherwise be a header. None if there is no such name."""
        duplicates = [name for name in self._names if self._names.count(name) > 1]
        return duplicates[0] if self.first_is_foreign and duplicates else None

    @property
    def commas_in_numbers(self) -> list[int]:
        """The columns whose numbers have a decimal comma instead of a decimal point, such as `1,5`."""
        rows = self.rows[1:] if self.header else self.rows
        cells = [[row[at] for row in rows if row[at] not in _EMPTY] for at in range(self.columns)]
        return [
            at for at, column in enumerate(cells) if any(_WITH_COMMA.fullmatch(cell) for cell in column) and all(map(_is_amount, column))
        ]

    @cached_property
    def _names(self) -> list[str]:
        return [cell for cell in self.rows[0] if cell.strip()] if self.rows else []

    @cached_property
    def _is_above_numbers(self) -> bool:
        """Whether the first row has text above a column of numbers."""
        for at, cell in enumerate(self.rows[0]):
            below = [row[at] for row in self.rows[1:] if row[at].strip() not in _EMPTY]
            if cell.strip() not in _EMPTY and not _is_amount(cell) and below and all(map(_is_amount, below)):
                return True
        return False

    @cached_property
    def _counts_up(self) -> bool:
        """Whether the numbers in the first row are generated column names (0, 1, 2, …) or years, and no row below repeats them."""
        first = _whole_numbers(self.rows[0])
        if first is None or any(_whole_numbers(row) == first for row in self.rows[1:]):
            return False
        is_from_zero = first == list(range(len(first)))
        if is_from_zero and not self.rows[0][0].strip() and len(first) == len(self.rows[0]) - 1:
            return self._may_be_unnamed(0)
        if len(first) == len(self.rows[0]):
            return is_from_zero and len(first) > 3
        steps = {after - before for before, after in itertools.pairwise(first)}
        return len(first) > 2 and len(steps) == 1 and 0 not in steps and (steps == {1} or all(year in _YEARS for year in first))

    def _may_be_unnamed(self, at: int) -> bool:
        empty = [not row[at].strip() for row in self.rows[1:]]
        return bool(empty) and (all(empty) or not any(empty))


def layout_of(text: bytes) -> CsvLayout:
    """Returns the layout with the delimiter that splits at least 80 % of the first rows into the same number of cells.

    If several delimiters qualify, delimiters that give all rows the same number of cells are preferred. Among the preferred delimiters, the
    one that gives the most cells is used. If no delimiter qualifies, the delimiter is a comma. The delimiter can be a space only if the
    cells are numbers, or if R wrote the table and quoted its text.
    """
    lines = text.decode("utf-8", "replace").removeprefix("\ufeff")
    candidates = [_split(lines, delimiter) for delimiter in _DELIMITERS]
    fitting = [(rank, layout) for rank, layout in candidates if rank is not None and layout.columns > 1]
    if fitting:
        return max(fitting, key=lambda each: each[0])[1]
    spaced_rank, spaced = _split(lines, " ")
    # R's `write.table` quotes text and column names.
    is_table = _holds_numbers(spaced.rows[1:]) or (lines.startswith('"') and spaced.short_header)
    if spaced_rank is not None and spaced.columns > 1 and len(spaced.rows) > 1 and is_table:
        return spaced
    return candidates[0][1]


def notes_on(layout: CsvLayout) -> Iterator[str]:
    """Yields notes for the user about a layout."""
    if layout.short_header:
        yield f"the header has no name for the first column, which is called {layout.short_header[0]!r}"
    elif layout.lines_above:
        lines = "line is" if layout.lines_above == 1 else f"{layout.lines_above} lines are"
        yield f"the first {lines} skipped, because the rows have a different number of cells: {','.join(layout.above)[:100]}"
    elif layout.duplicate_name is not None:
        yield (
            f"the first line has the name {layout.duplicate_name!r} twice, so it can't be the header and is skipped; "
            "source.csv.columns can name the columns"
        )
    elif layout.first_is_foreign:
        yield f"the first line is not a row like the others: {','.join(layout.rows[0])[:100]}"
    for at in layout.unnamed:
        yield f"the header has no name for column {at}, which is called {header_names(layout.rows[0])[at]!r}"
    for at in layout.commas_in_numbers:
        example = layout.rows[-1][at]
        yield f"column {at} has numbers with a comma ({example}), which are read as text"


def is_number(cell: str) -> bool:
    """Whether a cell is a number."""
    return _NUMBER.search(cell.strip()) is not None


def _is_amount(cell: str) -> bool:
    """Whether a cell is a number, with a decimal point or a decimal comma."""
    return is_number(cell) or _WITH_COMMA.fullmatch(cell.strip()) is not None


def _split(lines: str, delimiter: str) -> tuple[tuple[bool, bool, int] | None, CsvLayout]:
    """Returns (rank, layout) for this delimiter. The rank says how well the delimiter fits, and is None if it doesn't fit."""
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    ends: list[int] = []
    for row in reader:
        if row:
            rows.append(row)
            ends.append(reader.line_num)
        if len(rows) == _SAMPLE_ROWS:
            break
    sizes = [len(row) for row in rows]
    usual = max(set(sizes), key=sizes.count, default=0)
    first = sizes.index(usual) if rows else 0
    regular = [row for row in rows if len(row) == usual]
    above = rows[first - 1] if 0 < first <= _MOST_LINES_ABOVE else []
    layout = CsvLayout(delimiter, regular, ends[first - 1] if above else 0, above)
    if len(regular) < _FITTING * len(rows) and not (above and len(regular) >= _FITTING * (len(rows) - first)):
        return None, layout
    # In rows such as `1,5;2,5`, both characters split every row, but the comma is a decimal comma.
    is_decimal = delimiter == ";" and any("," in cell for row in regular for cell in row)
    is_decimal = is_decimal and all("," not in cell or _is_amount(cell) for row in regular[1:] for cell in row)
    return (len(regular) == len(rows), is_decimal, usual), layout


def _holds_numbers(rows: Sequence[Sequence[str]]) -> bool:
    return all(is_number(cell) for row in rows for cell in row)


def _whole_numbers(row: Sequence[str]) -> list[int] | None:
    """Returns the numbers in a row, or None if there are none or if some aren't unsigned integers."""
    numbers = [cell for cell in row if is_number(cell)]
    return [int(number) for number in numbers] if numbers and all(number.isascii() and number.isdigit() for number in numbers) else None
