"""Contents: what the columns of a batch become inside a protobuf message, row by row, without a loop over values.

A content is the packed numbers or the byte string of one row; the encoder adds tags, lengths and keys around it. Where all
rows have contents of the same length, they are a matrix; else a column of byte strings.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.lists import is_list, is_ragged, item_type
from dataprep_converter.core.native import Bytes, DictionaryColumn, Lengths, join, varints
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, binary, binary_data, is_tensor, pc, to_numpy, widened

MISSING: Final = -1
"""Length of a null's content."""
OWN_PIECE: Final = 512
"""From this width on, fixed contents are joined from where they are instead of being copied into a run first."""
_KEPT: Final = 4096
"""Codes below which all are kept that were looked up."""
_FEW_ROWS: Final = 128
"""Up to this many rows, plain Python is faster than the first call of numpy: a batch of images is few rows."""


def varint(value: int) -> bytes:
    """A non-negative number in base 128, low groups first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimited(tag: bytes, content: bytes) -> bytes:
    """A field of bytes: tag, length, content."""
    return tag + varint(len(content)) + content


@dataclass(frozen=True)
class Fixed:
    """Contents of equal length: `values[row]` is written as `dtype`."""

    values: npt.NDArray[Any]
    dtype: np.dtype[Any]

    @property
    def width(self) -> int:
        """Bytes of a content."""
        return math.prod(self.values.shape[1:]) * self.dtype.itemsize

    def as_ragged(self) -> "Ragged":
        """The same as a column of byte strings."""
        rows = len(self.values)
        data = np.ascontiguousarray(self.values, dtype=self.dtype)
        return Ragged(content=binary(data, even_offsets(rows, self.width)), lengths=np.full(rows, self.width, np.int64))


@dataclass(frozen=True)
class Ragged:
    """Contents of different lengths, as a large_binary column, and the lengths: `MISSING` for a null."""

    content: Array
    lengths: Lengths


Part: TypeAlias = Fixed | Ragged
"""The contents of a column."""


def contents(column: Array, *, kind: str, raw: bool) -> Part:
    """A column's contents for a list of `kind` (as in FeatureSpec); `raw`: numbers as a tensor's bytes."""
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    if kind == "bytes":
        return _raw_part(column) if raw and item_type(column.type) in NUMPY_NAMES else _bytes_part(column)
    if column.null_count or is_ragged(column.type):
        values, counts, missing = _flattened(column)
        return _float_lists(values, counts, missing) if kind == "float" else _int_lists(values, counts, missing)
    matrix = to_numpy(column).reshape(len(column), -1)
    return Fixed(matrix, np.dtype("<f4")) if kind == "float" else _int_part(matrix)


def grouped(items: Array, counts: Lengths) -> Part:
    """The contents of rows that are made of so many neighbours of a column of byte strings each."""
    data, offsets = binary_data(items)
    ends = offsets[np.concatenate(([0], np.cumsum(counts)))]
    lengths = np.diff(ends)
    if np.all(lengths == lengths[0]):
        return Fixed(data[ends[0] : ends[-1]].reshape(len(counts), lengths[0]), np.dtype(np.uint8))
    return Ragged(content=binary(data, ends), lengths=lengths)


def has_one_size(kind: pa.DataType) -> bool:
    """Whether each row has the same number of values."""
    return not is_list(kind) or pa.types.is_fixed_size_list(kind)


def is_whole(kind: pa.DataType) -> bool:
    """Numbers that an int64 holds."""
    return pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and kind != pa.uint64())


def is_bytes(kind: pa.DataType) -> bool:
    """Text or bytes."""
    return any(check(kind) for check in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_string, pa.types.is_large_string))


def is_raw(kind: pa.DataType) -> bool:
    """What can be stored as a tensor's bytes, or has been made them before."""
    return kind in NUMPY_NAMES or is_bytes(kind)


def _raw_part(column: Array) -> Fixed:
    """A tensor's bytes, row-major and little-endian."""
    if column.null_count:
        raise BadSpec("A null can't be written as a tensor's bytes.")
    values = to_numpy(column).reshape(len(column), -1)
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return Fixed(little.view(np.uint8).reshape(len(column), -1), np.dtype(np.uint8))


def _bytes_part(column: Array) -> Part:
    if is_list(column.type):
        return _bytes_lists(column)
    missing = _missing(column)
    content = _large_binary(column)
    data, offsets = binary_data(content)
    lengths = np.diff(offsets)
    if missing is not None:
        return Ragged(content=content, lengths=np.where(missing, MISSING, lengths))
    if lengths[0] < OWN_PIECE and np.all(lengths == lengths[0]):
        return Fixed(data[offsets[0] : offsets[-1]].reshape(len(column), lengths[0]), np.dtype(np.uint8))
    return Ragged(content=content, lengths=lengths)


def _bytes_lists(column: Array) -> Ragged:
    """Each value with its own tag and length, row after row."""
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


def _flattened(column: Array) -> tuple[npt.NDArray[Any], Lengths, npt.NDArray[np.bool_] | None]:
    """The values of all rows, how many each row has, and which rows are null."""
    rows: Any = column.storage if is_tensor(column.type) else column  # type: ignore[attr-defined] # only extension arrays have it
    if not is_list(rows.type):
        missing = _missing(rows)
        return to_numpy(rows.drop_null()), np.asarray(rows.is_valid(), dtype=np.int64), missing
    counts, missing = _counts(rows)
    return to_numpy(no_nulls(rows.flatten())), counts, missing


def _counts(column: Array) -> tuple[Lengths, npt.NDArray[np.bool_] | None]:
    counts = pc.list_value_length(column)
    return pc.fill_null(counts, 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False), _missing(column)


def _missing(column: Array) -> npt.NDArray[np.bool_] | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


def no_nulls(values: Array) -> Array:
    """The column itself. Raises BadSpec when a null is in it: the projector has made such samples bad."""
    if values.null_count:
        raise BadSpec("A list holds a null: a record has no place for it.")
    return values


def look_up(codes: Lengths, make: Callable[[int], bytes]) -> tuple[DictionaryColumn, Lengths]:
    """`make(code)` of each row, and its length. `make` is called once for each code that there is (or for each of a few rows)."""
    (found,) = look_ups(codes, make)
    return found


def look_ups(codes: Lengths, *makes: Callable[[int], bytes]) -> Iterator[tuple[DictionaryColumn, Lengths]]:
    """The same of several, for which the codes are told apart once."""
    unique, places = (codes, np.arange(len(codes))) if len(codes) <= _FEW_ROWS else _unique(codes)
    for make in makes:
        made = [make(code) for code in unique.tolist()]
        yield DictionaryColumn(pa.array(made, pa.large_binary()), places), np.fromiter(map(len, made), np.int64, len(made))[places]


class LookUp:
    """The same as `look_up` for one `make`, which takes every number from `first` on; what it made of small ones is kept."""

    def __init__(self, make: Callable[[int], bytes], *, first: int = 0) -> None:
        self.make = lru_cache(maxsize=1 << 16)(make)
        self._first = first
        self._table: Array = pa.array([], pa.large_binary())
        self._sizes: Lengths = np.empty(0, np.int64)

    def __call__(self, codes: Lengths) -> tuple[DictionaryColumn, Lengths]:
        """`make(code)` of each row, and its length."""
        needed = int(codes.max()) - self._first + 1
        if len(codes) <= _FEW_ROWS or needed > _KEPT:
            return look_up(codes, self.make)
        if needed > len(self._sizes):
            made = [self.make(code) for code in range(self._first, self._first + min(2 * needed, _KEPT))]
            self._table = pa.array(made, pa.large_binary())
            self._sizes = np.fromiter(map(len, made), np.int64, len(made))
        places = codes - self._first
        return DictionaryColumn(self._table, places), self._sizes[places]


def _unique(codes: Lengths) -> tuple[Lengths, Lengths]:
    """The distinct codes in order, and the place of each row's code among them."""
    lowest = codes.min()
    span = int(codes.max() - lowest) + 1
    if span > 4 * len(codes) + 64:
        return np.unique(codes, return_inverse=True)
    # Lengths lie close together, and counting them takes a fifth of the time of sorting them.
    present = np.bincount(codes - lowest, minlength=span) > 0
    return np.flatnonzero(present) + lowest, (np.cumsum(present) - 1)[codes - lowest]


def _ragged(data: Bytes, lengths: Lengths, missing: npt.NDArray[np.bool_] | None) -> Ragged:
    content = binary(data, np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))))
    return Ragged(content=content, lengths=lengths if missing is None else np.where(missing, MISSING, lengths))


def even_offsets(rows: int, width: int) -> Lengths:
    """Where each of this many rows of a width begins, and the last one ends."""
    return np.arange(rows + 1, dtype=np.int64) * width


def _large_binary(column: Array) -> Array:
    if column.null_count:
        column = pc.fill_null(column, b"" if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type) else "")
    if pa.types.is_large_binary(column.type):
        return column
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        # In a tenth of the time that a call of Arrow's cast takes for a few rows.
        return widened(column)
    return column.cast(pa.large_binary())
