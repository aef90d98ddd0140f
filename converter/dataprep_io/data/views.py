"""Replaces Arrow's view types in categories and nested values by `string` and `binary`, because Arrow can't look up views.

Polars stores text and bytes as views. A column that is itself a view needs no replacement.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

_arrow: Any = pa  # the stubs lack some types


def schema_without(schema: pa.Schema) -> pa.Schema:
    """Returns the schema without views in categories and nested values."""
    return pa.schema([field.with_type(_top(field.type)) for field in schema])


def batches_without(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the batches without views in categories and nested values. `schema` is the batches' current schema."""
    places = [place for place, field in enumerate(schema) if _top(field.type) != field.type]
    return (_replaced(batch, places) for batch in batches) if places else batches


def _replaced(batch: Any, places: list[int]) -> Any:
    for place in places:
        column = batch.column(place)
        kind = _top(column.type)
        if pa.types.is_dictionary(kind):
            column = _arrow.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(kind.value_type), ordered=kind.ordered)
        else:
            column = column.cast(kind)
        batch = batch.set_column(place, pa.field(batch.schema.names[place], kind), column)
    return batch


def _top(kind: Any) -> Any:
    """Returns a column's type without views in categories and nested values. A column that is itself a view keeps its type."""
    return _usual(kind) if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) else kind


def _usual(kind: Any) -> Any:
    """Returns the type without views."""
    types = pa.types
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if types.is_dictionary(kind):
        return _arrow.dictionary(kind.index_type, _usual(kind.value_type), kind.ordered)
    if types.is_struct(kind):
        return _arrow.struct([field.with_type(_usual(field.type)) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        lists = _arrow.list_ if types.is_list(kind) else _arrow.large_list
        return lists(kind.value_field.with_type(_usual(kind.value_type)))
    if types.is_fixed_size_list(kind):
        return _arrow.list_(kind.value_field.with_type(_usual(kind.value_type)), kind.list_size)
    return kind
