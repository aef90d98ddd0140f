"""Decoder for `recordioProtobuf`. Joins the parts of a record that was split at the magic number."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Final

# The type stubs for protobuf aren't installed, and wouldn't help: the messages are built at run time.
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from dataprep_api.dataset import sagemaker
from dataprep_api.dataset.report import Manifest
from dataprep_api.spec.formats.recordio_protobuf import RecordioProtobufOptions
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.recordio.recordio_encoder import MAGIC, with_provenance

_HEAD: Final = struct.Struct("<II")
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)


class RecordioDecoder:
    """Decodes each record to its serialised message."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the records. The format has no CRC, so only the file's digest reveals a flipped bit in a record."""
        parts: list[bytes] = []
        begin = 0
        for offset, flag, data in _frames(pieces):
            if flag in (_WHOLE, _FIRST):
                if parts:
                    raise BrokenRecord("a record begins within another", offset=offset)
                if flag == _WHOLE:
                    yield offset, data
                    continue
                begin, parts = offset, [data]
                continue
            if not parts:
                raise BrokenRecord("a part of a record without its beginning", offset=offset)
            parts += [_MAGIC_BYTES, data]
            if flag == _LAST:
                yield begin, b"".join(parts)
                parts = []
        if parts:
            raise BrokenRecord("a record without its end", offset=begin)

    def parse(self, record: bytes) -> dict[str, Any]:
        """Return the values, keyed by the message's keys, including uid, metadata and configuration.

        A label has the key `label/<key>`. The keys and the shape of a sparse feature are under `<key>:keys` and `<key>:shape`.
        """
        message = parse_record(record)
        values: dict[str, Any] = {}
        for prefix, map_ in (("", message.features), ("label/", message.label)):
            for key in sorted(map_):
                value = map_[key]
                kind = value.WhichOneof("value")
                if kind is None:
                    values[prefix + key] = []
                    continue
                tensor = getattr(value, kind)
                values[prefix + key] = list(tensor.value if kind == "bytes" else tensor.values)
                if kind != "bytes" and tensor.keys:
                    values[f"{prefix}{key}:keys"] = list(tensor.keys)
                    values[f"{prefix}{key}:shape"] = list(tensor.shape)
        for name in ("uid", "metadata", "configuration"):
            if message.HasField(name):
                values[name] = [getattr(message, name).encode()]
        return values

    @cached_property
    def _names(self) -> dict[str, str]:
        output = self._manifest.content.get("output", {})
        stored_options = RecordioProtobufOptions.model_validate(output.get("recordioProtobuf", {}))
        names = {feature["name"] for feature in self._manifest.features if not feature["label"]}
        if stored_options.sparse is None and self._manifest.parts.get("recordio", 1) > 1 and {sagemaker.KEYS, sagemaker.VALUES} <= names:
            stored_options = stored_options.model_copy(update={"sparse": [sagemaker.sparse(1)]})
        options = with_provenance(stored_options, asked=output.get("provenance", False))
        return _names(self._manifest.features, options)

    def by_feature(self, record: bytes) -> dict[str, Any]:
        """Return the values, keyed by the job's features, without the shapes of sparse features."""
        by_key = self.parse(record)
        empty_lists: dict[str, Any] = {name: [] for key, name in self._names.items() if key.endswith(":keys")}
        return empty_lists | {self._names.get(key, key): values for key, values in by_key.items() if not key.endswith(":shape")}


def _names(features: Sequence[Mapping[str, Any]], options: RecordioProtobufOptions) -> dict[str, str]:
    """Return a dict that maps the keys in `parse`'s result to the names of features.

    If a record's map of features or labels has a single entry, the entry's key is `values`.
    """
    sparse = {sparse_feature.values: sparse_feature for sparse_feature in options.sparse or []}
    texts = {field: name for field in ("uid", "metadata", "configuration") if (name := getattr(options, field)) is not None}
    apart = {sparse_feature.keys for sparse_feature in sparse.values()} | set(texts.values())
    names = dict(texts)
    for prefix, is_label in (("", False), ("label/", True)):
        group = [feature["name"] for feature in features if feature["label"] == is_label and feature["name"] not in apart]
        for name in group:
            own_key = sparse[name].name if name in sparse else name
            key = prefix + ("values" if len(group) == 1 else own_key)
            names[key] = name
            if name in sparse:
                names[f"{key}:keys"] = sparse[name].keys
    return names


_MAGIC_BYTES: Final = MAGIC.to_bytes(4, "little")


def _frames(pieces: Iterable[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, flag, data) for every frame."""
    offset = size = 0
    parts: list[bytes] = []
    needed = _HEAD.size
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size < needed:
            continue
        data = b"".join(parts)
        at = 0
        needed = _HEAD.size
        while size - at >= _HEAD.size:
            magic, word = _HEAD.unpack_from(data, at)
            if magic != MAGIC:
                raise BrokenRecord(f"expected the magic number, got {magic:#010x}", offset=offset + at)
            flag, length = word >> 29, word & 0x1FFFFFFF
            if flag > _LAST:
                raise BrokenRecord(f"unknown flag {flag}", offset=offset + at)
            end = at + _HEAD.size + length
            padded = end + -length % 4
            if size < padded:
                needed = padded - at
                break
            if padded > end and any(data[end:padded]):
                raise BrokenRecord("bytes other than zero after the data", offset=offset + at)
            yield offset + at, flag, data[at + _HEAD.size : end]
            at = padded
        offset += at
        parts = [data[at:]]
        size -= at
    if size:
        raise BrokenRecord(f"truncated record ({size} bytes)", offset=offset)


def parse_record(payload: bytes) -> Any:
    """Parse a message. Raises BrokenRecord if the payload isn't a Record."""
    try:
        return _record_class().FromString(payload)
    except DecodeError as exc:
        raise BrokenRecord("not a message of the type Record", offset=0) from exc


@cache
def _record_class() -> Any:
    """Return the message class of SageMaker's Record (proto2), which is built in a separate descriptor pool."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="record.proto", package="AmazonAIAlgorithmsIO", syntax="proto2")
    for name, kind in (("Float32Tensor", kinds.TYPE_FLOAT), ("Float64Tensor", kinds.TYPE_DOUBLE), ("Int32Tensor", kinds.TYPE_INT32)):
        tensor = file.message_type.add(name=name)
        for number, (field, field_type) in enumerate(
            (("values", kind), ("keys", kinds.TYPE_UINT64), ("shape", kinds.TYPE_UINT64)), start=1
        ):
            tensor_field = tensor.field.add(name=field, number=number, type=field_type, label=kinds.LABEL_REPEATED)
            tensor_field.options.packed = True
    content = file.message_type.add(name="Bytes")
    content.field.add(name="value", number=1, type=kinds.TYPE_BYTES, label=kinds.LABEL_REPEATED)
    content.field.add(name="content_type", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    value = file.message_type.add(name="Value")
    value.oneof_decl.add(name="value")
    members = (
        ("float32_tensor", 2, "Float32Tensor"),
        ("float64_tensor", 3, "Float64Tensor"),
        ("int64_tensor", 7, "Int32Tensor"),
        ("bytes", 9, "Bytes"),
    )
    for name, number, field_type in members:
        value.field.add(
            name=name,
            number=number,
            type=kinds.TYPE_MESSAGE,
            type_name=f".AmazonAIAlgorithmsIO.{field_type}",
            label=kinds.LABEL_OPTIONAL,
            oneof_index=0,
        )
    record = file.message_type.add(name="Record")
    for number, name in enumerate(("features", "label"), start=1):
        entry = record.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
        entry.field.add(
            name="value", number=2, type=kinds.TYPE_MESSAGE, type_name=".AmazonAIAlgorithmsIO.Value", label=kinds.LABEL_OPTIONAL
        )
        field_type = f".AmazonAIAlgorithmsIO.Record.{entry.name}"
        record.field.add(name=name, number=number, type=kinds.TYPE_MESSAGE, type_name=field_type, label=kinds.LABEL_REPEATED)
    for number, name in enumerate(("uid", "metadata", "configuration"), start=3):
        record.field.add(name=name, number=number, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("AmazonAIAlgorithmsIO.Record"))
