"""Parses the defaults of columns, which replace nulls. Defaults of single values and lists are parsed in `columns.py`; defaults of nested
values are JSON."""

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from dataprep_converter.core.errors import BadSpec, RoundedDefault
from dataprep_converter.formats.nested.nested_scalars import nested_scalar
from dataprep_converter.readers.columnar.columns import Column, default_of, digits, shown
from dataprep_converter.records.lossy import SAFE_DIGITS


def column_default(text: str, column: Column, *, of: str) -> Any:
    """A column's default as an Arrow scalar. Raises BadSpec for an invalid default."""
    if column.nested is not None:
        return nested_default(text, column.nested, column=column.name, of=of)
    return default_of(text, column.type, column=column.name, of=of, called=str(column.type))


def check_digits(defaults: Mapping[str, str] | None, columns: Sequence[Column], *, of: str) -> None:
    """Raises RoundedDefault if a decimal column's default would lose digits.

    Such a default would be rounded, because all decimals are converted to float64. Call this function only for a new data set, because data
    sets of earlier releases can contain rounded defaults.
    """
    for column in columns:
        text = (defaults or {}).get(column.name)
        if text is None or column.nested is not None or digits(column.was) == 0 or not _is_rounded(text):
            continue
        raise RoundedDefault(
            f"{of}: the default {shown(text)} of {column.name!r}, a column of {column.was}, would be rounded to {float(text)!r}; "
            f"write a number of at most {SAFE_DIGITS} digits."
        )


def _is_rounded(text: str) -> bool:
    """Whether float64 can't represent a number exactly. Returns False for text that isn't a number; `default_of` refuses such text."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    return number.is_finite() and Decimal(repr(float(number))) != number


def nested_default(text: str, kind: pa.DataType, *, column: str, of: str) -> Any:
    """Parses a default of nested values, which is written as JSON, into an Arrow scalar. Raises BadSpec for an invalid default."""
    try:
        return nested_scalar(text, kind)
    except ValueError as exc:
        raise BadSpec(f"{of}: the default {shown(text)} of {column!r} is not the JSON of {kind}: {exc}.") from exc
