"""The base of readers that decode complete units. A reader turns one unit into a `Block`, and this module reads blocks in any order.

If rows are read in order, each unit is decoded once and sliced. If rows are read out of order, they come from a bounded cache of recently
decoded units. A reader also caches its open files, each of which is checked against its pin.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.core.lru import LruCache
from dataprep_converter.core.tensors import to_arrow, to_numpy
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base.open_files import OpenFiles
from dataprep_converter.readers.base.windows import ShuffleWindows
from dataprep_converter.records.batch import SAMPLE, Batch, LostDigits, Raw, RejectedSample
from dataprep_converter.runtime import limits
from dataprep_converter.sampling.units import Unit, Units
from dataprep_converter.stores import Input

KEPT_BYTES: Final = 64 << 20
"""The size in bytes of the cache of decoded blocks. The most recent block stays in the cache even if it is larger than this size."""
KEPT_BLOCKS: Final = 64

_LOST: Final = "\x01"
_SHARE_KEPT = 32
"""Each process may use 1/_SHARE_KEPT of the memory for its cache."""
_PROBED_ROWS = 1024

_arrow: Any = pa  # the type stubs lack some functions


class FolderColumns(Protocol):
    """Columns whose values come from a unit's path. `partitions.py` implements them."""

    def schema(self, files: pa.Schema) -> pa.Schema:
        """The columns of the files, followed by the columns from the path."""
        ...

    def refusal(self, unit: Unit) -> str | None:
        """The reason why all records of the unit are bad, or None if they aren't all bad."""
        ...

    def with_columns(self, records: pa.RecordBatch, unit: Unit) -> pa.RecordBatch:
        """The given records of the unit, with the columns from its path added."""
        ...


@dataclass(frozen=True)
class Block:
    """Some consecutive, decoded rows of a unit."""

    records: pa.RecordBatch
    """The good rows, in order.

    Their columns are those of the reader's `schema()`, one column of lost digits for each column in `lost_of`, and the columns that the
    reader adds.
    """
    places: npt.NDArray[np.int64]
    """For each row of the block, its index in `records`, or -1 if the row is bad."""
    reasons: Mapping[int, str]
    """Maps the number of each bad row within the block to the reason why the row is bad."""
    raws: Mapping[int, Raw] = field(default_factory=dict)
    """The input text of bad rows, where known."""
    extra_bytes: int = 0
    """The number of bytes of memory that the block keeps in use in addition to its columns."""

    @classmethod
    def of(cls, records: pa.RecordBatch, reasons: Mapping[int, str] | None = None, *, missing: Collection[int] = ()) -> "Block":
        """A block with the rows in `records`, and with missing rows at the positions `missing`. All rows in `reasons` are bad, and
        `reasons` must include the missing rows."""
        if not reasons:
            return cls(records, np.arange(records.num_rows, dtype=np.int64), {})
        is_good = np.ones(records.num_rows + len(missing), np.bool_)
        is_read = is_good.copy()
        is_good[list(reasons)] = False
        is_read[list(missing)] = False
        good = records if np.array_equal(is_good, is_read) else records.filter(to_arrow(is_good[is_read]))
        return cls(good, np.where(is_good, np.cumsum(is_good) - 1, -1), dict(reasons))

    def __len__(self) -> int:
        return len(self.places)


class BlockReader(Closeable):
    """Implements `Reader` except for `discover`. A subclass defines `schema`, and either `load` or, if its units are too large to
    decode in one piece, `parts`."""

    default_label: ClassVar[str] = "label"

    def __init__(self, access: Access, folders: FolderColumns | None = None, *, lost_of: Sequence[str] = ()) -> None:
        """`lost_of` names decimal columns. For each column in `lost_of`, blocks contain a second column with the original text of the
        values that lost digits. `lost_name` returns the second column's name."""
        self._access = access
        self.lost_of: Final = list(lost_of)
        self._added: list[pa.Field[Any]] = []
        """Columns of blocks and batches that aren't in `schema()`."""
        self._folders = folders
        self._files = OpenFiles(access)
        self._count = self._files.count
        self._kept_bytes = min(KEPT_BYTES, limits.memory_bytes() // _SHARE_KEPT)
        self._blocks: LruCache[tuple[str, int, int], Block] = LruCache(
            KEPT_BLOCKS, self._kept_bytes, lambda block: block.records.nbytes + block.extra_bytes
        )
        self._windows = ShuffleWindows()
        self._measured_row_bytes: int | None = None

    def schema(self) -> pa.Schema:
        """The columns of the reader's blocks."""
        raise NotImplementedError

    def with_partitions(self, files: pa.Schema) -> pa.Schema:
        """The columns of the blocks, followed by the columns from the folder names.

        Raises BadSpec if a column of the blocks also occurs in the folder names.
        """
        return files if self._folders is None else self._folders.schema(files)

    def load(self, unit: Unit, source: Input) -> Block:
        """Decodes the complete unit from its open file, with one row per record. `source` counts the bytes read."""
        raise NotImplementedError

    def parts(self, unit: Unit, source: Input, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Block]]:  # noqa: ARG002 - overriding methods use it
        """Yields a pair for each block that contains some of the unit's `rows`: the number of the block's first row, and the block. Each
        row in `rows` is in exactly one of the blocks.

        By default, yields the result of `load` as a single block, which is cached. Subclasses that override this method cache their blocks
        with `cached_block`.
        """
        yield 0, self.cached_block(unit, unit.offset, unit.row, lambda: self._load_unit(unit, source))

    def cached_block(self, unit: Unit, offset: int, row: int, load: Callable[[], Block]) -> Block:
        """The block from the cache, or from `load` if it isn't cached. `offset` and `row` identify the block within the unit's file."""
        return self._blocks.get((unit.uri, offset, row), load)

    def classes(self) -> dict[str, list[str]]:
        """An empty dict, because by default there are no class names."""
        return {}

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Yields a batch for each array of sample numbers. If the sample numbers are in order, each unit is decoded once. If the sample
        numbers are out of order, the most recently decoded units are cached. If the input is larger than the cache, many batches are
        collected in one pass over the input."""
        first = next(samples, None)
        if first is None:
            return
        samples = itertools.chain([first], samples)
        row_bytes = self._row_bytes(units, first) if np.any(np.diff(first) < 0) else 0
        if row_bytes * units.samples <= self._kept_bytes:
            for numbers in samples:
                yield self._split_lost_digits(self._batch(units, numbers))
            return
        for batch in self._windows.batches(lambda numbers: self._batch(units, numbers), samples, row_bytes=row_bytes):
            yield self._split_lost_digits(batch)

    def accept_read_plan(self, coming: Callable[[], Iterator[Iterator[npt.NDArray[np.int64]]]]) -> None:
        """Stores `coming`, which yields the arrays of each future call of `read`, beginning with the next call."""
        self._windows.coming = coming

    def _row_bytes(self, units: Units, samples: npt.NDArray[np.int64]) -> int:
        """The approximate bytes per decoded row, measured on the first requested unit."""
        if self._measured_row_bytes is None:
            index, within = units.locate(samples[:1])
            first = int(samples[0] - within[0])
            records = self._batch(units, np.arange(first, first + min(_PROBED_ROWS, units.unit(int(index[0])).records))).records
            self._measured_row_bytes = max(1, records.nbytes // max(1, records.num_rows))
        return self._measured_row_bytes

    def _batch(self, units: Units, samples: npt.NDArray[np.int64]) -> Batch:
        index, rows = units.locate(samples)
        pieces: list[pa.RecordBatch] = []
        order: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        bad: dict[int, RejectedSample] = {}
        for positions in _group_positions(index):
            unit = units.unit(int(index[positions[0]]))
            refusal = self._folders.refusal(unit) if self._folders is not None else None
            if refusal is not None:
                bad |= {int(at): RejectedSample(int(samples[at]), refusal) for at in positions.tolist()}
                continue
            for first, block in self.parts(unit, self._file(unit), rows[positions]):
                within = rows[positions] - first
                inside = (within >= 0) & (within < len(block))
                selected, within = positions[inside], within[inside]
                places = block.places[within]
                is_good = places >= 0
                good = _take_rows(block.records, places[is_good])
                pieces.append(good if self._folders is None else self._folders.with_columns(good, unit))
                order.append(selected[is_good])
                for at, row in zip(selected[~is_good].tolist(), within[~is_good].tolist(), strict=True):
                    bad[at] = RejectedSample(int(samples[at]), block.reasons[row], block.raws.get(row))
        selected = np.concatenate(order)
        schema = pa.schema([*self.schema(), *((lost_name(name), pa.string()) for name in self.lost_of), *self._added])
        records = _sort_rows(pieces, selected, schema)
        columns: list[Any] = [records.column(name) for name in schema.names]
        numbered_records = pa.RecordBatch.from_arrays(
            [*columns, to_arrow(samples[np.sort(selected)])], schema=schema.append(pa.field(SAMPLE, pa.int64()))
        )
        return Batch(records=numbered_records, bad=[bad[at] for at in sorted(bad)], bytes_in=self._count.take_count())

    def _split_lost_digits(self, batch: Batch) -> Batch:
        """The batch, with the columns of lost digits moved from `records` to `lost`."""
        if not self.lost_of:
            return batch
        records = batch.records.select([*self.schema().names, *(column.name for column in self._added), SAMPLE])
        samples = to_numpy(records.column(SAMPLE))
        lost = []
        for name in self.lost_of:
            texts: Any = batch.records.column(lost_name(name))
            if texts.null_count < len(texts):
                lost.append(LostDigits(name, samples[texts.is_valid().to_numpy(zero_copy_only=False)], texts.drop_null().to_pylist()))
        return replace(batch, records=records, lost=lost)

    def _load_unit(self, unit: Unit, source: Input) -> Block:
        block = self.load(unit, source)
        if len(block) != unit.records:
            raise InputChanged(
                f"{unit.uri}: {unit.records:,} records were planned from record {unit.row} on, got {len(block):,}.", uri=unit.uri
            )
        return block

    def _file(self, unit: Unit) -> Input:
        return self._files.pinned(unit.uri, unit.pin)

    def close(self) -> None:
        """Closes the files and drops the decoded blocks."""
        self._windows.close()
        self._files.close()
        self._blocks.clear()


def lost_name(column: str) -> str:
    """The name of the second column for `column`, which contains the original text of the values that lost digits."""
    return f"{_LOST}{column}"


def without_lost(records: pa.RecordBatch) -> pa.RecordBatch:
    """A block's records without the `lost_name` columns, for computing digests."""
    return records.select([name for name in records.schema.names if not name.startswith(_LOST)])


def bytes_for_digest(records: pa.RecordBatch) -> Iterator[Any]:
    """Yields a block's records as bytes for a digest. Equal records give equal bytes. The `lost_name` columns are left out.

    The bytes of null values are left out too, because they are arbitrary.
    """
    records = without_lost(records)
    if not any(column.null_count for column in records.columns):
        yield records.serialize()
        return
    for name, column in zip(records.schema.names, records.columns, strict=True):
        yield column.is_valid().to_numpy(zero_copy_only=False).tobytes()
        yield pa.RecordBatch.from_arrays([column.drop_null()], names=[name]).serialize()


def _group_positions(index: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """For each distinct number in `index`, in ascending order, the positions at which it occurs."""
    if not len(index):
        return []
    order = np.argsort(index, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(index[order])) + 1)


def _take_rows(records: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    if len(places) and np.all(np.diff(places) == 1):
        return records.slice(int(places[0]), len(places))
    return records.take(to_arrow(places))


def _sort_rows(pieces: Sequence[pa.RecordBatch], order: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of all pieces, sorted by `order`, which contains a number for each row."""
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema=schema)
    rows: pa.RecordBatch = pieces[0] if len(pieces) == 1 else _arrow.concat_batches(pieces)
    if np.all(np.diff(order) > 0):
        return rows
    return rows.take(to_arrow(np.argsort(order)))
