"""Examines the files of a source while planning. Files of a remote store are examined several at a time."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final, Generic, TypeAlias, TypeVar

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archives import ArchiveStore
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.stores import Entry, Input, ReadsFiles, Store

_FILES_AT_ONCE: Final = 8
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


def examined(access: Access, files: Iterable[ListedFile], examine: Callable[[Store, Entry], Result]) -> Iterator[Examined[Result]]:
    """Calls `examine` for each file and yields the results in order. Eight threads examine the files of a remote store.

    A file's error is raised only when the file's turn comes, so that the first error is the same as without threads.
    """
    # Look up stores here rather than in the threads: the first look-up of a store creates its client.
    with_stores = ((access.store(entry.uri), root, path, entry) for root, path, entry in files)

    def call(file: tuple[Store, int, str, Entry]) -> Examined[Result]:
        store, root, path, entry = file
        return Examined(root, path, entry, examine(store, entry))

    for in_order, group in groupby(with_stores, key=lambda file: _is_read_in_order(file[0])):
        begin = _each if in_order else partial(mapped_ahead, most=_FILES_AT_ONCE)
        with closing(begin(call, group)) as results:
            yield from results


def _is_read_in_order(store: Store) -> bool:
    """Whether the store's files are read one after the other.

    Several threads help only if they wait for a server; otherwise, they mostly wait for each other. The members of a compressed archive can
    only be read in order.
    """
    return isinstance(store, ReadsFiles | ArchiveStore)


def each_opened(access: Access, files: Iterable[ListedFile]) -> Iterator[tuple[int, str, Entry, Input]]:
    """Opens the files one after another. The contents of small files of a remote store are read ahead.

    Yields each file with an Input, which is closed when the next file is requested.
    """
    for file in examined(access, files, _small_content):
        source = access.store(file.entry.uri).open(file.entry.uri) if file.result is None else _ContentInput(file.result)
        with source:
            yield file.root, file.path, file.entry, source


def _small_content(store: Store, entry: Entry) -> bytes | None:
    """Returns the content of a small remote file."""
    if entry.size > _SMALL_BYTES or _is_read_in_order(store):
        return None
    with store.open(entry.uri) as source:
        # The file might have been replaced by a larger one since it was listed.
        return source.read_at(0, source.size) if source.size <= _SMALL_BYTES else None


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
