"""Converts Hadoop's Writables into columns, for all rows at once.

Determines the column type of each class, and which objects are bad records.

`formats/hadoop/writables_encoder.py` shows the byte layout. Each array object stores its type, and DL4J's records store the type of each
value. Therefore, the planner determines the types of arrays and of DL4J's values from the first records (`Kind`).
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import Array, arrow_type, binary, binary_data, pc, to_arrow
from dataprep_converter.formats.hadoop.writables_decoder import vint
from dataprep_converter.formats.hadoop.writables_encoder import NULL, NUMBERS, TEXT
from dataprep_converter.formats.tfrecord.frames import Places
from dataprep_converter.readers.hadoop.sequence_frames import Cells
from dataprep_converter.records.columns import IS_SEQUENCE

_IO: Final = "org.apache.hadoop.io."
_DL4J: Final = "org.datavec.hadoop.records.reader.mapfile.record."
RECORD: Final = f"{_DL4J}RecordWritable"
SEQUENCE_RECORD: Final = f"{_DL4J}SequenceRecordWritable"
ARRAY: Final = f"{_IO}ArrayPrimitiveWritable"
NOTHING: Final = f"{_IO}NullWritable"
_INT: Final = struct.Struct(">i")
_TYPE: Final = struct.Struct(">h")
_VALUES: Final = {code: NUMBERS[name] for code, name in enumerate(("bool", "int8", "float64", "float32", "int32", "int64"))}
"""DL4J's number types, keyed by code."""
_NAMES: Final = ("Boolean", "Byte", "Double", "Float", "Int", "Long", "Null", "Text", "NDArray", "Image", "Arrow", "Bytes")
_PRIMITIVES: Final = {
    "boolean": "?", "byte": "i1", "short": ">i2", "int": ">i4", "long": ">i8", "float": ">f4", "double": ">f8",
}  # fmt: skip

Found = tuple[list[Array], dict[int, str]]
"""A column for each field, with a row for each object, and the reason for each bad row. The values in bad rows are meaningless."""


@dataclass(frozen=True)
class Kind:
    """A Java class. If objects of the class can contain different types, `of` contains the types found in the first objects."""

    java: str
    of: tuple[str | int, ...] = ()
    """The primitive type of arrays, or the type codes of the values in DL4J's records."""


class Form(Protocol):
    """Converts the objects of one kind into columns."""

    def fields(self) -> list["pa.Field[Any]"]:
        """The fields of the columns."""
        ...

    def columns(self, cells: Cells) -> Found:
        """The columns of some objects."""
        ...


def kind(java: str, first: Cells, uri: str) -> Kind:
    """The kind of a class, determined from its first objects. Raises BadSpec for a class or a type that can't be read."""
    if java == ARRAY:
        names = {name for row in first.rows() if (name := _primitive(row)) is not None}
        if unknown := names - set(_PRIMITIVES):
            raise BadSpec(f"{uri} holds arrays of {min(unknown)}; known: {', '.join(_PRIMITIVES)}.", uri=uri)
        return Kind(java, tuple(sorted(names)[:1]))
    if java in (RECORD, SEQUENCE_RECORD):
        return Kind(java, _codes(first, uri, is_sequence=java == SEQUENCE_RECORD))
    if java not in _FORMS and java != NOTHING:
        classes = ", ".join(name.rpartition(".")[2] for name in (*_FORMS, NOTHING, ARRAY, RECORD, SEQUENCE_RECORD))
        raise BadSpec(f"{uri} holds objects of the class {java}; known: {classes}.", uri=uri)
    return Kind(java)


def form(of: Kind, name: str) -> Form | None:
    """The form that converts objects of the kind `of`. DL4J's records become a column for each of their values; any other objects become
    one column named `name`.

    Returns None for a kind without values.
    """
    if of.java in (RECORD, SEQUENCE_RECORD):
        return _Records([int(code) for code in of.of], is_sequence=of.java == SEQUENCE_RECORD)
    if of.java == ARRAY:
        return _Arrays(name, str(of.of[0])) if of.of else None
    return None if of.java == NOTHING else _FORMS[of.java](name)


# --- plain objects ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Numbers:
    name: str
    dtype: str

    def fields(self) -> list["pa.Field[Any]"]:
        return [pa.field(self.name, _arrow_of(self.dtype))]

    def columns(self, cells: Cells) -> Found:
        width = np.dtype(self.dtype).itemsize
        sizes = cells.ends - cells.starts
        is_good = sizes == width
        return [to_arrow(_at(cells, cells.starts, is_good, self.dtype))], _wrong(
            is_good, lambda row: f"{sizes[row]:,} bytes instead of {width}"
        )


@dataclass(frozen=True)
class _VariableNumbers:
    """Numbers of variable length. A small number takes one byte. For any other number, the first byte gives the sign and the number of
    bytes that follow."""

    name: str
    dtype: str

    def fields(self) -> list["pa.Field[Any]"]:
        return [pa.field(self.name, _arrow_of(self.dtype))]

    def columns(self, cells: Cells) -> Found:
        bounds = np.iinfo(self.dtype)
        numbers = np.zeros(len(cells.starts), np.dtype(self.dtype))
        reasons: dict[int, str] = {}
        for row, data in enumerate(cells.rows()):
            number = _signed_vint(data)
            if number is None or not bounds.min <= number <= bounds.max:
                reasons[row] = f"{data[:10].hex()} is not a variable-length number of {8 * numbers.itemsize} bits"
            else:
                numbers[row] = number
        return [to_arrow(numbers)], reasons


@dataclass(frozen=True)
class _LengthPrefixed:
    """Bytes or text, preceded by their length."""

    name: str
    is_text: bool

    def fields(self) -> list["pa.Field[Any]"]:
        return [pa.field(self.name, pa.large_string() if self.is_text else pa.large_binary())]

    def columns(self, cells: Cells) -> Found:
        sizes = cells.ends - cells.starts
        if self.is_text:
            heads, lengths = _vints(cells, sizes)
        else:
            heads = np.full(len(sizes), _INT.size)
            lengths = _at(cells, cells.starts, sizes >= _INT.size, ">i4").astype(np.int64)
        is_good = (heads <= sizes) & (heads + lengths == sizes)
        reasons = _wrong(
            is_good, lambda row: f"{'text' if self.is_text else 'bytes'} in {sizes[row]:,} bytes, with a length that doesn't match"
        )
        column = _bytes_column(cells, np.where(is_good, cells.starts + heads, cells.ends), cells.ends)
        if not self.is_text:
            return [column], reasons
        try:
            return [pc.cast(column, pa.large_string())], reasons
        except pa.ArrowInvalid:
            texts = [_utf8(value.as_py()) for value in column]
            reasons |= {row: "text that is not UTF-8" for row, text in enumerate(texts) if text is None and row not in reasons}
            return [pa.array([text or "" for text in texts], pa.large_string())], reasons


@dataclass(frozen=True)
class _Arrays:
    """Arrays of numbers, preceded by the name of their type and their length."""

    name: str
    primitive: str

    def fields(self) -> list["pa.Field[Any]"]:
        return [pa.field(self.name, pa.large_list(_arrow_of(_PRIMITIVES[self.primitive])))]

    def columns(self, cells: Cells) -> Found:
        begin = struct.pack(">H", len(self.primitive)) + self.primitive.encode()
        dtype = np.dtype(_PRIMITIVES[self.primitive])
        head = len(begin) + _INT.size
        sizes = cells.ends - cells.starts
        has_head = sizes >= head
        is_good = has_head & (_at(cells, cells.starts, has_head, f"V{len(begin)}") == np.frombuffer(begin, f"V{len(begin)}")[0])
        counts = _at(cells, cells.starts + len(begin), is_good, ">i4").astype(np.int64)
        is_good &= head + counts * dtype.itemsize == sizes
        counts = np.where(is_good, counts, 0)
        content = _bytes_column(cells, np.where(is_good, cells.starts + head, cells.ends), cells.ends)
        numbers = binary_data(content)[0].view(dtype)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        lists: Any = pa.LargeListArray
        column = lists.from_arrays(to_arrow(offsets), to_arrow(_native(numbers)))
        return [column], _wrong(is_good, lambda row: f"{sizes[row]:,} bytes that are not an array of {self.primitive}")


_FORMS: Final[Mapping[str, Any]] = {
    f"{_IO}Text": lambda name: _LengthPrefixed(name, is_text=True),
    f"{_IO}BytesWritable": lambda name: _LengthPrefixed(name, is_text=False),
    f"{_IO}BooleanWritable": lambda name: _Numbers(name, "?"),
    f"{_IO}ByteWritable": lambda name: _Numbers(name, "i1"),
    f"{_IO}ShortWritable": lambda name: _Numbers(name, ">i2"),
    f"{_IO}IntWritable": lambda name: _Numbers(name, ">i4"),
    f"{_IO}LongWritable": lambda name: _Numbers(name, ">i8"),
    f"{_IO}VIntWritable": lambda name: _VariableNumbers(name, "i4"),
    f"{_IO}VLongWritable": lambda name: _VariableNumbers(name, "i8"),
    f"{_IO}FloatWritable": lambda name: _Numbers(name, ">f4"),
    f"{_IO}DoubleWritable": lambda name: _Numbers(name, ">f8"),
}


# --- DL4J's records -----------------------------------------------------------------------------------------------


class _Records:
    """DL4J's records: values one after another, each preceded by the code of its type. In a sequence, each step consists of several values
    with their type codes."""

    def __init__(self, codes: Sequence[int], *, is_sequence: bool) -> None:
        self._codes = codes
        self._is_sequence = is_sequence
        types = [pa.large_string() if code == TEXT else _arrow_of(_VALUES[code].stored.str) for code in codes]
        self._types = [pa.large_list(column_type) for column_type in types] if is_sequence else types

    def fields(self) -> list["pa.Field[Any]"]:
        return [
            pa.field(str(at), column_type, metadata=IS_SEQUENCE if self._is_sequence else None)
            for at, column_type in enumerate(self._types)
        ]

    def columns(self, cells: Cells) -> Found:
        together = None if self._is_sequence or TEXT in self._codes else self._together(cells)
        if together is not None:
            return together, {}
        columns: list[list[Any]] = [[] for _ in self._codes]
        reasons: dict[int, str] = {}
        for row, data in enumerate(cells.rows()):
            try:
                steps = list(_steps(data, is_sequence=self._is_sequence))
                self._check(steps)
            except ValueError as exc:
                reasons[row] = str(exc)
                steps = []
            for at, column in enumerate(columns):
                values = [step[at][1] for step in steps]
                column.append(values if self._is_sequence else values[0] if values else None)
        return [pa.array(column, column_type) for column, column_type in zip(columns, self._types, strict=True)], reasons

    def _together(self, cells: Cells) -> list[Array] | None:
        """The columns, if all records have only numbers of the expected types and no nulls; otherwise None."""
        layout: Any = [("count", ">i4")]
        for at, code in enumerate(self._codes):
            layout += [(f"code {at}", ">i2"), (f"value {at}", _VALUES[code].stored)]
        dtype = np.dtype(layout)
        if not (cells.ends - cells.starts == dtype.itemsize).all():
            return None
        records = _at(cells, cells.starts, np.ones(len(cells.starts), np.bool_), dtype)
        if not (records["count"] == len(self._codes)).all():
            return None
        if not all((records[f"code {at}"] == code).all() for at, code in enumerate(self._codes)):
            return None
        return [to_arrow(_native(records[f"value {at}"])) for at in range(len(self._codes))]

    def _check(self, steps: Sequence[Sequence[tuple[int, Any]]]) -> None:
        for step in steps:
            if len(step) != len(self._codes):
                raise ValueError(f"{len(step)} values, the first records have {len(self._codes)}")
            for at, ((code, _), expected) in enumerate(zip(step, self._codes, strict=True)):
                if code not in (expected, NULL):
                    raise ValueError(f"value {at} is {_type_name(code)}, but {_type_name(expected)} in the first records")
                if code == NULL and self._is_sequence:
                    raise ValueError(f"value {at} of a step is missing")


def _steps(data: bytes, *, is_sequence: bool) -> Iterator[list[tuple[int, Any]]]:
    """Yields a list of (code, value) pairs for each step. A record that is not a sequence has one step. Raises ValueError for invalid
    bytes."""
    count, at = (_number(_INT, data, 0), _INT.size) if is_sequence else (1, 0)
    if is_sequence and count == 0:
        _end(data, at)
        return
    width, at = _number(_INT, data, at), at + _INT.size
    if count < 0 or width < 0 or count * width * _TYPE.size > len(data):
        raise ValueError(f"{count:,} x {width:,} values in {len(data):,} bytes")
    for _ in range(count):
        step: list[tuple[int, Any]] = []
        for _ in range(width):
            code, value, at = _value(data, at)
            step.append((code, value))
        yield step
    _end(data, at)


def _value(data: bytes, at: int) -> tuple[int, Any, int]:
    """The code of the value at position `at`, the value, and the position of the next value."""
    code, at = _number(_TYPE, data, at), at + _TYPE.size
    if code == NULL:
        return code, None, at
    if code == TEXT:
        length, at = vint(data, at)
        if len(data) - at < length:
            raise ValueError("a value is truncated")
        return code, data[at : at + length].decode(), at + length
    if code not in _VALUES:
        raise ValueError(f"a value of the type {_type_name(code)}, which can't be read")
    dtype = _VALUES[code].stored
    if len(data) - at < dtype.itemsize:
        raise ValueError("a value is truncated")
    return code, np.frombuffer(data, dtype, 1, at)[0].item(), at + dtype.itemsize


def _codes(first: Cells, uri: str, *, is_sequence: bool) -> tuple[int, ...]:
    """The type code of each value, determined from the first records. Raises BadSpec if these records are invalid or don't determine a
    type."""
    type_codes: list[int] = []
    for data in first.rows():
        try:
            for step in _steps(data, is_sequence=is_sequence):
                codes = [code for code, _ in step]
                if not type_codes:
                    type_codes = codes
                if len(codes) == len(type_codes):
                    type_codes = [other if code == NULL else code for code, other in zip(type_codes, codes, strict=True)]
        except ValueError as exc:
            raise BadSpec(f"{uri}: its first records can't be read: {exc}.", uri=uri) from exc
    if NULL in type_codes:
        raise BadSpec(
            f"{uri}: value {type_codes.index(NULL)} is missing in all of the first records, so its type can't be determined.", uri=uri
        )
    return tuple(type_codes)


def _type_name(code: int) -> str:
    return _NAMES[code] if 0 <= code < len(_NAMES) else str(code)


# --- bytes --------------------------------------------------------------------------------------------------------


def _at(cells: Cells, starts: Places, is_there: npt.NDArray[np.bool_], dtype: Any) -> npt.NDArray[Any]:
    """The number at each given position, in native byte order. The number is zero where `is_there` is false."""
    kind = np.dtype(dtype)
    content = np.zeros((len(starts), kind.itemsize), np.uint8)
    if is_there.any():
        data = np.frombuffer(cells.data, np.uint8)
        content[is_there] = data[starts[is_there][:, None] + np.arange(kind.itemsize)]
    return _native(content.view(kind)[:, 0])


def _native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values if values.dtype.fields or values.dtype.kind == "V" else values.astype(values.dtype.newbyteorder("="))


def _bytes_column(cells: Cells, starts: Places, ends: Places) -> Array:
    """The bytes of all rows as a column."""
    content = b"".join(cells.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
    return binary(np.frombuffer(content, np.uint8), np.concatenate((np.zeros(1, np.int64), np.cumsum(ends - starts))))


def _vints(cells: Cells, sizes: Places) -> tuple[Places, Places]:
    """The size and the value of the vint at the start of each row.

    If a row has no complete vint, the returned size is larger than the row.
    """
    values = _at(cells, cells.starts, sizes > 0, "i1").astype(np.int64)
    heads = np.where(sizes > 0, 1, sizes + 1)
    for row in np.flatnonzero(values < 0).tolist():
        try:
            values[row], heads[row] = vint(cells[row][:5], 0)
        except ValueError:
            heads[row] = sizes[row] + 1
    return heads, values


def _signed_vint(data: bytes) -> int | None:
    """The number, if the bytes are exactly one number; otherwise None."""
    first = int.from_bytes(data[:1], "big", signed=True) if data else -128
    size = 0 if first >= -112 else -112 - first if first >= -120 else -120 - first
    if len(data) != 1 + size:
        return None
    if not size:
        return first
    number = int.from_bytes(data[1:], "big")
    return number if first >= -120 else ~number


def _primitive(row: bytes) -> str | None:
    size = int.from_bytes(row[:2], "big")
    return row[2 : 2 + size].decode("latin-1") if len(row) >= 2 + size else None


def _arrow_of(dtype: str) -> pa.DataType:
    return arrow_type(np.dtype(dtype).name)


def _wrong(is_good: npt.NDArray[np.bool_], reason: Any) -> dict[int, str]:
    return {row: reason(row) for row in np.flatnonzero(~is_good).tolist()}


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _number(form_: struct.Struct, data: bytes, at: int) -> int:
    if len(data) - at < form_.size:
        raise ValueError("a value is truncated")
    number: int = form_.unpack_from(data, at)[0]
    return number


def _end(data: bytes, at: int) -> None:
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes after the last value")
