"""Convert a batch's columns to *contents*, the bytes inside protobuf messages, without a loop over values.

A row's content is its packed numbers or byte string. The encoder adds tags, lengths and keys around each row's content. If the contents
of all rows have the same length, they are stored as a matrix, otherwise as a column of byte strings.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_bytes, is_text_or_bytes
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.lists import is_list, is_ragged, item_type
from dataprep_converter.core.native import Bytes, DictionaryColumn, Lengths, join, varints
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, binary, binary_data, is_tensor, null_mask, pc, to_numpy, widened

MISSING: Final = -1
"""The length that marks the content of a null."""
OWN_PIECE: Final = 512
"""Contents of a fixed length are joined directly if each has at least this many bytes.

Consecutive shorter contents are first combined into one column.
"""
_KEPT: Final = 4096
"""The number of codes whose results `LookUp` keeps."""
_FEW_ROWS: Final = 128
"""Up to this many rows, plain Python is faster than a numpy call. Batches of images have few rows."""


def varint(value: int) -> bytes:
    """Encode a non-negative number as a varint: base 128, low groups first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimited(tag: bytes, content: bytes) -> bytes:
    """Return a length-delimited field: tag, length, content."""
    return tag + varint(len(content)) + content


@dataclass(frozen=True)
class Fixed:
    """Contents of equal length. The content of a row is `values[row]`, converted to `dtype`."""

    values: npt.NDArray[Any]
    dtype: np.dtype[Any]

    @property
    def width(self) -> int:
        """The size of each row's content in bytes."""
        return math.prod(self.values.shape[1:]) * self.dtype.itemsize

    def as_ragged(self) -> "Ragged":
        """Convert these contents to a column of byte strings."""
        rows = len(self.values)
        data = np.ascontiguousarray(self.values, dtype=self.dtype)
        return Ragged(content=binary(data, even_offsets(rows, self.width)), lengths=np.full(rows, self.width, np.int64))


@dataclass(frozen=True)
class Ragged:
    """Contents of different lengths, as a large_binary column, and their lengths. A null has the length `MISSING`."""

    content: Array
    lengths: Lengths


Part: TypeAlias = Fixed | Ragged
"""The contents of a column, in one of two forms."""


def contents(column: Array, *, kind: str, raw: bool) -> Part:
    """Return a column's contents. `kind` is the type of the protobuf list that stores the values, as in FeatureSpec.

    With `raw`, numbers are written as a tensor's bytes.
    """
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    if kind == "bytes":
        return _raw_part(column) if raw and item_type(column.type) in NUMPY_NAMES else _bytes_part(column)
    if column.null_count or is_ragged(column.type):
        values, counts, missing = _flatten(column)
        return _float_lists(values, counts, missing) if kind == "float" else _int_lists(values, counts, missing)
    matrix = to_numpy(column).reshape(len(column), -1)
    return Fixed(matrix, np.dtype("<f4")) if kind == "float" else _int_part(matrix)


def grouped(items: Array, counts: Lengths) -> Part:
    """Join consecutive byte strings of a column into rows. Row n consists of `counts[n]` byte strings."""
    data, offsets = binary_data(items)
    ends = offsets[np.concatenate(([0], np.cumsum(counts)))]
    lengths = np.diff(ends)
    if np.all(lengths == lengths[0]):
        return Fixed(data[ends[0] : ends[-1]].reshape(len(counts), lengths[0]), np.dtype(np.uint8))
    return Ragged(content=binary(data, ends), lengths=lengths)


def has_one_size(kind: pa.DataType) -> bool:
    """Return whether all rows of this type have the same number of values."""
    return not is_list(kind) or pa.types.is_fixed_size_list(kind)


def is_whole(kind: pa.DataType) -> bool:
    """Return whether an int64 can hold all numbers of this type."""
    return pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and kind != pa.uint64())


def is_raw(kind: pa.DataType) -> bool:
    """Return whether values of this type can be stored raw. Text and bytes are stored unchanged, other values as a tensor's bytes."""
    return kind in NUMPY_NAMES or is_text_or_bytes(kind)


def _raw_part(column: Array) -> Fixed:
    """Return tensors as bytes, row-major and little-endian."""
    if column.null_count:
        raise BadSpec("A null can't be written as a tensor's bytes.")
    values = to_numpy(column).reshape(len(column), -1)
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return Fixed(little.view(np.uint8).reshape(len(column), -1), np.dtype(np.uint8))


def _bytes_part(column: Array) -> Part:
    if is_list(column.type):
        return _bytes_lists(column)
    missing = _null_mask(column)
    content = _large_binary(column)
    data, offsets = binary_data(content)
    lengths = np.diff(offsets)
    if missing is not None:
        return Ragged(content=content, lengths=np.where(missing, MISSING, lengths))
    if lengths[0] < OWN_PIECE and np.all(lengths == lengths[0]):
        return Fixed(data[offsets[0] : offsets[-1]].reshape(len(column), lengths[0]), np.dtype(np.uint8))
    return Ragged(content=content, lengths=lengths)


def _bytes_lists(column: Array) -> Ragged:
    """Return the contents of lists of byte strings. Each byte string has its own tag and length."""
    counts, missing = _counts(column)
    values: Any = column
    flat = _large_binary(no_nulls(values.flatten()))
    if len(flat) == 0:
        return _ragged(np.empty(0, np.uint8), np.zeros(len(column), np.int64), missing)
    prefixes, _ = look_up(np.diff(binary_data(flat)[1]), _value_prefix)
    data, offsets = binary_data(join([prefixes, flat], len(flat)))
    ends = np.concatenate(([0], np.cumsum(counts)))
    return _ragged(data, np.diff(offsets[ends]), missing)


def _value_prefix(length: int) -> bytes:
    return b"\x0a" + varint(length)


def _float_lists(values: npt.NDArray[Any], counts: Lengths, missing: npt.NDArray[np.bool_] | None) -> Ragged:
    with np.errstate(over="ignore"):
        data = np.ascontiguousarray(values, dtype="<f4")
    return _ragged(data.view(np.uint8), counts * 4, missing)


def _int_part(matrix: npt.NDArray[Any]) -> Part:
    values = matrix.astype(np.int64, copy=False).view(np.uint64)
    if values.size == 0 or values.max() < 0x80:
        return Fixed(matrix, np.dtype(np.uint8))
    data, lengths = varints(values.reshape(-1), even_offsets(*values.shape))
    if np.all(lengths == lengths[0]):
        return Fixed(data.reshape(len(values), -1), np.dtype(np.uint8))
    return _ragged(data, lengths, None)


def _int_lists(values: npt.NDArray[Any], counts: Lengths, missing: npt.NDArray[np.bool_] | None) -> Ragged:
    data, lengths = varints(values.astype(np.int64, copy=False).view(np.uint64), np.concatenate(([0], np.cumsum(counts))))
    return _ragged(data, lengths, missing)


def _flatten(column: Array) -> tuple[npt.NDArray[Any], Lengths, npt.NDArray[np.bool_] | None]:
    """Return the values of all rows, the number of values in each row, and a mask of the null rows."""
    rows: Any = column.storage if is_tensor(column.type) else column  # type: ignore[attr-defined] # only extension arrays have `storage`
    if not is_list(rows.type):
        missing = _null_mask(rows)
        return to_numpy(rows.drop_null()), np.asarray(rows.is_valid(), dtype=np.int64), missing
    counts, missing = _counts(rows)
    return to_numpy(no_nulls(rows.flatten())), counts, missing


def _counts(column: Array) -> tuple[Lengths, npt.NDArray[np.bool_] | None]:
    counts = pc.list_value_length(column)
    return pc.fill_null(counts, 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False), _null_mask(column)


def _null_mask(column: Array) -> npt.NDArray[np.bool_] | None:
    return null_mask(column) if column.null_count else None


def no_nulls(values: Array) -> Array:
    """Return the column unchanged.

    Raises BadSpec for a null. No null is expected here, because the projector rejects samples with nulls that can't be stored.
    """
    if values.null_count:
        raise BadSpec("A list contains a null, which a record can't store.")
    return values


def look_up(codes: Lengths, make: Callable[[int], bytes]) -> tuple[DictionaryColumn, Lengths]:
    """Return `make(code)` for each row, and the lengths of these results.

    `make` is called once for each distinct code or, if there are few rows, once per row.
    """
    (result,) = look_ups(codes, make)
    return result


def look_ups(codes: Lengths, *makes: Callable[[int], bytes]) -> Iterator[tuple[DictionaryColumn, Lengths]]:
    """Yield the result of `look_up` for each of several functions. The distinct codes are determined only once."""
    unique, places = (codes, np.arange(len(codes))) if len(codes) <= _FEW_ROWS else _unique(codes)
    for make in makes:
        entries = [make(code) for code in unique.tolist()]
        yield DictionaryColumn(pa.array(entries, pa.large_binary()), places), np.fromiter(map(len, entries), np.int64, len(entries))[places]


class LookUp:
    """Like `look_up`, but for a fixed `make`. Results for small numbers are cached.

    `make` must accept `first` and every larger number.
    """

    def __init__(self, make: Callable[[int], bytes], *, first: int = 0) -> None:
        self.make = lru_cache(maxsize=1 << 16)(make)
        self._first = first
        self._table: Array = pa.array([], pa.large_binary())
        self._sizes: Lengths = np.empty(0, np.int64)

    def __call__(self, codes: Lengths) -> tuple[DictionaryColumn, Lengths]:
        """Return `make(code)` for each row, and the lengths of these results."""
        needed = int(codes.max()) - self._first + 1
        if len(codes) <= _FEW_ROWS or needed > _KEPT:
            return look_up(codes, self.make)
        if needed > len(self._sizes):
            entries = [self.make(code) for code in range(self._first, self._first + min(2 * needed, _KEPT))]
            self._table = pa.array(entries, pa.large_binary())
            self._sizes = np.fromiter(map(len, entries), np.int64, len(entries))
        places = codes - self._first
        return DictionaryColumn(self._table, places), self._sizes[places]


def _unique(codes: Lengths) -> tuple[Lengths, Lengths]:
    """Return the distinct codes in order, and the position of each row's code among them."""
    lowest = codes.min()
    span = int(codes.max() - lowest) + 1
    if span > 4 * len(codes) + 64:
        return np.unique(codes, return_inverse=True)
    # The codes (such as lengths) are close together. Counting them takes only a fifth of the time of sorting them.
    present = np.bincount(codes - lowest, minlength=span) > 0
    return np.flatnonzero(present) + lowest, (np.cumsum(present) - 1)[codes - lowest]


def _ragged(data: Bytes, lengths: Lengths, missing: npt.NDArray[np.bool_] | None) -> Ragged:
    content = binary(data, np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))))
    return Ragged(content=content, lengths=lengths if missing is None else np.where(missing, MISSING, lengths))


def even_offsets(rows: int, width: int) -> Lengths:
    """Return the offsets of `rows` rows of equal width: where each row begins, and where the last row ends."""
    return np.arange(rows + 1, dtype=np.int64) * width


def _large_binary(column: Array) -> Array:
    if column.null_count:
        column = pc.fill_null(column, b"" if is_bytes(column.type) else "")
    if pa.types.is_large_binary(column.type):
        return column
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        # For a few rows, `widened` takes a tenth of the time that Arrow's cast takes.
        return widened(column)
    return column.cast(pa.large_binary())
