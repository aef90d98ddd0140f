"""Examines the files of a source while planning. Files of a remote store are examined several at a time."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final, Generic, TypeAlias, TypeVar

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archives import ArchiveStore
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.stores import Entry, Input, ReadsFiles, Store

FILES_AT_ONCE: Final = 8
_SMALL_BYTES: Final = 1 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")

ListedFile: TypeAlias = tuple[int, str, Entry]
"""The number of the file's root, the path below the root, and the entry."""


@dataclass(frozen=True, slots=True)
class Examined(Generic[Result]):
    """A file and what was found in it."""

    root: int
    path: str
    entry: Entry
    result: Result


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file that is examined, or a cell of it."""

    root: int
    path: str
    entry: Entry
    cell: int | None = None
    """The number of the cell, or None for the complete file."""


def examined(access: Access, files: Iterable[ListedFile], examine: Callable[[Store, Entry], Result]) -> Iterator[Examined[Result]]:
    """Calls `examine` for each file and yields the results in order. Eight threads examine the files of a remote store.

    A file's error is raised only when the file's turn comes, so that the first error is the same as without threads.
    """
    parts = (FilePart(root, path, entry) for root, path, entry in files)
    for part, result in examined_parts(access, parts, lambda store, part: examine(store, part.entry)):
        yield Examined(part.root, part.path, part.entry, result)


def examined_parts(
    access: Access, parts: Iterable[FilePart], examine: Callable[[Store, FilePart], Result], *, most: int = FILES_AT_ONCE
) -> Iterator[tuple[FilePart, Result]]:
    """Like `examined`, for files and cells of files. Yields each of them with its result. `most` is the number of threads."""
    # Look up stores here rather than in the threads: the first look-up of a store creates its client.
    with_stores = ((access.store(part.entry.uri), part) for part in parts)

    def call(item: tuple[Store, FilePart]) -> tuple[FilePart, Result]:
        store, part = item
        return part, examine(store, part)

    for in_order, group in groupby(with_stores, key=lambda item: _is_read_in_order(item[0])):
        begin = _each if in_order else partial(mapped_ahead, most=most)
        with closing(begin(call, group)) as results:
            yield from results


def collect(
    pieces: Iterable[Item], sample: Callable[[Item], Result | ConvertError | None] = lambda _: None
) -> tuple[list[Item], Result | ConvertError | None, ConvertError | None]:
    """Collects the pieces of a file, and samples the first one.

    Returns the pieces, the sample, and the error that ended the iteration, if any. A sample that is an error ends the iteration before the
    first piece.
    """
    collected: list[Item] = []
    first: Result | ConvertError | None = None
    try:
        for piece in pieces:
            if not collected:
                first = sample(piece)
                if isinstance(first, ConvertError):
                    break
            collected.append(piece)
    except ConvertError as exc:
        return collected, first, exc
    return collected, first, None


def _is_read_in_order(store: Store) -> bool:
    """Whether the store's files are read one after the other.

    Several threads help only if they wait for a server; otherwise, they mostly wait for each other. The members of a compressed archive can
    only be read in order.
    """
    return isinstance(store, ReadsFiles | ArchiveStore)


def open_once(store: Store, entry: Entry) -> Input:
    """Opens a file that is read once from its beginning. A small file of a remote store is read in a single request."""
    source = store.open(entry.uri)
    # The file might have been replaced by a larger one since it was listed.
    if max(entry.size, source.size) > _SMALL_BYTES or _is_read_in_order(store):
        return source
    with source:
        return _ContentInput(source.read_at(0, source.size))


def _each(call: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
    for item in items:
        yield call(item)


@dataclass
class _ContentInput(Closeable):
    """An Input over bytes in memory."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def read_at(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        end = self.size if length is None else offset + length
        if offset < min(end, self.size):
            yield self.content[offset:end]

    def close(self) -> None:
        """Does nothing."""
