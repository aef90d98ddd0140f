"""Files: paths and `file://` URIs, on a local disk or a mounted one (NFS, CIFS, FUSE).

A path is used as written, without percent decoding. Each upload writes to a temporary file `.dataprep-tmp-…` in the folder of its target,
so that the last step is a rename within one folder.
"""

# The public methods are documented on the classes `Store`, `Upload` and `Input`, in `__init__.py`. This file uses functions in `os` instead
# of Path, because they accept names that aren't UTF-8, and because creating a Path for each of millions of files is slow.
# ruff: noqa: D102, PTH103, PTH104, PTH105, PTH108, PTH112, PTH116, PTH118, PTH119, PTH120

import contextlib
import errno
import grp
import os
import pwd
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import AlreadyExists, InputChanged, NotFound, Unreachable
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import SMALL_PIECE, Details, Entry, FolderFiles, StoreSettings, one_by_one
from dataprep_converter.stores.exclusive_rename import rename_exclusively
from dataprep_converter.stores.local_paths import ABSENT, is_regular, path_of, translate, translate_creation, unstale
from dataprep_converter.stores.local_walk import walk_files

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dataprep_converter.stores.mapped_file import MappedFile

TEMPORARY: Final = ".dataprep-tmp-"

_BLOCK = 4 << 20
_WRITE_BACK_BYTES = 32 << 20
"""Each time this many bytes have been written, the kernel is asked to start flushing them."""


def temporary_name(name: str) -> str:
    """Returns a hidden, unique name of at most 255 bytes for the temporary file of one attempt to write `name`."""
    shortened = name.encode("utf-8", "surrogateescape")[:180].decode("utf-8", "ignore")
    return f"{TEMPORARY}{shortened}-{secrets.token_hex(8)}"


def swept(entries: Iterable[Entry], delete: Callable[[str], None]) -> int:
    """Deletes the listed files that have temporary names, and returns the number of deleted files."""
    removed = 0
    for entry in entries:
        if entry.uri.rpartition("/")[2].startswith(TEMPORARY):
            delete(entry.uri)
            removed += 1
    return removed


class FileStore:
    """The local file system."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        for folder, names, states in walk_files(uri, recursive=recursive):
            for name, status in zip(names, states, strict=True):
                yield _entry(folder + name, status)

    def list_folders(self, uri: str, *, recursive: bool = True) -> Iterator[FolderFiles]:
        for folder, names, states in walk_files(uri, recursive=recursive):
            sizes = [status.st_size for status in states]
            yield FolderFiles(folder, names, sizes, list(map(_pin, sizes, [status.st_mtime_ns for status in states])))

    def stat(self, uri: str) -> Entry | None:
        path = path_of(uri)
        try:
            status = unstale(os.stat, path)
        except OSError as exc:
            if exc.errno in ABSENT:
                return None
            translate(exc, path)
        return _entry(uri, status) if is_regular(status) else None

    def open(self, uri: str) -> "FileInput":
        return FileInput(uri)

    def read_files(
        self, uris: Sequence[str], sizes: Sequence[int], pins: Sequence[str], room: "npt.NDArray[np.uint8]"
    ) -> Sequence[float | None]:
        # Not imported at the top, because numpy is slow to import and most commands don't need it.
        from dataprep_converter.core import native

        results = native.read_files([os.fsencode(path_of(uri)) for uri in uris], sizes, room)
        if results is None:
            return [None] * len(uris)
        return [
            seconds if modified is not None and _pin(size, modified) == pin else None
            for modified, seconds, size, pin in zip(*results, sizes, pins, strict=True)
        ]

    def get(self, uri: str) -> bytes:
        with FileInput(uri) as source:
            return source.read_at(0, source.size)

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> "FileUpload":  # noqa: ARG002 - files don't need them
        return FileUpload(uri)

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:  # noqa: ARG002 - see create
        def attempt() -> Entry:
            upload = FileUpload(uri)
            try:
                upload.write(data)
                return upload.commit(replace=replace)
            finally:
                upload.abort()

        return retrying(attempt, what=f"writing {uri}")

    def delete(self, uri: str) -> None:
        path = path_of(uri)
        try:
            os.unlink(path)
        except OSError as exc:
            if exc.errno not in ABSENT:
                translate(exc, path)

    def sweep(self, uri: str) -> int:
        return swept(self.list(uri), self.delete)

    def make_folder(self, uri: str) -> None:
        path = path_of(uri)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as exc:
            translate(exc, path)

    def move(self, uri: str, target: str) -> None:
        path = path_of(uri)
        try:
            os.rename(path, path_of(target))
        except OSError as exc:
            translate(exc, path)

    def sync_folder(self, uri: str) -> None:
        path = path_of(uri)
        try:
            _sync_folder(path)
        except OSError as exc:
            translate(exc, path)

    def remove_folder(self, uri: str) -> None:
        path = path_of(uri)
        # A process that is still moving files into the folder would keep it from being removed, so rename the folder first.
        renamed = os.path.join(os.path.dirname(path), temporary_name(os.path.basename(path)))
        try:
            os.rename(path, renamed)
        except OSError as exc:
            if exc.errno in ABSENT:
                return
            translate(exc, path)
        shutil.rmtree(renamed, ignore_errors=True)


class FileUpload:
    """An upload to a temporary file in the target's folder."""

    blocks = True

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._path = path_of(uri)
        self._folder, name = os.path.split(self._path)
        self._temporary = os.path.join(self._folder, temporary_name(name))
        self._ended = False
        self._size = self._on_its_way = 0
        self._descriptor: int | None = None
        self._to_sync = [self._folder or "."]
        try:
            if self._folder:
                self._to_sync += _parents_of_new(self._folder)
                os.makedirs(self._folder, exist_ok=True)
            self._descriptor = os.open(self._temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        except OSError as exc:
            translate_creation(exc, self._folder or ".")
        except BaseException:
            # Ctrl-C can arrive while the kernel creates the file. Only this object knows the file's name, so it must delete the file.
            self.abort()
            raise

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data).cast("B")

        def put(descriptor: int) -> int:
            rest = view
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            return len(view)

        self.write_with(put)

    def write_with(self, put: Callable[[int], int]) -> None:
        if self._descriptor is None:
            raise ValueError(f"{self.uri}: the upload has ended.")
        try:
            self._size += put(self._descriptor)
        except OSError as exc:
            translate(exc, self._path)
        if self._size - self._on_its_way >= _WRITE_BACK_BYTES:
            # `POSIX_FADV_DONTNEED` makes the kernel start to write dirty pages to the disk. Without this advice, fsync would have to write
            # all dirty pages at the end.
            _advise(self._descriptor, self._on_its_way, self._size - self._on_its_way, "POSIX_FADV_DONTNEED")
            self._on_its_way = self._size

    def stage(self) -> None:
        """Does nothing, because all bytes are in the temporary file."""

    def commit(self, *, replace: bool) -> Entry:
        if self._descriptor is None:
            raise ValueError(f"{self.uri}: the upload has ended.")
        try:
            os.fsync(self._descriptor)
            descriptor, self._descriptor = self._descriptor, None
            # `close` is the last call in which NFS can report a full disk or an exhausted quota.
            os.close(descriptor)
            if replace:
                os.replace(self._temporary, self._path)
            else:
                rename_exclusively(self._temporary, self._path)
            self._ended = True
            for folder in self._to_sync:
                _sync_folder(folder)
            return _entry(self.uri, os.stat(self._path))
        except FileExistsError as exc:
            raise AlreadyExists(f"{self.uri} exists already.", uri=self.uri) from exc
        except FileNotFoundError as exc:
            # The data set's commit removes the leftovers of failed attempts, including this temporary file. A new attempt writes the file
            # again.
            raise Unreachable(f"The temporary file of {self.uri} is gone: something has removed it.", uri=self.uri) from exc
        except OSError as exc:
            translate(exc, self._path)

    def abort(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with contextlib.suppress(OSError):
                os.close(descriptor)
        if not self._ended:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)
            self._ended = True


class FileInput(Closeable):
    """Reads one open file at any offset. Keeps reading the same file even after another file has taken its name."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._path = path_of(uri)
        self._descriptor: int | None = None
        self._mapping: MappedFile | None = None
        self._one_by_one = False
        try:
            self._descriptor = unstale(_open_file, self._path)
            status = os.fstat(self._descriptor)
        except OSError as exc:
            if exc.errno in ABSENT:
                raise NotFound(f"{uri} does not exist.", uri=uri) from exc
            translate(exc, self._path)
        if not is_regular(status):
            self.close()
            raise NotFound(f"{uri} is not a file.", uri=uri)
        self._size = status.st_size
        self._modified_ns = status.st_mtime_ns

    @property
    def size(self) -> int:
        return self._size

    @property
    def pin(self) -> str:
        return _pin(self._size, self._modified_ns)

    def read_at(self, offset: int, length: int) -> bytes:
        count = max(0, min(length, self._size - offset))
        piece = self._pread(offset, count)
        if len(piece) == count:
            return piece
        pieces = [piece]
        while (done := sum(map(len, pieces))) < count:
            piece = self._pread(offset + done, count - done)
            if not piece:
                raise InputChanged(f"{self.uri} shrank while it was being read: from {self._size} to {offset + done} bytes.", uri=self.uri)
            pieces.append(piece)
        return b"".join(pieces)

    def read_each(self, offsets: "npt.NDArray[np.int64]", length: int) -> bytes:
        if self._descriptor is not None and length <= SMALL_PIECE and self._size and not self._one_by_one:
            # Not imported at the top, because numpy is slow to import and most commands don't need it.
            from dataprep_converter.stores.mapped_file import MappedFile

            with contextlib.suppress(OSError):
                self._mapping = self._mapping or MappedFile(self._descriptor, self._size)
                data = self._mapping.read_each(offsets, length)
                if len(data) == len(offsets) * length and os.fstat(self._descriptor).st_size == self._size:
                    return data
            self._one_by_one = True
            self._unmap()
        # Reading the pieces one by one either succeeds or raises an error that describes the fault.
        return one_by_one(self, offsets, length)

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        end = self._size if length is None else min(self._size, offset + length)
        if self._descriptor is not None:
            _advise(self._descriptor, offset, max(0, end - offset), "POSIX_FADV_SEQUENTIAL")
        while offset < end:
            piece = self.read_at(offset, min(_BLOCK, end - offset))
            yield piece
            offset += len(piece)

    def _unmap(self) -> None:
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            mapping.close()

    def close(self) -> None:
        self._unmap()
        # Clear the attribute first. If two threads closed the same descriptor, the second thread might close another file that has reused
        # the descriptor's number.
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _pread(self, offset: int, length: int) -> bytes:
        if self._descriptor is None:
            raise ValueError(f"{self.uri} is closed.")
        try:
            return os.pread(self._descriptor, length, offset)
        except OSError as exc:
            if exc.errno != errno.ESTALE:
                translate(exc, self._path)
        # The NFS server no longer accepts the handle, because the server was restarted or the file was replaced. Open the path again, and
        # check that the path still leads to the same file.
        reopened = FileInput(self.uri)
        if (reopened._size, reopened._modified_ns) != (self._size, self._modified_ns):
            reopened.close()
            raise InputChanged(f"{self.uri} was replaced while it was being read.", uri=self.uri)
        self.close()
        self._descriptor, reopened._descriptor = reopened._descriptor, None
        try:
            return os.pread(self._descriptor or 0, length, offset)
        except OSError as exc:
            translate(exc, self._path)


def _entry(uri: str, status: os.stat_result) -> Entry:
    return Entry(
        uri=uri,
        size=status.st_size,
        pin=_pin(status.st_size, status.st_mtime_ns),
        details=Details(
            modified=status.st_mtime, mode=status.st_mode & 0o7777, owner=_user_name(status.st_uid), group=_group_name(status.st_gid)
        ),
    )


def _pin(size: int, modified_ns: int) -> str:
    return f"{size}-{modified_ns}"


@cache
def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@cache
def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _open_file(path: str) -> int:
    """Opens a file and returns its descriptor. Doesn't block on a named pipe, which might never get a writer."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK)
    except BlockingIOError:
        # Another process holds a lease on the file. A blocking open waits until the other process gives up the lease.
        return os.open(path, flags)
    os.set_blocking(descriptor, True)
    return descriptor


def _advise(descriptor: int, offset: int, length: int, advice: str) -> None:
    """Advises the kernel on the access pattern, on systems that support this."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(descriptor, offset, length, getattr(os, advice))


def _parents_of_new(folder: str) -> list[str]:
    """Returns the folders that get a new entry when this folder and its missing parents are created.

    All returned folders must be synced, so that the new folder survives a crash.
    """
    folders = []
    while folder and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
        folders.append(folder or ".")
    return folders


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        # Some network file systems report an error because they can't sync a folder.
        if exc.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)
