"""Find the offsets of the messages in Arrow IPC data, and the number of rows in each batch, without reading the batches.

    # A stream:   schema | dictionaries and record batches, each a message | end
    # A message:  ff ff ff ff | int32 metadata size | metadata, a flatbuffer | body          (little-endian; no ff bytes before Arrow 0.15)
    # A file:     ARROW1 00 00 | a stream | footer | int32 footer size | ARROW1

To find a batch's number of rows, Arrow's own reader would read the complete batch. This module extracts only the few numbers that it needs
from the flatbuffers. A flatbuffer table begins with the distance back to its vtable. The vtable contains the offset of each field within
the table, or 0 for an absent field.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dataprep_converter.core.errors import BadData
from dataprep_converter.stores import Input

SCHEMA: Final = 1
DICTIONARY: Final = 2
RECORDS: Final = 3

_MAGIC: Final = b"ARROW1"
_CONTINUED: Final = b"\xff\xff\xff\xff"
_AT_ONCE: Final = 4096
_LARGEST_METADATA: Final = 256 << 20
_OTHERS: Final = {b"FEA1": "Feather v1, write it again with version=2", b"PAR1": "Parquet, read it with source.parquet"}


@dataclass(frozen=True)
class Message:
    """One message of an IPC stream."""

    kind: int
    """SCHEMA, DICTIONARY, RECORDS or another kind, which is ignored."""
    offset: int
    size: int
    """The size in bytes, including the body."""
    rows: int = 0
    """The number of rows of a record batch."""
    dictionary: int = 0
    """The id of the dictionary that a dictionary batch belongs to."""
    is_delta: bool = False
    """Whether a dictionary batch extends the previous one instead of replacing it."""


def messages(source: Input, uri: str) -> Iterator[Message]:
    """Yield the messages of a file or a stream in order. Raises BadData for truncated data, and for data that isn't Arrow IPC data."""
    start = source.read_at(0, 8)
    if not start:
        raise BadData(f"{uri} is empty, so it isn't Arrow IPC data.", uri=uri)
    if start.startswith(_MAGIC):
        if source.size < 24 or source.read_at(source.size - len(_MAGIC), len(_MAGIC)) != _MAGIC:
            raise BadData(f"{uri} is truncated: an Arrow file ends with ARROW1.", uri=uri)
        offset = 8
    elif start[:4] in _OTHERS:
        raise BadData(f"{uri} isn't Arrow IPC data, but {_OTHERS[start[:4]]}.", uri=uri)
    else:
        offset = 0
    while offset < source.size:
        message = _message(source, offset, uri)
        if message is None:
            return
        if message.offset + message.size > source.size:
            raise BadData(
                f"{uri} is truncated: the message at byte {offset:,} has {message.size:,} bytes, but the file ends before that.", uri=uri
            )
        yield message
        offset += message.size


def _message(source: Input, offset: int, uri: str) -> Message | None:
    """Return the message at `offset`, or None at the end of the stream."""
    data = source.read_at(offset, _AT_ONCE)
    head = 8 if data.startswith(_CONTINUED) else 4
    try:
        (length,) = struct.unpack_from("<i", data, head - 4)
        if length == 0:
            return None
        if not 0 < length <= _LARGEST_METADATA:
            raise _NoMessage
        metadata = data[head : head + length]
        if len(metadata) < length:
            metadata = source.read_at(offset + head, length)
        root = _Table.root(metadata)
        kind = root.uint8(1)
        body = root.int64(3)
        inner = root.table(2)
        if inner is None or body < 0 or len(metadata) < length:
            raise _NoMessage
        is_dictionary = kind == DICTIONARY
        message = Message(
            kind=kind,
            offset=offset,
            size=head + length + body,
            rows=inner.int64(0) if kind == RECORDS else 0,
            dictionary=inner.int64(0) if is_dictionary else 0,
            is_delta=is_dictionary and bool(inner.uint8(2)),
        )
        if message.rows < 0:
            raise _NoMessage
    except (struct.error, _NoMessage) as exc:
        raise BadData(f"{uri} isn't complete Arrow IPC data: there is no message at byte {offset:,}.", uri=uri) from exc
    return message


class _NoMessage(Exception):
    """Raised for bytes that aren't a message."""


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer. The table's fields are identified by number."""

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes) -> "_Table":
        return cls(data, _unsigned(data, "<I", 0))

    def _place(self, field: int) -> int | None:
        (back,) = struct.unpack_from("<i", self.data, self.at)
        vtable = self.at - back
        if 4 + 2 * field >= _unsigned(self.data, "<H", vtable):
            return None
        place = _unsigned(self.data, "<H", vtable + 4 + 2 * field)
        return self.at + place if place else None

    def uint8(self, field: int) -> int:
        place = self._place(field)
        return 0 if place is None else _unsigned(self.data, "<B", place)

    def int64(self, field: int) -> int:
        place = self._place(field)
        if place is None:
            return 0
        value: int = struct.unpack_from("<q", self.data, place)[0]
        return value

    def table(self, field: int) -> "_Table | None":
        place = self._place(field)
        return None if place is None else _Table(self.data, place + _unsigned(self.data, "<I", place))


def _unsigned(data: bytes, form: str, place: int) -> int:
    if place < 0:
        # `unpack_from` would count a negative offset from the end of the data.
        raise _NoMessage
    value: int = struct.unpack_from(form, data, place)[0]
    return value
