"""Encode a batch's columns as Hadoop's Writables, without a loop over values. Numbers are big-endian.

    # BooleanWritable, ByteWritable 1 byte | IntWritable int32 | LongWritable int64 | FloatWritable, DoubleWritable IEEE 754
    # Text: vint length | UTF-8          BytesWritable: int32 length | bytes
    # ArrayPrimitiveWritable: uint16 length | type name (`float`) | int32 count | values
    # DL4J's RecordWritable:          int32 values | values x (int16 type | value)
    # DL4J's SequenceRecordWritable:  int32 steps | int32 values per step | steps x values x (int16 type | value);  no steps: only int32 0

Hadoop's vint is a single byte for -112 to 127. For other numbers, the first byte gives the number of bytes that follow, which are big-endian:
-113 means one byte, -114 two, and so on.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.formats.map_file import MapFileOptions
from dataprep_api.spec.formats.sequence_file import SequenceFileOptions
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.lists import flatten_lists, is_list
from dataprep_converter.core.native import Lengths, Piece, join
from dataprep_converter.core.tensors import Array, binary, binary_data, null_mask, pc, to_numpy
from dataprep_converter.formats.tfrecord.contents import MISSING, Fixed, Part, Ragged, contents, grouped, look_up
from dataprep_converter.formats.tfrecord.tfrecord_encoder import Messages
from dataprep_converter.records.feature import FeatureSpec

_HADOOP: Final = "org.apache.hadoop.io."
_DATAVEC: Final = "org.datavec.hadoop.records.reader.mapfile.record."
_BYTE: Final = np.dtype(np.uint8)
NULL: Final = 6
TEXT: Final = 7
"""DL4J's codes for a null and for text."""


@dataclass(frozen=True)
class Number:
    """How Java's classes represent a numeric type."""

    writable: str
    stored: np.dtype[Any]
    code: int
    """DL4J's code for the type."""
    primitive: str
    """Java's name for the type."""


_BOOLEAN = Number("BooleanWritable", np.dtype("?"), 0, "boolean")
_INT8 = Number("ByteWritable", np.dtype("i1"), 1, "byte")
_DOUBLE = Number("DoubleWritable", np.dtype(">f8"), 2, "double")
_FLOAT = Number("FloatWritable", np.dtype(">f4"), 3, "float")
_INT = Number("IntWritable", np.dtype(">i4"), 4, "int")
_LONG = Number("LongWritable", np.dtype(">i8"), 5, "long")
NUMBERS: Final = {
    "bool": _BOOLEAN, "int8": _INT8, "uint8": _INT, "int16": _INT, "uint16": _INT, "int32": _INT,
    "uint32": _LONG, "int64": _LONG, "float16": _FLOAT, "float32": _FLOAT, "float64": _DOUBLE,
}  # fmt: skip
"""Maps each of numpy's types to the smallest type that holds all its values and that both Hadoop and DL4J have."""
AS_BYTES: Final = ("int8", "uint8")
"""A feature of one of these types becomes a BytesWritable if it has several values in a record."""


class Writable(Protocol):
    """The Java class of a job's keys or values."""

    java: str
    """The full name of the class."""

    def part(self, batch: pa.RecordBatch) -> Part:
        """Return the serialised object of each row. Raises BadData for a value that the class can't hold."""
        ...


@dataclass(frozen=True)
class Pairs:
    """The Java classes of a job's keys and values."""

    key: Writable | None
    """The keys' class. None if keys are record numbers, which are stored as LongWritables."""
    value: Writable

    @property
    def key_class(self) -> str:
        """The full Java name of the keys' class."""
        return self.key.java if self.key else _HADOOP + "LongWritable"


def pairs(options: SequenceFileOptions | MapFileOptions, features: Sequence[FeatureSpec], *, format_name: str) -> Pairs:
    """Return the Java classes that a job's options select for the job's features.

    Raises BadSpec, naming the feature, if a class can't hold a feature.
    """
    key = next((feature for feature in features if feature.name == options.key), None)
    if options.key is not None and key is None:
        raise BadSpec(
            f"output.{format_name}.key: there is no feature {options.key!r}; the features are {', '.join(feature.name for feature in features)}."
        )
    if key is not None and (key.shape or key.kind == "float" or key.dtype == "bool"):
        raise BadSpec(f"output.{format_name}.key: the feature {key.name!r} is {_describe(key)}; a key must be text, bytes or an integer.")
    rest = sorted((feature for feature in features if feature is not key), key=lambda feature: feature.place)
    if not rest:
        raise BadSpec(f"output.{format_name}: the key is the only feature, so no feature is left for the value.")
    value: Writable
    if options.value == "Example":
        value = ExampleWritable(rest)
    elif options.value == "Record":
        value = RecordWritable(rest, format_name=format_name)
    elif len(rest) > 1:
        names = ", ".join(feature.name for feature in rest)
        raise BadSpec(
            f"output.{format_name}.value: Feature allows only one feature besides the key, but there are {names}; use Example or Record."
        )
    else:
        value = FeatureWritable(rest[0], format_name=format_name)
    return Pairs(key=FeatureWritable(key, format_name=format_name) if key else None, value=value)


def holds_null(options: SequenceFileOptions | MapFileOptions, feature: FeatureSpec) -> bool:
    """Return whether the job's values can hold a null for a feature.

    A tf.train.Example can hold a null for a list of values. A DL4J record can hold a null for a single number or text.
    """
    if feature.name == options.key:
        return False
    if options.value == "Example":
        return not feature.raw and not feature.record
    return options.value == "Record" and not feature.sequence and not feature.shape


class FeatureWritable:
    """Writes a feature as the Writable that fits its type."""

    def __init__(self, feature: FeatureSpec, *, format_name: str) -> None:
        if feature.sequence or (feature.dtype == "bytes" and feature.shape):
            raise BadSpec(
                f"output.{format_name}: the feature {feature.name!r} is {_describe(feature)}, for which Hadoop has no class; use value: Example."
            )
        self.feature = feature
        if feature.dtype == "bytes":
            short = "Text" if feature.text else "BytesWritable"
        elif not feature.shape:
            short = NUMBERS[feature.dtype].writable
        else:
            short = "BytesWritable" if feature.dtype in AS_BYTES else "ArrayPrimitiveWritable"
        self.java = _HADOOP + short

    def part(self, batch: pa.RecordBatch) -> Part:
        """Return the serialised object of each row."""
        column = batch.column(self.feature.name)
        if column.null_count:
            raise BadData(f"The feature {self.feature.name!r} has no value in some records, and {self.java} can't store missing values.")
        if self.feature.dtype == "bytes":
            return _prefix_heads(contents(column, kind="bytes", raw=False), vint if self.feature.text else _int32)
        number = NUMBERS[self.feature.dtype]
        if not self.feature.shape:
            return Fixed(to_numpy(column), number.stored)
        if self.feature.dtype in AS_BYTES:
            return _prefix_heads(_numbers(column, np.dtype("i1" if self.feature.dtype == "int8" else "u1")), _int32)
        name = struct.pack(">H", len(number.primitive)) + number.primitive.encode()
        return _prefix_heads(_numbers(column, number.stored), lambda length: name + _int32(length // number.stored.itemsize))


class ExampleWritable:
    """Writes a serialised tf.train.Example or SequenceExample as a BytesWritable."""

    java = _HADOOP + "BytesWritable"

    def __init__(self, features: Sequence[FeatureSpec]) -> None:
        self._messages = Messages(features)

    def part(self, batch: pa.RecordBatch) -> Part:
        """Return the serialised object of each row."""
        return _prefix_heads(self._messages.column(batch), _int32)


class RecordWritable:
    """Writes DL4J's records, which are lists of typed values in the order of the spec. A vector or tensor becomes one entry per value.

    If there are sequences, each step of a record is a list of typed values, and every step repeats the features that aren't sequences.
    """

    def __init__(self, features: Sequence[FeatureSpec], *, format_name: str) -> None:
        self.features = features
        self.is_sequence = any(feature.sequence for feature in features)
        self.java = _DATAVEC + ("SequenceRecordWritable" if self.is_sequence else "RecordWritable")
        for feature in features:
            if feature.dtype == "bytes" and not feature.text:
                raise BadSpec(
                    f"output.{format_name}.value: the feature {feature.name!r} holds bytes, but DL4J can't read records with bytes."
                    " Decode it to numbers, or use value: Example or Feature."
                )
            if -1 in feature.shape[feature.sequence :]:
                raise BadSpec(
                    f"output.{format_name}.value: the feature {feature.name!r} has lists of different lengths, but a DL4J record has"
                    " a fixed number of values. Use value: Example."
                )
        self.width = sum(int(np.prod(feature.shape[feature.sequence :], dtype=np.int64)) for feature in features)
        """The number of values in a record, or in a step."""

    def part(self, batch: pa.RecordBatch) -> Part:
        """Return the serialised object of each row."""
        columns = [batch.column(feature.name) for feature in self.features]
        if not self.is_sequence:
            values = [_prefix_types(feature, column) for feature, column in zip(self.features, columns, strict=True)]
            return joined([_int32(self.width), *values], batch.num_rows)
        return self._steps(columns, batch.num_rows)

    def _steps(self, columns: Sequence[Array], rows: int) -> Part:
        lists = {f.name: flatten_lists(column) for f, column in zip(self.features, columns, strict=True) if f.sequence}
        first, *others = lists
        counts = lists[first].counts
        for name in others:
            different = np.flatnonzero(lists[name].counts != counts)
            if len(different):
                row = different[0]
                raise BadData(
                    f"A record has {counts[row]} steps of the feature {first!r} and {lists[name].counts[row]} of {name!r}:"
                    " each step of a DL4J sequence needs a value of every feature."
                )
        place: Any = pa.array(np.repeat(np.arange(rows), counts))
        values = []
        for feature, column in zip(self.features, columns, strict=True):
            items = lists[feature.name].items if feature.sequence else column.take(place)
            inner = replace(feature, shape=feature.shape[1:], sequence=False) if feature.sequence else feature
            values.append(_prefix_types(inner, items))
        width = _int32(self.width)
        heads, sizes = look_up(counts, lambda steps: _int32(steps) + (width if steps else b""))
        if not counts.any():
            return Ragged(content=heads.column(), lengths=sizes)
        steps = _ragged(grouped(_ragged(joined(values, len(place))).content, counts))
        return Ragged(content=join([heads, steps.content], rows), lengths=sizes + steps.lengths)


# --- parts --------------------------------------------------------------------------------------------------------


def vint(value: int) -> bytes:
    """Encode a non-negative number as Hadoop's vint."""
    if value <= 0x7F:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


def joined(parts: Sequence[Part | bytes], rows: int) -> Part:
    """Concatenate the parts in each row. If a part is given as bytes, every row has these bytes."""
    run: list[Fixed | bytes] = []
    pieces: list[Piece] = []
    lengths: Lengths = np.zeros(rows, np.int64)
    for part in parts:
        if not isinstance(part, Ragged):
            run.append(part)
            continue
        if run:
            matrix = _matrix(run, rows)
            pieces.append(matrix.as_ragged().content)
            lengths += matrix.width
            run = []
        pieces.append(part.content)
        lengths += part.lengths
    if not pieces:
        return _matrix(run, rows)
    if run:
        matrix = _matrix(run, rows)
        pieces.append(matrix.as_ragged().content)
        lengths += matrix.width
    return Ragged(content=join(pieces, rows), lengths=lengths)


def _matrix(run: Sequence[Fixed | bytes], rows: int) -> Fixed:
    """Combine consecutive parts of fixed size into one part."""
    out = np.empty((rows, sum(len(part) if isinstance(part, bytes) else part.width for part in run)), np.uint8)
    at = 0
    for part in run:
        if isinstance(part, bytes):
            out[:, at : at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
        elif part.width:
            out[:, at : at + part.width] = np.ascontiguousarray(part.values, part.dtype).reshape(rows, -1).view(np.uint8)
            at += part.width
    return Fixed(out, _BYTE)


def _prefix_types(feature: FeatureSpec, column: Array) -> Part:
    """Return each row's values, each preceded by its type."""
    if feature.dtype == "bytes":
        return _texts(column)
    number = NUMBERS[feature.dtype]
    if column.null_count and feature.shape:
        raise BadData(
            f"The feature {feature.name!r} has no value in some records; DL4J can store a missing number, but not a missing vector."
        )
    without_nulls = pc.fill_null(column, pa.scalar(0).cast(column.type)) if column.null_count else column
    values = to_numpy(without_nulls).reshape(len(column), -1)
    typed = np.empty(values.shape, np.dtype([("type", ">i2"), ("value", number.stored)]))
    typed["type"] = number.code
    with np.errstate(over="ignore"):
        typed["value"] = values
    matrix = typed.view(np.uint8).reshape(len(column), -1)
    return _drop_missing(matrix, column) if column.null_count else Fixed(matrix, _BYTE)


def _drop_missing(matrix: npt.NDArray[np.uint8], column: Array) -> Ragged:
    """Store each null as DL4J's type for nulls, without a value."""
    missing = null_mask(column)
    matrix[missing, :2] = (0, NULL)
    mask = np.ones(matrix.shape, np.bool_)
    mask[missing, 2:] = False
    lengths = np.where(missing, 2, matrix.shape[1]).astype(np.int64)
    return Ragged(content=binary(matrix[mask], _ends(lengths)), lengths=lengths)


def _texts(column: Array) -> Part:
    if not is_list(column.type):
        return _prefix_heads(contents(column, kind="bytes", raw=False), lambda length: struct.pack(">h", TEXT) + vint(length))
    lists = flatten_lists(column)
    return grouped(_ragged(_texts(lists.items)).content, lists.counts)


def _prefix_heads(part: Part, head: Callable[[int], bytes]) -> Part:
    """Begin each row with the header that `head` returns for the length of the row's content. A null becomes DL4J's null."""
    if isinstance(part, Fixed):
        return joined([head(part.width), part], len(part.values))
    heads, sizes = look_up(part.lengths, lambda length: struct.pack(">h", NULL) if length == MISSING else head(length))
    return Ragged(content=join([heads, part.content], len(part.lengths)), lengths=sizes + np.maximum(part.lengths, 0))


def _numbers(column: Array, dtype: np.dtype[Any]) -> Part:
    """Return the bytes of each row's numbers."""
    rows: Any = column
    with np.errstate(over="ignore"):
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            data = np.ascontiguousarray(to_numpy(rows.flatten()), dtype)
            lengths = pc.list_value_length(column).to_numpy().astype(np.int64) * dtype.itemsize
            return Ragged(content=binary(data.view(np.uint8), _ends(lengths)), lengths=lengths)
        return Fixed(np.ascontiguousarray(to_numpy(column).reshape(len(column), -1), dtype), dtype)


def _ends(lengths: Lengths) -> Lengths:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def _ragged(part: Part) -> Ragged:
    return part if isinstance(part, Ragged) else part.as_ragged()


def _int32(value: int) -> bytes:
    return struct.pack(">i", value)


def _describe(feature: FeatureSpec) -> str:
    kind = "text" if feature.text else feature.dtype
    shape = " x ".join("?" if size < 0 else str(size) for size in feature.shape)
    return ("a sequence of " if feature.sequence else "") + (f"{kind} of shape {shape}" if shape else kind)


def data_of(part: Part) -> tuple[npt.NDArray[np.uint8], Lengths]:
    """Return the concatenated bytes of all rows, and the rows' offsets: where each row begins, and where the last row ends."""
    data, offsets = binary_data(_ragged(part).content)
    return data, offsets
