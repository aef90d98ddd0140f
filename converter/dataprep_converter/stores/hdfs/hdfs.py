"""HDFS through `hdfs-native` (Rust, no JVM). This file works around the library's known faults.

- If an exception ends a `with` block, hdfs-native still writes out the data that it has received so far. So we write to a temporary file
  `.dataprep-tmp-…` in the target's folder and then rename it.
- After failed writes, `write()` of the same client may hang forever. So each upload has a new client, and every call is wrapped in
  `watchdog.blocking()`. Writers that failed are kept, because freeing a writer may block too.
- With the default settings, one call to a dead NameNode takes minutes. So we set the failover keys, and check the port before creating a
  client.
- hdfs-native panics when it reads beyond the end of a file. So we never request bytes beyond the end.
- Writing a memoryview is five times slower than writing bytes. So we convert memoryviews to bytes.
- Simple authentication takes the user from `HADOOP_USER_NAME` at every connection. So a process can access HDFS as only one user.
"""

# The public methods are documented on the classes `Store`, `Upload` and `Input`, in `stores/__init__.py`.
# ruff: noqa: D102

import contextlib
import ctypes
import heapq
import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import hdfs_native

from dataprep_api.quantity import to_bytes
from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import AlreadyExists, BadSpec, InputChanged, NotFound, StoreError, Unreachable
from dataprep_converter.runtime.retry import CLEANUP_POLICY, retrying
from dataprep_converter.stores import Details, Entry, StoreSettings
from dataprep_converter.stores.files import swept, temporary_name
from dataprep_converter.stores.folders_ahead import files_in_order
from dataprep_converter.stores.hdfs import hadoop, hadoop_configuration, hdfs_kerberos
from dataprep_converter.stores.hdfs.hdfs_border import USER_VARIABLE, border, check_reachable
from dataprep_converter.stores.streaming import resuming_stream

logger = logging.getLogger(__name__)

DEFAULT_PORT: Final = 8020

_WRITE_BYTES = 4 << 20
_READ_BYTES = 4 << 20
_STREAM_BYTES = 1 << 20
_CLIENT_KEYS = {
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "1000",
}
_NAME_NODE_KEYS = ("dfs.ha.namenodes.", "dfs.namenode.rpc-address.")

_parked: list[object] = []
"""Failed writers and their clients. They are never freed: freeing a writer can block for 15 to 31 s, or make its client unusable."""

_users: dict[str, str] = {}
"""Contains the HDFS user of this process under the key `user`. Empty until a store sets a user."""


class HdfsStore:
    """One HDFS: a NameNode, or a name service of the Hadoop configuration."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self._configuration = hadoop_configuration.configuration(settings.hadoop_conf)
        self._clients: dict[str, hdfs_native.Client] = {}
        if settings.keytab is not None and settings.user is not None:
            raise BadSpec(
                f"{settings.uri_prefix}: remove user {settings.user}; it is for simple authentication, and with a keytab the principal is the user."
            )
        if settings.keytab is not None or self._configuration.get(hdfs_kerberos.AUTHENTICATION, "").lower() == "kerberos":
            hdfs_kerberos.prepare(settings.hadoop_conf)
        if settings.user is not None:
            _act_as(settings.user)

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        authority, folder = _split(uri)
        prefix = uri.rstrip("/") + "/"
        base = folder.rstrip("/") + "/"
        client = self._client(authority)

        def children(path: str) -> Iterator[Entry | str]:
            return _entries(_Listing(self, client, authority, path), prefix, base)

        yield from files_in_order(children, folder, recursive=recursive)

    def stat(self, uri: str) -> Entry | None:
        authority, path = _split(uri)
        status = self._status(authority, path)
        return None if status is None or status.isdir else _entry(uri, status)

    def open(self, uri: str) -> "HdfsInput":
        authority, path = _split(uri)

        def attempt() -> hdfs_native.FileReader:
            with border(self.addresses(authority), path):
                return self._client(authority).read(path)

        return HdfsInput(uri, retrying(attempt, what=f"opening {uri}"), self.addresses(authority))

    def get(self, uri: str) -> bytes:
        with self.open(uri) as source:
            return source.read_at(0, source.size)

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> "HdfsUpload":  # noqa: ARG002 - HDFS needs no hint
        return HdfsUpload(self, uri, hdfs or HdfsOptions())

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:
        return hadoop.put(self, uri, data, replace=replace, hdfs=hdfs)

    def delete(self, uri: str) -> None:
        authority, path = _split(uri)

        def attempt() -> None:
            with contextlib.suppress(NotFound), border(self.addresses(authority), path):
                self._client(authority).delete(path, False)

        retrying(attempt, what=f"deleting {uri}")

    def sweep(self, uri: str) -> int:
        return swept(self.list(uri), self.delete)

    def make_folder(self, uri: str) -> None:
        authority, path = _split(uri)

        def attempt() -> None:
            with border(self.addresses(authority), path):
                self._client(authority).mkdirs(path, 0o755, True)

        retrying(attempt, what=f"creating {uri}")

    def move(self, uri: str, target: str) -> None:
        authority, path = _split(uri)

        def attempt() -> None:
            with border(self.addresses(authority), path):
                self._client(authority).rename(path, _split(target)[1], False)

        retrying(attempt, what=f"moving {uri}")

    def remove_folder(self, uri: str) -> None:
        authority, path = _split(uri)

        def attempt() -> None:
            with contextlib.suppress(NotFound), border(self.addresses(authority), path):
                self._client(authority).delete(path, True)

        retrying(attempt, what=f"deleting {uri}")

    def addresses(self, authority: str) -> Sequence[str]:
        """Returns host and port of each NameNode behind a URI's authority. An empty authority means the authority of `fs.defaultFS`."""
        host, _, port = self._resolved(authority).rpartition(":")
        if host:
            return [f"{host}:{port}"]
        return hadoop_configuration.name_nodes(authority, self._configuration)

    def new_client(self, authority: str) -> hdfs_native.Client:
        """Creates a separate client for one upload. Raises Unreachable, with hosts and ports, if no NameNode accepts a connection."""
        addresses = self.addresses(authority)
        if addresses:
            check_reachable(addresses)
        with border(addresses, f"hdfs://{authority}"):
            return hdfs_native.Client(
                f"hdfs://{self._resolved(authority)}",
                self._overrides(),
                self.settings.hadoop_conf,
                kerberos_principal=self.settings.principal,
                kerberos_keytab=self.settings.keytab,
            )

    def _overrides(self) -> dict[str, str]:
        """Returns options for hdfs-native that override or extend the configuration files. Our failover keys are used if the files have
        none."""
        # Remove blanks from the values of the properties that name the NameNodes. Hadoop allows `nn1, nn2`, but hdfs-native would find only
        # nn1 in this value.
        unblanked = {key: re.sub(r"\s", "", value) for key, value in self._configuration.items() if key.startswith(_NAME_NODE_KEYS)}
        options = {key: self._configuration.get(key, value) for key, value in _CLIENT_KEYS.items()}
        if self.settings.keytab is not None:
            options[hdfs_kerberos.AUTHENTICATION] = "kerberos"
        return {**options, **unblanked}

    def _client(self, authority: str) -> hdfs_native.Client:
        """Returns the shared client, for all calls except uploads."""
        if authority not in self._clients:
            self._clients[authority] = self.new_client(authority)
        return self._clients[authority]

    def _status(self, authority: str, path: str) -> hdfs_native.FileStatus | None:
        def attempt() -> hdfs_native.FileStatus | None:
            try:
                with border(self.addresses(authority), path):
                    return self._client(authority).get_file_info(path)
            except NotFound:
                return None

        return retrying(attempt, what=f"looking at {path}")

    def _resolved(self, authority: str) -> str:
        """Returns the authority as `host:port`, or as the bare name of a name service."""
        if not authority:
            default = self._configuration.get("fs.defaultFS", "")
            if not default.startswith("hdfs://"):
                raise BadSpec(
                    "hdfs:///path names no NameNode and the Hadoop configuration has no fs.defaultFS: write hdfs://host:port/path."
                )
            authority = _split(default)[0]
        if f"dfs.ha.namenodes.{authority}" in self._configuration or ":" in authority.rpartition("]")[2]:
            return authority
        # Hadoop's own client adds this port too. hdfs-native would treat a host without a port as a name service and find no NameNode.
        return f"{authority}:{DEFAULT_PORT}"


class HdfsUpload:
    """An upload to a temporary file in the target's folder, with a separate client."""

    blocks = True

    def __init__(self, store: HdfsStore, uri: str, options: HdfsOptions) -> None:
        self.uri = uri
        authority, self._path = _split(uri)
        self._addresses = store.addresses(authority)
        folder, _, name = self._path.rpartition("/")
        self._temporary = f"{folder}/{temporary_name(name)}"
        self._size = 0
        self._ended = self._is_staged = False
        self._client = store.new_client(authority)
        self._writer: hdfs_native.FileWriter | None = None
        write_options = hdfs_native.WriteOptions(
            block_size=None if options.block_size is None else to_bytes(options.block_size),
            replication=options.replication,
            permission=None if options.permission is None else int(options.permission, 8),
            overwrite=False,
            create_parent=True,
        )
        try:
            with border(self._addresses, self._path):
                self._writer = self._client.create(self._temporary, write_options)
        except Unreachable:
            # The temporary file may have been created even though the response was lost.
            self.abort()
            raise

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._writer is None:
            raise ValueError(f"{self.uri}: the upload has ended.")
        try:
            for piece in _as_bytes(data):
                with self._at_the_temporary_file():
                    self._writer.write(piece)
                self._size += len(piece)
        except BaseException:
            self._park()
            raise

    def stage(self) -> None:
        if self._writer is None:
            raise ValueError(f"{self.uri}: the upload has ended.")
        try:
            with self._at_the_temporary_file():
                self._writer.close()
        except BaseException:
            self._park()
            raise
        self._writer = None
        self._is_staged = True

    def commit(self, *, replace: bool) -> Entry:
        if not self._is_staged:
            self.stage()
        with self._at_the_temporary_file():
            status = self._client.get_file_info(self._temporary)
        hadoop.check_length(self.uri, status.length, self._size)
        try:
            with border(self._addresses, self._path):
                self._client.rename(self._temporary, self._path, replace)
        except AlreadyExists as exc:
            raise AlreadyExists(f"{self.uri} exists already.", uri=self.uri) from exc
        except NotFound as exc:
            # The client may have repeated the rename after a lost response. In this case, the file already has its final name. A rename
            # changes neither a file's length nor its modification time.
            if not self._is_at_its_place(status):
                raise hadoop.gone(self.uri) from exc
        self._ended = True
        return _entry(self.uri, status)

    def abort(self) -> None:
        if self._ended:
            return
        if self._writer is not None:
            # Until the file is closed, the NameNode keeps the file's lease. Deleting the file ends the lease.
            self._park()

        def attempt() -> None:
            with contextlib.suppress(NotFound), border(self._addresses, self._path):
                self._client.delete(self._temporary, False)

        # Retry the deletion: after the data set's commit, no sweep will remove the temporary file.
        with contextlib.suppress(StoreError):
            retrying(attempt, what=f"deleting {self._temporary}", policy=CLEANUP_POLICY)
        self._ended = True

    @contextlib.contextmanager
    def _at_the_temporary_file(self) -> Iterator[None]:
        try:
            with border(self._addresses, self._path):
                yield
        except NotFound as exc:
            raise hadoop.gone(self.uri) from exc

    def _park(self) -> None:
        for item in (self._writer, self._client):
            _parked.append(item)
            # Keep a reference forever, because freeing the object would block, even at exit.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))
        self._writer = None

    def _is_at_its_place(self, expected: hdfs_native.FileStatus) -> bool:
        with contextlib.suppress(NotFound), border(self._addresses, self._path):
            current = self._client.get_file_info(self._path)
            return (current.length, current.modification_time) == (expected.length, expected.modification_time)
        return False


class HdfsInput(Closeable):
    """Positioned reads of one file."""

    def __init__(self, uri: str, reader: hdfs_native.FileReader, addresses: Sequence[str]) -> None:
        self.uri = uri
        self._path = _split(uri)[1]
        self._reader = reader
        self._addresses = addresses
        self._size = len(reader)

    @property
    def size(self) -> int:
        return self._size

    @property
    def pin(self) -> None:
        """None, because an open file doesn't report its modification time."""

    def read_at(self, offset: int, length: int) -> bytes:
        count = max(0, min(length, self._size - offset))
        if count == 0:
            return b""

        def attempt() -> bytes:
            with border(self._addresses, self._path):
                return self._reader.read_range(offset, count)

        piece = retrying(attempt, what=f"reading {self.uri}")
        if len(piece) != count:
            raise InputChanged(f"{self.uri} shrank while it was being read: got {len(piece)} of {count} bytes at {offset}.", uri=self.uri)
        return piece

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        end = self._size if length is None else min(self._size, offset + length)
        gathered: list[bytes] = []
        for piece in resuming_stream(self._pieces, self.read_at, offset=offset, end=end, step=_READ_BYTES, what=self.uri):
            gathered.append(piece)
            if sum(map(len, gathered)) >= _STREAM_BYTES:
                yield b"".join(gathered)
                gathered.clear()
        if gathered:
            yield b"".join(gathered)

    def close(self) -> None:
        self._reader.close()

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        with border(self._addresses, self._path):
            pieces = self._reader.read_range_stream(offset, end - offset)
        while True:
            with border(self._addresses, self._path):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece


@dataclass(frozen=True, order=True, slots=True)
class _Child:
    """A file or folder that is sorted by its complete path. A folder sorts as `name/`."""

    key: bytes
    path: str
    is_folder: bool
    size: int
    modified: int
    details: Details = field(compare=False)


class _Listing:
    """Lists one folder in our order, which differs from the NameNode's.

    We need complete paths in the order of unsigned bytes: a-1, a.b, a/b, ü. The NameNode compares names as signed bytes and omits the slash
    of folders, so the NameNode's order is ü, a, a-1, a.b. Any name that the NameNode lists after an ASCII name also follows this ASCII name
    in our order. So folders and non-ASCII names are held back until the listing ends or reaches a greater ASCII name.
    """

    def __init__(self, store: HdfsStore, client: hdfs_native.Client, authority: str, folder: str) -> None:
        self._addresses = store.addresses(authority)
        self._folder = folder
        self._statuses: Iterator[hdfs_native.FileStatus] = iter(())
        self._following: hdfs_native.FileStatus | None = None
        self._pending: list[_Child] = []
        self._last = b""

        def attempt() -> tuple[Iterator[hdfs_native.FileStatus], hdfs_native.FileStatus | None]:
            with border(self._addresses, folder):
                statuses = client.list_status(folder)
                return statuses, next(statuses, None)

        # The folder is absent, or was deleted after its parent was listed.
        with contextlib.suppress(NotFound):
            self._statuses, self._following = retrying(attempt, what=f"listing {folder}")

    def next(self) -> _Child | None:
        """Returns the next file or folder, or None at the end."""
        while self._following is not None:
            status = self._following
            name = status.path.rpartition("/")[2].encode()
            if name.isascii() and self._pending and self._pending[0].key < name:
                break
            with border(self._addresses, self._folder):
                self._following = next(self._statuses, None)
            child = _Child(name + b"/" * status.isdir, status.path, status.isdir, status.length, status.modification_time, _details(status))
            if status.isdir or not name.isascii():
                heapq.heappush(self._pending, child)
                continue
            if name < self._last:
                raise StoreError(f"The NameNode lists {self._folder} out of order: {status.path} comes too late.")
            self._last = name
            return child
        return heapq.heappop(self._pending) if self._pending else None


def _entries(listing: _Listing, prefix: str, base: str) -> Iterator[Entry | str]:
    """Yields an entry for each file of a folder, and the path of each subfolder. `prefix` replaces `base` in the files' URIs."""
    while (child := listing.next()) is not None:
        if child.is_folder:
            yield child.path
        elif child.path.startswith(base):
            uri = prefix + child.path[len(base) :]
            yield Entry(uri=uri, size=child.size, pin=hadoop.pin(child.size, child.modified), details=child.details)


def _act_as(user: str) -> None:
    """Sets this process's user on HDFS. hdfs-native has no per-client setting, so two stores in one process can't have different users."""
    current = _users.get("user")
    if current is not None and current != user:
        raise BadSpec(f"A job can act as only one HDFS user; its stores ask for {current} and {user}.")
    _users["user"] = user
    if os.environ.get(USER_VARIABLE) != user:
        os.environ[USER_VARIABLE] = user


def _split(uri: str) -> tuple[str, str]:
    """Returns the authority and the path of a URI, without percent decoding, because HDFS paths may contain %, ? and #."""
    authority, _, path = uri.partition("://")[2].partition("/")
    return authority, "/" + path.strip("/")


def _entry(uri: str, status: hdfs_native.FileStatus) -> Entry:
    return Entry(uri=uri, size=status.length, pin=hadoop.pin(status.length, status.modification_time), details=_details(status))


def _details(status: hdfs_native.FileStatus) -> Details:
    return Details(
        modified=status.modification_time / 1000,
        mode=status.permission,
        replication=status.replication,
        owner=status.owner,
        group=status.group,
    )


def _as_bytes(data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    if isinstance(data, bytes) and len(data) <= _WRITE_BYTES:
        yield data
        return
    view = memoryview(data).cast("B")
    for start in range(0, len(view), _WRITE_BYTES):
        yield bytes(view[start : start + _WRITE_BYTES])
