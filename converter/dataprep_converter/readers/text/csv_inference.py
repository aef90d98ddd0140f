"""Infers the column types of CSV text from its first rows.

Cells that contain a word for a missing value are ignored. The inferred type of a column is the type of at least 95% of its other cells.
Rows in which a cell is not of the inferred type become bad records later. The version of this rule is `inference` in `run_id.PARTS`. In
version 1, even a single cell of another type turned a column into text. If a data set was planned with version 1, extending or replanning
it also uses version 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.tensors import pc
from dataprep_converter.readers.columnar.columns import shown
from dataprep_converter.readers.text.csv_cells import BLANKS, DECIMAL, NUMBER, TRUTH, Dialect, parse_rows
from dataprep_converter.records.digits import keeps_all_digits

MISSING: Final = (
    "NA", "N/A", "n/a", "na", "NULL", "Null", "null", "None", "none", "#N/A", "#N/A N/A", "#NA", "<NA>", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN",
)  # fmt: skip
"""The words for a missing value if the spec doesn't name any. `nan` is not a word for a missing value, because `nan` is a number."""

_PLAIN: Final = Dialect(",", '"')
_FITTING: Final = 0.95


@dataclass(frozen=True)
class Kind:
    """The inferred type of a column, and the cells that are not of this type."""

    type: str
    cells: int = 0
    """The number of filled cells that were examined. Set only if some filled cells are not of the inferred type."""
    others: int = 0
    """The number of filled cells that are not of the inferred type. For text, the number of filled cells that aren't numbers."""
    other: str = ""
    """The text of the first cell that is not of the inferred type."""
    row: int = 0
    """The row of the first cell that is not of the inferred type."""

    @property
    def misfits(self) -> str:
        """The part of a message that says how many cells are not of the type. Empty if there are no such cells, or if the type is
        String."""
        if not self.others or self.type == "String":
            return ""
        return f"{self.others:,} {'is' if self.others == 1 else 'are'} not a {self.type}, such as {shown(self.other)}"


def with_missing(dialect: Dialect, *, rule: int) -> Dialect:
    """The dialect of files whose columns are inferred. Unless the spec names words for missing values, the dialect includes the words in
    `MISSING`."""
    return dialect if rule == 1 or dialect.nulls else replace(dialect, missing=MISSING)


def kinds_of(text: bytes, names: Sequence[str], dialect: Dialect, *, rule: int) -> list[Kind]:
    """Infers the column types of UTF-8 text. Whole numbers are Int64, other numbers Float32 or Float64, `true` and `false` Bool, and
    everything else String. Raises ArrowInvalid."""
    skipped: list[tuple[int, int]] = []
    table = parse_rows(text, names, {}, dialect, skipped=skipped)
    types = table.schema.types
    if rule == 1:
        return [Kind(_type_of_all(kind)) for kind in types]
    unclear = [name for name, kind in zip(names, types, strict=True) if pa.types.is_floating(kind) or _is_text(kind)]
    cells: Any = None
    if unclear:
        as_text = dict.fromkeys(names, pa.string())
        cells = parse_rows(text, names, as_text, dialect.literal, skipped=[], only=unclear)
    rows = np.setdiff1d(np.arange(table.num_rows + len(skipped)), [row for row, _ in skipped])
    kinds = []
    for name, kind in zip(names, types, strict=True):
        if pa.types.is_floating(kind):
            values = table.column(name)
            kinds.append(Kind(_type_of_floats(cells.column(name).filter(values.is_valid()), values.drop_null())))
        elif _is_text(kind):
            text_kind = _kind_of_cells(cells.column(name).combine_chunks(), dialect.words(name))
            kinds.append(replace(text_kind, row=int(rows[text_kind.row])) if text_kind.others else text_kind)
        else:
            kinds.append(Kind(_type_of_all(kind)))
    return kinds


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_temporal(kind)


def _type_of_floats(cells: Any, values: Any) -> str:
    return "Float32" if keeps_all_digits(cells, values) else "Float64"


def _type_of_all(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "Int64"
    if pa.types.is_floating(kind):
        return "Float32"
    return "Bool" if pa.types.is_boolean(kind) else "String"


def _kind_of_cells(cells: Any, missing: Sequence[str]) -> Kind:
    """The type that most cells of a column have. Called only for columns in which Arrow found no common type."""
    words: Any = pa.array(missing, pa.string())
    filled = cells.filter(pc.invert(pc.is_in(cells, value_set=words)))
    trimmed = pc.utf8_trim(filled, BLANKS)
    are_numbers: Any = None
    for pattern in (NUMBER, DECIMAL, TRUTH):
        fits = pc.match_substring_regex(trimmed, pattern)
        are_numbers = fits if are_numbers is None else are_numbers
        count = pc.sum(fits).as_py() or 0
        if not count or count < _FITTING * len(filled):
            continue
        fitting = trimmed.filter(fits)
        values = parse_rows("\n".join(fitting.to_pylist()).encode(), ["cell"], {}, _PLAIN, skipped=[]).column(0)
        kind = _type_of_all(values.type)
        if kind == "Float32":
            kind = _type_of_floats(fitting, values)
        if kind != "String":
            return _kind_with_misfits(kind, filled, fits, words=words, cells=cells)
    return _kind_with_misfits("String", filled, are_numbers, words=words, cells=cells)


def _kind_with_misfits(kind: str, filled: Any, fits: Any, *, words: Any, cells: Any) -> Kind:
    """The type `kind`, the number of filled cells for which `fits` is false, and the first such cell."""
    others = np.flatnonzero(~fits.to_numpy(zero_copy_only=False))
    if not len(others):
        return Kind(kind)
    first = int(others[0])
    row = int(np.flatnonzero(~pc.is_in(cells, value_set=words).to_numpy(zero_copy_only=False))[first])
    return Kind(kind, cells=len(filled), others=len(others), other=filled[first].as_py(), row=row)
