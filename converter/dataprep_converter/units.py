"""Units: the parts of the input in the order of their samples, as an Arrow table (`units.parquet`)."""

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa


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
"""The columns of Unit; `key` is the hash of root and path, `first` the number of the unit's first sample."""


_BLOCK = 65_536
"""Units that are Python objects at the same time."""


def key_of(root: int, path: str) -> int:
    """64-bit key of a file: what the split hash starts from. BLAKE2b of `<root>\\0<path>`."""
    return int.from_bytes(hashlib.blake2b(f"{root}\0{path}".encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


class Units:
    """A table of units with look-up by sample number."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self._first: npt.NDArray[np.int64] = self.table["first"].to_numpy()
        self._row: npt.NDArray[np.int64] = self.table["row"].to_numpy()
        self._key: npt.NDArray[np.uint64] = self.table["key"].to_numpy()

    @classmethod
    def of(cls, units: Iterable[Unit]) -> "Units":
        """The table of `units`, numbered from 0."""
        batches: list[pa.RecordBatch] = []
        first = 0
        source = iter(units)
        while block := list(itertools.islice(source, _BLOCK)):
            columns: dict[str, list[object]] = {name: list(map(attrgetter(name), block)) for name in SCHEMA.names[:-2]}
            columns["key"] = [key_of(unit.root, unit.path) for unit in block]
            columns["first"] = list(itertools.accumulate((unit.records for unit in block[:-1]), initial=first))
            first += sum(unit.records for unit in block)
            batches.append(pa.record_batch(columns, schema=SCHEMA))
        return cls(pa.Table.from_batches(batches, schema=SCHEMA))

    def __len__(self) -> int:
        return self.table.num_rows

    @property
    def samples(self) -> int:
        """Number of samples of all units."""
        return int(self._first[-1]) + self.table["records"][-1].as_py() if len(self) else 0

    def unit(self, index: int) -> Unit:
        """The unit in one row of the table."""
        row = self.table.slice(index, 1).to_pylist()[0]
        return Unit(**{name: row[name] for name in SCHEMA.names[:-2]})

    def locate(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(unit index, number within the unit) of each sample."""
        index = np.searchsorted(self._first, samples, side="right") - 1
        return index, samples - self._first[index]

    def hash_inputs(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """(file key, row within the file) of each sample."""
        index, within = self.locate(samples)
        return self._key[index], self._row[index] + within

    def origin(self, sample: int) -> tuple[str, int]:
        """(uri, row within the file) of one sample, for messages."""
        index, within = self.locate(np.array([sample], dtype=np.int64))
        unit = self.unit(int(index[0]))
        return unit.uri, unit.row + int(within[0])
