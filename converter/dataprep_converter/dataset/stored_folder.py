"""The files of an output folder, whatever they contain."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from dataprep_api import names
from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import NotFound, NotPermitted
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import Entry, WritesAside
from dataprep_converter.stores.publish import write_file

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 4 << 20


class StoredFolder:
    """The files of an output folder: reads, lists, writes and deletes them."""

    def __init__(self, uri: str, access: Access) -> None:
        self.uri = uri.rstrip("/")
        self._given_uri = uri
        self._access = access
        self._store = access.store(uri)

    @property
    def keeps_removed_files(self) -> bool:
        """Whether the store keeps removed files in its history, so that temporary files would take up space permanently."""
        return isinstance(self._store, WritesAside)

    def at(self, relative: str) -> str:
        """Returns the URI of a file in the folder."""
        return names.join(self.uri, relative)

    def read(self, relative: str) -> bytes | None:
        """Returns the content of a small file, or None if there is no such file."""
        try:
            return self._store.get(self.at(relative))
        except NotFound:
            return None

    def visible(self) -> Iterator[tuple[str, Entry]]:
        """Yields a (relative path, entry) pair for each visible file. A file is visible if no part of its path begins with `_` or `.`."""
        for path, entry in self._list():
            if not any(part[0] in "_." for part in path.split("/")):
                yield path, entry

    def all_files(self) -> Iterator[tuple[str, Entry]]:
        """Yields a (relative path, entry) pair for each file, including hidden files."""
        return self._list()

    def indexes(self) -> Iterator[tuple[str, Entry]]:
        """Yields a (relative path, entry) pair for each record index."""
        return self._list(names.INDEX)

    def side_entries(self) -> Iterator[tuple[str, Entry]]:
        """Yields a (relative path, entry) pair for each file in the metadata folders."""
        for below in (names.SIDE, names.TFDS):
            yield from self._list(below)

    def _list(self, below: str = "") -> Iterator[tuple[str, Entry]]:
        for entry in self._store.list(self.at(below) if below else self.uri):
            yield entry.uri.removeprefix(self.uri).lstrip("/"), entry

    def put_visible(self, relative: str, data: bytes, *, hdfs: HdfsOptions | None) -> None:
        """Writes a small visible file."""
        self._store.put(self.at(relative), data, hdfs=hdfs)

    def put_hidden(self, relative: str, data: bytes) -> None:
        """Writes a small hidden file."""
        self._store.put(self.at(relative), data)

    def put_file(self, relative: str, pieces: Iterable[bytes], *, size: int) -> None:
        """Writes a hidden file of any size. A small file is written in a single call."""
        if size <= _AT_ONCE:
            self._store.put(self.at(relative), b"".join(pieces))
        else:
            write_file(self._store, self.at(relative), pieces)

    def stream(self, relative: str, offset: int, length: int) -> Iterator[bytes]:
        """Yields `length` bytes of a file from `offset`, or fewer if the file ends earlier. Raises NotFound."""
        with self._store.open(self.at(relative)) as source:
            if offset < source.size:
                yield from source.stream(offset, min(length, source.size - offset))

    def delete(self, relative: str) -> None:
        """Deletes a file."""
        self._store.delete(self.at(relative))

    def begin(self) -> None:
        """Makes the folder writable. Call this method before the first change."""
        if isinstance(self._store, WritesAside):
            self._store.begin(self.uri)

    def publish(self) -> None:
        """Makes the folder visible to everyone, if the data set is finished or has been removed."""
        if isinstance(self._store, WritesAside):
            self._store.publish(self.uri)

    def abandon(self, is_ours: Callable[[], bool]) -> None:
        """If `is_ours` returns True, discards everything in the folder that hasn't been published."""
        if isinstance(self._store, WritesAside):
            self._store.abandon(self.uri, is_ours)

    def sweep(self) -> list[str]:
        """Removes leftovers of unfinished uploads. Returns a warning if the store doesn't permit the removal."""
        try:
            swept = self._store.sweep(self.uri)
        except (NotPermitted, NotFound) as exc:
            return [
                (
                    f"{exc} No job needs this permission. "
                    "If you don't grant it, give the bucket a lifecycle rule that removes unfinished uploads."
                )
            ]
        if swept:
            logger.info("removed leftovers of %d unfinished upload%s below %s", swept, "s" * (swept != 1), self.uri)
        return []
