"""The source `mds` reads data sets that MosaicML Streaming's `MDSWriter` has written.

The planner reads only the `index.json` of each folder and, for arrays without a fixed shape, the first records. Each shard is a unit. The
unit's subset is the folder that contains the shard's index. Workers read a shard's offset table, and then a few records at a time. A
compressed shard is decompressed as a stream (`streamed.py`).
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.sources.mds import MdsSource
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadData, BadSample, BadSpec, NotFound
from dataprep_converter.core.lru import LruCache
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import MAGIC_BYTES, compression_of
from dataprep_converter.inputs.streamed import StreamInput, unpacked
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block, BlockReader
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.foreign.mds_encodings import MdsColumn, column_of, columns_of, needs_samples, parser_of
from dataprep_converter.readers.foreign.values import ForeignColumn
from dataprep_converter.records.batch import Raw
from dataprep_converter.records.columns import similar
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry, Input

INDEX: Final = "index.json"

_BLOCK_RECORDS: Final = 1024
_BLOCK_BYTES: Final = 4 << 20
"""The approximate number of shard bytes that are decoded together."""
_KEPT_BYTES: Final = 2 * _BLOCK_BYTES
_SAMPLED: Final = 16
_LARGEST_INDEX: Final = 256 << 20
_OF: Final = "source.mds"
_COMPRESSIONS: Final = frozenset({"zstd", "gz", "bz2"})


class MdsReader(BlockReader):
    """See the module. The columns are the writer's columns."""

    @staticmethod
    def discover(source: MdsSource, access: Access) -> Discovery:
        """Reads the indexes. Raises NotFound for a folder without an index, BadData for a shard that is missing or has the wrong size,
        and BadSpec for a column that can't be read."""
        return Discovery(_Planner(source, access).units())

    def __init__(self, source: MdsSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access)
        del source
        self._written = [MdsColumn(name, encoding, size) for name, encoding, size in state.get("written", [])]
        self._columns = [ForeignColumn.of(column) for column in state.get("columns", [])]
        places = {column.name: place for place, column in enumerate(self._written)}
        self._places = [places[column.name] for column in self._columns]
        self._parsers = [parser_of(self._written[place], column) for place, column in zip(self._places, self._columns, strict=True)]
        self._shards: LruCache[str, _Shard] = self._files.views(close=_Shard.close)

    def schema(self) -> pa.Schema:
        """The columns: bytes, text, numbers, tensors and lists."""
        return pa.schema([(column.name, column.type()) for column in self._columns])

    def parts(self, unit: Unit, source: Input, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
        """The blocks that contain the rows, in the order of the shard."""
        shard = self._shards.get(unit.uri, lambda: _shard_of(unit, source))
        size = max(1, min(_BLOCK_RECORDS, _BLOCK_BYTES * unit.records // max(1, shard.contents)))
        for number in np.unique(rows // size).tolist():
            first = number * size
            yield first, self.cached_block(unit, 0, first, partial(self._block, shard, first, min(size, unit.records - first)))

    def _block(self, shard: "_Shard", first: int, count: int) -> Block:
        rows: list[list[Any]] = []
        reasons: dict[int, str] = {}
        records = shard.records(first, count)
        for number, record in enumerate(records):
            try:
                contents = split_record(record, self._written)
                rows.append([self._value(contents, column) for column in range(len(self._columns))])
            except BadSample as exc:
                reasons[number] = str(exc)
        values = list(zip(*rows, strict=True)) if rows else [()] * len(self._columns)
        arrays = [column.array(each) for column, each in zip(self._columns, values, strict=True)]
        block = Block.of(pa.RecordBatch.from_arrays(arrays, schema=self.schema()), reasons, missing=list(reasons))
        return Block(block.records, block.places, reasons, {number: Raw.of(records[number]) for number in reasons})

    def _value(self, contents: Sequence[bytes], column: int) -> Any:
        try:
            return self._parsers[column](contents[self._places[column]])
        except BadSample as exc:
            raise BadSample(f"the column {self._columns[column].name!r}: {exc}") from exc


def split_record(record: bytes, columns: Sequence[MdsColumn]) -> list[bytes]:
    """The content of each column. Raises BadSample if the sizes of the contents don't add up to the record's size."""
    # A record: a uint32 size for each value that has no fixed size | the values; little-endian.
    at = 4 * sum(column.size is None for column in columns)
    varying = iter(np.frombuffer(record[:at], "<u4").tolist() if len(record) >= at else ())
    sizes = [next(varying, -1) if column.size is None else column.size for column in columns]
    if at + sum(sizes) != len(record) or -1 in sizes:
        raise BadSample(f"the columns' sizes don't add up to the record's {len(record):,} bytes")
    contents: list[bytes] = []
    for size in sizes:
        contents.append(record[at : at + size])
        at += size
    return contents


class _Shard(Closeable):
    """An open shard and its offset table."""

    def __init__(self, source: Input, uri: str, contents: int, count: int, *, is_packed: bool) -> None:
        """`contents` is the number of uncompressed bytes. Raises BadData if the shard doesn't have `count` records."""
        # A shard: uint32 records | uint32 offset of each record and of the end | columns as JSON | records; little-endian.
        self.contents = contents
        self._uri = uri
        compression = compression_of(source.read_at(0, MAGIC_BYTES)) if is_packed else None
        self._stream: StreamInput | None = None
        if is_packed and compression is None:
            raise BadData(f"{uri} is not compressed, but its index says that it is.", uri=uri)
        if compression is not None:
            self._stream = unpacked(source, uri, compression=compression, size=contents, kept_bytes=_KEPT_BYTES)
        self._source: Input | StreamInput = self._stream or source
        head = self._source.read_at(0, 4 * (count + 2))
        if len(head) != 4 * (count + 2) or int.from_bytes(head[:4], "little") != count:
            found = int.from_bytes(head[:4], "little")
            raise BadData(f"{uri}: its index gives {count:,} records, but the shard gives {found:,}.", uri=uri)
        self._offsets = np.frombuffer(head, "<u4", offset=4).astype(np.int64)
        if np.any(np.diff(self._offsets) < 0) or self._offsets[0] < len(head) or self._offsets[-1] > contents:
            raise BadData(f"{uri}: the offset table points outside the shard, or its offsets don't ascend.", uri=uri)

    def records(self, first: int, count: int) -> list[bytes]:
        """Returns `count` records, beginning with record number `first`. Raises BadData if the shard ends before the last of these
        records."""
        start, end = int(self._offsets[first]), int(self._offsets[first + count])
        data = self._source.read_at(start, end - start)
        if len(data) != end - start:
            raise BadData(
                f"{self._uri}: the shard ends at byte {start + len(data):,}, before its record {first + count - 1:,}.", uri=self._uri
            )
        ends = (self._offsets[first : first + count + 1] - start).tolist()
        return [data[begin:stop] for begin, stop in itertools.pairwise(ends)]

    def close(self) -> None:
        """Stops decompressing."""
        if self._stream is not None:
            self._stream.close()


def _unit(root: int, path: str, file: Entry, count: int, contents: int, *, is_packed: bool) -> Unit:
    folders = path.split("/")[:-1]
    extra = json.dumps({"contents": contents, "packed": is_packed})
    return Unit(root, path, file.uri, count, file.size, file.pin, subset=folders[0] if folders else "", extra=extra)


def _shard_of(unit: Unit, source: Input) -> _Shard:
    extra = json.loads(unit.extra)
    return _Shard(source, unit.uri, extra["contents"], unit.records, is_packed=extra["packed"])


# --- planning -----------------------------------------------------------------------------------------------------


class _Planner:
    """Finds the indexes below the source's folders, lists their shards, and freezes the columns."""

    def __init__(self, source: MdsSource, access: Access) -> None:
        self._source = source
        self._access = access
        self._written: list[MdsColumn] | None = None
        self._written_by = ""
        self._columns: list[ForeignColumn] = []

    def units(self) -> Listing[Unit]:
        """Yields the shards in the order of the source's folders. Within a folder, indexes are sorted by depth and path. The shards of an
        index keep their order."""
        for root, uri in enumerate(self._source.uris):
            folder = uri.rstrip("/").removesuffix(f"/{INDEX}")
            files = {path: entry for _, path, entry in input_files(self._access, [folder])}
            indexes = [path for path in files if path.rpartition("/")[2] == INDEX]
            if not indexes:
                raise NotFound(f"{uri} contains no {INDEX}, either directly or in a subfolder; MDSWriter writes such a file.", uri=uri)
            done: set[str] = set()
            # A folder's index can also list the shards of its subfolders, although the subfolders have their own indexes.
            for path in sorted(indexes, key=lambda index: (index.count("/"), index)):
                yield from self._units_of(root, path, files, done)
        written = [[column.name, column.encoding, column.size] for column in self._written or []]
        return {"written": written, "columns": [column.state() for column in self._columns]}

    def _units_of(self, root: int, index: str, files: Mapping[str, Entry], done: set[str]) -> Iterator[Unit]:
        entry = files[index]
        below = index.removesuffix(INDEX)
        for shard in self._shards(entry):
            path, is_packed = self._file(shard, below, files, entry.uri)
            if path in done:
                continue
            done.add(path)
            file = files[path]
            count, contents = _number(shard, "samples", entry.uri), _number(shard["raw_data"], "bytes", entry.uri)
            expected = _number(shard["zip_data"], "bytes", entry.uri) if is_packed else contents
            if file.size != expected:
                raise BadData(f"{file.uri} has {file.size:,} bytes, but {entry.uri} says {expected:,}.", uri=file.uri)
            if not count:
                continue
            unit = _unit(root, path, file, count, contents, is_packed=is_packed)
            self._settle(shard, entry.uri, unit)
            yield unit

    def _shards(self, entry: Entry) -> list[Mapping[str, Any]]:
        if entry.size > _LARGEST_INDEX:
            raise BadSpec(
                f"{entry.uri} has more than {_LARGEST_INDEX >> 20} MiB; it can't be an index written by MDSWriter.", uri=entry.uri
            )
        try:
            document = json.loads(self._access.store(entry.uri).get(entry.uri))
            shards = document["shards"]
            if not isinstance(shards, list) or not all(isinstance(shard.get("raw_data"), dict) for shard in shards):
                raise ValueError("shards without raw_data")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise BadSpec(f"{entry.uri} is not an index written by MDSWriter: {exc}.", uri=entry.uri) from exc
        for shard in shards:
            if shard.get("format") != "mds":
                raise BadSpec(f"{entry.uri}: its shards have the format {shard.get('format')!r}; {_OF} reads mds.", uri=entry.uri)
        return shards

    def _file(self, shard: Mapping[str, Any], below: str, files: Mapping[str, Entry], uri: str) -> tuple[str, bool]:
        """The path of the shard's file, and whether this file is compressed. Raises BadData if neither the uncompressed nor the compressed
        file exists."""
        raw = below + str(shard["raw_data"].get("basename"))
        if raw in files:
            return raw, False
        zipped = shard.get("zip_data")
        if isinstance(zipped, dict) and below + str(zipped.get("basename")) in files:
            algorithm = str(shard.get("compression")).partition(":")[0]
            if algorithm not in _COMPRESSIONS:
                raise BadSpec(
                    f"{uri}: its shards are compressed with {algorithm}, which {_OF} can't read; known: {', '.join(sorted(_COMPRESSIONS))}.",
                    uri=uri,
                )
            return below + str(zipped.get("basename")), True
        raise BadData(f"{uri} lists the shard {raw.removeprefix(below)}, which doesn't exist.", uri=uri)

    def _settle(self, shard: Mapping[str, Any], uri: str, unit: Unit) -> None:
        """Takes the columns from the first shard. Raises BadSpec if a later shard has different columns."""
        columns = columns_of(shard, uri=uri)
        if self._written is not None:
            if columns != self._written:
                raise BadSpec(
                    f"{uri}: {_difference(columns, self._written)} in {self._written_by}; every index needs the same columns. Write the shards "
                    "again with the same columns, or convert each kind of shard in a separate job.",
                    uri=uri,
                )
            return
        self._written, self._written_by = columns, uri
        names = [column.name for column in columns]
        for name in self._source.columns or []:
            if name not in names:
                raise BadSpec(
                    f"{_OF}.columns: {uri} has no column {name!r}.{similar(name, names)} It has {', '.join(names[:20])}.", uri=uri
                )
        selected = [columns[names.index(name)] for name in self._source.columns or names]
        samples = self._samples(unit) if any(needs_samples(column.encoding) for column in selected) else []
        try:
            split = [split_record(record, columns) for record in samples]
            self._columns = [column_of(column, [each[names.index(column.name)] for each in split], uri=uri) for column in selected]
        except BadSample as exc:
            raise BadData(f"{unit.uri}: in its first {len(samples)} records, {exc}.", uri=unit.uri) from exc

    def _samples(self, unit: Unit) -> list[bytes]:
        with self._access.store(unit.uri).open(unit.uri) as source, _shard_of(unit, source) as shard:
            return shard.records(0, min(_SAMPLED, unit.records))


def _number(values: Mapping[str, Any], name: str, uri: str) -> int:
    number = values.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise BadSpec(f"{uri}: {name} of a shard is {number!r}, expected a number.", uri=uri)
    return number


def _difference(columns: Sequence[MdsColumn], first: Sequence[MdsColumn]) -> str:
    types, expected = ({column.name: column.encoding for column in each} for each in (columns, first))
    name = next((name for name in [*types, *expected] if types.get(name) != expected.get(name)), "")
    if not name:
        return "the columns are in a different order than"
    return f"the column {name!r} is {types.get(name, 'missing')}, but {expected.get(name, 'missing')}"
