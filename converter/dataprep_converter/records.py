"""Reading TFRecord back: for `verify` and `inspect`, which trust nothing that a file says.

Both CRCs of every record are checked, and memory holds no more than the largest record and one piece of the file. Only the length
whose own CRC is right is believed, so a broken file can't ask for room.
"""

import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import numpy as np
from crc32c import crc32c

# No stubs of protobuf are installed; the messages are built at run time anyway.
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from dataprep_converter.decoders import BrokenRecord
from dataprep_converter.errors import NotWhole
from dataprep_converter.framing import FOOTER, HEADER, mask, mask_all
from dataprep_converter.readers.inputs import BrokenGzip, gunzipped

_LENGTH: Final = struct.Struct("<QI")
_CRC: Final = struct.Struct("<I")
_ALIKE: Final = 8
"""So many records of one length after another, and the next are looked at together."""
_LARGEST_RUN: Final = 1024
"""At most so many at a time, because looking ahead in vain costs."""


def read(pieces: Iterable[bytes], *, compression: str = "none") -> Iterator[tuple[int, bytes]]:
    """(offset of the record, its data) for every record of the file that `pieces` make up.

    `compression` is the manifest's: `none` or `gzip`. Raises BrokenRecord at the first fault, after all good records before it.
    """
    offset = 0
    waiting: list[bytes] = []
    size = 0
    wanted = HEADER
    stream = _gunzipped(pieces) if compression == "gzip" else pieces
    for piece in stream:
        waiting.append(piece)
        size += len(piece)
        if size < wanted:
            continue
        data = b"".join(waiting)
        at = 0
        alike = 0
        wanted = HEADER
        before = b""
        while size - at >= HEADER:
            head = data[at : at + HEADER]
            length, length_crc = _LENGTH.unpack(head)
            if head != before:
                alike = 0
                if mask(crc32c(head[:8])) != length_crc:
                    raise BrokenRecord("bad length CRC", offset=offset + at)
            before = head
            whole = HEADER + length + FOOTER
            if size - at < whole:
                wanted = whole
                break
            alike += 1
            run = _run(data, at, whole, at_most=min((size - at) // whole, _LARGEST_RUN)) if alike > _ALIKE else 1
            if run > 1:
                yield from _checked(data, at, offset, length, run)
                at += run * whole
                continue
            start = at + HEADER
            payload = data[start : start + length]
            if mask(crc32c(payload)) != _CRC.unpack_from(data, start + length)[0]:
                raise BrokenRecord("bad data CRC", offset=offset + at)
            yield offset + at, payload
            at += whole
        offset += at
        waiting = [data[at:]]
        size -= at
    if size >= HEADER:
        raise BrokenRecord(f"truncated data ({size - HEADER:,} of {wanted - HEADER:,} bytes)", offset=offset)
    if size:
        raise BrokenRecord(f"truncated length ({size} of {HEADER} bytes)", offset=offset)


def _run(data: bytes, at: int, whole: int, *, at_most: int) -> int:
    """How many records from `at` on have the same header, at most `at_most`."""
    headers = np.frombuffer(data, np.uint8, at_most * whole, at).reshape(at_most, whole)[:, :HEADER]
    same = (headers == headers[0]).all(axis=1)
    return at_most if same.all() else int(same.argmin())


def _checked(data: bytes, at: int, offset: int, length: int, run: int) -> Iterator[tuple[int, bytes]]:
    """The records of a run, as far as their data is whole."""
    whole = HEADER + length + FOOTER
    payloads = [payload for (payload,) in struct.iter_unpack(f"{HEADER}x{length}s{FOOTER}x", memoryview(data)[at : at + run * whole])]
    crcs = mask_all(np.fromiter(map(crc32c, payloads), np.uint32, run))
    footers = np.frombuffer(data, np.uint8, run * whole, at).reshape(run, whole)[:, -FOOTER:]
    wrong = np.flatnonzero(crcs != np.ascontiguousarray(footers).view("<u4")[:, 0])
    good = int(wrong[0]) if len(wrong) else run
    yield from zip(range(offset + at, offset + at + good * whole, whole), payloads, strict=False)
    if good < run:
        raise BrokenRecord("bad data CRC", offset=offset + at + good * whole)


def _gunzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    offset = 0
    try:
        for piece in gunzipped(pieces):
            yield piece
            offset += len(piece)
    except BrokenGzip as exc:
        raise BrokenRecord(f"{exc}, after {offset:,} bytes of records,", offset=offset) from exc


# --- messages -----------------------------------------------------------------------------------------------------


def parse_example(payload: bytes) -> dict[str, list[Any]]:
    """The features of one tf.train.Example or SequenceExample by name, sorted: ints, floats or bytes; an empty list for a feature
    without a value. The feature lists of a SequenceExample are lists of steps, each such a list; its context stands beside them.

    Raises NotWhole when the payload is neither.
    """
    try:
        # An Example is a SequenceExample with nothing but a context.
        message = _record_class().FromString(payload)
    except DecodeError as exc:
        raise NotWhole("The record holds no tf.train.Example.") from exc
    context, lists = message.context.feature, message.feature_lists.feature_list
    found = {name: _values(context[name]) for name in context}
    found |= {name: [_values(step) for step in lists[name].feature] for name in lists}
    return dict(sorted(found.items()))


def _values(feature: Any) -> list[Any]:
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value) if kind else []


@cache
def _record_class() -> Any:
    """The message class of tf.train.SequenceExample, from a description of its own pool: TensorFlow's may be loaded beside it."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, kind in (("BytesList", kinds.TYPE_BYTES), ("FloatList", kinds.TYPE_FLOAT), ("Int64List", kinds.TYPE_INT64)):
        file.message_type.add(name=name).field.add(name="value", number=1, type=kind, label=kinds.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("bytes_list", "float_list", "int64_list"), start=1):
        message = f".tensorflow.{name.title().replace('_', '')}"
        feature.field.add(name=name, number=number, type=kinds.TYPE_MESSAGE, type_name=message, label=kinds.LABEL_OPTIONAL, oneof_index=0)
    feature_list = file.message_type.add(name="FeatureList")
    record = file.message_type.add(name="SequenceExample")
    for owner, name, number, message, label in (
        (feature_list, "feature", 1, ".tensorflow.Feature", kinds.LABEL_REPEATED),
        (_map(file, "Features", "feature"), "value", 2, ".tensorflow.Feature", kinds.LABEL_OPTIONAL),
        (_map(file, "FeatureLists", "feature_list"), "value", 2, ".tensorflow.FeatureList", kinds.LABEL_OPTIONAL),
        (record, "context", 1, ".tensorflow.Features", kinds.LABEL_OPTIONAL),
        (record, "feature_lists", 2, ".tensorflow.FeatureLists", kinds.LABEL_OPTIONAL),
    ):
        owner.field.add(name=name, number=number, type=kinds.TYPE_MESSAGE, type_name=message, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.SequenceExample"))


def _map(file: Any, message: str, field: str) -> Any:
    """A message with a map of this name from strings, and the entry of the map, whose value is still to be added."""
    kinds = descriptor_pb2.FieldDescriptorProto
    owner = file.message_type.add(name=message)
    entry_name = f"{field.title().replace('_', '')}Entry"
    entry = owner.nested_type.add(name=entry_name)
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    type_name = f".tensorflow.{message}.{entry_name}"
    owner.field.add(name=field, number=1, type=kinds.TYPE_MESSAGE, type_name=type_name, label=kinds.LABEL_REPEATED)
    return entry
