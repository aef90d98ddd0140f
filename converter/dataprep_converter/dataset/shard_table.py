"""The shards of a data set as Arrow columns. A shard takes about 170 bytes, a tenth of the size of a `ManifestFile`."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Protocol, TypeVar, overload

import pyarrow as pa

from dataprep_api import names
from dataprep_api.dataset.report import Companion, ManifestFile, MetadataFile, ShardReport, TableRows
from dataprep_converter.core.tensors import pc
from dataprep_converter.runtime.stored_batches import StoredBatches

T = TypeVar("T")

_DIGEST: Final = pa.binary(32)
_arrow: Any = pa  # the stubs can't type a list of different fields
SCHEMA: Final[pa.Schema] = _arrow.schema(
    [
        pa.field("file", pa.string()),
        pa.field("split", pa.string()),
        pa.field("records", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("sha256", _DIGEST),
        pa.field("rawSha256", _DIGEST),
        pa.field("companions", pa.list_(pa.struct([("file", pa.string()), ("size", pa.int64()), ("sha256", _DIGEST)]))),
        pa.field("indexSize", pa.int64()),
        pa.field("indexSha256", _DIGEST),
        pa.field("quarantine", pa.string()),
    ]
)
"""A row for each shard.

The columns are the fields of `ManifestFile`, the size and digest of the shard's record index, and the file of its bad records. The columns
of an index or of a file of bad records are null for shards without this file.
"""
_ROWS: Final = 8192
"""The number of rows in a record batch."""
_AT_ONCE: Final = 1024
"""The number of rows that are turned into objects together."""


class Batches(Protocol):
    """Record batches with the columns of SCHEMA: a list, or `StoredBatches`."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def __getitem__(self, number: int, /) -> pa.RecordBatch: ...


class Rows(TableRows[T]):
    """Objects that are made from a table's rows on demand, followed by the objects that `manifest.json` lists."""

    def __init__(
        self,
        batches: Batches,
        make: Callable[[Mapping[str, Any]], T],
        listed: Sequence[T] = (),
        *,
        columns: Sequence[str] = SCHEMA.names,
        needed: str | None = None,
    ) -> None:
        """`make` is called with a row's values in `columns`. If `needed` is given, rows with a null in that column are left out."""
        self.batches = batches
        self.listed = listed
        self._make = make
        self._columns = columns
        self._needed = needed

    def followed_by(self, listed: Sequence[T]) -> "Rows[T]":
        """Returns the objects of the same rows, followed by these objects."""
        return Rows(self.batches, self._make, listed, columns=self._columns, needed=self._needed)

    @cached_property
    def _starts(self) -> list[int]:
        """The number of objects before each batch, and the number of objects in all batches."""
        return list(accumulate((self._selected(batch).num_rows for batch in self.batches), initial=0))

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the columns and rows that are used. If no rows are left out, nothing is copied."""
        selected = batch.select(self._columns)
        if self._needed is None or not batch.column(self._needed).null_count:
            return selected
        return selected.filter(pc.is_valid(batch.column(self._needed)))

    def __len__(self) -> int:
        return self._starts[-1] + len(self.listed)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(index)
        if number >= self._starts[-1]:
            return self.listed[number - self._starts[-1]]
        batch = bisect_right(self._starts, number) - 1
        return self._make(self._selected(self.batches[batch]).slice(number - self._starts[batch], 1).to_pylist()[0])

    def __iter__(self) -> Iterator[T]:
        for batch in map(self._selected, self.batches):
            for start in range(0, batch.num_rows, _AT_ONCE):
                yield from map(self._make, batch.slice(start, _AT_ONCE).to_pylist())
        yield from self.listed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # like a list


class ShardColumns:
    """Gathers shards, one after another, in record batches with the columns of SCHEMA.

    If there are many shards, the batches are stored in `$TMPDIR`.
    """

    def __init__(self) -> None:
        self._batches = StoredBatches(SCHEMA, "the table of the shards")
        self._rows: list[tuple[Any, ...]] = []

    def add(self, shard: ManifestFile | ShardReport) -> None:
        """Adds a shard. Raises StoreFull."""
        report = shard if isinstance(shard, ShardReport) else None
        index = report.index if report is not None else None
        self._rows.append(
            (
                shard.file,
                shard.split,
                shard.records_out if isinstance(shard, ShardReport) else shard.records,
                shard.size,
                bytes.fromhex(shard.sha256),
                bytes.fromhex(shard.raw_sha256),
                [(each.file, each.size, bytes.fromhex(each.sha256)) for each in shard.companions],
                index.size if index is not None else None,
                bytes.fromhex(index.sha256) if index is not None else None,
                report.quarantine if report is not None else None,
            )
        )
        if len(self._rows) == _ROWS:
            self._end_batch()

    def batches(self) -> Batches:
        """Returns all shards that were added."""
        if self._rows:
            self._end_batch()
        return self._batches

    def _end_batch(self) -> None:
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        self._rows = []


def files(batches: Batches) -> Rows[ManifestFile]:
    """Returns the manifest's entries for these shards."""
    return Rows(batches, _file)


def plain_fields(shards: Sequence[ManifestFile], *fields: str) -> Iterator[tuple[Any, ...]]:
    """Yields the values of these fields for each shard. The fields may be `file`, `split`, `records` and `size`.

    If the shards are rows of a table, the other fields aren't read, so this takes a tenth of the time.
    """
    if not isinstance(shards, Rows):
        yield from (tuple(getattr(shard, field) for field in fields) for shard in shards)
        return
    for batch in shards.batches:
        for start in range(0, batch.num_rows, _ROWS):
            columns = batch.select(list(fields)).slice(start, _ROWS)
            yield from zip(*(columns.column(place).to_pylist() for place in range(len(fields))), strict=True)


def indexes(batches: Batches, listed: Sequence[MetadataFile] = ()) -> Rows[MetadataFile]:
    """Returns the manifest's entries for the record indexes of these shards, followed by `listed`."""
    return Rows(batches, _index, listed, columns=["file", "indexSize", "indexSha256"], needed="indexSize")


def quarantine(batches: Batches) -> Rows[str]:
    """Returns the paths of the files with these shards' bad records."""
    return Rows(batches, _quarantine, columns=["quarantine"], needed="quarantine")


def digests(batches: Batches, column: str) -> Iterator[tuple[str, str]]:
    """For each shard, yields the digest in this column and the path of the shard's file."""
    for batch in batches:
        for row in batch.select([column, "file"]).to_pylist():
            yield row[column].hex(), row["file"]


def batches_of(shards: Sequence[ManifestFile]) -> Batches:
    """Returns these shards as columns."""
    if isinstance(shards, Rows):
        return shards.batches
    columns = ShardColumns()
    for shard in shards:
        columns.add(shard)
    return columns.batches()


def _file(row: Mapping[str, Any]) -> ManifestFile:
    return ManifestFile(
        file=row["file"],
        split=row["split"],
        records=row["records"],
        size=row["size"],
        sha256=row["sha256"].hex(),
        raw_sha256=row["rawSha256"].hex(),
        companions=[Companion(file=each["file"], size=each["size"], sha256=each["sha256"].hex()) for each in row["companions"]],
    )


def _index(row: Mapping[str, Any]) -> MetadataFile:
    return MetadataFile(file=names.index_file(row["file"]), size=row["indexSize"], sha256=row["indexSha256"].hex())


def _quarantine(row: Mapping[str, Any]) -> str:
    path: str = row["quarantine"]
    return path
