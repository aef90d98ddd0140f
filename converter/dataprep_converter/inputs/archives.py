"""Files within archives as if they were in a store: `s3://bucket/photos.zip!/train/cat/1.jpg`. Read-only, streamed, never unpacked.

A member has the pin of its archive. Members of zip files and of plain tar files are ranges of the archive. A gzipped tar file is one stream: read in
order, it is read once; going back further than a fixed distance makes an uncompressed copy in a temporary file without a name.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Final, Protocol

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadSpec, NotFound
from dataprep_converter.core.lru import LruCache
from dataprep_converter.inputs import zips
from dataprep_converter.inputs.archive_index import KEPT_BYTES, Index, Place, TarMember, index_of
from dataprep_converter.inputs.archive_uris import divided
from dataprep_converter.inputs.streamed import StreamInput, gunzipped
from dataprep_converter.inputs.zips import StoredMember
from dataprep_converter.stores import Details, Entry, Input, PinnedInput, Store, StoreSettings
from dataprep_converter.stores.read_only import ReadOnlyStore

_KEPT_ARCHIVES: Final = 8
_EXPECTED: Final = "a member of an archive is named <archive>.zip!/<path>, and .tar, .tar.gz and .tgz likewise"


class _Bytes(Protocol):
    """A source of a member's bytes."""

    def read_at(self, offset: int, length: int) -> bytes: ...

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]: ...

    def close(self) -> None: ...


class ArchiveStore(ReadOnlyStore):
    """A `Store` of members. The indexes of the most recently used archives are cached."""

    def __init__(self, store_of: Callable[[str], Store]) -> None:
        """`store_of` gives the store that holds an archive."""
        self.settings = StoreSettings(uri_prefix="")
        self._store_of = store_of
        self._lock = Lock()
        self._archives: LruCache[tuple[str, str], _Archive] = LruCache(_KEPT_ARCHIVES)

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        """Members below a folder of the archive, or all of it."""
        archive_uri, folder = _divided(uri)
        outer = self._store_of(archive_uri).stat(archive_uri)
        if outer is None:
            return
        prefix = folder.strip("/") + "/" if folder.strip("/") else ""
        for path, place in self._archive(archive_uri, outer.pin).index.files.items():
            if path.startswith(prefix) and (recursive or "/" not in path[len(prefix) :]):
                yield _entry(archive_uri, path, place, outer)

    def stat(self, uri: str) -> Entry | None:
        """The member, with the archive's pin."""
        archive_uri, path = _divided(uri)
        outer = self._store_of(archive_uri).stat(archive_uri)
        if outer is None:
            return None
        place = self._archive(archive_uri, outer.pin).index.files.get(path)
        return _entry(archive_uri, path, place, outer) if place is not None else None

    def open(self, uri: str) -> PinnedInput:
        """The member's contents."""
        archive_uri, path = _divided(uri)
        source = self._store_of(archive_uri).open(archive_uri)
        try:
            pin = source.pin or _found(self._store_of(archive_uri).stat(archive_uri), archive_uri).pin
            archive = self._archive(archive_uri, pin)
            place = archive.index.files.get(path)
            if place is None:
                raise NotFound(f"{uri} does not exist: the archive has no such member.", uri=uri)
            return archive.member(source, place, pin)
        except BaseException:
            source.close()
            raise

    def refusal(self, uri: str) -> BadSpec:
        """Archives are only read."""
        return BadSpec(f"{uri} lies within an archive; archives are only read.", uri=uri)

    def _archive(self, uri: str, pin: str) -> "_Archive":
        # Under the lock, so that concurrent threads make only one index.
        with self._lock:
            return self._archives.get((uri, pin), lambda: _Archive(uri, lambda: self._store_of(uri).open(uri)))


class _Archive:
    """One archive: its index, and, when it is a gzipped tar file, its one stream."""

    def __init__(self, uri: str, open_again: Callable[[], PinnedInput]) -> None:
        self._uri = uri
        self._open_again = open_again
        self._lock = Lock()
        self._contents: StreamInput | None = None
        with open_again() as source:
            self.index: Index = index_of(source, uri)

    def member(self, source: PinnedInput, place: Place, pin: str) -> "_Member":
        """The contents of a member, out of the archive opened as `source`, which is closed with it."""
        if not isinstance(place, TarMember):
            if place.deflated:
                contents = zips.inflated(source, place, self._uri, kept_bytes=0)
                return _Member(contents, 0, place.size, pin, closed=[contents, source])
            return _Member(StoredMember(source, place, self._uri), 0, place.size, pin, closed=[source])
        if self.index.contents is None:
            return _Member(source, place.offset, place.size, pin, closed=[source])
        source.close()
        return _Member(self._stream(self.index.contents), place.offset, place.size, pin)

    def _stream(self, size: int) -> StreamInput:
        with self._lock:
            if self._contents is None:
                source = self._open_again()
                contents = gunzipped(source, self._uri, size=size, kept_bytes=KEPT_BYTES)
                contents.owned.callback(source.close)
                # Kept for the next member by a store, which is never closed, and perhaps longer by the members that read it.
                weakref.finalize(contents, contents.owned.close)
                self._contents = contents
            return self._contents


class _Member(Closeable):
    """A range of an archive or of its contents, as the Input of one member."""

    def __init__(self, source: _Bytes, offset: int, size: int, pin: str, *, closed: Sequence[Input] = ()) -> None:
        self._source = source
        self._offset = offset
        self._size = size
        self._closed = closed
        self.pin: str | None = pin

    @property
    def size(self) -> int:
        """Bytes of the member."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, fewer only at the end."""
        wanted = max(0, min(length, self._size - offset))
        return self._source.read_at(self._offset + offset, wanted) if wanted else b""

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `offset` in order."""
        left = max(0, self._size - offset)
        return self._source.stream(self._offset + offset, left if length is None else min(length, left))

    def close(self) -> None:
        """Ends reading."""
        for source in self._closed:
            source.close()


def _divided(uri: str) -> tuple[str, str]:
    """(archive, path within it). Raises BadSpec if the URI names none."""
    found = divided(uri)
    if found is None:
        raise BadSpec(f"{uri}: {_EXPECTED}; a glob may be inside an archive, but not name archives.", uri=uri)
    return found


def _entry(archive_uri: str, path: str, place: Place, outer: Entry) -> Entry:
    modified = outer.details.modified if outer.details is not None else 0.0
    return Entry(uri=f"{archive_uri}!/{path}", size=place.size, pin=outer.pin, details=Details(modified=modified))


def _found(entry: Entry | None, uri: str) -> Entry:
    if entry is None:
        raise NotFound(f"{uri} does not exist.", uri=uri)
    return entry
