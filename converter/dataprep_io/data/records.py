"""Turns dictionaries, and tuples with named values, into record batches.

A given schema determines the types of the columns. Without a schema, the first records determine these types, and later records must fit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_io.data.arrays import as_numpy, column_of
from dataprep_io.data.parameters import check_column_name, shown
from dataprep_io.data.shared import has_void

_FIRST_RECORDS: Final = 1024
"""The number of records whose values determine the columns' types."""
_MOST_RECORDS: Final = 16_384
_BATCH_BYTES: Final = 8 << 20
_SMALL: Final = frozenset({int, float, bool, type(None)})
"""The types of values that are so small that only their number matters when a size is estimated."""
_ERRORS: Final = (pa.ArrowException, OverflowError, TypeError, ValueError, KeyError)
"""The exceptions that converting values can raise."""
_POSSIBLE: Final = "a number of at most 64 bits, a decimal, text, bytes, a time, or lists, dictionaries or arrays of these"
_arrow: Any = pa  # the stubs lack types that are known only at run time


def record_batches(
    items: Iterable[Any], *, columns: Sequence[str] | None, schema: pa.Schema | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Returns the columns and the batches of records. If the records are tuples, `columns` contains the names of their values.

    Raises BadData for a record that doesn't fit the columns; the message contains the record's number. Raises BadSpec for columns without a
    name or a type, and TypeError for a record that isn't a dictionary.
    """
    chunks = _chunks(_dictionaries(items, columns))
    start, first = next(chunks)
    known = schema if schema is not None else _inferred(first)
    set_by = "schema" if schema is not None else "the first records"
    return known, (_batch(records, number, known, set_by) for number, records in chain(((start, first),), chunks))


def _inferred(records: Sequence[Mapping[str, Any]]) -> pa.Schema:
    """Returns the columns of the first records."""
    fields: list[Any] = []
    for name in dict.fromkeys(name for record in records for name in record):
        check_column_name(name, "A record")
        kind = _column(name, [record.get(name) for record in records], 0, None).type
        if has_void(kind):
            raise BadSpec(
                f"The type of {name!r} is unknown, because it has no values in the first {len(records):,} record{'s' * (len(records) != 1)} ({kind}). Pass schema=, "
                f"such as pyarrow.schema([({name!r}, pyarrow.string()), …])."
            )
        fields.append((name, kind))
    return pa.schema(fields)


def _dictionaries(items: Iterable[Any], columns: Sequence[str] | None) -> Iterator[Mapping[str, Any]]:
    """Yields each record as a mapping from columns to values."""
    for number, item in enumerate(items):
        if isinstance(item, Mapping):
            if columns is not None:
                raise BadSpec(f"Record {number} is a dictionary, which has its own names: columns is for tuples and single values.")
            yield item
        elif columns is not None:
            values = tuple(item) if isinstance(item, tuple | list) else (item,)
            if len(values) != len(columns):
                raise BadData(f"Record {number} has {len(values)} values, but columns has {len(columns)} names: {', '.join(columns)}.")
            yield dict(zip(columns, values, strict=True))
        elif hasattr(item, "_asdict"):
            yield item._asdict()
        else:
            raise TypeError(
                f"Record {number} has the type {type(item).__name__}. A record is a dictionary from columns to values; for tuples and single "
                'values, pass the names of the columns, such as columns=["image", "label"].'
            )


def _chunks(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Yields the number of the first record of a batch, and the batch's records."""
    chunk: list[Mapping[str, Any]] = []
    size, start, most = 0, 0, _FIRST_RECORDS
    for record in records:
        chunk.append(record)
        size += sum([8 if type(value) in _SMALL else _size(value) for value in record.values()])
        if len(chunk) >= most or size >= _BATCH_BYTES:
            yield start, chunk
            start += len(chunk)
            chunk, size, most = [], 0, _MOST_RECORDS
    if chunk:
        yield start, chunk


def _size(value: Any) -> int:
    """Returns the approximate size of a value in bytes."""
    if isinstance(value, bytes | str | bytearray):
        return len(value)
    if isinstance(value, list | tuple):
        return 8 * len(value)
    return int(getattr(value, "nbytes", 8))


def _batch(records: Sequence[Mapping[str, Any]], start: int, schema: pa.Schema, set_by: str) -> pa.RecordBatch:
    """Returns the records with these columns. `set_by` says in error messages where the columns come from."""
    names = set(schema.names)
    for number, record in enumerate(records, start):
        if not record.keys() <= names:
            unknown = next(name for name in record if name not in names)
            raise BadData(
                f"Record {number} has {unknown!r}, but the columns of {set_by} are {', '.join(schema.names)}. Pass a schema with "
                "this column, or leave the column out."
            )
    arrays = [_column(field.name, [record.get(field.name) for record in records], start, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(name: str, values: Sequence[Any], start: int, kind: pa.DataType | None) -> Any:
    """Returns a column. Raises BadData if a record doesn't fit; the message names the first such record."""
    try:
        return _converted(values, kind)
    except _ERRORS as exc:
        known = [None if _is_missing(value) else value for value in values]
        if any(there is not value for there, value in zip(known, values, strict=True)):
            return _column(name, known, start, kind)
        expected = kind if kind is not None else _type_of_first(values)
        number = next((number for number, value in enumerate(values, start) if not _fits(value, expected)), start)
        value = shown(values[number - start])
        raise BadData(
            f"Record {number}: {name!r} is {value}, expected {expected or _POSSIBLE}. The first records determine the types; pass schema= "
            "to set them."
        ) from exc


def _is_missing(value: Any) -> bool:
    """Returns whether this is a missing value of pandas, or a masked value of NumPy. Arrow doesn't recognise these values."""
    return value is np.ma.masked or (type(value).__name__ in ("NAType", "NaTType") and type(value).__module__.startswith("pandas."))


def _type_of_first(values: Sequence[Any]) -> pa.DataType | None:
    first = next((value for value in values if value is not None), None)
    try:
        kind: pa.DataType = _converted([first], None).type
    except _ERRORS:
        return None
    return kind


def _fits(value: Any, kind: pa.DataType | None) -> bool:
    if value is None:
        return True
    try:
        _converted([value], kind)
    except _ERRORS:
        return False
    return kind is not None


def _converted(values: Sequence[Any], kind: pa.DataType | None) -> Any:
    """Returns a column of these values: arrays of one shape become tensors, and all other values are converted by Arrow."""
    if any(value is np.ma.masked for value in values):
        raise TypeError("Arrow would take a masked value for a number")
    first = next((value for value in values if value is not None), None)
    is_tensor = isinstance(kind, pa.FixedShapeTensorType)
    if first is None or not (is_tensor or hasattr(first, "__array__")):
        return _exact(values, kind)
    arrays = [None if value is None else as_numpy(value) for value in values]
    if all(_has_shape(array) for array in arrays) and len({array.shape for array in arrays if array is not None}) == 1:
        column = column_of(np.stack([array for array in arrays if array is not None]))
        if kind is None or column.type == kind:
            return column
        if (
            isinstance(kind, pa.FixedShapeTensorType)
            and isinstance(column.type, pa.FixedShapeTensorType)
            and column.type.shape == kind.shape
        ):
            return _arrow.ExtensionArray.from_storage(kind, column.storage.cast(kind.storage_type))
    return _exact([None if array is None else _plain(array) for array in arrays], kind)


def _has_shape(array: Any) -> bool:
    """Returns whether an array can be stored as a tensor."""
    return array is not None and array.ndim > 0 and array.dtype.kind in "biuf" and not np.ma.is_masked(array)


def _exact(values: Sequence[Any], kind: pa.DataType | None) -> Any:
    """Returns a column of these values. Raises ArrowException instead of truncating a fraction in a column of whole numbers."""
    if kind is None:
        return _arrow.array(values)
    try:
        inferred = _arrow.array(values)
    except pa.ArrowException:
        return _arrow.array(values, type=kind)  # a type that must be given in the schema, such as a map
    if inferred.type == kind:
        return inferred
    column = _arrow.array(values, type=kind)
    if _has_fractions(inferred.type):
        inferred.cast(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)
    return column


def _has_fractions(kind: Any) -> bool:
    """Returns whether the type contains floats, at any depth."""
    return pa.types.is_floating(kind) or any(_has_fractions(kind.field(place).type) for place in range(kind.num_fields))


def _plain(array: Any) -> Any:
    """Returns an array as a value that Arrow can convert: a number, a date, a list of numbers, or lists of lists."""
    if not array.ndim:
        return array.item() if array.dtype == "datetime64[D]" else array[()]
    return array if array.ndim == 1 and not np.ma.is_masked(array) else array.tolist()
