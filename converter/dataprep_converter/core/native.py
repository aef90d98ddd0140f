"""Loops over records and values, for work that neither numpy nor Arrow can do in one call.

The loops are written in C. If the library is missing, equivalent Python code runs instead.

`build_native.py` builds the library from `native.c` and `resampling.c` when the package is installed, if there is a C compiler. The library
gives the same bytes as the Python code in this module. Its resampling gives the same bytes as Pillow (`images/resampling.py`).
"""

import ctypes
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from dataprep_converter.core.framing import FOOTER, HEADER, header, mask_all
from dataprep_converter.core.tensors import Array, binary, binary_data, pc, to_arrow

_SOURCES: Final = [Path(__file__).with_name(name) for name in ("native.c", "resampling.c")]
"""The C sources, in the same order as in `build_native.py`."""
_NOTHING: Final = pa.scalar(b"", pa.large_binary())
"""The empty separator. Arrow's function for joining byte strings requires a separator."""
_NO_BYTES: Final = ctypes.create_string_buffer(1)
"""A valid address for columns without any bytes."""
_BLOCK: Final = 16
"""The number of spare bytes that native.c needs after the joined data."""
_LINE: Final = 42
"""Maximum size of a line in bytes: two numbers of 20 digits, a separator and a line end."""
_VARINT: Final = 10
"""Maximum size of a varint in bytes."""
_BYTES_OF_A_LINE: Final = 32
"""The assumed average size of a line in bytes. If the lines are shorter, `places_of` must search twice."""
_PLACES_AT_ONCE: Final = 64
"""The maximum number of positions that `places_of` in native.c finds in one step.

Before each step, the output must have space for this many more positions.
"""
_COPIED: Final = 4096
"""Up to this size, copying a record is cheaper than making a view of it."""
_LOOKED_UP: Final = 2
"""The size of a table entry that native.c's `look_up` supports, in bytes."""
_BOUNDED: Final = ("<i2", "<i4", "<i8", "<u2", "<u4", "<f2", "<f4", "<f8")
"""The types that `bounds` in native.c supports. A type's index in this tuple is the type's number in native.c."""
_UNREAD: Final = int(np.iinfo(np.int64).min)
"""native.c's result for a file that it couldn't read."""
_RESAMPLED: Final = (1, 3)
"""The numbers of image channels that resampling.c supports."""
_LONGEST: Final = 1 << 24
"""Pillow stores the length of a side as a 32-bit float, which is exact below this number of pixels."""
_VARINT_LIMITS: Final = [np.uint64(1 << (7 * n)) for n in range(1, 10)]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Lengths: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DictionaryColumn:
    """A column of byte strings with few distinct values. `places` has the index (an int64) of each row's value in `table`."""

    table: Array
    places: Lengths

    def column(self) -> Array:
        """Return the byte string of each row."""
        return self.table.take(self.places)


Piece: TypeAlias = "Array | DictionaryColumn | bytes"
"""Contains the bytes of each row: a large_binary column without nulls, a `DictionaryColumn`, or the same bytes for all rows."""


def is_there() -> bool:
    """Return whether the library was built and runs on this processor."""
    return _library() is not None


def masked_crcs(data: Bytes, starts: Lengths, ends: Lengths) -> npt.NDArray[np.uint32]:
    """Return TFRecord's masked CRC-32C of `data[start:end]` for each pair of start and end.

    Raises ValueError for a range outside the data.
    """
    library = _library()
    starts, ends = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)
    if len(starts) != len(ends) or (len(starts) and (starts.min() < 0 or ends.max() > len(data) or bool((ends < starts).any()))):
        raise ValueError(f"{len(starts)} starts and {len(ends)} ends aren't valid ranges of {len(data)} bytes")
    if library is None:
        sliced: Any = data.tobytes() if len(data) <= len(starts) * _COPIED else memoryview(data.data)
        values = map(crc32c, map(sliced.__getitem__, map(slice, starts.tolist(), ends.tolist())))
        return mask_all(np.fromiter(values, np.uint32, len(starts)))
    crcs = np.empty(len(starts), np.uint32)
    library.masked_crcs(_address(data), _address(starts), _address(ends), len(starts), _address(crcs))
    return crcs


def broken(data: Bytes, starts: Lengths, ends: Lengths) -> npt.NDArray[np.int64]:
    """Return the numbers of the TFRecord records whose CRC is wrong. A record's data is `data[start:end]`, and its CRC follows."""
    footers = data[ends[:, None] + np.arange(FOOTER)].view("<u4")[:, 0]
    return np.flatnonzero(masked_crcs(data, starts, ends) != footers)


def varints(values: npt.NDArray[np.uint64], ends: Lengths) -> tuple[Bytes, Lengths]:
    """Encode all values as varints (base 128, low groups first). Also return the number of bytes in each row.

    Row n consists of the values from `ends[n]` up to `ends[n + 1]`.
    """
    library = _library()
    values, ends = np.ascontiguousarray(values), np.ascontiguousarray(ends, np.int64)
    if library is None:
        return _varints(values, ends)
    lengths = np.empty(len(ends) - 1, np.int64)
    room = np.empty(_VARINT * len(values), np.uint8)
    return room[: library.varints(_address(values), _address(ends), len(lengths), _address(lengths), _address(room))], lengths


def number_lines(first: Lengths, between: str, second: Lengths) -> "bytes | memoryview":
    """Return a line for each row: two non-negative numbers in decimal, separated by the character `between`."""
    library = _library()
    first, second = np.ascontiguousarray(first, np.int64), np.ascontiguousarray(second, np.int64)
    if library is None:
        return b"".join(b"%d%b%d\n" % (one, between.encode(), other) for one, other in zip(first.tolist(), second.tolist(), strict=True))
    room = np.empty(len(first) * _LINE, np.uint8)
    size = library.number_lines(_address(first), ord(between), _address(second), len(first), _address(room))
    return memoryview(room[:size].data)


def places_of(text: bytes, byte: int) -> npt.NDArray[np.int64]:
    """Return the positions of this byte in the text, in order."""
    library, values = _library(), np.frombuffer(text, np.uint8)
    # Without AVX2, the library is no faster than numpy.
    if library is None or not _is_wide():
        return np.flatnonzero(values == byte)
    room = len(text) // _BYTES_OF_A_LINE + _PLACES_AT_ONCE
    while True:
        places = np.empty(room, np.int64)
        count = library.places_of(_address(values), len(text), byte, _address(places), room)
        if count + _PLACES_AT_ONCE <= room:
            return places[:count]
        room = count + _PLACES_AT_ONCE


def byte_sums(values: Bytes) -> tuple[int, int]:
    """Return the sum of the values and the sum of their squares."""
    library = _library()
    if library is None:
        return int(values.sum(dtype=np.uint64)), int(np.square(values, dtype=np.uint16).sum(dtype=np.uint64))
    sums = np.empty(2, np.uint64)
    library.byte_sums(_address(values, np.uint8), values.size, _is_wide(), _address(sums))
    return int(sums[0]), int(sums[1])


def look_up(table: npt.NDArray[Any], values: Bytes, out: npt.NDArray[Any], *, line: tuple[float, float] | None = None) -> None:
    """Look up each value in a table of 256 entries, and write the entry to `out`, which has the shape of the values.

    If every entry n of a float16 table is about (n - middle) * factor, the caller can pass (middle, factor) as `line`. Entries are then
    computed instead of looked up, unless any computed entry would differ from the table's entry. Raises ValueError for wrong shapes.
    """
    if table.shape != (256,) or out.shape != values.shape:
        raise ValueError(f"expected a table of 256 entries and an output of shape {values.shape}, found {table.shape} and {out.shape}")
    library = _library()
    if library is not None and table.dtype.itemsize == _LOOKED_UP:
        source = _address(values, np.uint8), values.size
        if line is not None and library.look_up_line(_address(table), *line, *source, _is_wide(), _address(out, table.dtype)):
            return
        library.look_up(_address(table), *source, _address(out, table.dtype))
    else:
        # Arrow uses bytes directly as indices, but numpy first converts each byte to a 64-bit integer.
        out[...] = pc.take(to_arrow(table), to_arrow(values.reshape(-1)), boundscheck=False).to_numpy().reshape(values.shape)


@dataclass(frozen=True)
class Bounds:
    """The result of `bounds`, with an entry for each column."""

    least: npt.NDArray[Any]
    greatest: npt.NDArray[Any]
    """The greatest values. If a column has NaN or an infinity, at least one of its bounds isn't finite. No bound is negative zero."""
    looked_at: npt.NDArray[Any]
    """The sampled values, an array [columns, n]."""


def bounds(columns: Sequence[npt.NDArray[Any]], *, first: int, every: int) -> Bounds:
    """Return the minimum, the maximum and a sample of each column.

    The sample consists of every `every`th value, beginning with the value at index `first`. All columns must have the same type and the
    same length, which must not be 0.
    """
    library, dtype, rows = _library(), columns[0].dtype, len(columns[0])
    if any(column.dtype != dtype or column.shape != (rows,) for column in columns) or not rows or first < 0 or every < 1:
        raise ValueError(
            f"expected at least one column of {rows} {dtype}, found {[(len(column), column.dtype.name) for column in columns]}"
        )
    if library is None:
        return _without_negative_zeros(_bounds(np.stack(columns), slice(first, None, every)))
    some = len(range(first, rows, every))
    result = Bounds(np.empty(len(columns), dtype), np.empty(len(columns), dtype), np.empty((len(columns), some), dtype))
    addresses = np.array([place_of(column)[0] for column in columns], np.uint64)
    out = (_address(array) for array in (result.least, result.greatest, result.looked_at))
    library.bounds(_address(addresses), len(columns), rows, _BOUNDED.index(dtype.str), first, every, some, *out, _is_wide())
    return _without_negative_zeros(result)


def _without_negative_zeros(result: Bounds) -> Bounds:
    """Replace -0.0 with 0.0: if a column contains both zeros, either one may have been found as a bound."""
    if result.least.dtype.kind == "f":
        # Suppress the warning about a signalling NaN: the caller checks whether the bounds are finite.
        with np.errstate(invalid="ignore"):
            for ends in (result.least, result.greatest):
                np.add(ends, 0.0, out=ends)
    return result


def resample(image: Bytes, height: int, width: int, *, is_cubic: bool) -> Bytes | None:
    """Resize an image uint8[height, width, channels] with a bilinear or bicubic filter.

    Return None for an image that this function doesn't support. The caller can then use Pillow, which gives the same bytes.
    """
    library = _library()
    sizes = np.array([*image.shape[:2], height, width, image.shape[2]], np.int64)
    if library is None or image.shape[2] not in _RESAMPLED or sizes.min() < 1 or sizes.max() >= _LONGEST:
        return None
    image, resized = np.ascontiguousarray(image), np.empty((height, width, image.shape[2]), np.uint8)
    room = np.empty(library.resampling_room(_address(sizes), is_cubic), np.uint8)
    library.resample(_address(image, np.uint8), _address(sizes), is_cubic, _is_wide(), _address(room), _address(resized))
    return resized


def join(pieces: Sequence[Piece], rows: int) -> Array:
    """Return a large_binary column in which each row is the concatenation of its pieces. At least one piece must be a column."""
    library = _library()
    if library is None:
        column: Array = pc.binary_join_element_wise(*map(_for_arrow, pieces), _NOTHING)
        return column
    c_pieces = _c_pieces(pieces, rows)
    ends = np.empty(rows + 1, np.int64)
    library.row_ends(c_pieces, len(pieces), rows, 0, _address(ends))
    data = np.empty(ends[-1] + _BLOCK, np.uint8)
    library.join(c_pieces, len(pieces), rows, 0, _address(ends), _address(data))
    return binary(data, ends)


def framed(pieces: Sequence[Piece], sizes: Lengths, room: Bytes) -> Bytes:
    """Concatenate the pieces of each row and frame them as TFRecord records. `sizes` are the sizes of the records' data.

    The result is in `room` if `room` is large enough.
    """
    library = _library()
    if library is None:
        return _framed(pieces, sizes)
    ends = np.empty(len(sizes) + 1, np.int64)
    c_pieces = _c_pieces(pieces, len(sizes))
    library.row_ends(c_pieces, len(pieces), len(sizes), HEADER + FOOTER, _address(ends))
    if ends[-1] + _BLOCK > len(room):
        room = np.empty(ends[-1] + _BLOCK, np.uint8)
    library.join(c_pieces, len(pieces), len(sizes), 1, _address(ends), _address(room))
    return room[: ends[-1]]


def framed_apart(pieces: Sequence[Piece], sizes: Lengths, apart: Sequence[bool]) -> tuple[Bytes, Lengths]:
    """Return the same bytes as `framed`, but leave out the values of the columns that `apart` marks.

    Also return the offset of each left-out value, row by row, and within a row in the order of the pieces.
    """
    library = _library()
    rows, large = len(sizes), [piece for piece, is_apart in zip(pieces, apart, strict=True) if is_apart]
    if library is None:
        return _framed_apart(pieces, sizes, apart)
    c_pieces = _c_pieces(pieces, rows)
    ends = np.empty(rows + 1, np.int64)
    library.row_ends(c_pieces, len(pieces), rows, 0, _address(ends))
    left_out = sum(int(offsets[-1] - offsets[0]) for _, offsets in map(binary_data, large))  # type: ignore[arg-type, misc]  # they are columns
    room = np.empty(int(ends[-1]) - left_out + rows * (HEADER + FOOTER) + _BLOCK, np.uint8)
    cuts = np.empty(rows * len(large), np.int64)
    library.frame_apart(c_pieces, len(pieces), rows, bytes(apart), _address(ends), _address(room), _address(cuts))
    return room[:-_BLOCK], cuts


def jpeg_sizes(data: Bytes, ends: Lengths) -> Lengths | None:
    """Return the height and the width of each JPEG `data[ends[n]:ends[n + 1]]`, as int64[n, 2].

    Return None if the library is missing, or if a JPEG has an unusual structure.
    """
    library = _library()
    sizes = np.empty((len(ends) - 1, 2), np.int64)
    if library is None or library.jpeg_sizes(_address(data), _address(ends, np.int64), len(sizes), _address(sizes)) != len(sizes):
        return None
    return sizes


def read_files(paths: Sequence[bytes], sizes: Sequence[int], room: "Bytes") -> tuple[list[int | None], list[float]] | None:
    """Read complete files of these sizes into `room`, one after another.

    Return each file's modification time in nanoseconds, and the number of seconds that reading it took. If a file can't be read or its size
    has changed, its modification time is None, and the content of its part of `room` is undefined. Return None if the library is missing.
    """
    library = _library()
    if library is None:
        return None
    if sum(sizes) > len(room) or len(sizes) != len(paths):
        raise ValueError(f"expected {len(sizes)} paths and room for {sum(sizes):,} bytes, found {len(paths)} paths and {len(room):,} bytes")
    modified, nanoseconds = np.empty((2, len(paths)), np.int64)
    names, lengths = b"\0".join(paths) + b"\0", np.array(sizes, np.int64)
    library.read_files(names, _address(lengths), len(paths), _address(room), _address(modified), _address(nanoseconds))
    return [None if at == _UNREAD else at for at in modified.tolist()], (nanoseconds / 1e9).tolist()


def place_of(data: "bytes | bytearray | memoryview | npt.NDArray[Any]") -> tuple[int, int]:
    """Return the address and the size in bytes of a buffer. The buffer must stay alive as long as the address is used."""
    buffer = pa.py_buffer(data)  # type: ignore[arg-type]  # Arrow's stubs don't accept arrays
    return buffer.address, buffer.size


def digest_pieces(update: int, digest: int, pieces: "Sequence[bytes | bytearray | memoryview]") -> None:
    """Digest the pieces with the C function at the address `update`. This function needs the library (see `is_there`).

    Raises ValueError if the C function reports an error.
    """
    addresses, sizes = _places(pieces)
    if not _library().digest_pieces(update, digest, _address(addresses), _address(sizes), len(pieces)):
        raise ValueError("the digest can't take more bytes")


def write_pieces(descriptor: int, pieces: "Sequence[bytes | bytearray | memoryview]") -> int:
    """Write the pieces to a file, and return their total size in bytes. This function needs the library (see `is_there`).

    Raises OSError, possibly after some of the bytes have been written.
    """
    addresses, sizes = _places(pieces)
    wrong = _library().write_pieces(descriptor, _address(addresses), _address(sizes), len(pieces))
    if wrong:
        raise OSError(wrong, os.strerror(wrong))
    return int(sizes.sum())


def _places(pieces: "Sequence[bytes | bytearray | memoryview]") -> tuple[Lengths, Lengths]:
    """Return the addresses and sizes of pieces. The pieces must stay alive as long as the addresses are used."""
    places = np.array([place_of(piece) for piece in pieces], np.int64).reshape(len(pieces), 2)
    return np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1])


# --- the library --------------------------------------------------------------------------------------------------


class _Piece(ctypes.Structure):
    """The struct `piece` of native.c."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("size", ctypes.c_int64),
    )


@cache
def _library() -> Any:
    """Return the library, which is loaded only once."""
    return _load()


@cache
def _is_wide() -> bool:
    """Return whether the processor has AVX2, the wider vectors that the library can use."""
    return bool(_library().has_avx2())


def _load() -> Any:
    """Return the library, or None if it wasn't built from the current sources or can't run on this processor."""
    try:
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in _SOURCES)).hexdigest()
        library = ctypes.CDLL(str(Path(__file__).with_name(f"libnative-{digest[:12]}.so")))
    except OSError:
        return None
    for name in (
        "begin",
        "varints",
        "number_lines",
        "places_of",
        "look_up_line",
        "digest_pieces",
        "write_pieces",
        "jpeg_sizes",
        "resampling_room",
        "has_avx2",
    ):
        getattr(library, name).restype = ctypes.c_int64
    address, count = ctypes.c_void_p, ctypes.c_int64
    library.masked_crcs.argtypes = (address, address, address, count, address)
    library.varints.argtypes = (address, address, count, address, address)
    library.number_lines.argtypes = (address, count, address, count, address)
    library.places_of.argtypes = (address, count, count, address, count)
    library.byte_sums.argtypes = (address, count, count, address)
    library.look_up_line.argtypes = (address, ctypes.c_double, ctypes.c_double, address, count, count, address)
    library.look_up.argtypes = (address, address, count, address)
    library.bounds.argtypes = (address, count, count, count, count, count, count, address, address, address, count)
    library.jpeg_sizes.argtypes = (address, address, count, address)
    library.read_files.argtypes = (ctypes.c_char_p, address, count, address, address, address)
    library.digest_pieces.argtypes = (address, address, address, address, count)
    library.write_pieces.argtypes = (count, address, address, count)
    library.resampling_room.argtypes = (address, count)
    library.resample.argtypes = (address, address, count, count, address, address)
    library.row_ends.argtypes = (ctypes.POINTER(_Piece), count, count, count, address)
    library.frame_apart.argtypes = (ctypes.POINTER(_Piece), count, count, ctypes.c_char_p, address, address, address)
    library.join.argtypes = (ctypes.POINTER(_Piece), count, count, count, address, address)
    return library if library.begin() else None


def _c_pieces(pieces: Sequence[Piece], rows: int) -> "ctypes.Array[_Piece]":
    """Convert the pieces to structs for a call of native.c. The structs don't keep the pieces alive.

    Raises ValueError if native.c would read out of bounds.
    """
    return (_Piece * len(pieces))(*(_piece(piece, rows) for piece in pieces))


def _piece(piece: Piece, rows: int) -> _Piece:
    if isinstance(piece, bytes):
        return _Piece(ctypes.cast(ctypes.c_char_p(piece), ctypes.c_void_p), None, None, len(piece))
    column, places = (piece.table, piece.places) if isinstance(piece, DictionaryColumn) else (piece, None)
    if len(column if places is None else places) != rows or not pa.types.is_large_binary(column.type):
        raise ValueError(f"expected {rows} rows of large_binary, found {piece}")
    _, ends, data = column.buffers()
    offsets = ends.address + 8 * column.offset if ends else None
    content, size = (data.address, data.size) if data else (ctypes.addressof(_NO_BYTES), 0)
    return _Piece(content, offsets, None if places is None else _address(places, np.int64), size)


def _address(array: npt.NDArray[Any], dtype: Any = None) -> int:
    if not array.flags.c_contiguous or (dtype is not None and array.dtype != dtype):
        raise ValueError(
            f"expected a contiguous array of {dtype or array.dtype}, found {array.dtype} with strides of {array.strides} bytes"
        )
    address: int = array.__array_interface__["data"][0]
    return address


# --- without the library ------------------------------------------------------------------------------------------


def _for_arrow(piece: Piece) -> Any:
    if isinstance(piece, bytes):
        return pa.scalar(piece, pa.large_binary())
    return piece.column() if isinstance(piece, DictionaryColumn) else piece


def _framed(pieces: Sequence[Piece], sizes: Lengths) -> Bytes:
    unique, places = np.unique(sizes, return_inverse=True)
    headers = DictionaryColumn(pa.array([header(size) for size in unique.tolist()], pa.large_binary()), places)
    data, offsets = binary_data(join([headers, *pieces, bytes(FOOTER)], len(sizes)))
    data = data[: offsets[-1]].copy()
    footers = masked_crcs(data, offsets[:-1] + HEADER, offsets[1:] - FOOTER)
    data[(offsets[1:] - FOOTER)[:, None] + np.arange(FOOTER)] = footers.astype("<u4").view(np.uint8).reshape(-1, FOOTER)
    return data


def _framed_apart(pieces: Sequence[Piece], sizes: Lengths, apart: Sequence[bool]) -> tuple[Bytes, Lengths]:
    records = _framed(pieces, sizes)
    lengths = np.stack([_lengths(piece, len(sizes)) for piece in pieces], axis=1)
    starts = np.cumsum(sizes + (HEADER + FOOTER)) - sizes - FOOTER
    is_apart = np.array(apart, np.bool_)
    ends = (starts[:, None] + np.cumsum(lengths, axis=1))[:, is_apart].reshape(-1)
    begins = ends - lengths[:, is_apart].reshape(-1)
    segments = [records[start:end] for start, end in zip([0, *ends.tolist()], [*begins.tolist(), len(records)], strict=True)]
    return np.concatenate(segments), np.cumsum([len(segment) for segment in segments])[:-1]


def _lengths(piece: Piece, rows: int) -> Lengths:
    if isinstance(piece, bytes):
        return np.full(rows, len(piece), np.int64)
    column, places = (piece.table, piece.places) if isinstance(piece, DictionaryColumn) else (piece, slice(None))
    lengths: Lengths = np.diff(binary_data(column)[1])[places]
    return lengths


def _bounds(matrix: npt.NDArray[Any], some: slice) -> Bounds:
    if matrix.dtype != np.float16:
        return Bounds(matrix.min(axis=1), matrix.max(axis=1), matrix[:, some].copy())
    # numpy compares float16 values one by one, which takes thirty times as long as comparing their bits as integers. Flipping all bits
    # except the sign in each negative value gives the integers the same order as the floats.
    bits = matrix.view(np.int16)
    keys = bits ^ ((bits >> 15) & np.int16(0x7FFF))
    least, greatest = ((ends ^ ((ends >> 15) & np.int16(0x7FFF))).view(np.float16) for ends in (keys.min(axis=1), keys.max(axis=1)))
    return Bounds(least, greatest, matrix[:, some].copy())


def _varints(values: npt.NDArray[np.uint64], ends: Lengths) -> tuple[Bytes, Lengths]:
    widths = np.ones(len(values), np.uint8)
    largest = values.max(initial=np.uint64(0))
    for limit in _VARINT_LIMITS:
        if largest < limit:
            break
        widths += values >= limit
    width = int(widths.max(initial=1))
    out = np.empty((len(values), width), np.uint8)
    for group in range(width):
        # Besides the group's 7 bits, the cast to uint8 keeps one higher bit, which is overwritten below.
        out[:, group] = values >> np.uint64(7 * group)
    groups = np.arange(width, dtype=np.uint8)
    out |= 0x80
    out &= np.where(groups == widths[:, None] - 1, np.uint8(0x7F), np.uint8(0xFF))
    return out[groups < widths[:, None]], np.diff(np.concatenate(([0], np.cumsum(widths, dtype=np.int64)))[ends])
