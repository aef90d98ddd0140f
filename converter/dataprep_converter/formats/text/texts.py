"""Convert columns to text for the text formats (`jsonl`, `csv`), a complete column at a time."""

import binascii
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core import native
from dataprep_converter.core.errors import BadData
from dataprep_converter.core.native import DictionaryColumn, Lengths
from dataprep_converter.core.tensors import Array, binary, binary_data, null_mask, pc, to_arrow
from dataprep_converter.formats.columnar.tables_encoder import leaves
from dataprep_converter.records.feature import FeatureSpec

NOTHING: Final = pa.scalar("", pa.large_string())
"""The empty separator. Arrow's function for joining strings requires a separator."""

_VALUES: Final = 1 << 20
"""The largest number of tensor values that are written in one step. As text, each value takes more than ten bytes."""
_WHOLE: Final = "^-?[0-9]+$"
_arrow: Any = pa  # the type stubs don't cover types and buffers that are known only at run time


def text(value: str) -> Any:
    """Return the string as a scalar, which `join` repeats in every row."""
    return pa.scalar(value, pa.large_string())


def join(*pieces: Any) -> Array:
    """Concatenate the pieces row by row."""
    texts: Array = pc.binary_join_element_wise(*pieces, NOTHING)
    return texts


def content(lines: Array) -> memoryview:
    """Return the concatenated bytes of a column of strings."""
    data, offsets = binary_data(lines.cast(pa.large_binary()))
    return memoryview(data[offsets[0] : offsets[-1]].data).toreadonly()


def slices(batch: pa.RecordBatch, features: Sequence[FeatureSpec]) -> Iterator[pa.RecordBatch]:
    """Split the batch into parts whose text fits into memory."""
    values = sum(math.prod(feature.shape) for feature in features if -1 not in feature.shape)
    step = max(1, _VALUES // max(1, values))
    for first in range(0, batch.num_rows, step):
        yield batch.slice(first, step)


def numbers(values: Array) -> Array:
    """Convert each number to the shortest text that gives the same value in the number's type. The column must have no nulls.

    Examples are `7`, `0.1`, `1.0`, `1e+20`, `nan` and `true`.
    """
    if not pa.types.is_floating(values.type):
        integers: Array = values.cast(pa.large_string())
        return integers
    floats: Any = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    texts: Array = floats.cast(pa.large_string())
    # Arrow writes 1.0 as 1, which readers that infer types from values would take for an integer.
    is_whole = pc.match_substring_regex(texts, _WHOLE)
    if pc.any(is_whole).as_py():
        texts = pc.if_else(is_whole, join(texts, text(".0")), texts)
    return texts


def strings(values: Array, *, feature_name: str) -> Array:
    """Convert text or UTF-8 bytes, without nulls, to large_string.

    Raises BadData, naming the feature `feature_name`, for bytes that aren't UTF-8.
    """
    try:
        texts: Array = values.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid as exc:
        raise BadData(f"The feature {feature_name!r} has a value that isn't UTF-8.") from exc
    return texts


def base64(values: Array) -> Array:
    """Convert bytes without nulls to padded base64 text, all rows in one call."""
    if not len(values):
        return pa.array([], pa.large_string())
    data, offsets = binary_data(values.cast(pa.large_binary()))
    lengths = np.diff(offsets)
    fill = -lengths % 3
    if fill.any():
        fillings: Any = pa.array([b"", b"\0", b"\0\0"], pa.large_binary())
        data, offsets = binary_data(native.join([values.cast(pa.large_binary()), DictionaryColumn(fillings, fill)], len(fill)))
    encoded = np.frombuffer(bytearray(binascii.b2a_base64(data[offsets[0] : offsets[-1]].data, newline=False)), np.uint8)
    ends = (offsets - offsets[0]) // 3 * 4
    for missing in (1, 2):
        encoded[ends[1:][fill >= missing] - missing] = ord("=")
    return binary(encoded, ends).cast(pa.large_string())


def lists(items: Array, offsets: Lengths, separator: str) -> Array:
    """Join the items of each row with a separator. Row n consists of the items from `offsets[n]` up to `offsets[n + 1]`."""
    rows = _arrow.LargeListArray.from_arrays(to_arrow(offsets), items)
    texts: Array = pc.binary_join(rows, text(separator))
    return texts


def with_nulls(column: Array, values: Array, null: str) -> Array:
    """Return a string for each row of `column`: `null` for a null, and the next string of `values` for any other row."""
    if not column.null_count:
        return values
    missing = null_mask(column)
    places = np.zeros(len(column), np.int64)
    places[~missing] = np.arange(len(values))
    with_gaps: Any = values.take(_arrow.array(places, mask=missing))
    texts: Array = pc.fill_null(with_gaps, text(null))
    return texts


def first_non_finite(column: Array) -> tuple[int, str] | None:
    """Return the (row, value) pair of the first NaN or infinity in a column of floats or lists of floats. None if all are finite."""
    if _all_finite(column):
        return None
    row = next(row for row in range(len(column)) if not _all_finite(column.slice(row, 1)))
    values = _floats(column.slice(row, 1))
    return row, str(values.filter(pc.invert(pc.is_finite(values)))[0].as_py())


def _all_finite(column: Array) -> bool:
    return pc.all(pc.is_finite(_floats(column))).as_py() in (True, None)


def _floats(column: Array) -> Any:
    values: Any = leaves(column.drop_null() if column.null_count else column)
    return values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
