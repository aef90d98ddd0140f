"""Converts the blocks of a write task to record batches, all with the same columns. Ray's own types become Arrow's."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.lists import is_list
from dataprep_converter.core.tensors import NUMPY_NAMES, arrow_type, pc
from dataprep_frames.families import family, may_become
from dataprep_frames.rows import has_void

_OF_RAY: Final = "ray."
"""The prefix of the names of Ray's own types."""
_TENSORS: Final = ("ray.data.arrow_tensor", "ray.data.arrow_tensor_v2")
_RAGGED: Final = "ray.data.arrow_variable_shaped_tensor"
_MOST_BYTES: Final = 1 << 30
_USUAL: Final[Mapping[str, pa.DataType]] = {"text": pa.string(), "bytes": pa.binary()}
_SET: Final = "Set schema to the columns of the Dataset, such as schema=ds.schema()."

_arrow: Any = pa  # the stubs lack some functions
_types: Any = pa.types


def batches_of(tables: Iterable[pa.Table], schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a write task with the columns of `schema`. If `schema` is None, the first block with rows determines the columns.

    `schema` must have only types that `native_schema` returns. If `schema` is given, a column that a block lacks is filled with nulls.
    Raises BadSpec for a block with other columns (the message names the column), and BadData for values that don't fit.
    """
    is_given = schema is not None
    for table in tables:
        if not table.num_rows:
            continue
        own = native_schema(table.schema)
        if schema is None:
            _check_known(own)
            schema = own
        for field in own:
            if field.name not in schema.names:
                raise BadSpec(f"A block has a column {field.name!r}, which {'schema' if is_given else 'an earlier block'} lacks. {_SET}")
        for piece in _pieces(table):
            columns = [_column(piece, own, field, is_given=is_given) for field in schema]
            yield from _arrow.Table.from_arrays(columns, schema=schema).to_batches()


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Divides a block whose text and lists could be too large for 32-bit offsets."""
    rows = max(1, table.num_rows * _MOST_BYTES // max(_MOST_BYTES, table.nbytes))
    for first in range(0, table.num_rows, rows):
        yield table.slice(first, rows)


def native_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the columns in Arrow's own types, without metadata. Raises BadSpec for a type that only Ray has; the message names the
    column.

    Types that differ only in how Arrow stores their values, such as `string` and `large_string`, become the same type. Otherwise, blocks
    from pandas and blocks from files would have different types for the same values.
    """
    names = list(schema.names)
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise BadSpec(f"The Dataset has two columns {repeated!r}.")
    fields: list[Any] = [pa.field(field.name, _column_type(field.type, field.name)) for field in schema]
    return pa.schema(fields)


def _column_type(kind: Any, column: str) -> pa.DataType:
    """Returns Arrow's type for a column's type, which may be one of Ray's."""
    name = getattr(kind, "extension_name", "")
    if name in _TENSORS:
        value = kind.storage_type.value_type
        if value in NUMPY_NAMES:
            return arrow_type(NUMPY_NAMES[value], tuple(kind.shape))
        if len(kind.shape) == 1:
            return _native_type(kind.storage_type, column)
        raise BadSpec(f"The Dataset's column {column!r} has tensors of {value}, which records can't contain. Make them lists.")
    if name == _RAGGED:
        if kind.ndim == 1:
            return _native_type(kind.storage_type.field("data").type, column)
        raise BadSpec(
            f"The Dataset's column {column!r} has tensors of different shapes, which records can't contain. Give them the same shape, or make "
            "them lists of numbers beside a column with the shape."
        )
    return _native_type(kind, column)


def _native_type(kind: Any, column: str) -> pa.DataType:
    """Returns one common type for all types that have the same values. Nested types are treated in the same way."""
    if getattr(kind, "extension_name", "").startswith(_OF_RAY):
        raise BadSpec(
            f"The Dataset's column {column!r} has values of the type {kind}, which records can't contain. Drop the column, or make its values "
            "numbers, text, bytes, or lists or dictionaries of these."
        )
    if _types.is_dictionary(kind):
        return _native_type(kind.value_type, column)
    if (usual := family(kind)) in _USUAL:
        return _USUAL[usual]
    if _types.is_fixed_size_list(kind):
        return _arrow.list_(_native_type(kind.value_type, column), kind.list_size)  # type: ignore[no-any-return]  # kind is Any
    if is_list(kind):
        return _arrow.list_(_native_type(kind.value_type, column))  # type: ignore[no-any-return]  # see above
    if _types.is_map(kind):
        return _arrow.map_(_native_type(kind.key_type, column), _native_type(kind.item_type, column))  # type: ignore[no-any-return]
    if _types.is_struct(kind):
        return pa.struct([(field.name, _native_type(field.type, column)) for field in kind])
    return kind  # type: ignore[no-any-return]  # kind is Any


def _check_known(schema: pa.Schema) -> None:
    for field in schema:
        if has_void(field.type):
            raise BadSpec(f"The column {field.name!r} is {field.type} in a block, because it has no values there. {_SET}")


def _column(table: pa.Table, own: pa.Schema, field: "pa.Field[Any]", *, is_given: bool) -> Any:
    """Returns the table's column, converted to the type of `field`."""
    if field.name not in own.names:
        if is_given:
            return _arrow.nulls(table.num_rows, field.type)
        raise BadSpec(f"A block has no column {field.name!r}, which an earlier block has. {_SET}")
    kind: Any = own.field(field.name).type
    stored: Any = table.column(field.name)
    column = _arrow.chunked_array([_native(chunk, kind) for chunk in stored.chunks], kind)
    if kind.equals(field.type):
        return column
    what = f"A block has the column {field.name!r} as {kind}, but in {'schema' if is_given else 'an earlier block'} it is {field.type}"
    if not may_become(kind, field.type):
        raise BadSpec(f"{what}. {'Convert it.' if is_given else _SET}")
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise BadData(f"{what}, and a value doesn't fit: {exc}") from exc


def _native(chunk: Any, kind: Any) -> Any:
    """Returns an array, converted to `kind`, which `_column_type` has returned for the array's type."""
    if chunk.type.equals(kind):
        return chunk
    name = getattr(chunk.type, "extension_name", "")
    if name == _RAGGED:
        return pc.struct_field(chunk.storage, "data").cast(kind)
    if name not in _TENSORS:
        return chunk.cast(kind)
    if not isinstance(kind, pa.BaseExtensionType):
        return chunk.storage.cast(kind)
    return _arrow.ExtensionArray.from_storage(kind, chunk.storage.cast(kind.storage_type))
