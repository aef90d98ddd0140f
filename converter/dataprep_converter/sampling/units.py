"""Units: the parts of the input that can be read on their own, in the order of their samples, as an Arrow table (`units.parquet`)."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.closeable import close_generator
from dataprep_converter.runtime.mapped_table import MappedTable

Numbers = npt.NDArray[np.int64]
_arrow: Any = pa  # the stubs lack some functions


@dataclass(frozen=True)
class Unit:
    """A part of the input that can be read on its own."""

    root: int
    """Index of the unit's URI in the source's list of URIs."""
    path: str
    """Path relative to the unit's URI in the source's list, in UTF-8. Only this path is hashed and sorted, never the URI."""
    uri: str
    records: int
    size: int
    """Number of bytes in the unit, or in the complete file if the unit is a file."""
    pin: str
    """Pin of the file (see `stores.Entry`)."""
    subset: str = ""
    offset: int = 0
    """Offset of the unit's first byte in the file."""
    row: int = 0
    """Number of the unit's first row in the file."""
    extra: str = ""
    """Data that only the reader uses."""


@dataclass(frozen=True, slots=True)
class Files:
    """Units as columns. Each of these units is a complete file with one record.

    A source can have millions of such files, and creating an object for each would take most of the listing time.
    """

    root: int
    paths: list[str]
    uris: list[str]
    sizes: list[int]
    pins: list[str]
    subsets: list[str]
    extras: list[str]


_COLUMNS: dict[str, pa.DataType] = {
    "root": pa.int32(),
    "path": pa.string(),
    "uri": pa.string(),
    "records": pa.int64(),
    "size": pa.int64(),
    "pin": pa.string(),
    "subset": pa.string(),
    "offset": pa.int64(),
    "row": pa.int64(),
    "extra": pa.string(),
    "key": pa.uint64(),
    "first": pa.int64(),
}
SCHEMA: pa.Schema = pa.schema(_COLUMNS)
"""The columns of Unit, and two more columns: `key` and `first`.

`key` is the hash of root and path, or null in plans that need no keys. `first` is the number of the unit's first sample.
"""


BLOCK: Final = 65_536
"""Units per batch. At most this many units are Python objects at the same time. A row group of `units.parquet` contains this many units."""
BATCH_BYTES: Final = 8 << 20
"""A batch of samples contains about this many bytes of the input."""
_MANY: Final = 1024
"""Batch sizes below this number are not rounded to a power of two, because rounding would cost more than it saves."""


def _keys(roots: list[int], paths: list[str]) -> npt.NDArray[np.uint64]:
    """Returns each file's 64-bit key, from which the file's split hash is computed. The key is the BLAKE2b hash of `<root>\\0<path>`."""
    digest = hashlib.blake2b
    names = map(str.encode, map("{}\0{}".format, roots, paths), repeat("utf-8"), repeat("surrogateescape"))
    return np.frombuffer(b"".join([digest(name, digest_size=8).digest() for name in names]), "<u8").astype(np.uint64, copy=False)


def keys_of(batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Returns the key of each unit in a batch with the columns root, path and key."""
    stored = batch.column("key")
    return stored.to_numpy() if not stored.null_count else _keys(*batch.select(["root", "path"]).to_pydict().values())


class _Block:
    """Some units, as columns."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names[:-2]}  # Any, because a column has numbers or strings

    def __len__(self) -> int:
        return len(self._columns["path"])

    def add(self, item: Unit | Files) -> None:
        """Adds a unit, or files."""
        if isinstance(item, Unit):
            for name, column in self._columns.items():
                column.append(getattr(item, name))
            return
        count = len(item.paths)
        values: dict[str, list[Any]] = {
            "path": item.paths,
            "uri": item.uris,
            "size": item.sizes,
            "pin": item.pins,
            "subset": item.subsets,
            "extra": item.extras,
        }
        for name, value in ("root", item.root), ("records", 1), ("offset", 0), ("row", 0):
            values[name] = [value] * count
        for name, column in self._columns.items():
            column += values[name]

    def take_first(self, count: int, *, first: int) -> pa.RecordBatch:
        """Removes and returns the first `count` units. The units' samples are numbered from `first`."""
        columns: dict[str, Any] = {name: column[:count] for name, column in self._columns.items()}
        self._columns = {name: column[count:] for name, column in self._columns.items()}
        records = np.array(columns["records"], np.int64)
        columns["key"] = pa.nulls(count, pa.uint64())
        columns["first"] = first + np.cumsum(records) - records
        return pa.RecordBatch.from_arrays([_array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names], schema=SCHEMA)


def _array(values: Any, kind: pa.DataType) -> Any:
    """Returns an Arrow array of numbers or strings.

    This function is faster than `pyarrow.array` if a list repeats one value. Many columns of file lists contain only one value.
    """
    if isinstance(values, list) and values[0] == values[-1] and values.count(values[0]) == len(values):
        return _arrow.repeat(pa.scalar(values[0], kind), len(values))
    return pa.array(values, kind)


def _batches(units: Iterable[Unit | Files]) -> Iterator[pa.RecordBatch]:
    """Yields all units, BLOCK at a time."""
    block, first = _Block(), 0
    for item in units:
        block.add(item)
        while len(block) >= BLOCK:
            batch = block.take_first(BLOCK, first=first)
            first = batch.column("first")[-1].as_py() + batch.column("records")[-1].as_py()
            yield batch
    if len(block):
        yield block.take_first(len(block), first=first)


class Units(ABC):
    """Units that are looked up by their index, or by sample number."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def samples(self) -> int:
        """Number of samples of all units."""

    @abstractmethod
    def rows(self, index: npt.NDArray[np.int64], columns: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the named columns of the units with these indexes, in the order of the indexes."""

    @abstractmethod
    def locate(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Returns (unit index, number within the unit) for each sample."""

    @abstractmethod
    def hash_inputs(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """Returns (file key, row within the file) for each sample."""

    @abstractmethod
    def unit(self, index: int) -> Unit:
        """Returns one unit."""

    def origin(self, sample: int) -> tuple[str, int]:
        """Returns one sample's URI and its row within the file, for use in messages."""
        index, within = self.locate(np.array([sample], dtype=np.int64))
        unit = self.unit(int(index[0]))
        return unit.uri, unit.row + int(within[0])


class UnitTable(Units):
    """A table of units.

    A large table is stored in a temporary file, so that memory grows by only a few bytes per unit.
    """

    def __init__(self, table: pa.Table, mapped: MappedTable | None = None) -> None:
        """Creates the table. `mapped` contains the table's columns if they are in a file instead of in memory."""
        self.table = table if mapped is not None else table.combine_chunks()
        self._mapped = mapped
        self._batches = self.table.to_batches()
        self._starts = np.cumsum([0, *map(len, self._batches)])[:-1]
        # If each unit is a complete file with one sample, the columns `first` and `row` aren't needed. Most plans with millions of units
        # are like this.
        one_each = all(
            bool((batch.column(0).to_numpy() == 1).all() and not batch.column(1).to_numpy().any())
            for batch in self.batches(["records", "row"])
        )
        self._first: Numbers | None = None if one_each else table["first"].to_numpy()
        self._row: Numbers | None = None if one_each else table["row"].to_numpy()
        self._key: npt.NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, units: Iterable[Unit | Files]) -> "UnitTable":
        """Returns the table of `units`, with samples numbered from 0. Raises StoreFull."""
        try:
            return cls.concatenate(_batches(units))
        finally:
            close_generator(units)

    @classmethod
    def concatenate(cls, batches: Iterable[pa.RecordBatch]) -> "UnitTable":
        """Returns a table that consists of these batches.

        If there is more than one batch, the batches are written to a file as they arrive. Raises StoreFull.
        """
        remaining = iter(batches)
        first_batches = list(islice(remaining, 2))
        if len(first_batches) < 2:
            return cls(pa.Table.from_batches(first_batches, SCHEMA))
        mapped = MappedTable(SCHEMA, chain(first_batches, remaining))
        return cls(mapped.table, mapped)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the named columns of all units, in batches of at most BLOCK rows. Each batch is valid until the next one is requested."""
        for batch in self.table.select(columns).to_batches(max_chunksize=BLOCK):
            yield batch
            if self._mapped is not None:
                self._mapped.let_go()

    def rows(self, index: npt.NDArray[np.int64], columns: Sequence[str]) -> list[dict[str, Any]]:
        """See `Units`."""
        which = np.searchsorted(self._starts, index, side="right") - 1
        within = index - self._starts[which]
        if len(which) and (which == which[0]).all():
            rows: list[dict[str, Any]] = self._batches[int(which[0])].select(columns).take(pa.array(within)).to_pylist()
            return rows
        columns_of = {number: [self._batches[number].column(name) for name in columns] for number in np.unique(which).tolist()}
        # Take rows one by one, because Arrow can take rows from several batches only after joining all batches.
        return [
            {name: column[row].as_py() for name, column in zip(columns, columns_of[number], strict=True)}
            for number, row in zip(which.tolist(), within.tolist(), strict=True)
        ]

    def __len__(self) -> int:
        return self.table.num_rows

    @property
    def samples(self) -> int:
        """See `Units`."""
        return int(self.table["first"][-1].as_py() + self.table["records"][-1].as_py()) if len(self) else 0

    @property
    def size(self) -> int:
        """Bytes of all units."""
        return sum(int(batch.column(0).to_numpy().sum()) for batch in self.batches(["size"]))

    def keys(self) -> npt.NDArray[np.uint64]:
        """Returns the key of each unit. Most plans need no keys, so keys are computed on first use and then kept."""
        if self._key is None and not self.table["key"].null_count:
            self._key = self.table["key"].to_numpy()
        if self._key is None:
            self._key = np.empty(len(self), np.uint64)
            first = 0
            for batch in self.batches(["root", "path"]):
                self._key[first : first + len(batch)] = _keys(*batch.to_pydict().values())
                first += len(batch)
            self.table = self.table.set_column(SCHEMA.get_field_index("key"), SCHEMA.field("key"), pa.array(self._key))
        return self._key

    def unit(self, index: int) -> Unit:
        """See `Units`."""
        return Unit(**{name: self.table.column(place)[index].as_py() for place, name in enumerate(SCHEMA.names[:-2])})

    def locate(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """See `Units`."""
        if self._first is None:
            return samples, np.zeros_like(samples)
        index = np.searchsorted(self._first, samples, side="right") - 1
        return index, samples - self._first[index]

    def hash_inputs(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """See `Units`."""
        index, within = self.locate(samples)
        return self.keys()[index], within if self._row is None else self._row[index] + within


def samples_of_a_batch(bytes_in: int, samples: int, *, most: int) -> int:
    """Returns how many samples to read in one batch: about BATCH_BYTES of the input, and at most `most` samples.

    Large numbers are rounded to a power of two. Statistics describe runs of 65,536 samples. If a batch's size is a power of two, the batch
    needn't be split at the end of a run.
    """
    size = max(1, min(most, BATCH_BYTES // max(1, bytes_in // max(1, samples))))
    return size if size < _MANY else 1 << (size.bit_length() - 1)
