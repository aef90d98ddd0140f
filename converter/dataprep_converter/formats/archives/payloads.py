"""Convert each row of a column to a payload: the bytes of a small file (text, JSON or .npy).

Payloads are for formats whose records consist of small files. The columns must have no nulls at the top level, because each format handles
missing values itself.
"""

import io
import json
import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.errors import BadData
from dataprep_converter.core.lists import flatten_lists, is_list, is_ragged, item_type, put_together
from dataprep_converter.core.native import join
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, binary, is_tensor, pc, to_numpy
from dataprep_converter.formats.tfrecord.contents import even_offsets, look_up

_NAMES: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""The names that Python's json module writes and reads for the floats that JSON can't represent."""


def as_it_is(column: Array) -> Array:
    """Return text or bytes unchanged, as a large_binary column."""
    return plain(column).cast(pa.large_binary())


def plain(column: Array) -> Array:
    """Return the column with its dictionary encoding removed."""
    return column.cast(column.type.value_type) if isinstance(column.type, pa.DictionaryType) else column


def text(column: Array) -> Array:
    """Return numbers as decimal text. Floats have the shortest exact form, and booleans become 0 and 1."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    return _texts(column).cast(pa.large_binary())


def _texts(column: Array) -> Array:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    texts: Array = column.cast(pa.string())
    if not pa.types.is_floating(column.type):
        return texts
    # Arrow writes 1.0 as `1`, which would be read as an integer.
    texts = pc.if_else(pc.match_substring_regex(texts, "^-?[0-9]+$"), pc.binary_join_element_wise(texts, "0", "."), texts)
    for arrows, name in _NAMES.items():
        texts = pc.if_else(pc.equal(texts, arrows), name, texts)
    return texts


def as_json(column: Array, *, name: str) -> Array:
    """Return each row as JSON: a number, or lists of numbers or text. Raises BadData, naming the feature, for bytes that aren't UTF-8."""
    column = plain(column)
    value = item_type(column.type)
    is_number = value in NUMPY_NAMES
    if is_number and not is_list(column.type) and not is_tensor(column.type):
        return _texts(column).cast(pa.large_binary())
    if is_number and is_ragged(column.type) and not is_list(column.type.value_type) and not is_tensor(column.type.value_type):
        lists = flatten_lists(column)
        inner = pc.binary_join(put_together(_texts(lists.items), lists), ",")
        json_lists: Array = pc.binary_join_element_wise("[", inner, "]", "").cast(pa.large_binary())
        return json_lists
    rows: Any = column.to_pylist() if not is_tensor(column.type) else to_numpy(column).tolist()
    try:
        json_texts = [json.dumps(_jsonable(row), ensure_ascii=False, separators=(",", ":")).encode() for row in rows]
    except UnicodeError as exc:
        raise BadData(
            f"The feature {name!r} is stored as JSON, which can hold only text, but it has bytes that aren't UTF-8: {exc}."
        ) from exc
    return pa.array(json_texts, pa.large_binary())


def _jsonable(value: Any) -> Any:
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def npy(column: Array) -> Array:
    """Return each row as a .npy file. A row is a number, a tensor, or a list of either."""
    if not is_ragged(column.type):
        values = to_numpy(column)
        matrix = _bytes_of(values)
        head = np.frombuffer(_npy_header(values.dtype, values.shape[1:]), np.uint8)
        files = np.empty((len(values), len(head) + matrix.shape[1]), np.uint8)
        files[:, : len(head)], files[:, len(head) :] = head, matrix
        return binary(files, even_offsets(*files.shape))
    content, counts, step = list_bytes(column)
    heads, _ = look_up(counts, lambda count: _npy_header(step.dtype, (count, *step.shape)))
    return join([heads, content], len(counts))


def list_bytes(column: Array) -> tuple[Array, Any, Any]:
    """Return the little-endian bytes of each row's list, the number of items in each list, and an all-zero item.

    The all-zero item has the same type and shape as every other item.
    """
    lists = flatten_lists(column)
    items = lists.items
    if is_ragged(items.type):
        raise BadData(f"Lists of lists of different lengths can't be stored as tensors: {column.type}.")
    values = to_numpy(items)
    step = np.zeros(values.shape[1:], values.dtype)
    ends = np.concatenate(([0], np.cumsum(lists.counts))) * (math.prod(step.shape) * values.itemsize)
    return binary(_bytes_of(values).reshape(-1), ends), lists.counts, step


def _bytes_of(values: Any) -> Any:
    """Return the bytes of each row, row-major and little-endian."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).reshape(len(values), math.prod(values.shape[1:]) * values.itemsize)


def _npy_header(dtype: Any, shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype.newbyteorder("<"))
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()
