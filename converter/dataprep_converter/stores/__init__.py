"""Stores: one small interface over the clients of HDFS, object stores and file systems. Each store is implemented in its own file.

Stores translate every error of a client into one of the converter's errors (`errors.py`). An object becomes visible under its name only
through `Upload.commit`, and `abort` leaves nothing behind. Objects are addressed by URI.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, runtime_checkable
from urllib.parse import urlsplit

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.runtime.request_budget import RequestBudget

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


_MOST_FILES: Final = 1024


@dataclass(frozen=True, slots=True)
class Details:
    """A file's attributes for display, in addition to its size. An attribute that the store doesn't provide is None."""

    modified: float
    """Seconds since the epoch."""
    mode: int | None = None
    """Permission bits."""
    replication: int | None = None
    owner: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class Entry:
    """One file or object."""

    uri: str
    size: int
    pin: str
    """Identifies this version of the object: the ETag, or size and modification time in nanoseconds."""
    details: Details | None = field(default=None, compare=False, repr=False)
    """Always set by listings. Other calls set the details only if the store's response contains them anyway."""

    @property
    def has_version(self) -> bool:
        """Whether the pin distinguishes versions of the same size. If a server reports only the size, a pin looks like `12-`."""
        return self.pin != f"{self.size}-"


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """One or more files in one folder: their names, sizes and pins in separate lists.

    With millions of files, building an `Entry` for each file would take most of the listing's time.
    """

    folder: str
    """URI of the folder, with a slash at its end."""
    names: Sequence[str]
    sizes: Sequence[int]
    pins: Sequence[str]


@dataclass(frozen=True)
class StoreSettings:
    """How to reach one store: an entry of `spec.stores`, the contents of its Secret and ConfigMap, and defaults from the environment."""

    uri_prefix: str
    endpoint: str | None = None
    tunnel_endpoint: str | None = None
    """The endpoint of MaxCompute's Tunnel service."""
    region: str | None = None
    path_style: bool = False
    user: str | None = None
    anonymous: bool = False
    """Whether requests are sent without credentials."""
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys `accessKeyId`, `accessKeySecret`, `securityToken`. Never logged."""
    hadoop_conf: str | None = None
    """Folder with core-site.xml and hdfs-site.xml, and with krb5.conf if Kerberos needs one."""
    principal: str | None = None
    """The Kerberos principal, for HDFS."""
    keytab: str | None = None
    """The file with the principal's keys."""
    server_side_encryption: str | None = None
    """`AES256` or `KMS`."""
    kms_key_id: str | None = None
    requests_per_second: float | None = None
    """The limit on requests per second, for all processes of the job together."""
    entry: str = ""
    """The entry's index in `spec.stores`, as text. Empty if the settings don't come from `spec.stores`."""
    budget: RequestBudget | None = field(default=None, compare=False, repr=False)
    """The budget for this process's requests. Set by `Access`; a store without a budget creates its own."""
    signed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Maps each web address without its signature to the signed address in the job's spec. Only unsigned addresses are stored."""
    commits: MutableMapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Maps each branch or tag on the Hub (`hf://datasets/org/name@main`) to the commit that is read. A store adds missing branches and
    tags."""
    outputs: Collection[str] = field(default=(), compare=False, repr=False)
    """The job's output folders, without trailing slashes. Stores that write folders aside (`WritesAside`) need them."""


class Upload(Protocol):
    """An upload of one object. Either `commit` or `abort` ends the upload. An upload that is never ended publishes nothing."""

    blocks: bool
    """Whether `write` can block on a disk or a server, in a call that signals can't interrupt."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Adds bytes. The caller may reuse the buffer once this call returns."""
        ...

    def stage(self) -> None:
        """Sends all bytes to the store, without making the object visible. `write` must not be called afterwards.

        If `Store.sweep` is called after this call, `commit` raises Unreachable. On Azure, where a sweep can't discard uploads, `commit`
        raises Unreachable if the object has changed since this call.
        """
        ...

    def commit(self, *, replace: bool) -> Entry:
        """Makes the complete object visible under its name and returns its entry in the store.

        With `replace=False`, an existing object is left unchanged and AlreadyExists is raised. The upload is then still open, so that
        `commit(replace=True)` or `abort` can follow.
        """
        ...

    def abort(self) -> None:
        """Discards the upload. Never raises.

        A signal can interrupt this method, and cleanup at exit then calls it again. So `abort` must mark the upload as ended only in its
        last step.
        """
        ...


@runtime_checkable
class OnDisk(Protocol):
    """An Upload to a local file, whose descriptor can be passed to other code for writing."""

    def write_with(self, put: Callable[[int], int]) -> None:
        """Calls `put` with the file's descriptor.

        `put` writes bytes to the file and returns how many it wrote. OSErrors raised by `put` are handled like those raised by `write`.
        """
        ...


class Input(Protocol):
    """A ranged reader of one object."""

    @property
    def size(self) -> int:
        """The object's size in bytes."""
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset`, or fewer if the object ends earlier."""
        ...

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yields the bytes from `offset` in order. The store chooses the size of the pieces (about 1 to 8 MiB)."""
        ...

    def close(self) -> None:
        """Closes the input. May be called more than once."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


SMALL_PIECE: Final = 16 << 10
"""Many pieces of up to this size are read in a single call. Each larger piece is read in its own call."""


class ReadsAt(Protocol):
    """Anything that can be read at any offset."""

    def read_at(self, offset: int, length: int) -> bytes:
        """See `Input`."""
        ...


@runtime_checkable
class ReadsEach(Protocol):
    """An Input that can do many small reads in one call, which costs less than one call for each read."""

    def read_each(self, offsets: "npt.NDArray[np.int64]", length: int) -> bytes:
        """Returns the results of `read_at` for all offsets, concatenated. All the pieces must be within the object."""
        ...


def read_each(source: ReadsAt, offsets: "npt.NDArray[np.int64]", length: int) -> bytes:
    """Returns `length` bytes from each offset, concatenated."""
    if isinstance(source, ReadsEach):
        return source.read_each(offsets, length)
    return one_by_one(source, offsets, length)


def one_by_one(source: ReadsAt, offsets: "npt.NDArray[np.int64]", length: int) -> bytes:
    """Does what `read_each` does, with one call of `read_at` for each offset."""
    return b"".join([source.read_at(offset, length) for offset in offsets.tolist()])


@runtime_checkable
class StreamsAhead(Protocol):
    """An Input that reads faster over several connections than over one."""

    def stream_ahead(self, offset: int = 0) -> Iterator[bytes]:
        """Yields the bytes from `offset` to the end, in order, while several connections read ahead."""
        ...


def stream_ahead(source: Input, offset: int = 0) -> Iterator[bytes]:
    """Yields the bytes from `offset` to the end, in order, over several connections if that is faster."""
    return source.stream_ahead(offset) if isinstance(source, StreamsAhead) else source.stream(offset)


class PinnedInput(Input, Protocol):
    """An Input that knows the pin of the object version that it reads. Returned by a store's `open`."""

    @property
    def pin(self) -> str | None:
        """The object's pin (see `Entry`). None if only the store's `stat` can return it."""
        ...


class Store(Protocol):
    """A client of one store. The client belongs to one process and must not be used after a fork."""

    def __init__(self, settings: StoreSettings) -> None: ...

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        """Yields the files below the folder `uri`, in UTF-8 byte order of their URIs. Yields nothing if there is no such folder.

        Named temporary files of unfinished uploads are listed like any other file. Callers skip names that begin with `_` or `.`.
        """
        ...

    def stat(self, uri: str) -> Entry | None:
        """Returns the entry of the file at `uri`, or None if `uri` doesn't exist or is a folder."""
        ...

    def open(self, uri: str) -> PinnedInput:
        """Opens an object for reading. Raises NotFound."""
        ...

    def get(self, uri: str) -> bytes:
        """Returns the content of a small object. Raises NotFound."""
        ...

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> Upload:
        """Starts an upload and creates missing parent folders."""
        ...

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:
        """Writes a small object atomically, in one call.

        With `replace=False`, AlreadyExists is raised if the object exists. If several callers write the same object with `replace=False`,
        exactly one succeeds.
        """
        ...

    def delete(self, uri: str) -> None:
        """Removes one file. Does nothing if the file is absent."""
        ...

    def sweep(self, uri: str) -> int:
        """Removes all temporary files and unfinished multipart uploads below the folder `uri`, and returns their number.

        Uploads that are still in progress are removed as well: we can't compute an upload's age, because our clock may differ from the
        store's. Raises NotPermitted if we lack a permission that only this removal needs; the error names the permission, and the files and
        uploads that remain.
        """
        ...


@runtime_checkable
class MovesFiles(Protocol):
    """A store with real folders, in which files can be moved. A move fails if the target's folder doesn't exist."""

    def stat(self, uri: str) -> Entry | None:
        """See `Store`."""
        ...

    def make_folder(self, uri: str) -> None:
        """Creates a folder and its missing parents. Does nothing if the folder exists."""
        ...

    def move(self, uri: str, target: str) -> None:
        """Renames a file to a name that no file has yet. Raises NotFound if the file or the target's folder is absent."""
        ...

    def remove_folder(self, uri: str) -> None:
        """Removes a folder with everything in it. Does nothing if the folder is absent."""
        ...


@runtime_checkable
class CopiesObjects(Protocol):
    """A store that can copy an object by itself, so that the object's bytes don't pass through this process."""

    def stage_copy(self, source: Entry, uri: str) -> Upload | None:
        """Returns a staged upload (see `Upload.stage`) to `uri` with the bytes of `source`, an object in the same bucket.

        Returns None if this server doesn't support such copies. Raises InputChanged if the object's pin differs from the pin of `source`,
        and NotFound if the object is absent.
        """
        ...


@runtime_checkable
class SyncsFolders(Protocol):
    """A store with folders in which a renamed file becomes durable only when its folder is synced."""

    def sync_folder(self, uri: str) -> None:
        """Makes the names of the files in a folder durable."""
        ...


@runtime_checkable
class WritesAside(Protocol):
    """A store on which every change is visible immediately. So an unfinished folder is written to another place.

    The finished folder is published as a whole. Until then, only the job's processes see the new folder (`StoreSettings.outputs`).
    Everybody else sees the folder that was published last.
    """

    def check_rights(self, uri: str) -> None:
        """Raises NotPermitted, BadCredentials or NotFound if the folder `uri` can't be written and published."""
        ...

    def begin(self, uri: str) -> None:
        """Makes the folder `uri` writable. Does nothing if it is writable already. A folder is never writable after `publish`."""
        ...

    def publish(self, uri: str) -> None:
        """Publishes the folder `uri` if its data set is finished or was removed. Does nothing if there is nothing to publish.

        Raises OutputExists if others have changed the published folder since `begin`.
        """
        ...

    def abandon(self, uri: str, is_ours: Callable[[], bool]) -> None:
        """If `is_ours` returns True, discards everything that was written to the folder `uri` but hasn't been published."""
        ...

    def remove_together(self, uris: Sequence[str], check: Callable[[], None]) -> None:
        """Calls `check` and then removes files, all of them or none. Raises Unreachable if another run writes OWNER in the meantime."""
        ...


@runtime_checkable
class HasWarnings(Protocol):
    """A store that can check its settings and warn users about them."""

    def warnings(self, uri: str) -> Sequence[str]:
        """Returns the warnings about the output folder `uri`, one sentence each.

        Settings that we lack permission to read cause no warnings.
        """
        ...


@runtime_checkable
class ListsFolders(Protocol):
    """A store that lists files faster folder by folder than one by one."""

    def list_folders(self, uri: str, *, recursive: bool = True) -> Iterator[FolderFiles]:
        """Yields the same files as `list`, in the same order. Each item holds some files of one folder."""
        ...


def folders_of(store: Store, uri: str, *, recursive: bool = True) -> Iterator[FolderFiles]:
    """Yields the same files as `store.list`, in the same order. Each item holds some files of one folder."""
    if isinstance(store, ListsFolders):
        yield from store.list_folders(uri, recursive=recursive)
        return
    for folder, entries in groupby(store.list(uri, recursive=recursive), key=lambda entry: entry.uri[: entry.uri.rfind("/") + 1]):
        while chunk := list(islice(entries, _MOST_FILES)):
            names = [entry.uri[len(folder) :] for entry in chunk]
            yield FolderFiles(folder, names, [entry.size for entry in chunk], [entry.pin for entry in chunk])


@runtime_checkable
class ReadsFiles(Protocol):
    """A store that reads many small files faster in one call than one by one."""

    def read_files(
        self, uris: Sequence[str], sizes: Sequence[int], pins: Sequence[str], room: "npt.NDArray[np.uint8]"
    ) -> Sequence[float | None]:
        """Reads complete files into the buffer `room`, one after another, and returns the seconds that each file took.

        If a file can't be read or no longer matches its pin, returns None instead of the seconds. The file's part of the buffer is then
        undefined. Open such a file separately to get its error or, after a retry, its data.
        """
        ...


def scheme_of(uri: str) -> str:
    """Returns the scheme of a URI, `hdfs` for `hdfs://nn/x`, and the empty string for a path. Raises BadSpec for an invalid URI."""
    try:
        return urlsplit(uri).scheme.lower() if "://" in uri else ""
    except ValueError as exc:
        # Don't show the complete URI, because it may contain a password.
        raise BadSpec(f"{uri.partition('://')[0]}://…: the text after :// is not a host.") from exc
