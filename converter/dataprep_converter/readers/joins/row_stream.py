"""Takes rows from record batches in pieces of any requested length."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dataprep_converter.core.tensors import Array

_arrow: Any = pa  # the type stubs lack some functions


class RowStream:
    """Returns the rows of some batches in pieces of any requested length; see `Rows`."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.Table = schema.empty_table()

    def take(self, rows: int) -> list[Array]:
        """The columns of the next rows; see `Rows`."""
        parts = [self._rest]
        missing = rows - self._rest.num_rows
        while missing > 0 and (batch := next(self._batches, None)) is not None:
            parts.append(pa.Table.from_batches([batch]))
            missing -= batch.num_rows
        combined = _arrow.concat_tables(parts)
        self._rest = combined.slice(rows)
        return [_as_array(column) for column in combined.slice(0, rows).columns]


def _as_array(column: Any) -> Array:
    """A table's column as one array."""
    array: Array = _arrow.concat_arrays(column.chunks) if column.num_chunks else _arrow.array([], column.type)
    return array
