"""A cache of a reader's most recently used files.

Each file is opened once and checked against its pin, and the bytes read from it are counted. When a file is closed, the objects that read
from the file are closed too.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.lru import LruCache
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.metered import ByteCounter, MeteredInput
from dataprep_converter.inputs.pinned import open_pinned
from dataprep_converter.stores import Input

KEPT_FILES: Final = 16

V = TypeVar("V")


class OpenFiles(Closeable):
    """A cache of at most `KEPT_FILES` open files, keyed by URI."""

    def __init__(self, access: Access) -> None:
        self.count = ByteCounter()
        """The number of bytes read from all files."""
        self._access = access
        self._views: list[LruCache[str, Any]] = []
        self._files: LruCache[str, Input] = LruCache(KEPT_FILES, evicted=self._close_file)

    def pinned(self, uri: str, pin: str) -> Input:
        """The open file at `uri`. Raises InputChanged if the file has changed since planning."""
        return self.get(uri, lambda: open_pinned(self._access.store(uri), uri, pin))

    def get(self, uri: str, open_file: Callable[[], Input]) -> Input:
        """The open file at `uri`. If the file isn't open yet, calls `open_file`."""
        return self._files.get(uri, lambda: MeteredInput(open_file(), self.count))

    def views(self, most: int = KEPT_FILES, *, close: Callable[[V], None] = lambda _: None) -> LruCache[str, V]:
        """A new cache of objects that read from the files. The cache's keys are URIs. Before a file is closed, the object that reads from
        the file is removed from the cache and passed to `close`."""
        views: LruCache[str, V] = LruCache(most, evicted=lambda _uri, view: close(view))
        self._views.append(views)
        return views

    def close(self) -> None:
        """Closes all files."""
        self._files.clear()

    def _close_file(self, uri: str, file: Input) -> None:
        for views in self._views:
            views.discard(uri)
        file.close()
