"""The defaults of columns, which replace nulls: of single values and lists (`columns.py`), and of nested values, which are JSON."""

from typing import Any

import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.nested.nested_scalars import nested_scalar
from dataprep_converter.readers.columnar.columns import Column, default_of, shown


def column_default(text: str, column: Column, *, of: str) -> Any:
    """A default of a column, as an Arrow scalar. Raises BadSpec for an invalid default."""
    if column.nested is not None:
        return nested_default(text, column.nested, column=column.name, of=of)
    return default_of(text, column.type, column=column.name, of=of, called=str(column.type))


def nested_default(text: str, kind: pa.DataType, *, column: str, of: str) -> Any:
    """A default of nested values, which is written as JSON, as an Arrow scalar. Raises BadSpec for an invalid default."""
    try:
        return nested_scalar(text, kind)
    except ValueError as exc:
        raise BadSpec(f"{of}: the default {shown(text)} of {column!r} is not the JSON of {kind}: {exc}.") from exc
