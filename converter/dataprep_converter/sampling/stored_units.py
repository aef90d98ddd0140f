"""The units of a stored plan, read one row group of `units.parquet` at a time."""

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_api.dataset.plan import PlanHead, UnitGroups
from dataprep_converter.core.lru import LruCache
from dataprep_converter.sampling.plan import damaged
from dataprep_converter.sampling.units import SCHEMA, Numbers, Unit, Units, keys_of

_KEPT_GROUPS: Final = 2
_parquet: Any = pq  # the type stubs lack Python's file objects and the methods of a ParquetFile

ReadRange = Callable[[int, int], bytes]
"""Reads a part of `units.parquet`. The arguments are the offset and the number of bytes."""


class StoredUnits(Units):
    """The units of a stored plan.

    When a unit is needed, its row group is read, and the digest of the row group is checked. A worker that reads samples in order needs one
    group after another. So the worker's memory use, and the number of bytes that the worker reads from the plan, don't depend on the number
    of units.
    """

    def __init__(
        self, head: PlanHead, groups: UnitGroups, read_range: ReadRange, *, errors: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Reads nothing yet.

        Each read runs in a context that `errors` returns. This context can add details to errors, for example to the NotWhole for a wrong
        digest.
        """
        self._head = head
        self._groups = groups
        self._firsts = np.array(groups.firsts, np.int64)
        self._read_range = read_range
        self._errors = errors
        self._metadata: Any = None  # a pyarrow.parquet.FileMetaData, once it has been read
        self._kept: LruCache[int, pa.RecordBatch] = LruCache(_KEPT_GROUPS)
        self._lock = Lock()

    def __len__(self) -> int:
        return self._groups.units

    @property
    def samples(self) -> int:
        """See `Units`."""
        return self._head.samples

    def rows(self, index: npt.NDArray[np.int64], columns: Sequence[str]) -> list[dict[str, Any]]:
        """See `Units`."""
        found: list[dict[str, Any]] = [{}] * len(index)
        for number, places in _by_group(index // self._groups.rows):
            within = index[places] - number * self._groups.rows
            rows = self._group(number).select(columns).take(pa.array(within, pa.int64())).to_pylist()
            for place, row in zip(places.tolist(), rows, strict=True):
                found[place] = row
        return found

    def unit(self, index: int) -> Unit:
        """See `Units`."""
        number, row = divmod(index, self._groups.rows)
        batch = self._group(number)
        return Unit(**{name: batch.column(place)[row].as_py() for place, name in enumerate(SCHEMA.names[:-2])})

    def locate(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """See `Units`."""
        index, within = np.empty_like(samples), np.empty_like(samples)
        for number, places in _by_group(np.searchsorted(self._firsts, samples, side="right") - 1):
            first = self._column(number, "first")
            rows = np.searchsorted(first, samples[places], side="right") - 1
            index[places] = number * self._groups.rows + rows
            within[places] = samples[places] - first[rows]
        return index, within

    def hash_inputs(self, samples: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """See `Units`."""
        index, within = self.locate(samples)
        keys = np.empty(len(samples), np.uint64)
        for number, places in _by_group(index // self._groups.rows):
            rows = index[places] - number * self._groups.rows
            keys[places] = keys_of(self._group(number))[rows]
            within[places] += self._column(number, "row")[rows]
        return keys, within

    def _column(self, number: int, name: str) -> Numbers:
        return cast("Numbers", self._group(number).column(name).to_numpy())

    def _group(self, number: int) -> pa.RecordBatch:
        with self._lock:
            return self._kept.get(number, lambda: self._read(number))

    def _read(self, number: int) -> pa.RecordBatch:
        if self._metadata is None:
            # Read only the footer, which is enough to read the metadata.
            self._metadata = _parquet.read_metadata(io.BytesIO(self._part(len(self._firsts))))
        source = _Range(self._part(number), self._groups.offsets[number])
        # Don't use Arrow's threads: a worker crashes if it exits while one of these threads is still freeing the bytes.
        file = _parquet.ParquetFile(source, metadata=self._metadata, pre_buffer=False)
        table = cast("pa.Table", file.read_row_group(number, use_threads=False)).combine_chunks()
        return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], SCHEMA)

    def _part(self, number: int) -> bytes:
        """Returns the bytes of a group. The number after the last group's number returns the footer."""
        offset, end = self._groups.offsets[number : number + 2]
        with self._errors():
            data = self._read_range(offset, end - offset)
            if hashlib.sha256(data).hexdigest() != self._groups.sha256[number]:
                raise damaged(self._head, "units")
        return data


def _by_group(numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yields each distinct group number in `numbers`, with the positions at which it occurs."""
    for number in np.unique(numbers).tolist():
        yield number, np.flatnonzero(numbers == number)


class _Range(io.BytesIO):
    """A range of a file. Offsets count from the beginning of the file, not from the beginning of the range."""

    def __init__(self, data: bytes, offset: int) -> None:
        """`data` contains the file's bytes from `offset` on."""
        super().__init__(data)
        self._offset = offset

    def tell(self) -> int:
        """See `io.BytesIO`."""
        return self._offset + super().tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See `io.BytesIO`. Raises ValueError for an offset before the range."""
        return self._offset + super().seek(offset - self._offset if whence == io.SEEK_SET else offset, whence)
