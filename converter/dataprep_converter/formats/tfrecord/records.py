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

from dataprep_converter.core.errors import BrokenRecord, NotWhole
from dataprep_converter.core.framing import FOOTER, HEADER, mask
from dataprep_converter.core.native import broken
from dataprep_converter.formats.decoder import Checked, Places
from dataprep_converter.inputs.pinned import BrokenGzip, gunzipped

_LENGTH: Final = struct.Struct("<QI")
_ALIKE: Final = 8
"""More records than this of one length in a piece, and their headers are compared together."""
_KNOWN_HEADERS: Final = 1 << 16


def read(pieces: Iterable[bytes], *, compression: str = "none") -> Iterator[tuple[int, bytes]]:
    """(offset of the record, its data) for every record of the file that `pieces` make up.

    `compression` is the manifest's: `none` or `gzip`. Raises BrokenRecord at the first fault, after all good records before it.
    """
    for block in blocks(pieces, compression=compression):
        data, before = block.data, block.offset - block.head
        for start, end in zip(block.starts.tolist(), block.ends.tolist(), strict=True):
            yield before + start, data[start:end]


def blocks(pieces: Iterable[bytes], *, compression: str = "none") -> Iterator[Checked]:
    """`read`, with the records of a piece together: nothing is done for each but its CRC."""
    offset = size = 0
    waiting: list[bytes] = []
    wanted = HEADER
    sizes: dict[bytes, int] = {}
    for piece in _gunzipped(pieces) if compression == "gzip" else pieces:
        at = 0
        # A record that began in a piece before: first its header, then all of it. What follows stays where it is.
        while size and at < len(piece):
            waiting.append(piece[at : at + wanted - size])
            at += len(waiting[-1])
            size += len(waiting[-1])
            if size < wanted:
                break
            data = b"".join(waiting)
            if size == HEADER:
                waiting, wanted = [data], sizes.get(data) or _whole(data, sizes)
                if not wanted:
                    raise BrokenRecord("bad length CRC", offset=offset)
                continue
            yield from _good(data, offset, np.array([0, size], np.int64))
            offset += size
            size, waiting, wanted = 0, [], HEADER
        if size or at == len(piece):
            continue
        bounds, fault = _bounds(piece, at, sizes)
        yield from _good(piece, offset - at, bounds)
        end = int(bounds[-1])
        offset += end - at
        if fault:
            raise BrokenRecord(fault, offset=offset)
        waiting, size = [piece[end:]], len(piece) - end
        wanted = sizes[piece[end : end + HEADER]] if size >= HEADER else HEADER
    if size >= HEADER:
        raise BrokenRecord(f"truncated data ({size - HEADER:,} of {wanted - HEADER:,} bytes)", offset=offset)
    if size:
        raise BrokenRecord(f"truncated length ({size} of {HEADER} bytes)", offset=offset)


def _good(data: bytes, offset: int, bounds: Places) -> Iterator[Checked]:
    """The records between the bounds. Raises BrokenRecord at the first whose data is not whole, after those before it."""
    block = _checked(data, offset, bounds)
    if len(block):
        yield block
    if len(block) < len(bounds) - 1:
        raise BrokenRecord("bad data CRC", offset=offset + int(bounds[len(block)]))


def _bounds(data: bytes, start: int, sizes: dict[bytes, int]) -> tuple[Places, str]:
    """Where each whole record begins, from `start` on, and the last one ends; and the fault there, if any. `sizes` has the
    headers seen so far."""
    alike = _alike(data, start, sizes)
    begins = list(alike)
    at = alike.stop
    last = len(data) - HEADER
    fault = ""
    while at <= last:
        # One step a record, so the steps are short: bytes of a header → bytes of the whole record.
        head = data[at : at + HEADER]
        whole = sizes.get(head) or _whole(head, sizes)
        if not whole:
            fault = "bad length CRC"
            break
        if at + whole > len(data):
            break
        begins.append(at)
        at += whole
    return np.array([*begins, at], np.int64), fault


def _whole(head: bytes, sizes: dict[bytes, int]) -> int:
    """Bytes of the record with this header, or 0 when its CRC is wrong."""
    length, crc = _LENGTH.unpack(head)
    if mask(crc32c(head[:8])) != crc:
        return 0
    if len(sizes) >= _KNOWN_HEADERS:
        sizes.clear()
    sizes[head] = HEADER + int(length) + FOOTER
    return sizes[head]


def _alike(data: bytes, start: int, sizes: dict[bytes, int]) -> range:
    """Where the first records begin, as long as all have one header; its `stop` is where they end. Empty for a few only."""
    head = data[start : start + HEADER]
    whole = (sizes.get(head) or _whole(head, sizes)) if len(head) == HEADER else 0
    count = (len(data) - start) // whole if whole else 0
    if count <= _ALIKE:
        return range(start, start)
    headers = np.frombuffer(data, np.uint8, count * whole, start).reshape(count, whole)[:, :HEADER]
    same = (headers == headers[0]).all(axis=1)
    run = count if same.all() else int(same.argmin())
    return range(start, start + run * whole, whole)


def _checked(data: bytes, offset: int, bounds: Places) -> Checked:
    """The records between the bounds, as far as their data is whole."""
    starts, ends = bounds[:-1] + HEADER, bounds[1:] - FOOTER
    wrong = broken(np.frombuffer(data, np.uint8), starts, ends)
    good = int(wrong[0]) if len(wrong) else len(starts)
    return Checked(data, offset, starts[:good], ends[:good], HEADER)


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
    without a value. The feature lists of a SequenceExample are lists of steps, each such a list; its context is beside them.

    Raises NotWhole when the payload is neither.
    """
    context, lists = parse_sequence(payload)
    return dict(sorted((context | lists).items()))


def parse_sequence(payload: bytes) -> tuple[dict[str, list[Any]], dict[str, list[list[Any]]]]:
    """The context of a SequenceExample and its feature lists, each a list of steps; of an Example all is context. Raises NotWhole."""
    try:
        # An Example is a SequenceExample with nothing but a context.
        message = _record_class().FromString(payload)
    except DecodeError as exc:
        raise NotWhole("The record holds no tf.train.Example.") from exc
    context, lists = message.context.feature, message.feature_lists.feature_list
    found = {name: _values(context[name]) for name in context}
    return found, {name: [_values(step) for step in lists[name].feature] for name in lists}


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
