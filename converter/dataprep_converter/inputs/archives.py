"""A read-only store of the files within archives, such as `s3://bucket/photos.zip!/train/cat/1.jpg`. Archives are streamed, never unpacked.

A member's pin is its archive's pin. Members of zip files and of uncompressed tar files are ranges of the archive. A compressed tar file is
one stream. If the archive's members are read in order, the stream is read only once. The first read that goes back further than a fixed
distance copies the uncompressed contents to an unnamed temporary file.
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
from dataprep_converter.inputs.archive_uris import split_archive_uri
from dataprep_converter.inputs.compressions import Compression
from dataprep_converter.inputs.streamed import StreamInput, unpacked
from dataprep_converter.inputs.zips import StoredMember
from dataprep_converter.stores import Details, Entry, Input, PinnedInput, Store, StoreSettings
from dataprep_converter.stores.read_only import ReadOnlyStore

_KEPT_ARCHIVES: Final = 8
_EXPECTED: Final = "expected <archive>!/<path>, where <archive> ends in .zip, .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz, .tar.zst or .tar.lz4"


class _Bytes(Protocol):
    """An input that contains a member's bytes."""

    def read_at(self, offset: int, length: int) -> bytes: ...

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]: ...

    def close(self) -> None: ...


class ArchiveStore(ReadOnlyStore):
    """A `Store` of the members of archives. The indexes of the most recently used archives are cached."""

    def __init__(self, store_of: Callable[[str], Store]) -> None:
        """`store_of` returns the store that contains an archive."""
        self.settings = StoreSettings(uri_prefix="")
        self._store_of = store_of
        self._lock = Lock()
        self._archives: LruCache[tuple[str, str], _Archive] = LruCache(_KEPT_ARCHIVES)

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        """Yields the members below a folder of the archive, or all its members."""
        archive_uri, folder = _split(uri)
        outer = self._store_of(archive_uri).stat(archive_uri)
        if outer is None:
            return
        prefix = folder.strip("/") + "/" if folder.strip("/") else ""
        for path, place in self._archive(archive_uri, outer.pin).index.files.items():
            if path.startswith(prefix) and (recursive or "/" not in path[len(prefix) :]):
                yield _entry(archive_uri, path, place, outer)

    def stat(self, uri: str) -> Entry | None:
        """Returns the member's entry, with the archive's pin."""
        archive_uri, path = _split(uri)
        outer = self._store_of(archive_uri).stat(archive_uri)
        if outer is None:
            return None
        place = self._archive(archive_uri, outer.pin).index.files.get(path)
        return _entry(archive_uri, path, place, outer) if place is not None else None

    def open(self, uri: str) -> PinnedInput:
        """Opens the member. Raises NotFound."""
        archive_uri, path = _split(uri)
        source = self._store_of(archive_uri).open(archive_uri)
        try:
            pin = source.pin or _require_entry(self._store_of(archive_uri).stat(archive_uri), archive_uri).pin
            archive = self._archive(archive_uri, pin)
            place = archive.index.files.get(path)
            if place is None:
                raise NotFound(f"{uri} does not exist: the archive has no such member.", uri=uri)
            return archive.member(source, place, pin)
        except BaseException:
            source.close()
            raise

    def refusal(self, uri: str) -> BadSpec:
        """Returns the error for a write: archives are read-only."""
        return BadSpec(f"{uri} is inside an archive; archives are read-only.", uri=uri)

    def _archive(self, uri: str, pin: str) -> "_Archive":
        # Hold the lock, so that concurrent threads create only one index.
        with self._lock:
            return self._archives.get((uri, pin), lambda: _Archive(uri, lambda: self._store_of(uri).open(uri)))


class _Archive:
    """One archive: its index and, for a compressed tar file, the single stream of its contents that all members share."""

    def __init__(self, uri: str, open_again: Callable[[], PinnedInput]) -> None:
        self._uri = uri
        self._open_again = open_again
        self._lock = Lock()
        self._contents: StreamInput | None = None
        with open_again() as source:
            self.index: Index = index_of(source, uri)

    def member(self, source: PinnedInput, place: Place, pin: str) -> "_Member":
        """Returns an Input of a member's contents.

        `source` is the opened archive. The archive is closed together with the Input, or earlier if the Input doesn't need it.
        """
        if not isinstance(place, TarMember):
            if place.deflated:
                contents = zips.inflated(source, place, self._uri, kept_bytes=0)
                return _Member(contents, 0, place.size, pin, closed=[contents, source])
            return _Member(StoredMember(source, place, self._uri), 0, place.size, pin, closed=[source])
        if self.index.contents is None:
            return _Member(source, place.offset, place.size, pin, closed=[source])
        source.close()
        return _Member(self._stream(*self.index.contents), place.offset, place.size, pin)

    def _stream(self, size: int, compression: Compression) -> StreamInput:
        with self._lock:
            if self._contents is None:
                source = self._open_again()
                contents = unpacked(source, self._uri, compression=compression, size=size, kept_bytes=KEPT_BYTES)
                contents.owned.callback(source.close)
                # The stream stays open, because the next member reads from it too. A store has no `close` method, so close the stream's
                # source as soon as neither the store nor any member refers to the stream.
                weakref.finalize(contents, contents.owned.close)
                self._contents = contents
            return self._contents


class _Member(Closeable):
    """The Input of one member: a range of the archive or of its uncompressed contents."""

    def __init__(self, source: _Bytes, offset: int, size: int, pin: str, *, closed: Sequence[Input] = ()) -> None:
        self._source = source
        self._offset = offset
        self._size = size
        self._closed = closed
        self.pin: str | None = pin

    @property
    def size(self) -> int:
        """The member's size in bytes."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Returns exactly `length` bytes from `offset`, or fewer at the end."""
        count = max(0, min(length, self._size - offset))
        return self._source.read_at(self._offset + offset, count) if count else b""

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Returns an iterator over the bytes from `offset`, in order."""
        remaining = max(0, self._size - offset)
        return self._source.stream(self._offset + offset, remaining if length is None else min(length, remaining))

    def close(self) -> None:
        """Closes the inputs that only this member uses."""
        for source in self._closed:
            source.close()


def _split(uri: str) -> tuple[str, str]:
    """Returns the pair (archive, path within it). Raises BadSpec if the URI names no archive."""
    parts = split_archive_uri(uri)
    if parts is None:
        raise BadSpec(f"{uri}: {_EXPECTED}; a glob can match members of an archive, but not archives themselves.", uri=uri)
    return parts


def _entry(archive_uri: str, path: str, place: Place, outer: Entry) -> Entry:
    modified = outer.details.modified if outer.details is not None else 0.0
    return Entry(uri=f"{archive_uri}!/{path}", size=place.size, pin=outer.pin, details=Details(modified=modified))


def _require_entry(entry: Entry | None, uri: str) -> Entry:
    if entry is None:
        raise NotFound(f"{uri} does not exist.", uri=uri)
    return entry
