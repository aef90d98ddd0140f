"""Encoder for tf.train.Example and SequenceExample in TFRecord framing.

Each batch is encoded in one call, without message objects and without a loop over values.

    # Example { Features features = 1 },    SequenceExample { Features context = 1, FeatureLists feature_lists = 2 }
    # Features { map<string, Feature> feature = 1 },    FeatureLists { map<string, FeatureList> feature_list = 1 }
    # Feature { oneof: BytesList bytes_list = 1, FloatList float_list = 2 (packed), Int64List int64_list = 3 (packed) }
    # FeatureList { repeated Feature feature = 1 }
    # An entry of a map:  0a <len> | 0a <len> key | 12 <len> feature or feature list;    numbers:  <1a|12|0a> <len> | 0a <len> values

If any feature is a sequence, records are SequenceExamples, and the other features are their context. Entries are sorted by key in byte order,
numbers are packed, varints are minimal, and an empty context is left out. So the same values always give the same bytes. (protobuf promises no
order, and TensorFlow's order changes from process to process.)

The bytes of a column's value in one row are its *content* (`contents.py`). The content of a sequence is the bytes of all steps. In the
map's entry, a *prefix* precedes the content. The prefix depends only on the content's length.

If the contents of each column have the same length in all rows, the records form a matrix. To build this matrix, the columns of values are
copied into a template of constant bytes. If the lengths differ, an Arrow kernel joins the pieces of each row: prefixes, which are looked up
by length, ragged contents, and runs of contents with fixed lengths. The steps of sequences are also encoded in one of these two ways, with
each step as a row.

A null is written as an empty Feature (`12 00`), which TensorFlow treats like a missing key. An empty list is a list without values, and a
sequence that is null or empty has no steps.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.core.arrow_types import is_text_or_bytes, without_dictionary
from dataprep_converter.core.buffers import Buffer
from dataprep_converter.core.compression import Compressor, GzipMembers, Plain
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.framing import FOOTER, HEADER, header
from dataprep_converter.core.lists import flatten_lists, is_list, item_type
from dataprep_converter.core.native import Bytes, DictionaryColumn, Lengths, Piece, framed, framed_apart, join, masked_crcs
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, binary, binary_data
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.tfrecord.contents import (
    MISSING,
    OWN_PIECE,
    Fixed,
    LookUp,
    Part,
    Ragged,
    contents,
    delimited,
    even_offsets,
    grouped,
    has_one_size,
    is_raw,
    is_whole,
    look_up,
    no_nulls,
    varint,
)
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec

_LIST_TAGS: Final[Mapping[str, bytes]] = {"bytes": b"\x0a", "float": b"\x12", "int64": b"\x1a"}
_CONTEXT: Final = b"\x0a"
"""The tag of an Example's features and of a SequenceExample's context."""
_FEATURE_LISTS: Final = b"\x12"
_LARGE_VALUE: Final = 16 << 10
"""If a column's values have at least this average size in bytes, they are written without being copied."""


class _Field:
    """Encodes the key of one feature, and converts the feature's columns to contents."""

    def __init__(self, feature: FeatureSpec) -> None:
        self.feature = feature
        self._key = delimited(b"\x0a", feature.name.encode())
        self._tag = _LIST_TAGS[feature.kind]
        self._type: pa.DataType | None = None
        self._holds_list = False
        self.prefix = LookUp(self._prefix, first=MISSING)
        """Maps the content's length to the bytes that precede the content."""

    def part(self, column: Array) -> Part:
        """Return the contents of one column of a batch."""
        if column.type != self._type:
            self._check(column.type)
            self._type = column.type
        if self.feature.sequence:
            return self._sequences(column)
        return contents(column, kind=self.feature.kind, raw=self.feature.raw)

    def _sequences(self, column: Array) -> Part:
        """Return the steps of each row. Each step includes the bytes that precede the step's values."""
        lists = flatten_lists(column)
        steps, counts = no_nulls(lists.items), lists.counts
        if not len(steps):
            return Fixed(np.empty((len(column), 0), np.uint8), np.dtype(np.uint8))
        part = contents(steps, kind=self.feature.kind, raw=self.feature.raw)
        if isinstance(part, Fixed):
            return grouped(_run_piece([(self._step(part.width), part)], len(steps)), counts)
        prefixes, _ = look_up(part.lengths, self._step)
        return grouped(join([prefixes, part.content], len(steps)), counts)

    def _prefix(self, length: int) -> bytes:
        """Return the bytes that precede content of this length, from the entry's tag on."""
        if self.feature.record:
            return b""
        if length == MISSING:
            return delimited(b"\x0a", self._key + b"\x12\x00")
        values = b"" if self.feature.sequence else self._values(length)
        feature = b"\x12" + varint(len(values) + length) + values
        return b"\x0a" + varint(len(self._key) + len(feature) + length) + self._key + feature

    def _step(self, length: int) -> bytes:
        """Return the bytes that precede a step's content in the list of all steps."""
        values = self._values(length)
        return b"\x0a" + varint(len(values) + length) + values

    def _values(self, length: int) -> bytes:
        """Return the bytes that precede content of this length within the Feature."""
        has_values = length > 0 or self.feature.kind == "bytes"
        inner = b"\x0a" + varint(length) if has_values and not self._holds_list else b""
        return self._tag + varint(len(inner) + length) + inner

    def _check(self, kind: pa.DataType) -> None:
        """Check that the feature can hold a column of this type, and store whether each row or step is a list of byte strings."""
        rows: Any = without_dictionary(kind)
        is_as_deep = not self.feature.sequence or is_list(rows)
        if self.feature.sequence and is_as_deep:
            rows = rows.value_type
        is_as_deep = is_as_deep and not (is_list(rows) and is_list(rows.value_type))
        value = item_type(rows)
        fits_bytes = is_raw if self.feature.raw else is_text_or_bytes
        fits = {"int64": is_whole, "float": pa.types.is_floating, "bytes": fits_bytes}[self.feature.kind]
        if not is_as_deep or not fits(value) or (value in NUMPY_NAMES and self.feature.raw and not has_one_size(rows)):
            expectation = f"{'steps of ' if self.feature.sequence else ''}{self.feature.kind}"
            raise BadSpec(f"The feature {self.feature.name!r} must hold {expectation}, but the type of its column is {kind}.")
        self._holds_list = is_list(rows) and is_text_or_bytes(value) and not self.feature.record
        self.prefix = LookUp(self._prefix, first=MISSING)


@dataclass(frozen=True)
class _Section:
    """The fields of one message inside the record, and the message's tag. If there is no tag, the fields form the complete record."""

    tag: bytes
    fields: Sequence[_Field]

    @cached_property
    def heads(self) -> LookUp:
        """Returns the result of `head` for the length of each row's content."""
        return LookUp(self.head)

    def head(self, length: int) -> bytes:
        """Return the tag and the length that precede fields with a total of `length` bytes."""
        return self.tag + varint(length) if self.tag and length else b""


def _sections(features: Sequence[FeatureSpec]) -> list[_Section]:
    fields = [_Field(feature) for feature in sorted(features, key=lambda f: f.name.encode())]
    if any(field.feature.record for field in fields):
        if len(fields) > 1:
            raise BadSpec(
                f"The feature {next(f.feature.name for f in fields if f.feature.record)!r} is a complete record, so it must be the only feature."
            )
        return [_Section(b"", fields)]
    context = [field for field in fields if not field.feature.sequence]
    sequences = [field for field in fields if field.feature.sequence]
    return [_Section(tag, section_fields) for tag, section_fields in ((_CONTEXT, context), (_FEATURE_LISTS, sequences)) if section_fields]


@dataclass(frozen=True)
class _Room:
    """A buffer for records of one layout. The buffer already contains the constant bytes."""

    layout: tuple[tuple[int, ...], ...]
    records: npt.NDArray[Any]


class TfrecordEncoder(SingleFile):
    """Encodes one TFRecord file (see the module's docstring). Between batches, the encoder keeps only reusable buffers."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self.output = output
        self._sections = _sections(features)
        self._records: deque[_Room] = deque([_Room((), np.empty(0, np.uint8))] * 3)
        """Three buffers that are used in turn: for the current batch, the batch that waits to be written, and the batch being written."""
        self._joined_records: deque[Bytes] = deque([np.empty(0, np.uint8)] * 3)
        """Three buffers for records of different layouts, which are used in turn."""
        self._sizes: Lengths = np.empty(0, np.int64)

    @staticmethod
    def extension(output: Output) -> str:
        """Return `tfrecords`, or `tfrecords.gz` if the file is compressed."""
        return "tfrecords.gz" if output.tfrecord.compression == "Gzip" else "tfrecords"

    @staticmethod
    def numbers(_output: Output) -> DtypeSupport:
        """Numbers of type float64 become float32, the only float type in the lists of a tf.train.Example."""
        return DtypeSupport(unasked={"float64": "float32"}, raw=True)

    @staticmethod
    def compressor(output: Output) -> Compressor:
        """Return gzip if the spec selects it, like TensorFlow's `compression_type="GZIP"`."""
        return GzipMembers(output.tfrecord.compression_level) if output.tfrecord.compression == "Gzip" else Plain()

    @staticmethod
    def holds_null(_output: Output, feature: FeatureSpec) -> bool:
        """Return True for lists of values. A tensor's bytes and a complete record can't be null."""
        return not feature.raw and not feature.record

    def encode(self, batch: pa.RecordBatch) -> Buffer:
        """Return the framed records of the batch. Columns that aren't features are left out.

        The buffer stays valid during the next two calls.
        """
        pieces = self.pieces(batch)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pieces(self, batch: pa.RecordBatch) -> Sequence[Buffer]:
        """Return the same bytes as `encode`, as pieces. Each large value is a separate piece."""
        if batch.num_rows == 0:
            self._sizes = np.empty(0, np.int64)
            return []
        parts = _parts(self._sections, batch)
        fixed = [part for section in parts for part in section if isinstance(part, Fixed)]
        if len(fixed) == sum(map(len, parts)) and all(part.width < _LARGE_VALUE for part in fixed):
            return [self._matrix(fixed, batch.num_rows)]
        return self._encode_mixed(parts, batch.num_rows)

    def sizes(self) -> Lengths:
        """Return the sizes of the last batch's records, including headers and footers."""
        return self._sizes

    def close(self) -> bytes:
        """Return no bytes: a TFRecord file has no footer."""
        return b""

    def _matrix(self, parts: Sequence[Fixed], rows: int) -> memoryview:
        """Encode records that all have the same layout."""
        room = self._records.popleft()
        layout = tuple(part.values.shape[1:] for part in parts)
        if layout != room.layout or rows > len(room.records):
            room = _Room(layout, self._template(parts, rows))
        self._records.append(room)
        records = room.records[:rows]
        for number, part in enumerate(parts):
            if part.width:
                # A float64 too large for float32 would become infinite here, as in TensorFlow, but the projector has already refused it.
                with np.errstate(over="ignore"):
                    records[f"value{number}"] = part.values
        data = memoryview(records.view(np.uint8).data)
        size = records.dtype.itemsize
        self._sizes = np.full(rows, size, np.int64)
        starts = even_offsets(rows, size)
        records["footer"] = masked_crcs(records.view(np.uint8), starts[:-1] + HEADER, starts[1:] - FOOTER)
        return data.toreadonly()

    def _template(self, parts: Sequence[Fixed], rows: int) -> npt.NDArray[Any]:
        """Return a buffer for the records. The buffer already contains the constant bytes."""
        prefixes: list[bytes] = []
        for section in self._sections:
            section_parts = parts[len(prefixes) : len(prefixes) + len(section.fields)]
            own = [field.prefix.make(part.width) for field, part in zip(section.fields, section_parts, strict=True)]
            own[0] = section.head(sum(map(len, own)) + sum(part.width for part in section_parts)) + own[0]
            prefixes += own
        size = sum(map(len, prefixes)) + sum(part.width for part in parts)
        prefixes = [header(size) + b"".join(prefixes[:1]), *prefixes[1:]]
        return _template(prefixes, parts, rows, [("footer", np.dtype("<u4"))])

    def _encode_mixed(self, parts: Sequence[Sequence[Part]], rows: int) -> Sequence[Buffer]:
        """Encode records of different layouts. All pieces are joined, except large values."""
        pieces, sizes = _record_pieces(self._sections, parts, rows)
        self._sizes = sizes + (HEADER + FOOTER)
        apart = [_has_large_values(piece) for piece in pieces]
        if any(apart):
            between, cuts = framed_apart(pieces, sizes, apart)
            columns = [
                piece for piece, is_apart in zip(pieces, apart, strict=True) if is_apart and not isinstance(piece, DictionaryColumn | bytes)
            ]
            large = [_split_at(data, offsets.tolist()) for data, offsets in map(binary_data, columns)]
            return _interleave(
                _split_at(between, [0, *cuts.tolist(), len(between)]), [value for row in zip(*large, strict=True) for value in row]
            )
        records = framed(pieces, sizes, self._joined_records.popleft())
        self._joined_records.append(records if records.base is None else records.base)
        return [memoryview(records.data).toreadonly()]


class Messages:
    """Encodes messages without framing, for formats that have their own framing."""

    def __init__(self, features: Sequence[FeatureSpec]) -> None:
        self._sections = _sections(features)

    def column(self, batch: pa.RecordBatch) -> Ragged:
        """Return one message for each row."""
        pieces, sizes = _record_pieces(self._sections, _parts(self._sections, batch), batch.num_rows)
        return Ragged(content=join(pieces, batch.num_rows), lengths=sizes)


# --- pieces -------------------------------------------------------------------------------------------------------


def _parts(sections: Sequence[_Section], batch: pa.RecordBatch) -> list[list[Part]]:
    return [[field.part(batch.column(field.feature.name)) for field in section.fields] for section in sections]


def _record_pieces(sections: Sequence[_Section], parts: Sequence[Sequence[Part]], rows: int) -> tuple[list[Piece], Lengths]:
    """Return the columns that, concatenated, form the messages. Also return the length of each message."""
    pieces: list[Piece] = []
    sizes: Lengths = np.zeros(rows, np.int64)
    for section, contents_of in zip(sections, parts, strict=True):
        field_pieces, lengths = _section_pieces(section.fields, contents_of, rows)
        head, head_lengths = section.heads(lengths)
        pieces += [head, *field_pieces]
        sizes += lengths + head_lengths
    return pieces, sizes


def _section_pieces(fields: Sequence[_Field], parts: Sequence[Part], rows: int) -> tuple[list[Piece], Lengths]:
    """Return the columns that, concatenated, form a section. Also return the section's length in each row."""
    pieces: list[Piece] = []
    lengths: Lengths = np.zeros(rows, np.int64)
    run: list[tuple[bytes, Fixed]] = []
    for field, part in zip(fields, parts, strict=True):
        if isinstance(part, Fixed) and part.width < OWN_PIECE:
            run.append((field.prefix.make(part.width), part))
            lengths += len(run[-1][0]) + part.width
            continue
        if run:
            pieces.append(_run_piece(run, rows))
            run = []
        ragged = part if isinstance(part, Ragged) else part.as_ragged()
        prefix, prefix_lengths = field.prefix(ragged.lengths)
        lengths += prefix_lengths
        lengths += np.maximum(ragged.lengths, 0)
        pieces += [prefix, ragged.content]
    if run:
        pieces.append(_run_piece(run, rows))
    return pieces, lengths


def _template(prefixes: Sequence[bytes], parts: Sequence[Fixed], rows: int, ends: list[tuple[str, np.dtype[Any]]]) -> npt.NDArray[Any]:
    """Return rows of `prefix value prefix value …`. The prefixes are filled in; the values aren't."""
    fields: list[Any] = []
    for number, prefix in enumerate(prefixes):
        if prefix:
            fields.append((f"prefix{number}", f"V{len(prefix)}"))
        if number < len(parts) and parts[number].width:
            fields.append((f"value{number}", parts[number].dtype, parts[number].values.shape[1:]))
    records = np.empty(rows, np.dtype(fields + ends))
    template = np.zeros(1, records.dtype)
    for number, prefix in enumerate(prefixes):
        if prefix:
            template[f"prefix{number}"] = np.void(prefix)
    records.view(f"V{records.itemsize}")[:] = template.view(f"V{records.itemsize}")
    return records


def _run_piece(run: Sequence[tuple[bytes, Fixed]], rows: int) -> Array:
    """Combine consecutive short contents of fixed length into one column."""
    parts = [part for _, part in run]
    records = _template([prefix for prefix, _ in run], parts, rows, [])
    for number, part in enumerate(parts):
        if part.width:
            with np.errstate(over="ignore"):
                records[f"value{number}"] = part.values
    return binary(records.view(np.uint8), even_offsets(rows, records.itemsize))


def _has_large_values(piece: Piece) -> bool:
    if isinstance(piece, DictionaryColumn | bytes):
        return False
    _, offsets = binary_data(piece)
    return bool(offsets[-1] - offsets[0] >= _LARGE_VALUE * len(piece))


def _split_at(data: Bytes, ends: Iterable[int]) -> list[memoryview]:
    """Split the data at the given offsets, and return the pieces between them."""
    view = memoryview(data.data).toreadonly()
    return [view[start:end] for start, end in pairwise(ends)]


def _interleave(outer: Sequence[memoryview], inner: Sequence[memoryview]) -> list[memoryview]:
    """Interleave the two sequences, beginning and ending with an outer item."""
    both = [outer[0]] * (len(outer) + len(inner))
    both[::2], both[1::2] = outer, inner
    return both
