"""Compares the files that a folder should contain with a listing of the folder.

The expected files are stored as columns, at about 50 bytes of memory per file. The listing is compared while it is read. Paths and pins (a
pin identifies the version of a file) are only compared, so it is enough to keep their digests. The paths themselves are needed only for
messages, so they are compressed.
"""

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from dataprep_api import names
from dataprep_api.dataset.report import Manifest, ManifestFile, ShardReport
from dataprep_converter.stores import Entry

T = TypeVar("T")

_AT_ONCE: Final = 8192
"""The number of paths that are compressed together, and the number of listed files that are looked up together."""
_KEY: Final = np.dtype("S16")
"""A digest of a path or of a pin. The bytes of an absent pin are zero."""
_NO_KEY: Final = b""
_SHOWN: Final = 5


@dataclass
class Differences:
    """How a listing differs from the expected files. Expected files are represented by their numbers in `ExpectedFiles`, in ascending
    order."""

    missing: list[int] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    """Maps each file with an unexpected size to its size in the listing."""
    changed: list[int] = field(default_factory=list)
    """The files with the expected size but a different pin."""
    foreign: list[str] = field(default_factory=list)
    """The paths of files that aren't expected."""


class ExpectedFiles:
    """Files with their sizes and, if they are known, their pins. The files are numbered in the order in which they are added."""

    def __init__(self, count: int = 0) -> None:
        """Reserves memory for `count` files.

        More files can be added, but then the columns grow in steps, which leaves gaps in the memory.
        """
        self._packed: list[bytes] = []
        self._paths: list[str] = []
        """The last paths, which aren't compressed yet."""
        self._unpacked: tuple[int, list[str]] = (-1, [])
        """The entry of `_packed` that was decompressed last: its index and its paths."""
        self._count = 0
        self._keys, self._pins = np.zeros(count, _KEY), np.zeros(count, _KEY)
        self._sizes, self._shards = np.zeros(count, np.int64), np.zeros(count, np.int32)
        self._order: npt.NDArray[np.int64] | None = None
        """The numbers of the files, sorted by the files' keys. Reset to None when a file is added."""

    @classmethod
    def of_manifest(cls, manifest: Manifest) -> "ExpectedFiles":
        """Returns the visible files of a finished data set. Their pins aren't known."""
        files = cls(len(manifest.files) + len(manifest.metadata))
        for number, file in enumerate(manifest.files):
            files.add_shard(number, file)
        for metadata in manifest.metadata:
            if not names.is_hidden(metadata.file):
                files.add(metadata.file, metadata.size)
        return files

    def __len__(self) -> int:
        return self._count

    def add(self, path: str, size: int, *, pin: str | None = None, shard: int = -1) -> None:
        """Adds a file. `shard` is the number of the shard that the file belongs to, or -1 if it belongs to none."""
        number, self._count = self._count, self._count + 1
        if number == len(self._sizes):
            self._reserve(max(_AT_ONCE, number))
        self._keys[number] = _key(path)
        self._pins[number] = _key(pin) if pin is not None else _NO_KEY
        self._sizes[number] = size
        self._shards[number] = shard
        self._order = None
        self._paths.append(path)
        if len(self._paths) == _AT_ONCE:
            self._packed.append(zlib.compress(_encoded("\0".join(self._paths)), 1))
            self._paths = []

    def add_shard(self, number: int, shard: ManifestFile | ShardReport, *, pin: str | None = None) -> None:
        """Adds a shard's file and companions."""
        self.add(shard.file, shard.size, pin=pin, shard=number)
        for companion in shard.companions:
            self.add(companion.file, companion.size, shard=number)

    def path(self, number: int) -> str:
        """Returns the path of a file."""
        chunk, place = divmod(number, _AT_ONCE)
        if chunk == len(self._packed):
            return self._paths[place]
        if chunk != self._unpacked[0]:
            self._unpacked = chunk, zlib.decompress(self._packed[chunk]).decode(errors="surrogatepass").split("\0")
        return self._unpacked[1][place]

    def size(self, number: int) -> int:
        """Returns the size of a file."""
        return int(self._sizes[number])

    def has_pin(self, number: int) -> bool:
        """Whether the pin of a file is known."""
        return bool(self._pins[number] != _NO_KEY)

    def shard(self, number: int) -> int:
        """Returns the number of the shard to which a file belongs."""
        return int(self._shards[number])

    def others(self, paths: Iterable[str]) -> Iterator[str]:
        """Yields the given paths, except the paths of expected files."""
        for some in _pieces(paths):
            yield from (path for path, number in zip(some, self._numbers(some), strict=True) if number < 0)

    def compared(self, listing: Iterable[tuple[str, Entry]], *, ours: Collection[str] = (), ignores_others: bool = False) -> Differences:
        """Returns how the listing differs from these files.

        The listing is allowed to contain the files in `ours` too. With `ignores_others`, it is allowed to contain any other files.
        """
        sizes, pins = self._sizes, self._pins
        found = np.zeros(len(self), np.bool_)
        differences = Differences()
        for some in _pieces(listing):
            numbers = self._numbers([path for path, _ in some])
            if not ignores_others:
                differences.foreign += [path for (path, _), number in zip(some, numbers, strict=True) if number < 0 and path not in ours]
            entries = [some[place][1] for place in np.flatnonzero(numbers >= 0)]
            numbers = numbers[numbers >= 0]
            found[numbers] = True
            listed = np.array([entry.size for entry in entries], np.int64)
            resized = listed != sizes[numbers]
            differences.sizes.update(zip(numbers[resized].tolist(), listed[resized].tolist(), strict=True))
            pinned = np.flatnonzero(~resized & (pins[numbers] != _NO_KEY))
            changed = _keys(entries[place].pin for place in pinned) != pins[numbers[pinned]]
            differences.changed += numbers[pinned][changed].tolist()
        differences.missing = np.flatnonzero(~found).tolist()
        differences.sizes = dict(sorted(differences.sizes.items()))
        differences.changed.sort()
        return differences

    def fault(self, differences: Differences) -> str | None:
        """Describes missing files, foreign files, and files of the wrong size. Returns None if there are no such files."""
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

    def _reserve(self, count: int) -> None:
        """Reserves memory for this many more files."""
        self._keys, self._pins = (np.concatenate([column, np.zeros(count, _KEY)]) for column in (self._keys, self._pins))
        self._sizes = np.concatenate([self._sizes, np.zeros(count, np.int64)])
        self._shards = np.concatenate([self._shards, np.zeros(count, np.int32)])

    def _numbers(self, paths: Sequence[str]) -> npt.NDArray[np.int64]:
        """Returns the number of each file, or -1 for a path that isn't expected."""
        if not len(self):
            return np.full(len(paths), -1)
        known, keys = self._keys[: len(self)], _keys(paths)
        if self._order is None:
            self._order = np.argsort(known, kind="stable")
        places = np.searchsorted(known, keys, sorter=self._order)
        numbers = self._order[np.minimum(places, len(self) - 1)]
        return np.where(known[numbers] == keys, numbers, -1)


def _encoded(text: str) -> bytes:
    """Returns the bytes of a path or a pin. A path that isn't valid UTF-8 contains surrogates."""
    return text.encode(errors="surrogatepass")


def _key(text: str) -> bytes:
    return blake2b(_encoded(text), digest_size=_KEY.itemsize).digest()


def _keys(texts: Iterable[str]) -> npt.NDArray[np.bytes_]:
    return np.frombuffer(b"".join(map(_key, texts)), _KEY)


def _pieces(items: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(items)
    while piece := list(islice(remaining, _AT_ONCE)):
        yield piece


def abbreviate(items: Sequence[str], *, count: int | None = None) -> str:
    """Returns text that lists the first few items and says how many more there are.

    `count` is the total number of items, if `items` doesn't contain all of them.
    """
    more = (len(items) if count is None else count) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
