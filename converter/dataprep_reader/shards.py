"""Shards: yields the records of one file as Arrow batches, starting at any record. Each kind of file that can be read in parts has a class.

Every class divides its file into *parts*, each of which can be read alone. An indexed TFRecord file has parts of about 4 MiB each. The
parts of a Parquet file are its row groups, and the parts of an Arrow file are its record batches. Any other file is a single part. To reach
records in the middle of such a file, the reader must read and skip the records before them.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_api import names
from dataprep_api.dataset.report import ManifestFile
from dataprep_converter.core.errors import BadData, BrokenRecord, NotWhole
from dataprep_converter.core.tensors import is_tensor, to_arrow
from dataprep_converter.formats import values
from dataprep_converter.formats.columnar import arrow_messages
from dataprep_converter.formats.columnar.hugging_face import unwrapped
from dataprep_converter.formats.decoder import Decoder, MakesColumns, ReadsArrays, ReadsBlocks
from dataprep_converter.formats.format import ReadUnit
from dataprep_converter.formats.nested.json_texts import json_column
from dataprep_converter.formats.registry import by_feature, decoder, format_of
from dataprep_converter.formats.tfrecord.examples import parse
from dataprep_converter.formats.tfrecord.frames import payloads
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.ranged import RangedFile
from dataprep_converter.readers.dataset import cast, examples_of
from dataprep_converter.records.kept_types import as_numbers
from dataprep_converter.stores import Input
from dataprep_reader.dataset import DataSet
from dataprep_reader.order import Numbers

PART_BYTES: Final = 4 << 20
"""About this many bytes of a file are read and decoded in one piece."""
RECORDS: Final = 1024
"""Largest number of records in a batch, for formats whose records are decoded one by one."""

_any: Any = pa  # the stubs lack some functions
_pq: Any = pq


class Shard(Protocol):
    """The records of one file."""

    @property
    def parts(self) -> Numbers:
        """Number of records in each part. Reads the file's header, footer or index if these numbers are stored there."""
        ...

    def read(self, part: int, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yields `count` records of one part in order, starting with record number `first` of the part.

        Raises BadData naming the file.
        """
        ...


@dataclass(frozen=True)
class ShardLayout:
    """The features, types and files that all shards of a data set share."""

    data_set: DataSet
    access: Access
    columns: tuple[str, ...] | None
    """The requested features, or None for all."""

    @cached_property
    def features(self) -> list[Mapping[str, Any]]:
        """The requested features, as the manifest describes them."""
        every = self.data_set.manifest.features
        if self.columns is None:
            return list(every)
        by_name = {feature["name"]: feature for feature in every}
        unknown = [name for name in self.columns if name not in by_name]
        if unknown or not self.columns:
            raise ValueError(f"{self.data_set.uri} has no feature {unknown[0] if unknown else ''!r}: it has {', '.join(by_name)}.")
        return [by_name[name] for name in self.columns]

    @cached_property
    def schema(self) -> pa.Schema:
        """The batches' columns: tensors, large lists, large binaries and strings. These columns are the same for all formats."""
        return values.schema(self.features)

    def shards(self) -> list[Shard]:
        """Returns the shards in the data set's order."""
        manifest = self.data_set.manifest
        indexed = {file.file for file in manifest.metadata}
        unit = format_of(manifest.format).read_unit

        def unit_of(file: ManifestFile) -> ReadUnit:
            is_indexed = self.examples is not None and names.index_file(file.file) in indexed
            return ReadUnit.FILE if unit is ReadUnit.INDEXED_RECORDS and not is_indexed else unit

        return [SHARDS[unit_of(file)](self, file) for file in self.data_set.files]

    @cached_property
    def examples(self) -> Any:
        """Describes how to parse plain tf.train.Examples in batches. None for other records."""
        return examples_of(self.features) if format_of(self.data_set.manifest.format).holds_examples else None

    def opened(self, file: ManifestFile) -> Input:
        """Opens the file and returns it. Raises BadData if its size differs from the size in the manifest."""
        uri = self.uri(file)
        source = self.access.store(uri).open(uri)
        if source.size != file.size:
            source.close()
            raise BadData(f"{uri} has {source.size:,} bytes instead of {file.size:,}. See dataprep verify.", uri=uri)
        return source

    def uri(self, file: ManifestFile) -> str:
        """Returns the file's URI."""
        return names.join(self.data_set.uri, file.file)

    def counted(self, file: ManifestFile, counts: Sequence[int]) -> Numbers:
        """Returns the number of records in each part of a file. Raises BadData unless these add up to the number in the manifest."""
        if sum(counts) != file.records:
            uri = self.uri(file)
            raise BadData(f"{uri} has {sum(counts):,} records instead of {file.records:,}. See dataprep verify.", uri=uri)
        return np.array(counts, np.int64)

    def parsed(self, data: bytes, starts: Numbers, ends: Numbers, *, uri: str, first: int) -> pa.RecordBatch:
        """Parses records of a TFRecord file. `first` is the number of the first record."""
        if self.examples is not None:
            columns, reasons = parse(data, starts, ends, self.examples, is_strict=self.columns is None, holds_nulls=True)
            if not reasons:
                arrays = [cast(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
                return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        # At least one record has a fault. Parse the records one by one to find it.
        records = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return self.built(decoder(self.data_set.manifest), records, uri=uri, first=first)

    def built(self, format_: Decoder, records: Sequence[Any], *, uri: str, first: int) -> pa.RecordBatch:
        """Returns a batch of records that the format's decoder has read. `first` is the number of the first record."""
        if isinstance(format_, MakesColumns) and (batch := format_.columns(records, self.schema)) is not None:
            return batch
        every = self.data_set.manifest.features
        rows: list[Mapping[str, Any]] = []
        for number, record in enumerate(records, start=first):
            try:
                row = by_feature(format_, record, every)
                fault = values.fault(every, row)
            except NotWhole as exc:
                fault = str(exc).rstrip(".")
            if fault:
                raise BadData(f"{uri}: in record {number} {fault}. See dataprep verify.", uri=uri)
            rows.append(row)
        return values.columns(self.features, rows)

    def conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Converts the columns of Parquet and Arrow files to the types of `schema`."""
        columns = [_convert(batch.column(field.name), field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _convert(column: Any, kind: Any) -> Any:
    column = unwrapped(column, kind)
    if kind == pa.large_string() and pa.types.is_nested(column.type):
        return json_column(column)
    if pa.types.is_temporal(column.type):
        return as_numbers(column)
    if is_tensor(kind) and not is_tensor(column.type):
        return _any.ExtensionArray.from_storage(kind, column.cast(kind.storage_type))
    return column if column.type.equals(kind) else column.cast(kind)


@dataclass(frozen=True)
class IndexedShard:
    """An uncompressed TFRecord file whose index has the offset of each record."""

    layout: ShardLayout
    file: ManifestFile

    @cached_property
    def _size(self) -> int:
        return max(1, PART_BYTES * self.file.records // max(1, self.file.size))

    @property
    def parts(self) -> Numbers:
        """Number of records in each part. All parts have the same number, except the last."""
        return np.diff(np.append(np.arange(0, self.file.records, self._size), self.file.records))

    @cached_property
    def _bounds(self) -> Numbers:
        """The offset of each part's beginning, followed by the offset of the last part's end."""
        uri = names.join(self.layout.data_set.uri, names.index_file(self.file.file))
        lines = np.fromstring(self.layout.access.store(uri).get(uri).decode("ascii"), np.int64, sep=" ")
        if len(lines) != 2 * self.file.records or lines[-2:].sum() != self.file.size:
            raise BadData(f"{uri} is not the index of {self.file.file}. See dataprep verify.", uri=uri)
        return np.append(lines[:: 2 * self._size], self.file.size)

    def read(self, part: int, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yields the records. Both CRCs of every record are checked."""
        uri = self.layout.uri(self.file)
        begin, end = self._bounds[part : part + 2].tolist()
        with self.layout.opened(self.file) as source:
            data = source.read_at(begin, end - begin)
        starts, ends = payloads(data, uri, begin)
        if len(starts) != self.parts[part]:
            raise BadData(
                f"{uri} has {len(starts)} records from byte {begin:,} to {end:,}, but {self.parts[part]} according to its index.", uri=uri
            )
        selected = slice(first, first + count)
        yield self.layout.parsed(data, starts[selected], ends[selected], uri=uri, first=part * self._size + first)


@dataclass(frozen=True)
class StreamedShard:
    """A file that must be read from its beginning."""

    layout: ShardLayout
    file: ManifestFile

    @property
    def parts(self) -> Numbers:
        """Number of records in the only part."""
        return _only_part(self.file)

    def read(self, part: int, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yields the requested records. Skips all earlier records, and stops reading after the last requested record."""
        del part  # there is only one part
        uri = self.layout.uri(self.file)
        format_ = decoder(self.layout.data_set.manifest)
        records_read = 0
        with self.layout.opened(self.file) as source:
            pieces = source.stream()
            batches = self._blocks(format_, pieces, first, count) if isinstance(format_, ReadsBlocks) else None
            for batch in batches or self._batches(format_, pieces, first, count):
                records_read += batch.num_rows
                yield batch
        if records_read != count:
            raise BadData(f"{uri} has {first + records_read:,} records instead of {self.file.records:,}. See dataprep verify.", uri=uri)

    def _blocks(self, format_: ReadsBlocks, pieces: Iterator[bytes], first: int, count: int) -> Iterator[pa.RecordBatch]:
        uri = self.layout.uri(self.file)
        row = 0
        blocks = format_.blocks(pieces)
        while row < first + count and (block := self._next(blocks)) is not None:
            low, high = max(first - row, 0), min(first + count - row, len(block))
            if low < high:
                yield self.layout.parsed(block.data, block.starts[low:high], block.ends[low:high], uri=uri, first=row + low)
            row += len(block)

    def _batches(self, format_: Decoder, pieces: Iterator[bytes], first: int, count: int) -> Iterator[pa.RecordBatch]:
        size = max(1, min(RECORDS, PART_BYTES * self.file.records // max(1, self.file.size)))
        records = itertools.islice(format_.read(pieces), first, first + count)
        row = first
        while records_of_batch := [record for _, record in self._take(records, size)]:
            yield self.layout.built(format_, records_of_batch, uri=self.layout.uri(self.file), first=row)
            row += len(records_of_batch)

    def _take(self, records: Iterator[Any], size: int) -> list[Any]:
        try:
            return list(itertools.islice(records, size))
        except BrokenRecord as exc:
            raise self._bad_data(exc) from exc

    def _next(self, blocks: Iterator[Any]) -> Any:
        try:
            return next(blocks, None)
        except BrokenRecord as exc:
            raise self._bad_data(exc) from exc

    def _bad_data(self, exc: BrokenRecord) -> BadData:
        uri = self.layout.uri(self.file)
        return BadData(f"{uri}: {exc}.", uri=uri)


@dataclass(frozen=True)
class ArraysShard:
    """A file of arrays, which is read completely."""

    layout: ShardLayout
    file: ManifestFile

    @property
    def parts(self) -> Numbers:
        """Number of records in the only part."""
        return _only_part(self.file)

    def read(self, part: int, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yields slices of the arrays, after checking the checksums."""
        del part  # there is only one part
        uri = self.layout.uri(self.file)
        format_ = decoder(self.layout.data_set.manifest)
        assert isinstance(format_, ReadsArrays)  # noqa: S101 - the format's entry promises this
        try:
            with self.layout.opened(self.file) as source:
                arrays = format_.arrays(source.stream())
        except BrokenRecord as exc:
            raise BadData(f"{uri}: {exc}.", uri=uri) from exc
        self.layout.counted(self.file, [len(next(iter(arrays.values())))])
        size = max(1, PART_BYTES * self.file.records // max(1, self.file.size))
        for start in range(first, first + count, size):
            selected = slice(start, min(start + size, first + count))
            columns = [to_arrow(_in_native_order(arrays[field.name][selected])) for field in self.layout.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self.layout.schema)


def _only_part(file: ManifestFile) -> Numbers:
    """Returns the number of records in the only part of a file. An empty file has no parts, so the array is empty."""
    return np.array([file.records] if file.records else [], np.int64)


def _in_native_order(values: Any) -> Any:
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


@dataclass(frozen=True)
class ParquetShard:
    """A Parquet file. The file's parts are its row groups. Only the requested columns are read."""

    layout: ShardLayout
    file: ManifestFile

    @cached_property
    def parts(self) -> Numbers:
        """Number of records in each row group, from the footer."""
        with self.layout.opened(self.file) as source, _naming_file(self.layout.uri(self.file)):
            footer = _pq.ParquetFile(RangedFile(source)).metadata
            return self.layout.counted(self.file, [footer.row_group(number).num_rows for number in range(footer.num_row_groups)])

    def read(self, part: int, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yields the records, after checking the page checksums."""
        columns = self.layout.schema.names
        size = max(1, PART_BYTES * self.file.records // max(PART_BYTES, self.file.size))
        row = 0
        with self.layout.opened(self.file) as source, _naming_file(self.layout.uri(self.file)):
            file = _pq.ParquetFile(RangedFile(source), pre_buffer=False, page_checksum_verification=True)
            for batch in file.iter_batches(size, row_groups=[part], columns=columns, use_threads=False):
                low, high = max(first - row, 0), min(first + count - row, batch.num_rows)
                row += batch.num_rows
                if low < high:
                    yield self.layout.conformed(batch.slice(low, high - low))
                if row >= first + count:
                    return


@dataclass(frozen=True)
class ArrowShard:
    """An Arrow IPC file. The file's parts are its record batches."""

    layout: ShardLayout
    file: ManifestFile

    @cached_property
    def _messages(self) -> tuple[bytes, list[arrow_messages.Message]]:
        """The schema and the record batches."""
        with self.layout.opened(self.file) as source:
            messages = list(arrow_messages.messages(source, self.layout.uri(self.file)))
            schema = b"".join(source.read_at(each.offset, each.size) for each in messages if each.kind == arrow_messages.SCHEMA)
            return schema, [each for each in messages if each.kind == arrow_messages.RECORDS]

    @cached_property
    def parts(self) -> Numbers:
        """Number of records in each record batch, from the batches' headers."""
        return self.layout.counted(self.file, [message.rows for message in self._messages[1]])

    def read(self, part: int, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yields records of one record batch, which is read completely."""
        schema, batches = self._messages
        message = batches[part]
        with self.layout.opened(self.file) as source, _naming_file(self.layout.uri(self.file)):
            data = schema + source.read_at(message.offset, message.size)
            batch = _any.ipc.open_stream(data, options=_any.ipc.IpcReadOptions(use_threads=False)).read_next_batch()
            batch.validate(full=True)
        yield self.layout.conformed(batch.slice(first, count))


@contextmanager
def _naming_file(uri: str) -> Iterator[None]:
    """Turns Arrow's errors into BadData errors that name the file."""
    try:
        yield
    except (pa.ArrowException, OSError) as exc:
        raise BadData(f"{uri} can't be read: {' '.join(str(exc).split())}. See dataprep verify.", uri=uri) from exc


SHARDS: Final[Mapping[ReadUnit, Callable[[ShardLayout, ManifestFile], Shard]]] = {
    ReadUnit.FILE: StreamedShard,
    ReadUnit.INDEXED_RECORDS: IndexedShard,
    ReadUnit.ROW_GROUPS: ParquetShard,
    ReadUnit.RECORD_BATCHES: ArrowShard,
    ReadUnit.ARRAYS: ArraysShard,
}
"""Maps each ReadUnit to the class that reads it."""
