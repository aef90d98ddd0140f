"""Units: the parts of the input in the order of their samples, as an Arrow table (`units.parquet`)."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.tensors import Array

_arrow: Any = pa  # the stubs don't know all functions


@dataclass(frozen=True)
class Unit:
    """A part of the input that can be read on its own."""

    root: int
    """Index of the URI in the source's list."""
    path: str
    """Path relative to that URI, in UTF-8; what is hashed and sorted, never the URI."""
    uri: str
    records: int
    size: int
    """Bytes of the unit (of the whole file when the unit is a file)."""
    pin: str
    """Pin of the file, see `stores.Entry`."""
    subset: str = ""
    offset: int = 0
    """First byte within the file."""
    row: int = 0
    """First row within the file."""
    extra: str = ""
    """What only the reader knows."""


@dataclass(frozen=True, slots=True)
class Files:
    """Units that are whole files of one record each, in columns: millions of them are listed, and an object for each would take most of the time."""

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
"""The columns of Unit; `key` is the hash of root and path, or null in plans that need none, `first` the number of the unit's first sample."""


_BLOCK = 65_536
"""Units that are Python objects at the same time."""


def _keys(roots: list[int], paths: list[str]) -> npt.NDArray[np.uint64]:
    """64-bit key of each file: what the split hash starts from. BLAKE2b of `<root>\\0<path>`."""
    digest = hashlib.blake2b
    names = map(str.encode, map("{}\0{}".format, roots, paths), repeat("utf-8"), repeat("surrogateescape"))
    return np.frombuffer(b"".join([digest(name, digest_size=8).digest() for name in names]), "<u8").astype(np.uint64, copy=False)


class _Block:
    """Some units, in columns."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names[:-2]}  # Any: numbers and texts

    def __len__(self) -> int:
        return len(self._columns["path"])

    @property
    def records(self) -> int:
        """Samples of all of them."""
        return sum(self._columns["records"])

    def add(self, item: Unit | Files) -> None:
        """Takes a unit, or files."""
        if isinstance(item, Unit):
            for name, column in self._columns.items():
                column.append(getattr(item, name))
            return
        count = len(item.paths)
        given: dict[str, list[Any]] = {
            "path": item.paths,
            "uri": item.uris,
            "size": item.sizes,
            "pin": item.pins,
            "subset": item.subsets,
            "extra": item.extras,
        }
        for name, value in ("root", item.root), ("records", 1), ("offset", 0), ("row", 0):
            given[name] = [value] * count
        for name, column in self._columns.items():
            column += given[name]

    def columns(self, first: int) -> dict[str, Array]:
        """The columns of the table, its rows numbered from `first`."""
        records = np.array(self._columns["records"], np.int64)
        made: dict[str, Any] = {"key": pa.nulls(len(self)), "first": first + np.cumsum(records) - records}
        return {name: pa.array(values, SCHEMA.field(name).type) for name, values in (self._columns | made).items()}


class Units:
    """A table of units with look-up by sample number."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self._first: npt.NDArray[np.int64] = self.table["first"].to_numpy()
        self._row: npt.NDArray[np.int64] = self.table["row"].to_numpy()
        self._key: npt.NDArray[np.uint64] | None = None if self.table["key"].null_count else self.table["key"].to_numpy()

    @classmethod
    def of(cls, units: Iterable[Unit | Files]) -> "Units":
        """The table of `units`, numbered from 0."""
        chunks: dict[str, list[Array]] = {name: [] for name in SCHEMA.names}
        first = 0

        def take(block: _Block) -> int:
            for name, column in block.columns(first).items():
                chunks[name].append(column)
            return first + block.records

        block = _Block()
        for item in units:
            block.add(item)
            if len(block) >= _BLOCK:
                first = take(block)
                block = _Block()
        take(block)
        # Column by column: what was joined is let go of, or all would be held twice.
        whole = [pa.table({name: _arrow.chunked_array(chunks.pop(name))}).combine_chunks().column(0) for name in SCHEMA.names]
        return cls(pa.table(whole, schema=SCHEMA))

    def __len__(self) -> int:
        return self.table.num_rows

    @property
    def samples(self) -> int:
        """Number of samples of all units."""
        return int(self._first[-1]) + self.table["records"][-1].as_py() if len(self) else 0

    def keys(self) -> npt.NDArray[np.uint64]:
        """The key of each unit. Digested when it is first asked for, and in the table from then on: most plans need none."""
        if self._key is None:
            blocks = self.table.select(["root", "path"]).to_batches(max_chunksize=_BLOCK)
            named: Iterator[dict[str, Any]] = (block.to_pydict() for block in blocks)  # Any: numbers and texts
            self._key = np.concatenate([_keys(block["root"], block["path"]) for block in named])
            self.table = self.table.set_column(SCHEMA.get_field_index("key"), SCHEMA.field("key"), pa.array(self._key))
        return self._key

    def unit(self, index: int) -> Unit:
        """The unit in one row of the table."""
        return Unit(**{name: self.table.column(place)[index].as_py() for place, name in enumerate(SCHEMA.names[:-2])})

    def locate(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(unit index, number within the unit) of each sample."""
        index = np.searchsorted(self._first, samples, side="right") - 1
        return index, samples - self._first[index]

    def hash_inputs(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """(file key, row within the file) of each sample."""
        index, within = self.locate(samples)
        return self.keys()[index], self._row[index] + within

    def origin(self, sample: int) -> tuple[str, int]:
        """(uri, row within the file) of one sample, for messages."""
        index, within = self.locate(np.array([sample], dtype=np.int64))
        unit = self.unit(int(index[0]))
        return unit.uri, unit.row + int(within[0])
