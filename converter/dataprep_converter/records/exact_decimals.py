"""Restores the digits that decimals lost when they were read as float64, so that `deduplicate` and `filter` compare all digits.

For each batch, a reader reports the decimals that lost digits (`Batch.lost`). This module puts the text of these decimals into columns next
to the numbers, so that transforms can look up a decimal's exact value. If a decimal lost no digits, its exact value is the shortest decimal
number that converts to its float64.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.tensors import Array, to_numpy
from dataprep_converter.records.batch import SAMPLE, Batch, LostDigits
from dataprep_converter.records.columns import are_numbers

EXACT: Final = "exact"
"""Key in the metadata of a column of decimals whose digits are all compared. The value is the name of the reader's column."""

_DIGITS: Final = "\0digits "


def digits_name(column: str) -> str:
    """Returns the name of the column that holds, as text, the decimals of `column` that lost digits."""
    return f"{_DIGITS}{column}"


def exact_source(field: "pa.Field[Any]") -> str | None:
    """Returns the name of the reader's column from which the field's decimals come.

    Returns None if some digits of the field's decimals are unknown, or if a transform has changed the decimals.
    """
    name = (field.metadata or {}).get(EXACT.encode())
    return None if name is None or field.type != pa.float64() or are_numbers(field) else name.decode()


def with_digits(batch: Batch, columns: Mapping[str, str]) -> pa.RecordBatch:
    """Returns the records with an additional text column for each column in `columns` in which decimals lost digits.

    `columns` maps the names of the records' columns to the names of the reader's columns.
    """
    records = batch.records
    by_column = {lost.column: lost for lost in batch.lost}
    for name, source in columns.items():
        if source in by_column:
            records = records.append_column(pa.field(digits_name(name), pa.string()), texts_of_rows(by_column[source], batch))
    return records


def texts_of_rows(lost: LostDigits, batch: Batch) -> Array:
    """Returns the text of each decimal that lost digits, and null for every other row of the batch."""
    samples = to_numpy(batch.records.column(SAMPLE))
    order = np.argsort(lost.samples)
    places = np.minimum(np.searchsorted(lost.samples[order], samples), len(order) - 1)
    found = order[places]
    indexes: Any = pa.array(found, mask=lost.samples[found] != samples)
    return pa.array(lost.texts, pa.string()).take(indexes)


def plain_texts(texts: Sequence[str | None]) -> list[str | None]:
    """Returns decimals as text without exponents and without zeros at the end of a fraction, so that equal numbers have equal texts."""
    return [None if text is None else _plain(text) for text in texts]


def _plain(text: str) -> str:
    plain = f"{Decimal(text):f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
