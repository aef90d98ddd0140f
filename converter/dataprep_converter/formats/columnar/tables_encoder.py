"""Convert features to tables: columns of fixed Arrow types. The division of records into groups doesn't depend on the batch sizes.

Tables are for columnar formats (`parquet`, `arrow`). Arrow's own writers also copy bytes that lie outside a slice or are masked by a null.
So equal values in batches of different sizes could give different files. To prevent this, the encoder copies the values of each column of a
group into a new array.
"""

import io
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_bytes, is_text
from dataprep_converter.core.errors import BadData
from dataprep_converter.core.lists import flatten_lists, is_list
from dataprep_converter.core.native import Lengths
from dataprep_converter.core.tensors import Array, arrow_type, binary_data, is_tensor, null_mask, pc, to_arrow, to_numpy
from dataprep_converter.formats.nested.nested_arrays import nested_array
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.records.kept_types import kept_name, number_type

LARGEST_GROUP: Final = 1 << 30
"""The largest group in bytes. Columns of text and bytes have 32-bit offsets, as most readers expect."""

_OFFSET: Final = 4
_arrow: Any = pa  # the type stubs don't cover types and buffers that are known only at run time


def ordered(features: Sequence[FeatureSpec]) -> list[FeatureSpec]:
    """Return the features in the order of the spec."""
    return sorted(features, key=lambda feature: feature.place)


def schema_of(features: Sequence[FeatureSpec]) -> pa.Schema:
    """Return a schema with a column for each feature: scalars, fixed_size_lists, tensors of two or more dimensions, or ragged lists."""
    return pa.schema([(feature.name, _type_of(feature)) for feature in features])


def _type_of(feature: FeatureSpec) -> pa.DataType:
    if feature.nested is not None:
        return feature.nested
    if feature.kept is not None:
        return feature.kept
    if len(feature.shape) > 1 and -1 not in feature.shape and feature.dtype != "bytes":
        return arrow_type(feature.dtype, feature.shape)
    kind = _leaf_of(feature)
    for size in reversed(feature.shape):
        kind = pa.list_(kind, size)
    return kind


def _leaf_of(feature: FeatureSpec) -> pa.DataType:
    if feature.dtype == "bytes":
        return pa.string() if feature.text else pa.binary()
    return arrow_type(feature.dtype)


class Groups:
    """Divides a stream of batches into groups of records. A group ends before the record that would make it too large."""

    def __init__(self, features: Sequence[FeatureSpec], *, most_bytes: int, most_records: int | None, least_bytes: int = 1) -> None:
        """Make an empty group. In a group's size, numbers smaller than `least_bytes` bytes count as `least_bytes` bytes."""
        self._features = ordered(features)
        self._least_bytes = least_bytes
        self.schema = schema_of(self._features)
        self._most_bytes = most_bytes
        self._most_records = most_records
        self._batches: list[pa.RecordBatch] = []
        self._records = 0
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add a batch and yield every group that is now complete. Raises BadData for text that isn't UTF-8."""
        sizes = np.zeros(batch.num_rows, np.int64)
        for feature in self._features:
            sizes += _row_bytes(batch.column(feature.name), feature.shape, self._width(feature))
        start = 0
        while start < batch.num_rows:
            ends = np.cumsum(sizes[start:])
            count = int(np.searchsorted(ends, self._most_bytes - self._bytes, side="right"))
            count = max(count, 0 if self._records else 1)
            if self._most_records is not None:
                count = min(count, self._most_records - self._records)
            is_whole = count < batch.num_rows - start
            if count:
                self._batches.append(batch.slice(start, count))
                self._records += count
                self._bytes += int(ends[count - 1])
                start += count
            if is_whole:
                yield self._build_group()

    def _width(self, feature: FeatureSpec) -> int:
        """Return the size of one of the feature's values in bytes, or 0 for text and bytes."""
        if feature.dtype == "bytes":
            return 0
        return max(self._least_bytes, np.dtype(feature.dtype).itemsize if feature.kept is None else _size_of(feature.kept))

    def rest(self) -> pa.RecordBatch | None:
        """Return the remaining records as the last group, or None if no records remain."""
        return self._build_group() if self._records else None

    def _build_group(self) -> pa.RecordBatch:
        batches, self._batches, self._records, self._bytes = self._batches, [], 0, 0
        columns = []
        for feature, field in zip(self._features, self.schema, strict=True):
            column_name = feature.name if feature.kept is None else kept_name(feature.name)
            parts: list[Any] = [batch.column(column_name) for batch in batches]
            if feature.nested is not None:
                columns.append(_nested_values(parts, feature))
                continue
            if len({part.type for part in parts}) > 1 or isinstance(parts[0].type, pa.DictionaryType):
                parts = [conformed(part, field.type, feature_name=feature.name) for part in parts]
            columns.append(conformed(parts[0] if len(parts) == 1 else pa.concat_arrays(parts), field.type, feature_name=feature.name))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _nested_values(parts: Sequence[Array], feature: FeatureSpec) -> Array:
    """Convert JSON texts to nested values.

    Raises BadData for a text that isn't of the feature's type, because a step may have changed the text.
    """
    assert feature.nested is not None  # noqa: S101 - the caller has checked it
    texts: Array = pa.concat_arrays([part.cast(pa.large_string()) for part in parts])
    try:
        return nested_array(texts, feature.nested)
    except ValueError as exc:
        raise BadData(f"The feature {feature.name!r} has a value that isn't {feature.nested}: {exc}.") from exc


class Pieces(io.RawIOBase):
    """An append-only file for Arrow's writers. Between the writers' calls, the encoder removes the written bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Append a copy of `data`, because Arrow's buffer is only valid during the call."""
        self._pieces.append(bytes(data))
        self._size += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        """Return the total number of bytes written."""
        return self._size

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


# --- sizes --------------------------------------------------------------------------------------------------------


def _row_bytes(column: Array, shape: tuple[int, ...], width: int) -> Lengths:
    """Return the size in bytes of each row's values. If rows have different lengths, the size includes the offsets.

    `width` is the size of a number in bytes, or 0 for text and bytes.
    """
    if width and -1 not in shape:
        return np.full(len(column), math.prod(shape) * width, np.int64)
    if not shape:
        # In a dictionary column, the offsets belong to the dictionary's values, not to the rows.
        plain = column.cast(column.type.value_type) if isinstance(column.type, pa.DictionaryType) else column
        lengths: Lengths = pc.fill_null(pc.binary_length(plain), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths + _OFFSET
    lists = flatten_lists(column)
    inner = np.concatenate((np.zeros(1, np.int64), np.cumsum(_row_bytes(lists.items, shape[1:], width))))
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.counts)))
    sizes: Lengths = np.diff(inner[ends]) + _OFFSET
    return sizes


# --- values -------------------------------------------------------------------------------------------------------


def conformed(column: Array, kind: pa.DataType, *, feature_name: str) -> Array:
    """Return the values as a column of exactly type `kind`, whose buffers hold no other bytes. `feature_name` is for error messages."""
    inner: Any = kind
    if is_tensor(kind):
        tensors: Array = _arrow.ExtensionArray.from_storage(kind, conformed(column, inner.storage_type, feature_name=feature_name))
        return tensors
    missing = null_mask(column) if column.null_count else None
    if number_type(kind) is not None:
        return _build_times_or_decimals(column, kind, missing)
    if pa.types.is_fixed_size_list(kind):
        return _build_fixed_size_lists(column, kind, missing, feature_name=feature_name)
    if pa.types.is_list(kind):
        lists = flatten_lists(column)
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.counts)))
        items = conformed(lists.items, inner.value_type, feature_name=feature_name)
        return _build_array(kind, len(column), [_validity(missing), ends.astype(np.int32)], children=[items])
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    without_nulls = pc.fill_null(column, _nothing(column.type)) if missing is not None else column
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        data, offsets = (
            binary_data(without_nulls.cast(pa.large_binary())) if len(column) else (np.empty(0, np.uint8), np.zeros(1, np.int64))
        )
        text_column = _build_array(
            kind, len(column), [_validity(missing), (offsets - offsets[0]).astype(np.int32), data[offsets[0] : offsets[-1]]]
        )
        return _check_utf8(text_column, feature_name)
    values = to_numpy(without_nulls)
    buffer = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return _build_array(kind, len(column), [_validity(missing), buffer])


def _build_times_or_decimals(column: Any, kind: pa.DataType, missing: npt.NDArray[np.bool_] | None) -> Array:
    """Return a column of times or decimals. Values masked by a null are zeros."""
    size = _size_of(kind)
    values = np.frombuffer(column.buffers()[1] or b"", np.uint8)[column.offset * size : (column.offset + len(column)) * size]
    if missing is not None:
        values = np.where(missing[:, None], np.uint8(0), values.reshape(len(column), size)).reshape(-1)
    return _build_array(kind, len(column), [_validity(missing), values])


def _build_fixed_size_lists(column: Array, kind: Any, missing: npt.NDArray[np.bool_] | None, *, feature_name: str) -> Array:
    """Return a column of fixed-size lists, which can be nested. Values masked by a null are zeros."""
    sizes = []
    leaf = kind
    while pa.types.is_fixed_size_list(leaf):
        sizes.append(leaf.list_size)
        leaf = leaf.value_type
    values = leaves(column.drop_null() if missing is not None else column)
    if missing is not None:
        width = math.prod(sizes)
        places = np.zeros(len(column) * width, np.int64)
        absent = np.repeat(missing, width)
        places[~absent] = np.arange(len(values))
        with_nulls: Any = values.take(_arrow.array(places, mask=absent))
        values = pc.fill_null(with_nulls, _nothing(values.type))
    lists = conformed(values, leaf, feature_name=feature_name)
    for depth in range(len(sizes) - 1, -1, -1):
        inner = kind
        for _ in range(depth):
            inner = inner.value_type
        lists = _build_array(inner, len(column) * math.prod(sizes[:depth]), [_validity(missing) if depth == 0 else None], children=[lists])
    return lists


def leaves(column: Array) -> Array:
    """Return the innermost values of all lists and tensors in a column without nulls."""
    values: Any = to_arrow(to_numpy(column).reshape(-1)) if is_tensor(column.type) else column
    while is_list(values.type):
        values = values.flatten()
    plain: Array = values.cast(values.type.value_type) if isinstance(values.type, pa.DictionaryType) else values
    return plain


def _nothing(kind: pa.DataType) -> Any:
    """Return the value that is stored in place of a null."""
    if is_text(kind):
        return _arrow.scalar("", kind)
    if is_bytes(kind):
        return _arrow.scalar(b"", kind)
    return _arrow.scalar(0, pa.int8()).cast(kind)


def _size_of(kind: Any) -> int:
    """Return the size, in bytes, of a value of a time or decimal type."""
    return int(kind.bit_width) // 8


def _validity(missing: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.uint8] | None:
    return None if missing is None else np.packbits(~missing, bitorder="little")


def _build_array(
    kind: pa.DataType, rows: int, buffers: Sequence[npt.NDArray[Any] | None], *, children: Sequence[Array] | None = None
) -> Array:
    arrow_buffers = [None if buffer is None else _arrow.py_buffer(buffer) for buffer in buffers]
    array: Array = _arrow.Array.from_buffers(kind, rows, arrow_buffers, children=children)
    return array


def _check_utf8(text: Array, feature_name: str) -> Array:
    """Return the column unchanged. Raises BadData, naming the feature, if a text in the column isn't UTF-8."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid as exc:
        raise BadData(f"The feature {feature_name!r} has a text that isn't UTF-8.") from exc
    return text
