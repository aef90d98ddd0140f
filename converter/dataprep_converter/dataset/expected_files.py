"""The files that a folder should contain, as columns, which are compared with a listing of the folder while it is read."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api import names
from dataprep_api.dataset.report import Manifest, ManifestFile, ShardReport
from dataprep_converter.core.tensors import pc
from dataprep_converter.stores import Entry

T = TypeVar("T")

_ROWS: Final = 8192
"""The number of rows in a chunk."""
_AT_ONCE: Final = 65_536
"""The number of listed files that are looked up together."""
_SHOWN: Final = 5


@dataclass
class Differences:
    """How a listing differs from the expected files. Numbers are those of `ExpectedFiles`, in ascending order after `compared`."""

    missing: list[int] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    """Maps each file that has another size to its size."""
    changed: list[int] = field(default_factory=list)
    """The files with the expected size but another pin."""
    foreign: list[str] = field(default_factory=list)
    """The files that aren't expected."""


class ExpectedFiles:
    """Files with their sizes and, if they are known, their pins. The files are numbered in the order in which they are added."""

    def __init__(self) -> None:
        self._chunks: list[tuple[pa.Array[Any], pa.Array[Any], pa.Array[Any], pa.Array[Any]]] = []
        self._rows: list[tuple[str, int, str | None, int]] = []
        self._columns: list[Any] = []  # of pyarrow.ChunkedArray, once all files have been added

    @classmethod
    def of_manifest(cls, manifest: Manifest) -> "ExpectedFiles":
        """Returns the visible files of a finished data set. Their pins aren't known."""
        files = cls()
        for number, file in enumerate(manifest.files):
            files.add_shard(number, file)
        for metadata in manifest.metadata:
            if not names.is_hidden(metadata.file):
                files.add(metadata.file, metadata.size)
        return files

    def __len__(self) -> int:
        return len(self._all()[0])

    def add(self, path: str, size: int, *, pin: str | None = None, shard: int = -1) -> None:
        """Adds a file, which belongs to the shard with this number if there is one."""
        self._rows.append((path, size, pin, shard))
        if len(self._rows) == _ROWS:
            self._end_chunk()

    def add_shard(self, number: int, shard: ManifestFile | ShardReport, *, pin: str | None = None) -> None:
        """Adds a shard's file and companions."""
        self.add(shard.file, shard.size, pin=pin, shard=number)
        for companion in shard.companions:
            self.add(companion.file, companion.size, shard=number)

    def path(self, number: int) -> str:
        """Returns the path of a file."""
        found: str = self._all()[0][number].as_py()
        return found

    def size(self, number: int) -> int:
        """Returns the size of a file."""
        found: int = self._all()[1][number].as_py()
        return found

    def has_pin(self, number: int) -> bool:
        """Whether the pin of a file is known."""
        found: bool = self._all()[2][number].is_valid
        return found

    def shard(self, number: int) -> int:
        """Returns the number of the shard to which a file belongs."""
        found: int = self._all()[3][number].as_py()
        return found

    def others(self, paths: Iterable[str]) -> Iterator[str]:
        """Yields the paths that aren't those of expected files."""
        for some in _pieces(paths):
            yield from (path for path, number in zip(some, self._numbers(some), strict=True) if number < 0)

    def compared(self, listing: Iterable[tuple[str, Entry]], *, ours: Collection[str] = (), ignores_others: bool = False) -> Differences:
        """Returns how the listing differs from these files. The files in `ours` may be in the listing as well, and with `ignores_others`, any
        other files too."""
        paths, sizes, pins, _ = self._all()
        found = np.zeros(len(paths), np.bool_)
        differences = Differences()
        for some in _pieces(listing):
            numbers = self._numbers([path for path, _ in some])
            if not ignores_others:
                differences.foreign += [path for (path, _), number in zip(some, numbers, strict=True) if number < 0 and path not in ours]
            known = np.flatnonzero(numbers >= 0)
            numbers = numbers[known]
            found[numbers] = True
            rows = pa.array(numbers)
            for place, number, size, pin in zip(
                known.tolist(), numbers.tolist(), sizes.take(rows).to_pylist(), pins.take(rows).to_pylist(), strict=True
            ):
                entry = some[place][1]
                if entry.size != size:
                    differences.sizes[number] = entry.size
                elif pin is not None and entry.pin != pin:
                    differences.changed.append(number)
        differences.missing = np.flatnonzero(~found).tolist()
        differences.sizes = dict(sorted(differences.sizes.items()))
        differences.changed.sort()
        return differences

    def fault(self, differences: Differences) -> str | None:
        """Describes missing and foreign files, and files of another size. Returns None if there are none."""
        missing, sizes, foreign = differences.missing, differences.sizes, differences.foreign
        if missing:
            return f"{len(missing)} {'file is' if len(missing) == 1 else 'files are'} missing: {self.named(missing)}"
        if sizes:
            return abbreviate([f"{self.path(number)} has {size} bytes instead of {self.size(number)}" for number, size in sizes.items()])
        if foreign:
            return (
                f"{len(foreign)} {'file does not' if len(foreign) == 1 else 'files do not'} belong to this data set: {abbreviate(foreign)}"
            )
        return None

    def named(self, numbers: Sequence[int]) -> str:
        """Returns text that names the first few of these files and says how many more there are."""
        return abbreviate([self.path(number) for number in numbers[:_SHOWN]], count=len(numbers))

    def _numbers(self, paths: Sequence[str]) -> npt.NDArray[np.int64]:
        """Returns the number of each file, or -1 for a path that isn't expected."""
        places: Any = pc.index_in(pa.array(paths, pa.string()), value_set=self._all()[0])
        numbers: npt.NDArray[np.int64] = places.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return numbers

    def _all(self) -> list[Any]:
        if self._rows:
            self._end_chunk()
        if not self._columns:
            types: tuple[Any, ...] = (pa.string(), pa.int64(), pa.string(), pa.int64())
            self._columns = [pa.chunked_array([chunk[place] for chunk in self._chunks], kind) for place, kind in enumerate(types)]
        return self._columns

    def _end_chunk(self) -> None:
        paths, sizes, pins, shards = zip(*self._rows, strict=True)
        self._chunks.append(
            (pa.array(paths, pa.string()), pa.array(sizes, pa.int64()), pa.array(pins, pa.string()), pa.array(shards, pa.int64()))
        )
        self._rows, self._columns = [], []


def _pieces(items: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(items)
    while piece := list(islice(remaining, _AT_ONCE)):
        yield piece


def abbreviate(items: Sequence[str], *, count: int | None = None) -> str:
    """Returns text that lists the first few items and says how many more there are. `count` is the number of items if some aren't given."""
    more = (len(items) if count is None else count) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
