"""Encoder for SageMaker's Record messages in RecordIO framing. Each batch is encoded in one call.

    # A record:  uint32 0xced7230a | uint32 flag << 29 | length | data | zeros up to a multiple of 4     (little-endian)
    # Record { map<string, Value> features = 1, map<string, Value> label = 2, string uid = 3, metadata = 4, configuration = 5 }
    # Value { oneof: Float32Tensor = 2, Float64Tensor = 3, Int32Tensor = 7, Bytes = 9 }
    # Tensor { values = 1 packed, uint64 keys = 2 packed, uint64 shape = 3 packed },  Bytes { bytes value = 1, string content_type = 2 }

Entries are sorted by key, in byte order. If a map has a single entry, the entry's key is `values`, as SageMaker's own algorithms expect.
Numbers are float32 unless the spec says float64 or int32. The shape is written for sparse tensors and for tensors of two or more
dimensions.

Like dmlc's RecordIO, the encoder splits a record at each magic number whose position in the record is a multiple of 4. The magic number
itself is left out, and the parts have the flags 1 (first), 2 (middle) and 3 (last).

Source: dmlc-core, src/recordio.cc; SageMaker's developer guide, "Common data formats for training".
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_api.spec.formats.recordio_protobuf import RecordioProtobufOptions
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.native import Lengths, Piece, join
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, binary, binary_data, pc, to_numpy
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.tfrecord.contents import Fixed, Part, Ragged, contents, delimited, look_up, look_ups, varint
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec
from dataprep_converter.records.provenance import SOURCE, UID

MAGIC: Final = 0xCED7230A
LARGEST: Final = (1 << 29) - 1
"""The largest record size, in bytes, that a header can hold."""

_TENSORS: Final = {"float32": b"\x12", "float64": b"\x1a", "int32": b"\x3a"}
_BYTES: Final = b"\x4a"
_FEATURES: Final = b"\x0a"
_LABEL: Final = b"\x12"
_TEXTS: Final = {"uid": b"\x1a", "metadata": b"\x22", "configuration": b"\x2a"}


@dataclass(frozen=True)
class _Entry:
    """An entry in the map of features or the map of labels."""

    key: bytes
    map_tag: bytes
    feature: FeatureSpec
    keys: FeatureSpec | None
    """The feature that holds the keys, if the entry is sparse."""
    shape: tuple[int, ...]
    content_type: bytes

    @cached_property
    def tail(self) -> bytes:
        """The bytes that follow the values and keys."""
        if self.feature.kind == "bytes":
            return delimited(b"\x12", self.content_type) if self.content_type else b""
        return delimited(b"\x1a", b"".join(map(varint, self.shape))) if self.shape else b""

    def around(self, values: int, keys: int) -> tuple[bytes, bytes]:
        """Return the bytes before the values, and the bytes between the values and the keys. The arguments are sizes in bytes."""
        is_bytes = self.feature.kind == "bytes"
        before = b"\x0a" + varint(values) if values or is_bytes else b""
        between = b"\x12" + varint(keys) if keys else b""
        inner = len(before) + values + len(between) + keys + len(self.tail)
        tensor = (_BYTES if is_bytes else _TENSORS[self.feature.dtype]) + varint(inner)
        value = b"\x12" + varint(len(tensor) + inner) + tensor
        key = delimited(b"\x0a", self.key)
        return self.map_tag + varint(len(key) + len(value) + inner) + key + value + before, between

    def pieces(self, batch: pa.RecordBatch) -> tuple[list[Piece], Lengths]:
        """Return the columns that, concatenated, form this entry. Also return the entry's length in each row."""
        values = _ragged(_numbers(batch.column(self.feature.name), self.feature))
        if self.keys is None:
            heads, sizes = look_up(values.lengths, lambda length: self.around(length, 0)[0])
            return [heads, values.content, self.tail], sizes + values.lengths + len(self.tail)
        self._check_sparse(batch, self.keys)
        keys = _ragged(contents(batch.column(self.keys.name), kind="int64", raw=False))
        shortest = int(keys.lengths.min())
        span = int(keys.lengths.max()) - shortest + 1
        both = values.lengths * span + (keys.lengths - shortest)
        (heads, sizes), (middles, more) = look_ups(
            both,
            lambda code: self.around(code // span, code % span + shortest)[0],
            lambda code: self.around(code // span, code % span + shortest)[1],
        )
        return [heads, values.content, middles, keys.content, self.tail], sizes + more + values.lengths + keys.lengths + len(self.tail)

    def _check_sparse(self, batch: pa.RecordBatch, of_keys: FeatureSpec) -> None:
        keys: Any = batch.column(of_keys.name)
        name = self.key.decode()
        counts = pc.list_value_length(keys)
        if pc.any(pc.not_equal(counts, pc.list_value_length(batch.column(self.feature.name)))).as_py():
            raise BadData(f"The sparse feature {name!r} has different numbers of keys and values in a record.")
        flat = to_numpy(keys.flatten())
        size = math.prod(self.shape)
        if flat.min(initial=0) < 0 or flat.max(initial=0) >= size:
            first = flat[(flat < 0) | (flat >= size)][0]
            raise BadData(f"The sparse feature {name!r} has the key {first}, which is outside its shape {list(self.shape)}.")


class RecordioEncoder(SingleFile):
    """Encodes one RecordIO file."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._options = with_provenance(output.recordio_protobuf, asked=output.provenance)
        self._sizes: Lengths = np.empty(0, np.int64)
        for feature in features:
            if feature.sequence:
                raise BadSpec(f"The feature {feature.name!r} is a sequence, which recordioProtobuf can't store.")
        by_name = {feature.name: feature for feature in features}
        self._texts = [(tag, self._text(by_name, field)) for field, tag in _TEXTS.items() if getattr(self._options, field) is not None]
        self._entries = self._maps(by_name)

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `rec`, the extension that MXNet's own tools use."""
        return "rec"

    @staticmethod
    def numbers(output: Output) -> DtypeSupport:
        """Numbers become float32 unless the spec says otherwise. The keys of sparse features stay integers."""
        return DtypeSupport(
            unasked=dict.fromkeys(NUMPY_NAMES.values(), "float32"),
            held=frozenset({"float32", "float64", "int32"}),
            as_they_are=frozenset(sparse_feature.keys for sparse_feature in output.recordio_protobuf.sparse or []),
        )

    @staticmethod
    def holds_null(output: Output, feature: FeatureSpec) -> bool:
        """Return True only for the text fields outside the two maps: these fields can store a null as an empty string."""
        return feature.name in [getattr(output.recordio_protobuf, field) for field in _TEXTS]

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """Return the framed records of the batch. Raises BadData for nulls, and for a record that is too large for a frame."""
        if batch.num_rows == 0:
            self._sizes = np.empty(0, np.int64)
            return b""
        pieces: list[Piece] = []
        sizes: Lengths = np.zeros(batch.num_rows, np.int64)
        for entry in self._entries:
            entry_pieces, lengths = entry.pieces(batch)
            pieces += entry_pieces
            sizes += lengths
        if self._options.configuration:
            _check_json(batch.column(self._options.configuration), self._options.configuration)
        for tag, name in self._texts:
            part = _ragged(contents(pc.fill_null(batch.column(name), ""), kind="bytes", raw=False))
            heads, lengths = look_up(part.lengths, _Tagged(tag))
            pieces += [heads, part.content]
            sizes += lengths + part.lengths
        if sizes.max() > LARGEST:
            raise BadData(f"A record has {int(sizes.max()):,} bytes, but recordioProtobuf can hold at most {LARGEST:,}.")
        (headers, _), (paddings, _) = look_ups(sizes, header, lambda size: bytes(-size % 4))
        framed, self._sizes = split_at_magic(join([headers, *pieces, paddings], batch.num_rows))
        return framed

    def sizes(self) -> Lengths:
        """Return the sizes of the last batch's records, with headers and padding."""
        return self._sizes

    def close(self) -> bytes:
        """Return no bytes: a RecordIO file has no footer."""
        return b""

    def _maps(self, features: dict[str, FeatureSpec]) -> list[_Entry]:
        sparse = {sparse_feature.values: sparse_feature for sparse_feature in self._options.sparse or []}
        for name in [name for sparse_feature in sparse.values() for name in (sparse_feature.values, sparse_feature.keys)]:
            if name not in features or features[name].shape != (-1,):
                raise BadSpec(f"output.recordioProtobuf.sparse: {name!r} isn't a feature of lists; the features are {', '.join(features)}.")
        apart = {sparse_feature.keys for sparse_feature in sparse.values()} | {getattr(self._options, field) for field in _TEXTS}
        entries: list[_Entry] = []
        for tag in (_FEATURES, _LABEL):
            group = [feature for feature in features.values() if feature.label == (tag == _LABEL) and feature.name not in apart]
            by_name = {sparse[feature.name].name if feature.name in sparse else feature.name: feature for feature in group}
            keys = {name: "values" if len(by_name) == 1 else name for name in by_name}
            entries += [self._entry(keys[name], tag, by_name[name], features) for name in sorted(by_name, key=str.encode)]
        if not any(entry.map_tag == _FEATURES for entry in entries):
            raise BadSpec("recordioProtobuf needs at least one feature that isn't a label.")
        return entries

    def _entry(self, key: str, tag: bytes, feature: FeatureSpec, features: dict[str, FeatureSpec]) -> _Entry:
        sparse = next((sparse_feature for sparse_feature in self._options.sparse or [] if sparse_feature.values == feature.name), None)
        shape = tuple(sparse.shape) if sparse else feature.shape if len(feature.shape) > 1 else ()
        return _Entry(
            key=key.encode(),
            map_tag=tag,
            feature=feature,
            keys=features[sparse.keys] if sparse else None,
            shape=shape,
            content_type=(self._options.content_type or "").encode(),
        )

    def _text(self, features: dict[str, FeatureSpec], field: str) -> str:
        name: str = getattr(self._options, field)
        if name not in features or features[name].kind != "bytes" or features[name].shape:
            raise BadSpec(f"output.recordioProtobuf.{field}: {name!r} isn't a feature of text; the features are {', '.join(features)}.")
        return name


def with_provenance(options: RecordioProtobufOptions, *, asked: bool) -> RecordioProtobufOptions:
    """Return the options. If `output.provenance` is set (`asked`), the two features that provenance adds become uid and metadata."""
    return options.model_copy(update={"uid": UID, "metadata": SOURCE}) if asked else options


class _Tagged:
    """A callable that encodes a tag followed by a length."""

    def __init__(self, tag: bytes) -> None:
        self._tag = tag

    def __call__(self, length: int) -> bytes:
        return self._tag + varint(length)


def header(length: int, flag: int = 0) -> bytes:
    """Return the eight bytes that precede data of this length."""
    return MAGIC.to_bytes(4, "little") + (flag << 29 | length).to_bytes(4, "little")


def _check_json(texts: Array, name: str) -> None:
    """Raise BadData if a string isn't JSON, because the format requires a configuration to be JSON.

    An empty string means no configuration.
    """
    for text in pc.unique(pc.fill_null(texts, "")).to_pylist():
        try:
            json.loads(text or "null")
        except ValueError as exc:
            raise BadData(
                f"The feature {name!r} is the records' configuration, which must be JSON, but {text[:60]!r} isn't: {exc}."
            ) from exc


def _ragged(part: Part) -> Ragged:
    return part if isinstance(part, Ragged) else part.as_ragged()


def _numbers(column: Array, feature: FeatureSpec) -> Part:
    """Return the packed values, or the bytes, of each row."""
    if column.null_count:
        raise BadData(f"The feature {feature.name!r} has no value in some records, and recordioProtobuf can't store missing values.")
    if feature.kind in ("int64", "bytes"):
        return contents(column, kind=feature.kind, raw=False)
    dtype = np.dtype(feature.dtype).newbyteorder("<")
    if feature.shape != (-1,):
        return Fixed(to_numpy(column).reshape(len(column), -1), dtype)
    lists: Any = column
    lengths = pc.list_value_length(column).to_numpy().astype(np.int64) * dtype.itemsize
    data = np.ascontiguousarray(to_numpy(lists.flatten()), dtype)
    return Ragged(content=binary(data.view(np.uint8), np.concatenate(([0], np.cumsum(lengths)))), lengths=lengths)


def split_at_magic(records: Array) -> tuple[memoryview, Lengths]:
    """Split the framed records that contain the magic number. Return the bytes of all records, and the size of each."""
    data, offsets = binary_data(records)
    starts = offsets - offsets[0]
    sizes = np.diff(starts)
    data = data[offsets[0] : offsets[-1]]
    view = memoryview(data.data).toreadonly()
    # Every frame's size is a multiple of 4. So positions that are multiples of 4 in the buffer are multiples of 4 in their records too.
    magic_places = np.flatnonzero(data.view("<u4") == MAGIC) * 4
    if len(magic_places) == len(sizes):
        return view, sizes  # the magic number occurs only at the beginning of frames
    inside = magic_places[~np.isin(magic_places, starts[:-1])]
    out: list[bytes | memoryview] = []
    copied_end = 0
    for row in np.unique(np.searchsorted(starts, inside, side="right") - 1).tolist():
        start, stop = int(starts[row]), int(starts[row + 1])
        payload = view[start + 8 : start + 8 + int.from_bytes(view[start + 4 : start + 8], "little")]
        cuts = (inside[(inside >= start + 8) & (inside < stop)] - start - 8).tolist()
        frames = _parts(payload, [cut for cut in cuts if cut + 4 <= len(payload)])
        sizes[row] = sum(map(len, frames))
        out += [view[copied_end:start], *frames]
        copied_end = stop
    return (memoryview(b"".join([*out, view[copied_end:]])) if out else view), sizes


def _parts(payload: memoryview, cuts: list[int]) -> list[bytes | memoryview]:
    """Split one record into frames at each magic number, and remove the magic numbers."""
    if not cuts:
        return [header(len(payload)), payload, bytes(-len(payload) % 4)]
    frames: list[bytes | memoryview] = []
    begins, ends = [0, *(cut + 4 for cut in cuts)], [*cuts, len(payload)]
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        flag = 1 if number == 0 else 3 if number == len(cuts) else 2
        frames += [header(end - begin, flag), payload[begin:end], bytes(-(end - begin) % 4)]
    return frames
