"""The source `dataset` reads a finished data set of any format, with that format's decoder. `dataprep convert` runs a job with this source.

Planning needs only the manifest, which has the features and, for each shard, the split and the number of records. Each shard becomes a
unit, the shard's split becomes the unit's subset, and the features become the columns. A shard is decoded from its beginning, a few records
at a time. To reach later records, the reader skips earlier ones without decoding them.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec.sources.dataset import DatasetSource
from dataprep_converter.core.closeable import Closeable, close_generator
from dataprep_converter.core.errors import BadData, BadSpec, BrokenRecord, InputChanged, NotWhole
from dataprep_converter.core.lru import LruCache
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, masked, null_mask, pc, to_arrow, to_numpy, value_type
from dataprep_converter.dataset.listing import listing_fault, load_manifest
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.formats import values
from dataprep_converter.formats.columnar.tables_decoder import kept_values
from dataprep_converter.formats.decoder import Decoder
from dataprep_converter.formats.nested.descriptions import nested_field, parse_description
from dataprep_converter.formats.registry import by_feature, decoder, format_of
from dataprep_converter.formats.tfrecord.examples import ColumnFeature, parse
from dataprep_converter.formats.tfrecord.lockstep import BYTES, FLOATS, INTS
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block, BlockReader, lost_name
from dataprep_converter.readers.columnar.columns import digits
from dataprep_converter.records.batch import WAS, Raw
from dataprep_converter.records.lossy import SAFE_DIGITS, lost_digits
from dataprep_converter.records.schemas import schema_text
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Input

_BLOCK_RECORDS: Final = 256
_BLOCK_BYTES: Final = 4 << 20
"""The approximate number of shard bytes that are decoded together."""
_KEPT_WALKS: Final = 4


class DatasetReader(BlockReader):
    """See the module."""

    @staticmethod
    def discover(source: DatasetSource, access: Access) -> Discovery:
        """Reads the manifest and lists the folder. Raises NotFound if there is no `_SUCCESS`, BadSpec if the manifest's digest differs from
        the digest in the spec, and BadData if the data set is damaged."""
        manifest = load_manifest(source.uri, access)
        if source.digest not in (None, manifest.digest):
            raise BadSpec(f"{source.uri} has the digest {manifest.digest}, but source.dataset.digest is {source.digest}.")
        return Discovery(_units(manifest, source.uri, access))

    def __init__(self, source: DatasetSource, state: Mapping[str, Any], access: Access) -> None:
        del source
        self._manifest = _manifest_of(state)
        self._types = {name: parse_description(described) for name, described in self._manifest.types.items()}
        super().__init__(access, lost_of=[name for name, kind in self._types.items() if digits(kind) > SAFE_DIGITS])
        self._features: Sequence[Mapping[str, Any]] = self._manifest.features
        self._nested = self._manifest.nested
        self._examples = examples_of(self._features) if format_of(self._manifest.format).holds_examples else None
        self._walks: LruCache[str, _Walk] = self._files.views(_KEPT_WALKS, close=_Walk.close)

    def schema(self) -> pa.Schema:
        """The features as columns, with the types that the manifest gives: tensors, lists, sequences, text and bytes."""
        fields = []
        for field in values.schema(self._features):
            nested = self._nested.get(field.name)
            if field.name in self._types:
                field = field.with_metadata({WAS: schema_text(pa.schema([(field.name, self._types[field.name])]))})
            fields.append(field if nested is None else nested_field(field.name, parse_description(nested)))
        return pa.schema(fields)

    def classes(self) -> dict[str, list[str]]:
        """The labels' class names."""
        return dict(self._manifest.labels)

    def parts(self, unit: Unit, source: Input, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
        """The blocks that contain the rows, in the order of the shard."""
        size = max(1, min(_BLOCK_RECORDS, _BLOCK_BYTES * unit.records // max(1, unit.size)))
        for number in np.unique(rows // size).tolist():
            first = number * size
            count = min(size, unit.records - first)
            yield first, self.cached_block(unit, 0, first, lambda first=first, count=count: self._decode_block(unit, source, first, count))  # type: ignore[misc]  # mypy can't type a lambda's default

    def _decode_block(self, unit: Unit, source: Input, first: int, count: int) -> Block:
        walk = self._walks.get(unit.uri, lambda: _Walk(decoder(self._manifest), source, unit.uri))
        records = walk.take(first, count)
        if len(records) != count:
            raise InputChanged(f"{unit.uri} has {walk.position} records, but {unit.records} were planned. Plan again.", uri=unit.uri)
        if self._examples is not None and (batch := _parse_examples(records, self._examples, self.schema())) is not None:
            return Block.of(batch)
        rows: list[Mapping[str, Any]] = []
        reasons: dict[int, str] = {}
        for number, record in enumerate(records):
            row, wrong = self._row(walk.format, record)
            if wrong:
                reasons[number] = wrong
            else:
                rows.append(row)
        raws = {number: Raw.of(records[number]) for number in reasons if isinstance(records[number], bytes)}
        is_good = np.ones(count, np.bool_)
        is_good[list(reasons)] = False
        good = values.columns(self._features, rows)
        for name in self.lost_of:
            decimals = kept_values([record for record, is_read in zip(records, is_good.tolist(), strict=True) if is_read], name)
            texts = lost_digits(decimals, good.column(name)) if len(decimals) else None
            good = good.append_column(lost_name(name), pa.nulls(good.num_rows, pa.string()) if texts is None else texts)
        return Block(good, np.where(is_good, np.cumsum(is_good) - 1, -1), reasons, raws)

    def _row(self, format_: Decoder, record: Any) -> tuple[Mapping[str, Any], str | None]:
        try:
            row = by_feature(format_, record, self._features)
        except NotWhole as exc:
            return {}, str(exc).rstrip(".")
        return row, values.fault(self._features, row)


def examples_of(features: Sequence[Mapping[str, Any]]) -> list[ColumnFeature] | None:
    """The features in the form that the batch parser for plain tf.train.Examples expects, or None for records of any other kind."""
    if any(
        feature.get("sequence") or feature.get("record") or (feature["dtype"] == "bytes" and feature["shape"] not in ([], [-1]))
        for feature in features
    ):
        return None
    tags = {"int64": INTS, "float": FLOATS, "bytes": BYTES}
    return [
        ColumnFeature(
            feature["name"],
            tags[feature["kind"]],
            None if -1 in feature["shape"] else tuple(feature["shape"]),
            feature["dtype"] if feature["raw"] else None,
        )
        for feature in features
    ]


def _parse_examples(records: Sequence[bytes], expected: Sequence[ColumnFeature], schema: pa.Schema) -> pa.RecordBatch | None:
    """The records as columns. Returns None if a record has an error, because each record must then be parsed separately."""
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends))[:-1]
    columns, reasons = parse(b"".join(records), starts, ends, expected, is_strict=True, holds_nulls=True)
    if reasons:
        return None
    return pa.RecordBatch.from_arrays([cast(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def cast(column: Array, kind: pa.DataType) -> Array:
    """Converts a column to another type without changing the values. This function can also convert lists of numbers to tensors."""
    if column.type.equals(kind):
        return column
    if is_tensor(kind):
        tensors = to_arrow(to_numpy(column).astype(NUMPY_NAMES[value_type(kind)]))
        return masked(tensors, null_mask(column)) if column.null_count else tensors
    converted: Array = pc.cast(column, kind)
    return converted


class _Walk(Closeable):
    """Reads the records of one shard in order. To go back to an earlier record, this class decodes the shard again from the beginning."""

    def __init__(self, format_: Decoder, source: Input, uri: str) -> None:
        self.format = format_
        self._source = source
        self._uri = uri
        self._records = self._start_reading()
        self.position = 0

    def take(self, first: int, count: int) -> list[Any]:
        """Returns `count` records, beginning with record number `first`. At the end of the shard, returns fewer records. For a broken
        record, raises BadData, which names the file and the offset."""
        if first < self.position:
            self.close()
            self._records = self._start_reading()
            self.position = 0
        try:
            self.position += sum(1 for _ in itertools.islice(self._records, first - self.position))
            records = [record for _, record in itertools.islice(self._records, count)]
        except BrokenRecord as exc:
            raise BadData(f"{self._uri}: {exc}.", uri=self._uri) from exc
        self.position += len(records)
        return records

    def close(self) -> None:
        """Stops reading the shard."""
        close_generator(self._records)

    def _start_reading(self) -> Iterator[tuple[int, Any]]:
        return self.format.read(self._source.stream())


_GROWING: Final = frozenset({"files", "fileTable", "badExamples", "quarantine", "metadata"})
"""The manifest fields whose size grows with the data set."""


def _state(manifest: Manifest) -> dict[str, Any]:
    """The part of the manifest that workers need."""
    without_files = manifest.model_copy(update={"file_table": None, "files": [], "quarantine": [], "metadata": []})
    return {name: value for name, value in without_files.document().items() if name not in _GROWING}


def _manifest_of(state: Mapping[str, Any]) -> Manifest:
    return Manifest.model_validate({**state["manifest"], "files": []})


def _units(manifest: Manifest, uri: str, access: Access) -> Listing[Unit]:
    folder = OutputFolder(uri, access)
    pins = {path: entry.pin for path, entry in folder.visible()}
    fault = listing_fault(manifest, folder)
    if fault is not None:
        raise BadData(f"{uri}: {fault}. See dataprep verify.", uri=uri)
    for file in manifest.files:
        yield Unit(
            root=0,
            path=file.file,
            uri=folder.at(file.file),
            records=file.records,
            size=file.size,
            pin=pins[file.file],
            subset=file.split,
        )
    return {"manifest": _state(manifest)}
