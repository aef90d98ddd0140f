"""Decides which features keep the types of times and decimals, and adds columns of these types to batches of features.

A format that can hold times or decimals takes the values from the added columns (`records/kept_types.py`). All other code, such as the
statistics, uses the numbers.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dataprep_converter.core.tensors import Array
from dataprep_converter.records.batch import KEPT, WAS, Batch
from dataprep_converter.records.columns import are_numbers
from dataprep_converter.records.exact_decimals import texts_of_rows
from dataprep_converter.records.kept_types import as_kept, number_type
from dataprep_converter.records.lossy import SAFE_DIGITS, format_example
from dataprep_converter.records.schemas import parse_schema


def original(field: "pa.Field[Any]", key: str = WAS) -> "pa.Field[Any] | None":
    """For a reader's column of times or decimals, returns the column with its type in the input. For any other column, returns None.

    If `key` is KEPT, the type can hold the values of all files. If there is no such type, returns None.
    """
    metadata = field.metadata or {}
    written = metadata.get(key.encode(), metadata.get(WAS.encode()))
    return parse_schema(written.decode()).field(0) if written else None


def units_of_times(schema: pa.Schema) -> dict[str, str]:
    """Returns the unit of each time column of the reader. Dates have no unit."""
    were: dict[str, Any] = {field.name: original(field) for field in schema}
    return {name: was.type.unit for name, was in were.items() if was is not None and hasattr(was.type, "unit")}


@dataclass(frozen=True)
class KeptTypes:
    """Which times and decimals keep their types."""

    holds: Callable[[pa.DataType], pa.DataType | None]
    """Maps an input type to the type in which the format keeps it, or to None."""
    exact: Collection[str] = ()
    """The reader's columns for which batches also contain the original text of each decimal that lost digits."""

    def type_of(self, field: "pa.Field[Any]") -> pa.DataType | None:
        """Returns the type in which the format keeps the values of a column, or None if they are written as numbers.

        A column of lists, and a column that a step may have changed, are written as numbers.
        """
        was = original(field, KEPT)
        if was is None or field.type != number_type(was.type) or are_numbers(field):
            return None
        kind: Any = was.type
        if pa.types.is_decimal(kind) and kind.precision > SAFE_DIGITS and was.name not in self.exact:
            return None
        return self.holds(kind)


@dataclass(frozen=True)
class KeptColumn:
    """A feature that keeps its type."""

    column: str
    """The feature's column after the transforms."""
    place: int
    """The position of the feature's numbers among the feature columns."""
    was: "pa.Field[Any]"
    """The reader's column, with the type of the values in the input."""
    type: pa.DataType
    """The type of the values in the files."""

    def values(self, numbers: Array, batch: Batch) -> tuple[Array, dict[int, str]]:
        """Returns the feature's values in the kept type. Also returns the reason for each row with a number that doesn't fit this type."""
        lost = next((each for each in batch.lost if each.column == self.was.name), None)
        texts = None if lost is None else texts_of_rows(lost, batch)
        values, wrong = as_kept(numbers, was=self.was.type, kept=self.type, texts=texts)
        return values, {row: f"{self.column} {format_example(numbers[row].as_py())} does not fit {self.type}" for row in wrong}
