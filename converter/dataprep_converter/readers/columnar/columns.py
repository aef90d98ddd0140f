"""Converts columns of tables into the columns of batches: flattens structs to `a/b`, and converts values to types that records can hold.

Structs that are kept, lists of structs, maps and lists of lists become JSON text (`formats/nested`). A null becomes the column's default.
Without a default, a null stays a null or makes its row bad, depending on the job. A null within a list of single values always makes its
row bad, whereas nested values can contain nulls.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.run_id import FLAT, StructRule
from dataprep_converter.core.arrow_types import is_bytes, is_text, is_text_or_bytes
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.lists import is_list, row_shape
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, null_mask, pc, to_arrow
from dataprep_converter.formats.nested.descriptions import has_maps, nested_field, plain_type
from dataprep_converter.formats.nested.json_texts import json_column
from dataprep_converter.formats.nested.nested_arrays import repeated_keys
from dataprep_converter.records.batch import KEPT, WAS
from dataprep_converter.records.columns import NOT_BY_DEFAULT, similar
from dataprep_converter.records.kept_types import as_numbers
from dataprep_converter.records.lossy import lost_digits
from dataprep_converter.records.schemas import schema_text

TYPES: Final[Mapping[str, pa.DataType]] = {
    "Int64": pa.int64(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "String": pa.string(),
    "Bool": pa.bool_(),
}
"""Maps the name of a type in specs to the type of a column."""

_SHOWN: Final = 64
_SHOWN_COLUMNS: Final = 20

_arrow: Any = pa  # the type stubs lack some array types


@dataclass(frozen=True)
class Column:
    """A column and its origin in the input."""

    name: str
    path: tuple[str, ...]
    """The name of the column in the input, preceded by the names of the structs that contain it, the outermost first."""
    type: pa.DataType
    """The type of the column in batches."""
    was: pa.DataType | None = None
    """The type of the values in the input. It is set only for times and decimals, because they are read as numbers of another type."""
    nested: pa.DataType | None = None
    """For nested values, which become JSON text, the type in which formats write the values."""
    by_default: bool = True
    """Whether the column is written if the spec lists no features."""
    common: pa.DataType | None = None
    """The type that can hold the times or decimals of all files, or the type null if there is no such type. None if `was` itself can hold
    them."""

    def field(self) -> "pa.Field[Any]":
        """The column as a field of the reader's schema. The original type, which later steps need, is in the field's metadata."""
        metadata = {} if self.was is None else {WAS: schema_text(pa.schema([(self.name, self.was)]))}
        if self.common is not None:
            metadata[KEPT] = "" if pa.types.is_null(self.common) else schema_text(pa.schema([(self.name, self.common)]))
        metadata |= {} if self.by_default else NOT_BY_DEFAULT
        if self.nested is not None:
            return nested_field(self.name, self.nested, metadata)
        field: pa.Field[Any] = pa.field(self.name, self.type, metadata=metadata or None)
        return field


def shown(value: str) -> str:
    """An input value as text for a message, shortened if it is long."""
    return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")


def check_names(names: Sequence[str], where: str) -> None:
    """Raises BadSpec for a duplicate name."""
    for name, count in Counter(names).items():
        if name and count > 1:
            raise BadSpec(f"{where}: the column {name!r} occurs twice.")


# --- which columns ------------------------------------------------------------------------------------------------


def columns_of(
    schema: pa.Schema,
    selection: Sequence[str] | None,
    *,
    of: str,
    uri: str,
    structs: StructRule = FLAT,
    asked: Collection[str] = (),
) -> list[Column]:
    """The columns of batches for a file with this schema: all columns or, if `selection` is given, the selected columns in the order of
    `selection`.

    `structs` says which structs become columns themselves. The fields of such a struct are columns too, but they are written only if
    `selection` names them. `asked` contains the columns that the spec keeps as nested values. `of` is the source's name in messages, such
    as `source.parquet`. Raises BadSpec, which names the file and the column, for a column that is missing, duplicate, or of a type that
    records can't hold.
    """
    structs = replace(structs, named=structs.named.union(asked))
    leaves = [leaf for field in schema for leaf in _leaves((field.name,), field.type, structs)]
    names = ["/".join(path) for path, _ in leaves]
    check_names(names, uri)
    places = range(len(leaves)) if selection is None else [place for name in selection for place in _places(name, names, of=of, uri=uri)]
    check_names([names[place] for place in places], f"{of}.columns")
    kept = {leaves[place][0] for place in places if isinstance(leaves[place][1], pa.StructType)}
    columns = []
    for place in places:
        path, kind = leaves[place]
        batch_type, nested = _batch_type(kind), None
        if (batch_type is None or names[place] in asked) and pa.types.is_nested(_stored(kind)):
            nested = plain_type(kind)
            batch_type = None if nested is None else pa.large_string()
        is_inside = any(path[:length] in kept for length in range(1, len(path))) and names[place] not in (selection or ())
        if is_inside and names[place] not in structs.named and (batch_type is None or nested is not None or row_shape(batch_type)):
            continue  # Don't make the field a column: only the struct can hold some of its lists, such as lists with nulls.
        if batch_type is None:
            raise BadSpec(
                f"{uri}: the column {names[place]!r} is {_named(kind)}, which records can't contain. "
                f"Leave it out of {of}.columns, or write the file with another type ({_advice(kind)})."
            )
        columns.append(Column(names[place], path, batch_type, _was(kind) if nested is None else None, nested, not is_inside))
    _check_asked(asked, {column.name: column for column in columns}, names, of=f"{of}.nested", uri=uri)
    return columns


def _check_asked(asked: Collection[str], columns: Mapping[str, Column], names: Sequence[str], *, of: str, uri: str) -> None:
    for name in asked:
        if name not in columns:
            raise BadSpec(f"{of}: there is no column {name!r} in {uri}.{similar(name, names)}")
        if columns[name].nested is None:
            raise BadSpec(f"{of}: the column {name!r} of {uri} is {columns[name].type}, which is neither a struct nor a list.")


def _stored(kind: Any) -> pa.DataType:
    """The type in which the values of an extension type are stored."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _leaves(path: tuple[str, ...], kind: pa.DataType, structs: StructRule) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Yields each struct that becomes a column itself, and each field that isn't a struct."""
    if isinstance(kind, pa.StructType):
        if (structs.keeps and len(path) == 1) or "/".join(path) in structs.named:
            yield path, kind
        for field in kind:
            yield from _leaves((*path, field.name), field.type, structs)
    else:
        yield path, kind


def _places(name: str, names: Sequence[str], *, of: str, uri: str) -> list[int]:
    """The position of the column with this name, or the positions of all columns in the struct with this name."""
    places = [place for place, other in enumerate(names) if other == name] or [
        place for place, other in enumerate(names) if other.startswith(f"{name}/")
    ]
    if not places:
        more = f" … and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
        raise BadSpec(
            f"{of}.columns: {uri} has no column {name!r}.{similar(name, names)} It has {', '.join(names[:_SHOWN_COLUMNS]) or 'no columns'}{more}."
        )
    return places


def _batch_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of a column in batches, or None for a type that records can't hold."""
    types: Any = pa.types
    inner: Any = kind
    if is_tensor(kind):
        return kind if inner.value_type in NUMPY_NAMES else None
    if isinstance(kind, pa.BaseExtensionType):
        return _batch_type(kind.storage_type)
    if types.is_dictionary(kind):
        return _batch_type(inner.value_type)
    if is_list(kind):
        value = _batch_type(inner.value_type)
        if value is None or is_tensor(value) or types.is_list(value) or types.is_large_list(value):
            return None
        if types.is_fixed_size_list(kind) and value in NUMPY_NAMES:
            tensor: pa.DataType = _arrow.fixed_shape_tensor(value, (inner.list_size,))
            return tensor if inner.list_size else None
        return pa.large_list(value) if types.is_large_list(kind) else pa.list_(value)
    return _batch_value_type(kind)


def _was(kind: Any) -> pa.DataType | None:
    """The type of a column's single values if they are times or decimals; otherwise None."""
    while isinstance(kind, pa.BaseExtensionType | pa.DictionaryType) or is_list(kind):
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind.value_type
    is_read_otherwise = pa.types.is_decimal(kind) or pa.types.is_temporal(kind)
    return kind if is_read_otherwise else None


def digits(kind: Any) -> int:
    """The number of digits of a decimal type, or 0 for other types."""
    return int(kind.precision) if kind is not None and pa.types.is_decimal(kind) else 0


def _batch_value_type(kind: pa.DataType) -> pa.DataType | None:
    types: Any = pa.types
    if kind in NUMPY_NAMES or is_text_or_bytes(kind):
        return kind
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if types.is_decimal(kind):
        return pa.float64()
    if types.is_temporal(kind) and not types.is_interval(kind):
        return pa.int64()
    return None


def _named(kind: Any) -> str:
    """The type's name for a message. Arrow's name for a union describes Arrow's representation rather than the union, so it isn't used."""
    types: Any = pa.types
    if types.is_union(kind):
        return (
            f"a union of {' and '.join(_named(field.type) for field in kind)}" if kind.num_fields > 1 else "a record that contains itself"
        )
    if not _has_union(kind):
        return str(kind)
    return f"map<{_named(kind.key_type)}, {_named(kind.item_type)}>" if types.is_map(kind) else f"list<{_named(kind.value_type)}>"


def _has_union(kind: Any) -> bool:
    """Whether a type is a union, or a list or map of unions."""
    while is_list(kind) or pa.types.is_map(kind):
        kind = kind.item_type if pa.types.is_map(kind) else kind.value_type
    return bool(pa.types.is_union(kind))


def _advice(kind: pa.DataType) -> str:
    types: Any = pa.types
    if _has_union(kind):
        return "a single type, or a type and null"
    if kind == pa.uint64():
        return "int64"
    if types.is_null(kind):
        return "it has no values at all"
    if types.is_nested(kind):
        return "fields with names that differ, of numbers, text, bytes, decimals or times"
    return "numbers, text or bytes"


# --- values -------------------------------------------------------------------------------------------------------


def taken(records: pa.RecordBatch, column: Column) -> Array:
    """A column of a batch of the file, converted to the type that the column has in the reader's batches. A value is null if a struct that
    contains the value is null."""
    values: Array = records.column(column.path[0])
    for name in column.path[1:]:
        values = pc.struct_field(values, name)
    return json_column(values) if column.nested is not None else _cast(values, column.type)


def _cast(values: Any, kind: pa.DataType) -> Array:
    if values.type == kind:
        unchanged: Array = values
        return unchanged
    if isinstance(values.type, pa.BaseExtensionType):
        return _cast(values.storage, kind)
    if is_tensor(kind):
        inner: Any = kind
        storage = values.cast(pa.list_(inner.value_type, inner.shape[0]))
        tensors: Array = _arrow.ExtensionArray.from_storage(kind, storage)
        return tensors
    if isinstance(values.type, pa.DictionaryType):
        return _cast(values.dictionary_decode(), kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        flat = _cast(pc.list_flatten(values), kind.value_type)
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
        is_large = pa.types.is_large_list(kind)
        lists: Any = pa.LargeListArray if is_large else pa.ListArray
        list_array: Array = lists.from_arrays(
            to_arrow(offsets.astype(np.int64 if is_large else np.int32)), flat, type=kind, mask=values.is_null()
        )
        return list_array
    if pa.types.is_temporal(values.type):
        values = as_numbers(values)
    cast: Array = values.cast(kind)
    return cast


def lost(records: pa.RecordBatch, column: Column, converted: Array) -> "Array | None":
    """The original text of each decimal that lost digits when it was read; null in all other rows. None if no value of the column can
    have lost digits."""
    original: Any = records.column(column.path[0])
    for name in column.path[1:]:
        original = pc.struct_field(original, name)
    rows: Any = None
    values: Any = converted
    while True:
        kind = original.type
        if isinstance(kind, pa.BaseExtensionType):
            original, values = original.storage, values.storage if isinstance(values, pa.ExtensionArray) else values
        elif isinstance(kind, pa.DictionaryType):
            original = original.dictionary_decode()
        elif is_list(kind):
            rows = pc.list_parent_indices(original).to_numpy()
            original = pc.list_flatten(original)
            values = pc.list_flatten(values.storage if isinstance(values, pa.ExtensionArray) else values)
        else:
            break
    texts = lost_digits(original, values) if pa.types.is_decimal(original.type) else None
    if texts is None or rows is None:
        return texts
    places = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    owners, first = np.unique(rows[places], return_index=True)
    at: Any = np.full(records.num_rows, -1, np.int64)
    at[owners] = places[first]
    return texts.take(pa.array(at, mask=at < 0))


def default_of(text: str, kind: pa.DataType, *, column: str, of: str, called: str) -> Any:
    """A default as an Arrow scalar. The default of a string or bytes column is written as plain text, and the default of any other column
    as JSON. Raises BadSpec for an invalid default; `called` is the name of the type in the message."""
    if is_text(kind):
        return pa.scalar(text, kind)
    if is_bytes(kind):
        return pa.scalar(text.encode(), kind)
    try:
        value = json.loads(text)
        if _is_of(value, kind):
            return _arrow.scalar(value, kind)
    except (ValueError, OverflowError, RecursionError, pa.ArrowException):
        pass
    raise BadSpec(f"{of}: the default {shown(text)} of {column!r} is not {'an' if called[0] in 'AEIOU' else 'a'} {called}.")


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a JSON value is of a column's type. The type is checked here because Arrow would silently truncate a fraction."""
    if is_list(kind):
        return isinstance(value, list) and all(_is_of(item, kind.value_type) for item in value)
    if pa.types.is_boolean(kind) or isinstance(value, bool):
        return pa.types.is_boolean(kind) and isinstance(value, bool)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return isinstance(value, int if pa.types.is_integer(kind) else (int, float))
    return isinstance(value, str) and is_text(kind)


def settled(
    values: Sequence[Array],
    columns: Sequence[Column],
    defaults: Mapping[str, Any],
    *,
    keep_nulls: bool,
    of: str = "",
) -> tuple[list[Array], dict[int, str]]:
    """The columns with defaults in place of nulls, and the reason for each bad row. A row is bad if it has a null within a list, or text
    that is not UTF-8. Unless `keep_nulls` is set, a row with a null without a default is bad too. `of` is the source's name in messages; it
    is empty if the source has no field `nested`."""
    out: list[Array] = []
    wrong: dict[int, str] = {}
    for column, array in zip(columns, values, strict=True):
        filled = array
        if filled.null_count and column.name in defaults:
            filled = pc.coalesce(filled, defaults[column.name])
        out.append(filled)
        is_refused = filled.null_count and not keep_nulls
        for row in np.flatnonzero(null_mask(filled)).tolist() if is_refused else ():
            wrong.setdefault(row, f"column {column.name!r} has no value and no default")
        if column.nested is not None and has_maps(column.nested):
            wrong = {row: f"column {column.name!r} has a map with {reason}" for row, reason in repeated_keys(filled).items()} | wrong
        inner = _inner(filled)
        if inner is not filled and inner.null_count:
            for row in _rows(filled)[null_mask(inner)].tolist():
                advice = f"; add nested: [{json.dumps(column.name)}] to {of} to keep such lists" if of else ""
                wrong.setdefault(row, f"column {column.name!r} has a null among its values{advice}")
        if len(not_utf8 := _not_utf8(inner)):
            for row in _rows(filled)[not_utf8].tolist():
                wrong.setdefault(row, f"column {column.name!r} is not UTF-8")
    return out, wrong


def _inner(column: Any) -> Any:
    """The single values of a column, with lists flattened."""
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    return pc.list_flatten(storage) if is_list(storage.type) else column


def _rows(column: Any) -> npt.NDArray[np.int64]:
    """For each single value of a column, the number of the row that contains the value."""
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    rows: npt.NDArray[np.int64] = (
        pc.list_parent_indices(storage).to_numpy() if is_list(storage.type) else np.arange(len(column), dtype=np.int64)
    )
    return rows


def _not_utf8(column: Any) -> npt.NDArray[np.int64]:
    """The positions of the strings that are not UTF-8. Examines strings one by one only if at least one of them is not UTF-8."""
    if not is_text(column.type):
        return np.empty(0, np.int64)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        binary = column.cast(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
        return np.array([place for place, text in enumerate(binary.to_pylist()) if not _is_utf8(text or b"")], np.int64)
    return np.empty(0, np.int64)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def narrowed(values: Array) -> tuple[Array, dict[int, float]]:
    """Converts float64 to float32. Nulls stay nulls. Returns the converted values, and a map from positions to the finite values that
    became infinite."""
    wide = (pc.fill_null(values, 0.0) if values.null_count else values).to_numpy()
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    is_infinite = np.isinf(narrow)
    too_large = np.flatnonzero(is_infinite & np.isfinite(wide)).tolist() if is_infinite.any() else []
    column = to_arrow(narrow) if not values.null_count else _arrow.array(narrow, mask=null_mask(values))
    return column, {place: float(wide[place]) for place in too_large}
