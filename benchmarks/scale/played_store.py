"""The simulated store: an object store in this process. It computes the files that it serves, keeps written objects on the disk, and counts
the requests that a real object store would get."""

# The public methods of the store are documented on the classes `Store`, `Upload` and `Input`, in `dataprep_converter/stores/__init__.py`.

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import Entry, PinnedInput, Store, StoreSettings, Upload
from dataprep_converter.stores.files import FileStore
from dataprep_converter.stores.objects.parts import PART_BYTES

SCHEME: Final = "played://"
OUTPUT: Final = f"{SCHEME}out"
"""The URI of the folder with the written objects."""
KEYS_OF_A_PAGE: Final = 1000
"""An object store lists at most this many keys in one response."""
_PIECE: Final = 4 << 20


class ComputedFiles(Protocol):
    """Files that are computed."""

    def entries(self) -> Iterator[Entry]:
        """Yields all files in the order of their names."""
        ...

    def entry(self, uri: str) -> Entry | None:
        """Returns one file, or None if there is no such file."""
        ...

    def read(self, uri: str, offset: int, length: int) -> bytes:
        """Returns bytes of a file."""
        ...


class Requests:
    """Counts requests by kind: `list` (pages), `head`, `get` and `put`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def add(self, kind: str, count: int = 1) -> None:
        """Counts requests."""
        with self._lock:
            self._counts[kind] += count

    def clear(self) -> None:
        """Sets all counts to zero."""
        with self._lock:
            self._counts.clear()

    def counts(self) -> dict[str, float]:
        """Returns the number of requests of each kind, and their sum as `all`."""
        with self._lock:
            return {**{kind: float(self._counts[kind]) for kind in ("list", "head", "get", "put")}, "all": float(self._counts.total())}


class PlayedStore:
    """See the module's docstring."""

    def __init__(self, disk: Path, computed: Mapping[str, ComputedFiles]) -> None:
        """Written objects are files in the folder `disk`. `computed` maps a prefix of URIs to the files whose URIs begin with it."""
        self.requests = Requests()
        self._disk = disk
        self._computed = dict(computed)
        self._files = FileStore(StoreSettings(uri_prefix=""))

    def compute(self, computed: Mapping[str, ComputedFiles]) -> None:
        """Adds computed files, by the prefixes of their URIs."""
        self._computed |= computed

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        folder = f"{uri.rstrip('/')}/"
        if not recursive:
            self.requests.add("list")
            yield from (entry for entry in self._written(folder) if "/" not in entry.uri[len(folder) :])
            return
        listings = [_below(folder, prefix, files) for prefix, files in self._computed.items() if _overlap(prefix, folder)]
        if folder.startswith(f"{OUTPUT}/"):
            listings.append(self._written(folder))
        number = 0
        for number, entry in enumerate(listings[0] if len(listings) == 1 else heapq.merge(*listings, key=lambda entry: entry.uri), 1):
            if number % KEYS_OF_A_PAGE == 1:
                self.requests.add("list")
            yield entry
        if number == 0:
            self.requests.add("list")

    def stat(self, uri: str) -> Entry | None:
        self.requests.add("head")
        return self._entry(uri)

    def open(self, uri: str) -> PinnedInput:
        entry = self.stat(uri)
        if entry is None:
            raise NotFound(f"{uri} does not exist.", uri=uri)
        return _Input(self, entry)

    def get(self, uri: str) -> bytes:
        self.requests.add("get")
        entry = self._entry(uri)
        if entry is None:
            raise NotFound(f"{uri} does not exist.", uri=uri)
        return self.read(uri, 0, entry.size)

    def read(self, uri: str, offset: int, length: int) -> bytes:
        """Returns bytes of an object. The caller counts the request."""
        computed = self._computed_at(uri)
        if computed is not None:
            return computed.read(uri, offset, length)
        with self._files.open(self._path(uri)) as source:
            return source.read_at(offset, length)

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> Upload:  # noqa: ARG002 - see Store
        return _Upload(self, self._files.create(self._path(uri)))

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:  # noqa: ARG002 - see Store
        self.requests.add("put")
        return self._named(self._files.put(self._path(uri), data, replace=replace))

    def delete(self, uri: str) -> None:
        self.requests.add("put")
        self._files.delete(self._path(uri))

    def sweep(self, uri: str) -> int:  # noqa: ARG002 - see Store
        # A real store lists its unfinished uploads.
        self.requests.add("list")
        return 0

    def _entry(self, uri: str) -> Entry | None:
        computed = self._computed_at(uri)
        if computed is not None or not uri.startswith(f"{OUTPUT}/"):
            return computed.entry(uri) if computed is not None else None
        written = self._files.stat(self._path(uri))
        return self._named(written) if written is not None else None

    def _computed_at(self, uri: str) -> ComputedFiles | None:
        return next((files for prefix, files in self._computed.items() if uri.startswith(prefix)), None)

    def _written(self, folder: str) -> Iterator[Entry]:
        return iter(sorted(map(self._named, self._files.list(self._path(folder))), key=lambda entry: entry.uri))

    def _path(self, uri: str) -> str:
        return str(self._disk / uri.removeprefix(OUTPUT).strip("/"))

    def _named(self, entry: Entry) -> Entry:
        return Entry(f"{OUTPUT}{entry.uri.removeprefix(str(self._disk))}", entry.size, entry.pin)

    def written(self, entry: Entry, parts: int) -> Entry:
        """Counts the requests of a finished upload.

        An object of one part takes one request. Any other object takes one request for each part, and two to begin and complete the upload.
        """
        self.requests.add("put", 1 if parts == 1 else parts + 2)
        return self._named(entry)


def _below(folder: str, prefix: str, files: ComputedFiles) -> Iterator[Entry]:
    entries = files.entries()
    return entries if prefix.startswith(folder) else (entry for entry in entries if entry.uri.startswith(folder))


def _overlap(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


class PlayedAccess(Access):
    """Returns the simulated store for its URIs."""

    def __init__(self, played: PlayedStore, settings: Sequence[StoreSettings] = ()) -> None:
        super().__init__(settings)
        self.played = played

    def store(self, uri: str) -> Store:
        """See `Access`."""
        return self.played if uri.startswith(SCHEME) else super().store(uri)


@dataclass(frozen=True)
class _Input(Closeable):
    store: PlayedStore
    entry: Entry

    @property
    def size(self) -> int:
        return self.entry.size

    @property
    def pin(self) -> str:
        return self.entry.pin

    def read_at(self, offset: int, length: int) -> bytes:
        self.store.requests.add("get")
        return self.store.read(self.entry.uri, offset, max(0, min(length, self.size - offset)))

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        self.store.requests.add("get")
        end = self.size if length is None else min(self.size, offset + length)
        for start in range(offset, end, _PIECE):
            yield self.store.read(self.entry.uri, start, min(_PIECE, end - start))

    def stream_ahead(self, offset: int = 0) -> Iterator[bytes]:
        for start in range(offset, self.size, _PIECE):
            yield self.read_at(start, _PIECE)

    def close(self) -> None:
        """Does nothing, because nothing stays open."""


class _Upload:
    blocks = False

    def __init__(self, store: PlayedStore, upload: Upload) -> None:
        self._store, self._upload = store, upload
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._upload.write(data)
        self._size += len(data)

    def stage(self) -> None:
        self._upload.stage()

    def commit(self, *, replace: bool) -> Entry:
        return self._store.written(self._upload.commit(replace=replace), max(1, -(-self._size // PART_BYTES)))

    def abort(self) -> None:
        self._upload.abort()
