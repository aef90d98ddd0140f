"""Read and check TFRecord files, for `verify` and `inspect`.

Both CRCs of every record are checked. At most the largest record and one piece of the file are in memory. A length is used only if its CRC
is correct, so a damaged file can't cause a large allocation.
"""

import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import numpy as np
from crc32c import crc32c

# The type stubs for protobuf aren't installed, and wouldn't help: the messages are built at run time.
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from dataprep_converter.core.errors import BrokenRecord, NotWhole
from dataprep_converter.core.framing import FOOTER, HEADER, mask
from dataprep_converter.core.native import broken
from dataprep_converter.formats.decoder import Places, VerifiedRecords
from dataprep_converter.inputs.compressions import BrokenStream, gunzipped

_LENGTH: Final = struct.Struct("<QI")
_ALIKE: Final = 8
"""If a piece begins with more than this number of records of equal length, the records' headers are compared in one step."""
_KNOWN_HEADERS: Final = 1 << 16


def read(pieces: Iterable[bytes], *, compression: str = "none") -> Iterator[tuple[int, bytes]]:
    """Yield (offset, data) for every record of a file. `pieces` yields the file's bytes.

    `compression` is the manifest's value: `none` or `gzip`. Raises BrokenRecord at the first fault, after yielding all good records before
    it.
    """
    for block in blocks(pieces, compression=compression):
        data, before = block.data, block.offset - block.head
        for start, end in zip(block.starts.tolist(), block.ends.tolist(), strict=True):
            yield before + start, data[start:end]


def blocks(pieces: Iterable[bytes], *, compression: str = "none") -> Iterator[VerifiedRecords]:
    """Yield the records of each piece together. The only work for each record is checking its CRC."""
    offset = size = 0
    parts: list[bytes] = []
    needed = HEADER
    sizes: dict[bytes, int] = {}
    for piece in _gunzip(pieces) if compression == "gzip" else pieces:
        at = 0
        # A record that began in an earlier piece is completed: first its header, then the rest. The bytes after the record aren't copied.
        while size and at < len(piece):
            parts.append(piece[at : at + needed - size])
            at += len(parts[-1])
            size += len(parts[-1])
            if size < needed:
                break
            data = b"".join(parts)
            if size == HEADER:
                parts, needed = [data], sizes.get(data) or _record_size(data, sizes)
                if not needed:
                    raise BrokenRecord("bad length CRC", offset=offset)
                continue
            yield from _yield_verified(data, offset, np.array([0, size], np.int64))
            offset += size
            size, parts, needed = 0, [], HEADER
        if size or at == len(piece):
            continue
        bounds, fault = _bounds(piece, at, sizes)
        yield from _yield_verified(piece, offset - at, bounds)
        end = int(bounds[-1])
        offset += end - at
        if fault:
            raise BrokenRecord(fault, offset=offset)
        parts, size = [piece[end:]], len(piece) - end
        needed = sizes[piece[end : end + HEADER]] if size >= HEADER else HEADER
    if size >= HEADER:
        raise BrokenRecord(f"truncated data ({size - HEADER:,} of {needed - HEADER:,} bytes)", offset=offset)
    if size:
        raise BrokenRecord(f"truncated length ({size} of {HEADER} bytes)", offset=offset)


def _yield_verified(data: bytes, offset: int, bounds: Places) -> Iterator[VerifiedRecords]:
    """Yield the records between the bounds.

    Raises BrokenRecord at the first record with a wrong CRC, after yielding the records before it.
    """
    block = _verify(data, offset, bounds)
    if len(block):
        yield block
    if len(block) < len(bounds) - 1:
        raise BrokenRecord("bad data CRC", offset=offset + int(bounds[len(block)]))


def _bounds(data: bytes, start: int, sizes: dict[bytes, int]) -> tuple[Places, str]:
    """Return the start of each complete record from `start` on, followed by the end of the last of these records.

    Also return the fault after the last complete record, or "" if there is no fault.

    `sizes` maps each header that has been seen to the size of its record.
    """
    alike = _alike(data, start, sizes)
    begins = list(alike)
    at = alike.stop
    last = len(data) - HEADER
    fault = ""
    while at <= last:
        # The loop runs once per record, so its body must be fast. `sizes` maps the bytes of a header to the size of the complete record.
        head = data[at : at + HEADER]
        size = sizes.get(head) or _record_size(head, sizes)
        if not size:
            fault = "bad length CRC"
            break
        if at + size > len(data):
            break
        begins.append(at)
        at += size
    return np.array([*begins, at], np.int64), fault


def _record_size(head: bytes, sizes: dict[bytes, int]) -> int:
    """Return the size in bytes of the record with this header, or 0 if the header's CRC is wrong."""
    length, crc = _LENGTH.unpack(head)
    if mask(crc32c(head[:8])) != crc:
        return 0
    if len(sizes) >= _KNOWN_HEADERS:
        sizes.clear()
    sizes[head] = HEADER + int(length) + FOOTER
    return sizes[head]


def _alike(data: bytes, start: int, sizes: dict[bytes, int]) -> range:
    """Return the positions of consecutive records with equal headers, from `start` on. The range's `stop` is the end of the last record.

    The range is empty if the rest of the data has room for only a few records of this size.
    """
    head = data[start : start + HEADER]
    size = (sizes.get(head) or _record_size(head, sizes)) if len(head) == HEADER else 0
    count = (len(data) - start) // size if size else 0
    if count <= _ALIKE:
        return range(start, start)
    headers = np.frombuffer(data, np.uint8, count * size, start).reshape(count, size)[:, :HEADER]
    same = (headers == headers[0]).all(axis=1)
    run = count if same.all() else int(same.argmin())
    return range(start, start + run * size, size)


def _verify(data: bytes, offset: int, bounds: Places) -> VerifiedRecords:
    """Return the records between the bounds, up to the first record with a wrong CRC."""
    starts, ends = bounds[:-1] + HEADER, bounds[1:] - FOOTER
    wrong = broken(np.frombuffer(data, np.uint8), starts, ends)
    good = int(wrong[0]) if len(wrong) else len(starts)
    return VerifiedRecords(data, offset, starts[:good], ends[:good], HEADER)


def _gunzip(pieces: Iterable[bytes]) -> Iterator[bytes]:
    offset = 0
    try:
        for piece in gunzipped(pieces):
            yield piece
            offset += len(piece)
    except BrokenStream as exc:
        raise BrokenRecord(f"{exc}, after {offset:,} bytes of records,", offset=offset) from exc


# --- messages -----------------------------------------------------------------------------------------------------


def parse_example(payload: bytes) -> dict[str, list[Any]]:
    """Return the features of one tf.train.Example or SequenceExample, sorted by name.

    A feature is a list of ints, floats or bytes, which is empty if it has no value. A feature list of a SequenceExample is a list of such
    features, one per step. A SequenceExample's context features are returned together with its feature lists.

    Raises NotWhole if the payload is neither an Example nor a SequenceExample.
    """
    context, lists = parse_sequence(payload)
    return dict(sorted((context | lists).items()))


def parse_sequence(payload: bytes) -> tuple[dict[str, list[Any]], dict[str, list[list[Any]]]]:
    """Return the context and the feature lists of a SequenceExample. A feature list is a list of steps.

    In an Example, all features belong to the context. Raises NotWhole if the payload is neither of these messages.
    """
    try:
        # In its serialised form, an Example is a SequenceExample that has only a context.
        message = _record_class().FromString(payload)
    except DecodeError as exc:
        raise NotWhole("The record holds no tf.train.Example.") from exc
    context, lists = message.context.feature, message.feature_lists.feature_list
    context_values = {name: _values(context[name]) for name in context}
    return context_values, {name: [_values(step) for step in lists[name].feature] for name in lists}


def _values(feature: Any) -> list[Any]:
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value) if kind else []


@cache
def _record_class() -> Any:
    """Return the message class of tf.train.SequenceExample.

    The class is built in a separate descriptor pool, because TensorFlow's class might be loaded in the same process.
    """
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
    """Add to `file` a message that has a map with string keys.

    Return the map's entry type, to which the caller must add the value field.
    """
    kinds = descriptor_pb2.FieldDescriptorProto
    owner = file.message_type.add(name=message)
    entry_name = f"{field.title().replace('_', '')}Entry"
    entry = owner.nested_type.add(name=entry_name)
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    type_name = f".tensorflow.{message}.{entry_name}"
    owner.field.add(name=field, number=1, type=kinds.TYPE_MESSAGE, type_name=type_name, label=kinds.LABEL_REPEATED)
    return entry
