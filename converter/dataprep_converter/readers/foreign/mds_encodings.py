"""The column encodings of MosaicML Streaming's MDS format, and how columns' contents become values.

An encoding is a name such as `int`, `jpeg` or `ndarray:float32:3,4`, which a data set's index gives for each column.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.readers.foreign.values import (
    DTYPES,
    ForeignColumn,
    check_names,
    checked_array,
    form_of_arrays,
    text_of,
    whole_number,
)

_BYTES: Final = frozenset({"bytes", "jpeg", "jpeg_array", "png"})
_TEXTS: Final = frozenset({"str", "json", "str_decimal"})
_REFUSED: Final = {
    "pkl": "a pickle could run any code when it is read",
    "pil": "its pixels have no image format",
    "uint64": "records can't hold it",
    "ndarray": "expected a type of numbers that records can hold, and sizes of at least 1",
}
_ARRAY_DTYPES: Final = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32", 64: "uint64", 65: "int64",
    66: "float64",
}  # fmt: skip
"""The numeric types of arrays, keyed by type code. An array contains its type code if the column's encoding gives no type."""


@dataclass(frozen=True)
class MdsColumn:
    """A column of an MDS data set."""

    name: str
    encoding: str
    size: int | None
    """The number of bytes of each content, or None if contents have different sizes."""


def needs_samples(encoding: str) -> bool:
    """Whether the column's type must be determined from its first arrays, because the encoding doesn't give a shape."""
    return encoding.partition(":")[0] == "ndarray" and encoding.count(":") < 2


def column_of(column: MdsColumn, contents: Sequence[bytes], *, uri: str) -> ForeignColumn:
    """The column of the records. `contents` contains the column's bytes in the first records. Only columns for which `needs_samples` is
    true need them. Raises BadSpec for an encoding that can't be read, and for arrays that have no common shape."""
    kind, _, rest = column.encoding.partition(":")
    if kind in _BYTES:
        return ForeignColumn(column.name, "Bytes")
    if kind in _TEXTS:
        return ForeignColumn(column.name, "Text")
    if kind in ("int", "str_int"):
        return ForeignColumn(column.name, "Number", "int64")
    if kind == "str_float":
        return ForeignColumn(column.name, "Number", "float64")
    if kind in DTYPES:
        return ForeignColumn(column.name, "Number", kind)
    dtype, _, shape = rest.partition(":")
    sizes = tuple(int(size) if size.isascii() and size.isdigit() else 0 for size in shape.split(",")) if shape else ()
    if kind != "ndarray" or dtype not in ({*DTYPES} if shape else {*DTYPES, ""}) or not all(sizes):
        reason = _REFUSED.get(kind, "no such encoding is known")
        raise BadSpec(
            f"{uri}: the column {column.name!r} has the encoding {column.encoding}, which source.mds can't read ({reason}); "
            "list the other columns in source.mds.columns.",
            uri=uri,
        )
    if shape:
        return ForeignColumn(column.name, "Tensor", dtype, sizes)
    return _column_of_arrays(column, [_array(content, dtype) for content in contents], uri=uri)


def _column_of_arrays(column: MdsColumn, arrays: Sequence["np.ndarray[Any, Any]"], *, uri: str) -> ForeignColumn:
    if form := form_of_arrays(column.name, arrays):
        return form
    dtypes, shapes = sorted({array.dtype.name for array in arrays}), sorted({array.shape for array in arrays})
    raise BadSpec(
        f"{uri}: the arrays of the column {column.name!r} have the types {', '.join(dtypes)} and the shapes {', '.join(map(str, shapes))}; "
        "the arrays of a column must have the same type, and either the same shape or a single dimension. "
        "List the other columns in source.mds.columns.",
        uri=uri,
    )


def parser_of(column: MdsColumn, form: ForeignColumn) -> Callable[[bytes], Any]:
    """The function that converts a cell's raw bytes to the column's value. For invalid bytes, that function raises BadSample."""
    kind, _, rest = column.encoding.partition(":")
    if kind in _BYTES:
        return lambda content: content
    if kind in _TEXTS:
        return text_of
    if kind == "str_int":
        return whole_number
    if kind == "str_float":
        return _float
    dtype, _, shape = rest.partition(":")
    if kind != "ndarray" or shape:
        return lambda content: _fixed(content, form)
    return lambda content: checked_array(_array(content, dtype), form)


def _fixed(content: bytes, form: ForeignColumn) -> "np.ndarray[Any, Any]":
    """A number, or an array that is stored without its shape. Raises BadSample."""
    dtype = np.dtype(form.dtype).newbyteorder("<")
    size = dtype.itemsize * math.prod(form.shape)
    if len(content) != size:
        raise BadSample(f"it has {len(content):,} bytes, expected {size:,}")
    return np.frombuffer(content, dtype).reshape(form.shape)


def _float(content: bytes) -> float:
    try:
        return float(content)
    except ValueError as exc:
        raise BadSample(f"{content[:40].decode(errors='replace')!r} is not a number") from exc


def _array(content: bytes, dtype: str) -> "np.ndarray[Any, Any]":
    """An array that is stored with its shape before its values. Raises BadSample."""
    # An array: uint8 type, unless the encoding gives it | uint8 dimensions << 2 | log2 of a dimension's bytes | dimensions | values
    try:
        at = 0
        if not dtype:
            dtype, at = _ARRAY_DTYPES[content[0]], 1
        width = 1 << (content[at] & 3)
        end = at + 1 + (content[at] >> 2) * width
        shape = np.frombuffer(content[at + 1 : end], f"<u{width}").tolist()
        values = np.frombuffer(content[end:], np.dtype(dtype).newbyteorder("<"))
        if math.prod(shape) != len(values):
            raise BadSample(f"it has {len(values)} numbers for the shape {shape}")
        if values.dtype.name not in DTYPES:
            raise BadSample(f"records can't hold {values.dtype.name}")
        return values.reshape(shape)
    except (ValueError, IndexError, KeyError) as exc:
        raise BadSample(f"it is not an array in the encoding ndarray: {exc}") from exc


def columns_of(shard: Mapping[str, Any], *, uri: str) -> list[MdsColumn]:
    """The columns that an index gives for a shard. Raises BadSpec for an index that MDSWriter can't have written."""
    names, encodings, sizes = (shard.get(f"column_{key}") for key in ("names", "encodings", "sizes"))
    if not (isinstance(names, list) and isinstance(encodings, list) and isinstance(sizes, list)) or not len(names) == len(encodings) == len(
        sizes
    ):
        raise BadSpec(f"{uri}: the index doesn't list the columns of a shard; was it written by MDSWriter?", uri=uri)
    for size in sizes:
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
            raise BadSpec(f"{uri}: the size of a column is {size!r}, expected a number or null.", uri=uri)
    check_names(list(map(str, names)), uri=uri)
    return [MdsColumn(str(name), str(encoding), size) for name, encoding, size in zip(names, encodings, sizes, strict=True)]
