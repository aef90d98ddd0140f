"""Stores: one small interface over the clients of HDFS, object stores and file systems; one file per store.

Every foreign error is translated at this border (see `errors.py`). Nothing written is visible under its name before
`Upload.commit` returns, and `abort` leaves nothing. Objects are addressed by URI.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, runtime_checkable
from urllib.parse import urlsplit

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import BadSpec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


_MOST_FILES: Final = 1024


@dataclass(frozen=True, slots=True)
class Details:
    """What people see of a file beside its size; None where the store doesn't know."""

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
    """Equal as long as the object is the same: the etag, or size and modification time in nanoseconds."""
    details: Details | None = field(default=None, compare=False, repr=False)
    """Always set in a listing; elsewhere only if the store returns it in the same answer."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """One or more files of one folder, in columns: for millions of files, building an `Entry` each would dominate the listing's time."""

    folder: str
    """URI of the folder, with a slash at its end."""
    names: Sequence[str]
    sizes: Sequence[int]
    pins: Sequence[str]


@dataclass(frozen=True)
class StoreSettings:
    """How one store is reached: an entry of `spec.stores` with its Secret and ConfigMap read, and the environment's defaults."""

    uri_prefix: str
    endpoint: str | None = None
    tunnel_endpoint: str | None = None
    """Of MaxCompute."""
    region: str | None = None
    path_style: bool = False
    user: str | None = None
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys `accessKeyId`, `accessKeySecret`, `securityToken`. Never logged."""
    hadoop_conf: str | None = None
    """Folder with core-site.xml and hdfs-site.xml, and with krb5.conf where Kerberos needs one."""
    principal: str | None = None
    """Of Kerberos (HDFS)."""
    keytab: str | None = None
    """The file with the principal's keys."""
    server_side_encryption: str | None = None
    """`AES256` or `KMS`."""
    kms_key_id: str | None = None
    signed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Web addresses without their signatures, as stored, and with them, as in the job."""


class Upload(Protocol):
    """An upload of one object. Exactly one of commit and abort ends it; leaving it open publishes nothing."""

    blocks: bool
    """Whether `write` blocks on a disk or a server and can't be interrupted by a signal; other uploads use threads of their own."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Adds bytes. The buffer may be reused once this returns."""
        ...

    def commit(self, *, replace: bool) -> Entry:
        """Makes the complete object visible under its name and returns it as the store now has it.

        With `replace=False` an existing object raises AlreadyExists and stays as it is; the upload is then still open, and
        `commit(replace=True)` or `abort` may follow.
        """
        ...

    def abort(self) -> None:
        """Discards what was written. Never raises. A signal may interrupt it; cleanup at exit then calls it again, so it ends last."""
        ...


@runtime_checkable
class OnDisk(Protocol):
    """An Upload that writes to a file of this machine, which others can write to."""

    def write_with(self, put: Callable[[int], int]) -> None:
        """Adds the bytes that `put` writes to a file: it gets the descriptor and returns their number. Its OSErrors are handled like those of `write`."""
        ...


class Input(Protocol):
    """A ranged reader of one object."""

    @property
    def size(self) -> int:
        """Bytes of the object."""
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, fewer only at the end."""
        ...

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `offset` in order, in pieces of the store's choosing (about 1 to 8 MiB)."""
        ...

    def close(self) -> None:
        """Ends reading; more than once is fine."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


SMALL_PIECE: Final = 16 << 10
"""A larger piece of a file is worth a call of its own."""


class ReadsAt(Protocol):
    """Anything that can be read at any offset."""

    def read_at(self, offset: int, length: int) -> bytes:
        """See `Input`."""
        ...


@runtime_checkable
class ReadsEach(Protocol):
    """An Input for which many small reads in one call are cheaper than a call for each."""

    def read_each(self, offsets: "npt.NDArray[np.int64]", length: int) -> bytes:
        """What `read_at` gives for each offset, concatenated. All lie within the object."""
        ...


def read_each(source: ReadsAt, offsets: "npt.NDArray[np.int64]", length: int) -> bytes:
    """`length` bytes from each offset, concatenated."""
    if isinstance(source, ReadsEach):
        return source.read_each(offsets, length)
    return one_by_one(source, offsets, length)


def one_by_one(source: ReadsAt, offsets: "npt.NDArray[np.int64]", length: int) -> bytes:
    """`read_each` by a call of `read_at` for each offset."""
    return b"".join([source.read_at(offset, length) for offset in offsets.tolist()])


class PinnedInput(Input, Protocol):
    """What a store's `open` returns: an Input that also knows which version of the object it reads."""

    @property
    def pin(self) -> str | None:
        """The object's pin, see `Entry`; None if this store gives it only by `stat`."""
        ...


class Store(Protocol):
    """A client of one store, made for one process (never shared over a fork)."""

    def __init__(self, settings: StoreSettings) -> None: ...

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        """Files below the folder `uri`, in UTF-8 byte order of their URIs, streaming. Nothing when the folder is absent.

        Temporary files of uploads in flight are listed like others when they have a name at all; callers skip names that begin with `_` or `.`.
        """
        ...

    def stat(self, uri: str) -> Entry | None:
        """The file at `uri`, or None. A folder is None."""
        ...

    def open(self, uri: str) -> PinnedInput:
        """Raises NotFound."""
        ...

    def get(self, uri: str) -> bytes:
        """The whole of a small object. Raises NotFound."""
        ...

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> Upload:
        """Starts an upload. Parent folders are made."""
        ...

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:
        """Writes a small object at once, atomically. With `replace=False` an existing one raises AlreadyExists: of several callers at once exactly one wins."""
        ...

    def delete(self, uri: str) -> None:
        """Removes one file; an absent one is fine."""
        ...

    def sweep(self, uri: str) -> int:
        """Removes leftovers of uploads below the folder `uri` that never ended (temporary files, unfinished multipart uploads); returns how many.

        All of them, including those in progress, because our clock can't tell their age in the store. Raises NotPermitted, naming the right and what
        stays, if it needs rights that a job needn't have.
        """
        ...


@runtime_checkable
class HasWarnings(Protocol):
    """A store that may know of a setting to warn its users about."""

    def warnings(self, uri: str) -> Sequence[str]:
        """A sentence for each, about the output folder `uri`; none if the store may not be asked."""
        ...


@runtime_checkable
class ListsFolders(Protocol):
    """A store that lists files faster folder by folder than one by one."""

    def list_folders(self, uri: str, *, recursive: bool = True) -> Iterator[FolderFiles]:
        """What `list` gives, in its order, some files of a folder at a time."""
        ...


def folders_of(store: Store, uri: str, *, recursive: bool = True) -> Iterator[FolderFiles]:
    """What `store.list` gives, in its order, some files of a folder at a time."""
    if isinstance(store, ListsFolders):
        yield from store.list_folders(uri, recursive=recursive)
        return
    for folder, entries in groupby(store.list(uri, recursive=recursive), key=lambda entry: entry.uri[: entry.uri.rfind("/") + 1]):
        while some := list(islice(entries, _MOST_FILES)):
            names = [entry.uri[len(folder) :] for entry in some]
            yield FolderFiles(folder, names, [entry.size for entry in some], [entry.pin for entry in some])


@runtime_checkable
class ReadsFiles(Protocol):
    """A store that reads many small files faster in one call than one by one."""

    def read_files(
        self, uris: Sequence[str], sizes: Sequence[int], pins: Sequence[str], room: "npt.NDArray[np.uint8]"
    ) -> Sequence[float | None]:
        """Reads whole files into the buffer, one after another, and returns the seconds that each took: None for one that can't be read or no
        longer matches its pin. Open that one by itself to get its error or, after a retry, its data; its part of the buffer is undefined.
        """
        ...


def scheme_of(uri: str) -> str:
    """`hdfs` of `hdfs://nn/x`; the empty string for a path. Raises BadSpec for an invalid URI."""
    try:
        return urlsplit(uri).scheme.lower() if "://" in uri else ""
    except ValueError as exc:
        # Don't show all of it: it may contain a password.
        raise BadSpec(f"{uri.partition('://')[0]}://…: the text after :// is not a host.") from exc
