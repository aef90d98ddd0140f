"""The source `tfrecord` reads TFRecord files of tf.train.Example, plain or gzip. Files from this project and from TensorFlow can be read.

The planner finds the records by their headers (`frames.py`), splits each file into units of about 4 MiB that contain complete records, and
freezes the columns. Workers check every CRC and parse all records of a unit at once (`examples.py`). A gzip file is split at offsets in its
uncompressed contents (`streamed.py`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec.sources.tfrecord import TfrecordFeature, TfrecordSource
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, InputChanged, NotWhole
from dataprep_converter.core.framing import HEADER
from dataprep_converter.core.lru import LruCache
from dataprep_converter.core.tensors import Array, binary
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.formats.tfrecord.examples import ColumnFeature, parse
from dataprep_converter.formats.tfrecord.frames import Stretch, payloads, stretches
from dataprep_converter.formats.tfrecord.lockstep import BYTES, FLOATS, INTS
from dataprep_converter.formats.tfrecord.records import parse_sequence
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import GZIP_MAGIC
from dataprep_converter.inputs.pinned import open_pinned
from dataprep_converter.inputs.streamed import StreamInput, unpacked
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block, BlockReader
from dataprep_converter.readers.base.examined import Form, ListedFile, collect, cost_of_file, examined, open_listed
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.tfrecord import sequence_examples
from dataprep_converter.records.batch import Raw
from dataprep_converter.records.columns import IS_RECORD
from dataprep_converter.runtime.ahead import end_if_not_needed
from dataprep_converter.runtime.scans import Document
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry, Input, Store, scheme_of

RECORD: Final = "record"
"""The name of the column that has the complete record, if records aren't parsed."""

_UNIT_BYTES = 4 << 20
_WINDOW: Final = 64 << 10
"""The number of bytes that are read at a time to find headers in a local file. Larger payloads are skipped."""
_FAR_WINDOW: Final = 4 << 20
"""The number of bytes that are read at a time to find headers in a remote file. Eight files are read at the same time."""
_SAMPLED_FILES: Final = 8
_SAMPLED_RECORDS: Final = 256
_TYPES: Final[Mapping[str, int]] = {"Int64": INTS, "Float32": FLOATS, "Bytes": BYTES}
_KINDS: Final[Mapping[str, str]] = {"int64": "Int64", "float": "Float32", "bytes": "Bytes"}


class TfrecordReader(BlockReader):
    """See the module. The columns are the features, or only the column `record`."""

    stored_form: ClassVar[int] = 1

    @staticmethod
    def discover(source: TfrecordSource, access: Access) -> Discovery:
        """Reads the headers of all records, and the contents of the first records. Raises NotFound for a URI without files, and BadSpec if
        the features can't be determined. For an invalid file, raises BadData, which names the file and the offset."""
        return Discovery(_Planner(source, access).units())

    def __init__(self, source: TfrecordSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access)
        self._raw = source.raw
        self._is_strict = source.features is None
        self._features = [TfrecordFeature.model_validate(feature) for feature in state.get("features", [])]
        self._has_sequences = any(feature.sequence for feature in self._features)
        self._column_features = [] if self._has_sequences else [_column_feature(feature) for feature in self._features]
        self._contents: LruCache[str, StreamInput] = self._files.views(close=StreamInput.close)

    def schema(self) -> pa.Schema:
        """The columns, whose types are int64, float32, bytes, the types of raw tensors, and lists of these types."""
        if self._raw:
            return pa.schema([pa.field(RECORD, pa.large_binary(), metadata=IS_RECORD)])
        if self._has_sequences:
            return sequence_examples.schema(self._features)
        return pa.schema([(feature.name, feature.type) for feature in self._column_features])

    def load(self, unit: Unit, source: Input) -> Block:
        """Parses the unit. Raises BadData, which names the file and the offset, for a wrong CRC."""
        extra = json.loads(unit.extra) if unit.extra else {}
        size = extra.get("bytes", unit.size)
        if extra:
            source = self._contents.get(unit.uri, partial(unpacked, source, unit.uri, compression="gzip", size=extra["contents"]))
        data = source.read_at(unit.offset, size)
        if len(data) != size:
            raise InputChanged(f"{unit.uri} shrank while it was being read.", uri=unit.uri)
        starts, ends = payloads(data, unit.uri, unit.offset)
        if self._raw:
            return Block.of(pa.RecordBatch.from_arrays([_payload_column(data, starts, ends)], schema=self.schema()))
        if self._has_sequences:
            return sequence_examples.block(data, starts, ends, self._features, is_strict=self._is_strict)
        columns, reasons = parse(data, starts, ends, self._column_features, is_strict=self._is_strict)
        is_good = np.ones(len(starts), np.bool_)
        is_good[list(reasons)] = False
        return Block(
            records=pa.RecordBatch.from_arrays(columns, schema=self.schema()),
            places=np.where(is_good, np.cumsum(is_good) - 1, -1),
            reasons=reasons,
            raws={row: Raw.of(data[starts[row] : ends[row]]) for row in reasons},
        )


def _payload_column(data: bytes, starts: Any, ends: Any) -> Array:
    """The payloads as a column. The payloads are copied so that the framing between them is left out."""
    pieces = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(ends - starts)))
    return binary(np.frombuffer(b"".join(pieces), np.uint8), offsets)


def _column_feature(feature: TfrecordFeature) -> ColumnFeature:
    return ColumnFeature(feature.name, _TYPES[feature.type], None if feature.ragged else tuple(feature.shape), feature.raw)


@dataclass(frozen=True)
class _RecordFile:
    """The records of a file. They don't depend on any other file."""

    stretches: Sequence[Stretch]
    """Complete records. For a gzip file, the offsets and sizes are those in its uncompressed contents."""
    is_zipped: bool
    samples: Sequence[bytes] | ConvertError | None
    """The first records, if they may be needed to infer the features.

    If the records aren't Examples, this field contains the error, which also ends the search.
    """
    fault: ConvertError | None = None
    """The error that ended the search. Raised as soon as the records that precede it have been used."""

    def units(self, root: int, path: str, entry: Entry, *, subset: str) -> Iterator[Unit]:
        """Yields the units of the file. Then raises the file's fault, if there is one."""
        contents = self.stretches[-1].offset + self.stretches[-1].size if self.stretches else 0
        for stretch in self.stretches:
            unit = stretch.unit(root, path, entry, subset=subset)
            if self.is_zipped:
                # Divide the gzip file's size among the units, so that the units' sizes add up to it.
                share = entry.size * (unit.offset + unit.size) // contents - entry.size * unit.offset // contents
                unit = _gzip_unit(unit, share, contents)
            yield unit
        if self.fault is not None:
            raise self.fault

    def to_document(self) -> Document | None:
        """Returns the records as JSON, or None for a file with a fault. Leaves out the samples, because they are needed for only a few
        files."""
        return None if self.fault is not None else {"stretches": [each.values() for each in self.stretches], "isZipped": self.is_zipped}

    @staticmethod
    def from_document(document: Document) -> "_RecordFile":
        """Restores the records from the JSON form."""
        return _RecordFile([Stretch(*values) for values in document["stretches"]], document["isZipped"], samples=None)


class _Planner:
    """Lists the files of a source, splits them into units, and freezes the features."""

    def __init__(self, source: TfrecordSource, access: Access) -> None:
        self._source = source
        self._access = access
        self._manifests: dict[int, Manifest | None] = {}
        """For each root whose files have been listed, the manifest of its data set, if there is one."""
        self._splits: dict[int, dict[str, str]] = {}
        self._features = source.features
        self._samples: list[tuple[str, bytes]] = []
        self._files = 0

    def units(self) -> Listing[Unit]:
        """Yields the units in the order of the URIs and, for each URI, sorted by path."""
        form = Form(cost_of_file, _RecordFile.to_document, _RecordFile.from_document)
        for file in examined(self._access, self._listed(), self._examine, form=form):
            subset = self._subset(file.root, file.path)
            found = file.result
            if self._needs_samples() and found.samples is None and found.stretches:
                # Another process found the records, but its result doesn't include the samples.
                found = self._with_samples(found, file.entry)
            if isinstance(found.samples, ConvertError):
                if self._needs_samples():
                    raise found.samples
                # This file's samples can't be read, but they aren't needed, because enough earlier files have records. Examine the file
                # again, because the error ended the search.
                found = self._examine(self._access.store(file.entry.uri), file.entry)
            if self._needs_samples() and found.samples and not isinstance(found.samples, ConvertError):
                self._files += 1
                self._samples += [(file.entry.uri, record) for record in found.samples]
            yield from found.units(file.root, file.path, file.entry, subset=subset)
        if self._source.raw:
            return {}
        features = self._features or (self._infer_features() if self._samples else [])
        return {"features": [feature.model_dump(by_alias=True, exclude_defaults=True) for feature in features]}

    def _listed(self) -> Iterator[ListedFile]:
        """Yields the files. Reads a folder's manifest before the folder's first file is yielded."""
        for root, path, entry in input_files(self._access, self._source.uris):
            if root not in self._manifests:
                uri = self._source.uris[root]
                # Look for a manifest only if the URI is a folder, because HDFS rejects paths below a file.
                self._manifests[root] = self._manifest(uri) if entry.uri.startswith(uri.rstrip("/") + "/") else None
            yield root, path, entry

    def _examine(self, store: Store, entry: Entry) -> _RecordFile:
        """Finds the records of a file. Several threads may call this method. An error in the file is stored as its `fault`."""
        is_far = scheme_of(entry.uri) not in ("", "file")
        with open_listed(self._access, store, entry) as file, _contents(file, entry.uri) as (source, is_zipped):
            size = file.size
            window = 1 << 20 if is_zipped else _FAR_WINDOW if is_far else _WINDOW

            def read_at(offset: int, length: int) -> bytes:
                end_if_not_needed()
                # Some stores reject a range that begins after the end of the file.
                return source.read_at(offset, length) if is_zipped or offset < size else b""

            def sample(first: Stretch) -> list[bytes] | ConvertError | None:
                # Read the records now, because going back to them later in a gzip file would be expensive.
                return _first_records(source.read_at(0, first.size), entry.uri) if self._needs_samples() else None

            found, samples, fault = collect(stretches(read_at, entry.uri, window=window, most=_UNIT_BYTES), sample)
        return _RecordFile(found, is_zipped, samples, fault)

    def _with_samples(self, found: _RecordFile, entry: Entry) -> _RecordFile:
        store = self._access.store(entry.uri)
        with open_pinned(store, entry.uri, entry.pin) as file, _contents(file, entry.uri) as (source, _):
            return replace(found, samples=_first_records(source.read_at(0, found.stretches[0].size), entry.uri))

    def _needs_samples(self) -> bool:
        is_inferred = self._features is None and not self._source.raw and not self._access.only_scans
        return is_inferred and self._files < _SAMPLED_FILES

    def _subset(self, root: int, path: str) -> str:
        """The file's split, if the source's folder holds a data set that this project wrote. In that case, also takes the features from the
        data set's manifest."""
        if root not in self._splits:
            manifest = self._manifests[root]
            self._splits[root] = {file.file: file.split for file in manifest.files} if manifest is not None else {}
            if manifest is not None and self._features is None and not self._source.raw:
                self._features = [_of_manifest(feature) for feature in manifest.features]
        return self._splits[root].get(path, "")

    def _manifest(self, uri: str) -> Manifest | None:
        folder = OutputFolder(uri, self._access)
        try:
            success = folder.success()
        except NotWhole:
            return None  # Not a data set of this project: another program wrote this _SUCCESS.
        if success is None:
            return None
        manifest = folder.manifest(success)
        if manifest.format != "tfrecord":
            raise BadSpec(f"{uri} holds a data set in the format {manifest.format}, which source.tfrecord can't read.", uri=uri)
        return manifest

    def _infer_features(self) -> list[TfrecordFeature]:
        """Infers the features from the first records."""
        sequences = sequence_examples.inferred(self._samples)
        alone = _infer_plain_features([(uri, parse_sequence(payload)[0]) for uri, payload in self._samples])
        both = {feature.name for feature in alone}.intersection(feature.name for feature in sequences or [])
        if both:
            raise BadSpec(
                f"The feature {min(both)!r} is a sequence in some records but not in others; list the features in source.tfrecord.features."
            )
        return sorted([*alone, *(sequences or [])], key=lambda feature: feature.name.encode())


@contextmanager
def _contents(file: Input, uri: str) -> Iterator[tuple[Input, bool]]:
    """The uncompressed contents of a file, and whether the file is compressed."""
    if file.read_at(0, len(GZIP_MAGIC)) != GZIP_MAGIC:
        yield file, False
        return
    with unpacked(file, uri, compression="gzip", size=-1, kept_bytes=2 * _UNIT_BYTES) as contents:
        yield contents, True


def _first_records(data: bytes, uri: str) -> list[bytes] | BadData:
    """The first records of a file that begins with `data`. Returns an error if the records are damaged or aren't Examples."""
    records: list[bytes] = []
    try:
        starts, ends = payloads(data, uri, 0)
    except BadData as exc:
        return exc
    for start, end in zip(starts[:_SAMPLED_RECORDS].tolist(), ends[:_SAMPLED_RECORDS].tolist(), strict=True):
        try:
            parse_sequence(data[start:end])
            records.append(data[start:end])
        except NotWhole as exc:
            return BadData(
                f"{uri}, offset {start - HEADER}: {str(exc)[:1].lower()}{str(exc)[1:]} Set source.tfrecord.raw to keep records unparsed.",
                uri=uri,
            )
    return records


def _gzip_unit(unit: Unit, share: int, contents: int) -> Unit:
    extra = json.dumps({"bytes": unit.size, "contents": contents})
    return Unit(**{**unit.__dict__, "size": share, "extra": extra})


def _of_manifest(feature: Mapping[str, Any]) -> TfrecordFeature:
    """The feature that a manifest of this project describes."""
    shape = list(feature["shape"])
    sequence = bool(feature.get("sequence"))
    shape = shape[1:] if sequence else shape
    if feature["raw"]:
        return TfrecordFeature(name=feature["name"], type="Bytes", shape=shape, raw=feature["dtype"], sequence=sequence)
    is_ragged = -1 in shape or (bool(shape) and feature["kind"] == "bytes")
    return TfrecordFeature(
        name=feature["name"], type=_KINDS[feature["kind"]], shape=[] if is_ragged else shape, ragged=is_ragged, sequence=sequence
    )


def _infer_plain_features(samples: Sequence[tuple[str, Mapping[str, Sequence[Any]]]]) -> list[TfrecordFeature]:
    """Infers the features, sorted by name, from the first records. Raises BadSpec for a feature without values, or with two types."""
    names = sorted({name for _, record in samples for name in record}, key=str.encode)
    return [_infer_feature(name, samples) for name in names]


def _infer_feature(name: str, samples: Sequence[tuple[str, Mapping[str, Sequence[Any]]]]) -> TfrecordFeature:
    first: tuple[str, str] | None = None
    lengths: set[int] = set()
    for uri, record in samples:
        values = record.get(name, [])
        lengths.add(len(values))
        if values:
            kind = "Bytes" if isinstance(values[0], bytes) else "Float32" if isinstance(values[0], float) else "Int64"
            first = first or (kind, uri)
            if first[0] != kind:
                raise BadSpec(f"The feature {name!r} is {first[0]} in {first[1]} and {kind} in {uri}.", uri=uri)
    if first is None:
        raise BadSpec(
            f"The feature {name!r} has no value in the first {len(samples):,} records, so its type can't be determined; "
            "list the features in source.tfrecord.features."
        )
    (length,) = lengths if len(lengths) == 1 else {0}
    is_ragged = length == 0 or (length > 1 and first[0] == "Bytes")
    return TfrecordFeature(name=name, type=first[0], shape=[] if is_ragged or length == 1 else [length], ragged=is_ragged)
