"""Converts a file's batches to the common columns of all files (`unified.py`). Most files already have these columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.good_runs import good_runs
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.formats.nested.descriptions import plain_type
from dataprep_converter.readers.columnar.columns import Column
from dataprep_converter.readers.columnar.unified import UNITS, WHOLE

_arrow: Any = pa  # the type stubs lack some functions
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Aligned:
    """A batch in the common form."""

    records: pa.RecordBatch
    """The batch, with every column that isn't nested.

    Times have the common unit. Integers that will be read as float64 have been converted to decimals.
    """
    nested: Mapping[str, Array]
    """The nested columns whose type in the file differs from the common type, converted to the common type.

    They are kept out of `records`, where a struct's fields can be separate columns with other types.
    """
    wrong: dict[int, str]
    """The reason for each row with a value that the common column can't hold."""


class Alignment:
    """Aligns batches. Remembers the schema of the latest batch, because the batches of a file have the same schema."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._schema: pa.Schema | None = None
        self._different: list[Column] = []

    def apply(self, records: pa.RecordBatch) -> Aligned:
        """Aligns a batch."""
        if records.schema != self._schema:
            self._schema = records.schema
            self._different = [column for column in self._columns if _differs(records.schema, column)]
        if not self._different:
            return Aligned(records, {}, {})
        tops: dict[str, Any] = dict(zip(records.schema.names, records.columns, strict=True))
        wrong: dict[int, str] = {}
        nested: dict[str, Array] = {}
        for column in self._different:
            if column.nested is not None:
                nested[column.name] = _nested_column(records, column, wrong)
            else:
                tops[column.path[0]] = _aligned(tops.get(column.path[0]), column, column.path[1:], records.num_rows, wrong)
        return Aligned(pa.RecordBatch.from_arrays(list(tops.values()), names=list(tops)), nested, wrong)


def _differs(schema: pa.Schema, column: Column) -> bool:
    kind = _type_at(schema, column.path)
    if kind is None:
        return True
    if column.nested is not None:
        return plain_type(kind) != column.nested
    if column.was is None:
        return False
    inner = _inner(kind)
    if pa.types.is_temporal(column.was):
        return bool(pa.types.is_temporal(inner) and getattr(inner, "unit", None) != getattr(column.was, "unit", None))
    return bool(pa.types.is_integer(inner))


def _type_at(fields: Any, path: Sequence[str]) -> Any:
    """The type of the field at a path, or None if the field is missing or has the type null."""
    for place, name in enumerate(path):
        index = fields.get_field_index(name) if isinstance(fields, pa.Schema | pa.StructType) else -1
        if index < 0:
            return None
        kind = fields.field(index).type
        if place == len(path) - 1:
            return None if pa.types.is_null(kind) else kind
        fields = kind
    return None


def _inner(kind: Any) -> Any:
    """The type of the values inside lists, dictionaries and extension types."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif (
            isinstance(kind, pa.DictionaryType)
            or pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
        ):
            kind = kind.value_type
        else:
            return kind


def _aligned(values: Any, column: Column, path: Sequence[str], rows: int, wrong: dict[int, str]) -> Array:
    """Returns `values`, a column or a struct, with the field at `path` converted to the common type. An empty `path` means `values` itself.
    `values` is None if the file lacks this column or struct."""
    if not path:
        if values is None or pa.types.is_null(values.type):
            nulls: Array = _arrow.nulls(rows, column.type)
            return nulls
        is_time = column.was is not None and pa.types.is_temporal(column.was)
        return _in_common_unit(values, column, wrong) if is_time else _as_decimals(values)
    fields: dict[str, Any] = {}
    mask = None
    if values is not None and pa.types.is_struct(values.type):
        fields = {field.name: pc.struct_field(values, field.name) for field in values.type}
        mask = values.is_null()
    fields[path[0]] = _aligned(fields.get(path[0]), column, path[1:], rows, wrong)
    structs: Array = _arrow.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=mask)
    return structs


def _nested_column(records: pa.RecordBatch, column: Column, wrong: dict[int, str]) -> Array:
    """A nested column in the common type, or nulls if the file lacks the column. Adds the reason for each row with a number or a time that
    the common type can't hold."""
    if _type_at(records.schema, column.path) is None:
        nulls: Array = _arrow.nulls(records.num_rows, column.nested)
        return nulls
    return converted(values_of(records, column), column, lambda part: part.cast(column.nested), wrong)


def values_of(records: pa.RecordBatch, column: Column) -> Array:
    """The values of a column in a batch of the file. A value is null if a struct that contains it is null."""
    values: Array = records.column(column.path[0])
    for name in column.path[1:]:
        values = pc.struct_field(values, name)
    return values


def converted(values: Any, column: Column, convert: Callable[[Any], Array], wrong: dict[int, str]) -> Array:
    """The result of `convert` for nested values. If Arrow refuses a value, adds the reason to `wrong` and makes the row null."""
    parts: list[Array] = []

    def read(low: int, high: int) -> Array:
        # Don't use a slice: a slice of a list array still contains the items of the other rows, which would be converted too.
        return convert(values if high - low == len(values) else values.take(pa.array(range(low, high))))

    def refuse(row: int, error: pa.ArrowInvalid) -> None:
        wrong.setdefault(row, f"column {column.name!r} has a value that {column.nested} can't hold: {error}")
        parts.append(convert(_arrow.nulls(1, values.type)))

    for part in good_runs(0, len(values), read=read, refuse=refuse):
        parts.append(part)  # noqa: PERF402 - `refuse` adds parts between these
    return parts[0] if len(parts) == 1 else _arrow.concat_arrays(parts or [convert(values)])


def _as_decimals(values: Any) -> Array:
    """Integers, or lists of integers, as decimals. Lost digits are reported later, when the decimals are read as float64."""
    if isinstance(values, pa.ExtensionArray):
        return _as_decimals(values.storage)
    if isinstance(values.type, pa.DictionaryType):
        return _as_decimals(values.dictionary_decode())
    kind = values.type
    if pa.types.is_fixed_size_list(kind):
        target = _arrow.list_(WHOLE, kind.list_size)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        target = pa.list_(WHOLE) if pa.types.is_list(kind) else pa.large_list(WHOLE)
    else:
        target = WHOLE
    decimals: Array = values.cast(target)
    return decimals


def _in_common_unit(values: Any, column: Column, wrong: dict[int, str]) -> Array:
    """Times, converted to the finer unit of the common column. Adds the reason for each time that is out of range in this unit."""
    if isinstance(values, pa.ExtensionArray):
        return _in_common_unit(values.storage, column, wrong)
    if isinstance(values.type, pa.DictionaryType):
        return _in_common_unit(values.dictionary_decode(), column, wrong)
    was: Any = column.was
    factor = 1000 ** (UNITS.index(was.unit) - UNITS.index(values.type.unit))
    numbers = values.cast(pa.int32()).cast(pa.int64()) if pa.types.is_time32(values.type) else values.cast(pa.int64())
    most = _LARGEST // factor
    fits = pc.and_(pc.less_equal(numbers, most), pc.greater_equal(numbers, -most))
    is_wrong = pc.fill_null(pc.invert(fits), False)
    for row in np.flatnonzero(is_wrong.to_numpy(zero_copy_only=False)).tolist():
        wrong.setdefault(row, f"column {column.name!r}: the time {values[row]} is out of range for {was}")
    scaled = pc.multiply(pc.if_else(fits, numbers, pa.scalar(None, pa.int64())), factor)
    times: Array = (scaled.cast(pa.int32()) if pa.types.is_time32(was) else scaled).view(was)
    return times
