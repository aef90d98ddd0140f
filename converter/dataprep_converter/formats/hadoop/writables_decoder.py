"""Decode Hadoop's Writables to values, and check all lengths and types. See `writables_encoder.py` for the Writables' binary form."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np

from dataprep_converter.core.errors import BrokenRecord, NotWhole
from dataprep_converter.formats.hadoop.writables_encoder import (
    AS_BYTES,
    NULL,
    NUMBERS,
    TEXT,
    ExampleWritable,
    FeatureWritable,
    RecordWritable,
)
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.records.feature import FeatureSpec

_INT: Final = struct.Struct(">i")
_TYPE: Final = struct.Struct(">h")
LONGEST_VINT: Final = 5
"""The largest size of a vint that holds an int, in bytes."""


class WritableLayout(Protocol):
    """The binary form of the objects of a Java class."""

    def size(self, begin: bytes) -> int | None:
        """Return the total size of an object. `begin` contains the first HEAD bytes of the object, or the complete object if it is smaller.

        Return None if these bytes don't determine the size. Raises ValueError if these bytes aren't valid.
        """
        ...

    def parse(self, data: bytes) -> dict[str, Any]:
        """Return the values, keyed by feature. Raises ValueError or NotWhole if `data` isn't such an object."""
        ...


HEAD: Final = 64
"""The number of bytes at the beginning of an object that are needed to determine its size."""


def form_of(writable: object) -> WritableLayout:
    """Return the binary layout of the objects that an encoder writes with `writable`."""
    if isinstance(writable, RecordWritable):
        return _Records(writable.features, width=writable.width, is_sequence=writable.is_sequence)
    if isinstance(writable, ExampleWritable):
        return Example()
    assert isinstance(writable, FeatureWritable)  # noqa: S101  # there are only these three
    return _Feature(writable)


class Long:
    """A LongWritable that contains a record number or a position in a file, rather than a feature."""

    def size(self, _begin: bytes) -> int:
        """Return 8, the size of every LongWritable."""
        return 8

    def parse(self, _data: bytes) -> dict[str, Any]:
        """Return no values, because the number isn't a feature."""
        return {}


class Example:
    """A BytesWritable with a tf.train.Example."""

    def size(self, begin: bytes) -> int:
        """Return the total size of the length field and the message."""
        return _INT.size + _length(begin)

    def parse(self, data: bytes) -> dict[str, Any]:
        """Return the features of the message."""
        return records.parse_example(data[_INT.size :])


class _Feature:
    """An object that holds one feature."""

    def __init__(self, writable: FeatureWritable) -> None:
        feature = writable.feature
        self._name = feature.name
        self._is_text = writable.java.endswith(".Text")
        self._is_bytes = writable.java.endswith(".BytesWritable")
        self._number = None if feature.dtype == "bytes" else NUMBERS[feature.dtype]
        self._dtype = None if self._number is None else self._number.stored
        if feature.dtype in AS_BYTES and feature.shape:
            self._dtype = np.dtype(feature.dtype)
        self._values = None if -1 in feature.shape else int(np.prod(feature.shape, dtype=np.int64))
        self._head = b""
        if feature.shape and self._number is not None and not self._is_bytes:
            self._head = struct.pack(">H", len(self._number.primitive)) + self._number.primitive.encode()

    def size(self, begin: bytes) -> int:
        """Return the size of the object."""
        return sum(self._sizes(begin))

    def parse(self, data: bytes) -> dict[str, Any]:
        """Return the feature's values."""
        body = data[self._sizes(data)[0] :]
        if self._dtype is None:
            return {self._name: [_utf8(body) if self._is_text else body]}
        values = np.frombuffer(body, self._dtype)
        if self._values is not None and len(values) != self._values:
            raise ValueError(f"{len(values)} values instead of {self._values}")
        return {self._name: (values.astype(np.uint8) if values.dtype == np.bool_ else values).tolist()}

    def _sizes(self, begin: bytes) -> tuple[int, int]:
        """Return the sizes of the header and of the content, in bytes."""
        if self._is_text:
            length, head = vint(begin, 0)
            return head, length
        if self._is_bytes:
            return _INT.size, _length(begin)
        item = 1 if self._dtype is None else self._dtype.itemsize
        if not self._head:
            return 0, item
        if not begin.startswith(self._head):
            raise ValueError(f"not an array of {self._head[2:].decode()}")
        return len(self._head) + _INT.size, item * _length(begin[len(self._head) :])


class _Records:
    """DL4J's records and sequences."""

    def __init__(self, features: Sequence[FeatureSpec], *, width: int, is_sequence: bool) -> None:
        self._features = [replace(f, shape=f.shape[1:]) if f.sequence else f for f in features]
        self._width = width
        self._is_sequence = is_sequence

    def size(self, begin: bytes) -> None:
        """Check the number of values. Return None, because the first bytes don't determine the size."""
        places = _length(begin)
        if self._is_sequence and places:
            places = _length(begin[_INT.size :])
        elif self._is_sequence:
            return
        if places != self._width:
            raise ValueError(f"{places} values instead of {self._width}")

    def parse(self, data: bytes) -> dict[str, Any]:
        """Return the values, keyed by feature. A null becomes an empty list.

        In a sequence without steps, all features have empty lists.
        """
        self.size(data)
        if not self._is_sequence:
            values, at = self._values(data, _INT.size)
            _end(data, at)
            return values
        steps: list[dict[str, list[Any]]] = []
        count, at = _length(data), _INT.size
        if count * self._width * _TYPE.size > len(data):
            raise ValueError(f"{count:,} steps don't fit in {len(data):,} bytes")
        for number in range(count):
            step, at = self._values(data, at + _INT.size if number == 0 else at)
            steps.append(step)
        _end(data, at)
        return {f.name: [step[f.name] for step in steps] if f.sequence else (steps[0][f.name] if steps else []) for f in self._features}

    def _values(self, data: bytes, at: int) -> tuple[dict[str, list[Any]], int]:
        by_feature: dict[str, list[Any]] = {}
        for feature in self._features:
            values = by_feature[feature.name] = []
            for _ in range(int(np.prod(feature.shape, dtype=np.int64))):
                value, at = _value(feature, data, at)
                values += value
        return by_feature, at


def _value(feature: FeatureSpec, data: bytes, at: int) -> tuple[list[Any], int]:
    """Return the value at `at` as a list, and the position of the next value. For a null, the list is empty."""
    code, at = _unpack(_TYPE, data, at), at + _TYPE.size
    if code == NULL:
        return [], at
    if feature.dtype == "bytes":
        if code != TEXT:
            raise ValueError(f"a value of type {code} instead of {TEXT}")
        length, at = vint(data, at)
        if len(data) - at < length:
            raise ValueError("a value is truncated")
        return [_utf8(data[at : at + length])], at + length
    number = NUMBERS[feature.dtype]
    if code != number.code:
        raise ValueError(f"a value of type {code} instead of {number.code}")
    end = at + number.stored.itemsize
    if len(data) < end:
        raise ValueError("a value is truncated")
    value = np.frombuffer(data, number.stored, 1, at)[0].item()
    return [int(value) if isinstance(value, bool) else value], end


def vint(data: bytes, at: int) -> tuple[int, int]:
    """Return the vint at `at` and the position after it. Raises ValueError if the vint is damaged or negative."""
    if at >= len(data):
        raise ValueError("a length is truncated")
    first = data[at] - 256 if data[at] > 0x7F else data[at]
    if first >= 0:
        return first, at + 1
    size = -112 - first
    if not 1 <= size < LONGEST_VINT:
        raise ValueError("a length is negative or too large")
    if len(data) - at - 1 < size:
        raise ValueError("a length is truncated")
    value = int.from_bytes(data[at + 1 : at + 1 + size], "big")
    if value > 0x7FFFFFFF:
        raise ValueError("a length is negative or too large")
    return value, at + 1 + size


def vints(data: bytes, count: int) -> tuple[list[int], int]:
    """Return a list of `count` vints, and the position after the last vint. Raises ValueError."""
    numbers: list[int] = []
    at = 0
    for _ in range(count):
        value, at = vint(data, at)
        numbers.append(value)
    return numbers, at


def parse(layout: WritableLayout, data: bytes) -> dict[str, Any]:
    """Return the values of an object, keyed by feature. Raises BrokenRecord."""
    try:
        size = layout.size(data[:HEAD])
        if size is not None and size != len(data):
            raise ValueError(f"an object's header declares {size:,} bytes, but the object has {len(data):,} bytes")
        return layout.parse(data)
    except BrokenRecord:
        raise
    except (ValueError, NotWhole) as exc:
        raise BrokenRecord(f"not a valid record: {exc}", offset=0) from exc


def _length(data: bytes) -> int:
    value = _unpack(_INT, data, 0)
    if value < 0:
        raise ValueError("a length is negative")
    return value


def _unpack(form: struct.Struct, data: bytes, at: int) -> int:
    if len(data) - at < form.size:
        raise ValueError("a length is truncated")
    value: int = form.unpack_from(data, at)[0]
    return value


def _utf8(data: bytes) -> bytes:
    data.decode()  # a UnicodeDecodeError is a ValueError
    return data


def _end(data: bytes, at: int) -> None:
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes after the last value")
