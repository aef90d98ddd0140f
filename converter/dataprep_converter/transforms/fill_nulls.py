"""`fillNulls`: replaces nulls with a value, and adds null masks."""

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec.transforms.columns import FillNulls
from dataprep_converter.core.arrow_types import is_text_or_bytes, without_dictionary
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.lists import is_ragged
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, null_mask, pc, shape_of, to_arrow, to_numpy, value_type
from dataprep_converter.formats.nested.descriptions import empty_json, nested_type
from dataprep_converter.formats.nested.nested_scalars import nested_scalar
from dataprep_converter.records.batch import Batch
from dataprep_converter.records.columns import find_columns
from dataprep_converter.transforms.pixels import with_columns

MASK: Final = "_missing"
_OF: Final = "The transform fillNulls"
_arrow: Any = pa  # the type stubs don't cover lists whose types are known only at run time


class FillNullsStep:
    """Fills columns of numbers, booleans, text, bytes, tensors, lists and nested values."""

    def __init__(self, options: FillNulls, schema: pa.Schema) -> None:
        self._columns = find_columns(options.columns, schema, of=_OF)
        self._has_masks = options.masks
        self._values: dict[str, Any] = {}
        fields: list[pa.Field[Any]] = []
        for field in schema:
            kind: Any = field.type
            if field.name not in self._columns:
                fields.append(field)
                continue
            kind = without_dictionary(kind)
            nested = nested_type(field)
            self._values[field.name] = (
                _value(options.value, kind, field.name) if nested is None else _nested_value(options.value, nested, field.name)
            )
            fields.append(field.with_type(kind))
            if options.masks:
                if field.name + MASK in schema.names:
                    raise BadSpec(
                        f"{_OF}: the mask of {field.name!r} would have the same name as the column {field.name + MASK!r}; rename that column."
                    )
                fields.append(pa.field(field.name + MASK, pa.bool_()))
        self._schema = pa.schema(fields)

    def schema(self) -> pa.Schema:
        """Returns the columns. Each mask comes after its column."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Fills the named columns, and adds the masks."""
        columns: dict[str, Array] = {}
        for name, value in self._values.items():
            column: Any = batch.records.column(name)
            columns[name] = _filled(column.dictionary_decode() if isinstance(column.type, pa.DictionaryType) else column, value)
            if self._has_masks:
                columns[name + MASK] = column.is_null()
        return with_columns(batch, self._schema, columns, {})


def _value(text: str | None, kind: Any, column: str) -> Any:
    """Returns the value that replaces a null. Raises BadSpec if `text` isn't a value of the column's type."""
    if is_ragged(kind):
        if text is not None:
            raise BadSpec(f"{_OF}: a null in the list column {column!r} always becomes an empty list, so value can't be set; remove value.")
        return []
    if is_text_or_bytes(kind):
        return pa.array([(text or "").encode()], pa.large_binary()).cast(kind)[0]
    number = value_type(kind)
    if number not in NUMPY_NAMES:
        raise BadSpec(f"{_OF} takes numbers, booleans, text, bytes, tensors and lists, but the column {column!r} is {kind}.")
    try:
        value = json.loads("false" if pa.types.is_boolean(number) else "0") if text is None else json.loads(text)
        if type(value) in _types_of(number):
            return pa.scalar(value, number)
    except (ValueError, OverflowError, RecursionError, pa.ArrowException):
        pass
    raise BadSpec(f"{_OF}: the value {str(text)[:64]!r} of the column {column!r} is not {_called(number)}.")


def _nested_value(text: str | None, kind: pa.DataType, column: str) -> Any:
    """Returns the JSON that replaces a null. Raises BadSpec if `text` isn't the JSON of a nested value of this type."""
    text = empty_json(kind) if text is None else text
    try:
        return nested_scalar(text, kind)
    except ValueError as exc:
        raise BadSpec(f"{_OF}: the value {text[:64]!r} of the column {column!r} is not the JSON of {kind}: {exc}.") from exc


def _types_of(kind: pa.DataType) -> tuple[type, ...]:
    """Returns the types of JSON values that a column of this type accepts. The types are checked, because Arrow would truncate a fraction."""
    if pa.types.is_boolean(kind):
        return (bool,)
    return (int, float) if pa.types.is_floating(kind) else (int,)


def _called(kind: pa.DataType) -> str:
    return "true or false" if pa.types.is_boolean(kind) else f"a number of the type {kind}"


def _filled(column: Any, value: Any) -> Array:
    if not column.null_count:
        filled: Array = column
    elif is_tensor(column.type):
        numbers = np.full((len(column), *shape_of(column.type)), value.as_py(), NUMPY_NAMES[value_type(column.type)])
        numbers[~null_mask(column)] = to_numpy(column.drop_null())
        filled = to_arrow(numbers)
    elif is_ragged(column.type):
        filled = pc.coalesce(column, _arrow.scalar(value, column.type))
    else:
        filled = pc.fill_null(column, value)
    return filled
