"""Reads the rows of Polars frames: arrays of arrays become tensors, and columns of Python objects are refused."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dataprep_converter.core.errors import BadData, BadSpec

_arrow: Any = pa  # the stubs lack tensors


# Any, because the library's classes are recognised by name and never imported.
def check_columns(frame: Any) -> None:
    """Raises BadSpec for a column of Python objects, or of a type that Arrow lacks.

    Python objects are refused because the Arrow protocol passes only their addresses.
    """
    for name, kind in frame.schema.items():
        if str(kind) in ("Object", "Int128", "UInt128"):
            raise BadSpec(
                f"The data's column {name!r} is {kind}, which records can't contain. Drop the column, or cast it to another type."
            )


def has_tensors(schema: pa.Schema) -> bool:
    """Returns whether a column contains arrays of arrays."""
    return any(_shape(field.type) for field in schema)


def schema_with_tensors(schema: pa.Schema) -> pa.Schema:
    """Returns the columns with tensors instead of arrays of arrays."""
    for place, field in enumerate(schema):
        if _shape(field.type):
            schema = schema.set(place, pa.field(field.name, _tensor_type(field.type)))
    return schema


def with_tensors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches with tensors. Raises BadData for a tensor with nulls in it."""
    for batch in batches:
        rows: Any = batch
        for place, field in enumerate(batch.schema):
            if _shape(field.type):
                column = _tensors(batch.column(place), field.name)
                rows = rows.set_column(place, pa.field(field.name, column.type), column)
        yield rows


def _shape(kind: Any) -> list[int]:
    """Returns the sizes of the nested arrays if the type is arrays of arrays of numbers. Otherwise, returns no sizes."""
    sizes = []
    while pa.types.is_fixed_size_list(kind):
        sizes.append(kind.list_size)
        kind = kind.value_type
    return sizes if len(sizes) > 1 and _arrow.types.is_primitive(kind) and not pa.types.is_boolean(kind) else []


def _value_type(kind: Any) -> Any:
    while pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return kind


def _tensor_type(kind: Any) -> Any:
    return _arrow.fixed_shape_tensor(_value_type(kind), _shape(kind))


def _tensors(column: Any, name: str) -> Any:
    kind = _tensor_type(column.type)
    valid: Any = column.drop_null()
    while pa.types.is_fixed_size_list(valid.type):
        valid = valid.flatten()
        if valid.null_count:
            raise BadData(f"The column {name!r} has a null within an array, and tensors can't contain nulls.")
    rows = _arrow.FixedSizeListArray.from_arrays(valid, kind.storage_type.list_size)
    return _arrow.ExtensionArray.from_storage(kind, _with_nulls(rows, column))


def _with_nulls(rows: Any, column: Any) -> Any:
    """Returns the rows with nulls where the column has them."""
    if not column.null_count:
        return rows
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    return rows.take(pa.array(is_valid.cumsum() - 1, mask=~is_valid))
