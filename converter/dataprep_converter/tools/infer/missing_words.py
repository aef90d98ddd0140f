"""Finds the words for missing values in the columns of a CSV file, such as `NA` and `?`.

Whether such a word means a missing value depends on the column. In a column of numbers, such a word always means a missing value. In a
column of text, the word can be a value: `none` can be an answer, `NA` is Namibia's code in a column of country codes, and `-` is a sign in
a column that also contains `+`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.errors import BadSample
from dataprep_converter.core.tensors import pc
from dataprep_converter.readers.text.csv_cells import Dialect, parse_rows
from dataprep_converter.readers.text.csv_inference import MISSING, kinds_of, with_missing
from dataprep_converter.readers.text.csv_starts import INFERRED_BYTES, Preamble

MOST_WORDS: Final = 16
"""Maximum number of words for a column in `source.csv.nullWordsOf`."""
MOST_COLUMNS: Final = 1024
"""Maximum number of columns in `source.csv.nullWordsOf`."""
_LONGEST: Final = 64
_AMONG_NUMBERS: Final = frozenset(
    (*(word.lower() for word in MISSING), "nan", "nil", "missing", "unknown", "-", "--", "?", ".", "*", "\\n")
)
"""Words, in lower case, that mean a missing value in a numeric or boolean column."""
_AMONG_TEXTS: Final = frozenset(("NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "NaN", "nan", "\\N"))
_SIGNS: Final = frozenset(("-", "--", "?"))
_CODE: Final = re.compile(r"[A-Z]{2}")
_SHOWN_COLUMNS: Final = 20


def missing_words(text: bytes, *, delimiter: str, skip_lines: int, header: bool) -> dict[str, list[str]]:
    """Returns the words for missing values in each column that has such words.

    For columns of text, the words can include the empty string, which means an empty cell. In other columns, an empty cell always means a
    missing value, so the empty string isn't needed. `text` is the beginning of a file as UTF-8, and ends with a complete row. If `text`
    isn't CSV, returns no words.
    """
    dialect = Dialect(delimiter, '"')
    try:
        start = Preamble(dialect, skip_lines, header).strip_from(text, at_end=True)
        if start is None or not start.data.strip():
            return {}
        first = start.data[: int(dialect.rows(start.data).stops[0])]
        names = start.names or [str(number) for number in range(len(dialect.cells(first)))]
        cells = _distinct_cells(start.data, names, dialect)
        found = {name: [word for word in each if _is_candidate(word)] for name, each in cells.items()}
        sample = start.data[:INFERRED_BYTES]
        sample = sample[: dialect.rows(sample, at_end=len(sample) == len(start.data)).size] or start.data
        by_column = {name: tuple(words) for name, words in found.items()}
        kinds = kinds_of(sample, names, with_missing(Dialect(delimiter, '"', by_column=by_column), rule=2), rule=2)
    except (BadSample, pa.ArrowInvalid, IndexError):
        return {}
    words = {
        name: _among_texts(cells[name]) if kind.type == "String" else [word for word in found[name] if word]
        for name, kind in zip(names, kinds, strict=True)
    }
    filled = {name: sorted(each)[:MOST_WORDS] for name, each in words.items() if each and len(name) <= 256}
    if len(filled) > MOST_COLUMNS:
        # In columns of numbers, the planner itself treats the words in MISSING as missing values.
        texts = {name for name, kind in zip(names, kinds, strict=True) if kind.type == "String"}
        filled = {name: each for name, each in filled.items() if name in texts or not set(each) <= set(MISSING)}
    return dict(list(filled.items())[:MOST_COLUMNS])


def notes_on(words: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yields a note that lists the columns with missing values, each with its words for them."""
    shown = [f"{name} ({' and '.join(map(_shown, each))})" for name, each in words.items()]
    if shown:
        more = f" and {len(shown) - _SHOWN_COLUMNS} more columns" if len(shown) > _SHOWN_COLUMNS else ""
        more += " (nullWordsOf takes no more columns, so look for words in the other columns)" if len(shown) == MOST_COLUMNS else ""
        yield f"missing values: {', '.join(shown[:_SHOWN_COLUMNS])}{more}; remove words that are values from source.csv.nullWordsOf"


def _shown(word: str) -> str:
    return word if word.strip() else repr(word) if word else "empty"


def _distinct_cells(data: bytes, names: Sequence[str], dialect: Dialect) -> dict[str, list[str]]:
    table: Any = parse_rows(data, names, dict.fromkeys(names, pa.string()), dialect, skipped=[])
    return {name: pc.unique(column).to_pylist() for name, column in zip(names, table.columns, strict=True)}


def _is_candidate(cell: str) -> bool:
    """Whether a cell can be a missing value. In a column of numbers, a cell with only spaces is a missing value."""
    return len(cell) <= _LONGEST and (cell.strip() == "" or cell.strip().lower() in _AMONG_NUMBERS)


def _among_texts(cells: Sequence[str]) -> list[str]:
    """Returns the words for missing values in a text column with these distinct cells."""
    values = [cell.strip() for cell in cells if cell.strip() not in _AMONG_TEXTS | _SIGNS | {""}]
    are_codes = bool(values) and all(map(_CODE.fullmatch, values))
    are_signs = not any(sign.isalnum() for value in values for sign in value)
    return [
        cell
        for cell in cells
        if (cell == "" and values)
        or (cell.strip() in _AMONG_TEXTS and not (are_codes and cell.strip() == "NA"))
        or (cell.strip() in _SIGNS and not are_signs)
    ]
