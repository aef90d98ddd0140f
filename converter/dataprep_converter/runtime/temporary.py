"""Temporary files in $TMPDIR. They have no names, so the system deletes the files no matter how the process ends."""

import errno
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from dataprep_converter.core.closeable import Closeable, closed_on_error
from dataprep_converter.core.errors import StoreFull

_PREFIX: Final = "dataprep-"
IN_MEMORY: Final = 4 << 20
"""A file of up to this size may be kept in memory; a larger file is written to disk."""

_PIECE: Final = 4 << 20
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def free_bytes() -> int:
    """Returns the free space of $TMPDIR in bytes."""
    return shutil.disk_usage(tempfile.gettempdir()).free


def free_bytes_at(folder: str) -> int | None:
    """Returns the free space of a local folder's file system in bytes, or None if it is unknown. The folder needn't exist yet."""
    path = Path(folder).absolute()
    existing = next((each for each in (path, *path.parents) if each.exists()), None)
    return shutil.disk_usage(existing).free if existing is not None else None


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """If the disk becomes full during a write within the block, raises StoreFull. The message names the temporary folder and `what`."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in _FULL:
            raise
        raise StoreFull(f"{tempfile.gettempdir()} has no room for {what}: {exc.strerror}.") from exc


class TemporaryFile(Closeable):
    """A file that is written once and then read in any order. Closing it removes it.

    A read can raise StoreFull too, because the last bytes can stay in a buffer until the file is read.
    """

    def __init__(self, what: str, *, in_memory: int = 0) -> None:
        """`what` names the contents in the error message for a full disk. Up to `in_memory` bytes stay in memory until `descriptor` is
        used."""
        self.what = what
        self.size = 0
        """The number of bytes written by `write`."""
        self.file: Any = (  # type stubs disagree on what a file is
            tempfile.SpooledTemporaryFile(max_size=in_memory, prefix=_PREFIX)  # noqa: SIM115 - closed by `close`
            if in_memory
            else tempfile.TemporaryFile(prefix=_PREFIX)  # noqa: SIM115 - closed by `close`
        )
        """A file object, for libraries that read or write file objects.

        Wrap each write to this object in `room_for`. Wrap each seek as well, unless the file was made by `of`.
        """

    @classmethod
    def of(cls, what: str, pieces: Iterable[bytes], *, in_memory: int = 0) -> Self:
        """Creates a file with these bytes. Raises StoreFull, and any error that the iteration of `pieces` raises."""
        file = cls(what, in_memory=in_memory)
        with closed_on_error(file):
            for piece in pieces:
                file.write(piece)
            with room_for(what):
                file.file.flush()
        return file

    @property
    def descriptor(self) -> int:
        """Flushes all written bytes and returns the file's descriptor.

        Raises ValueError if the file is closed, and StoreFull if the disk is full.
        """
        if self.file.closed:
            raise ValueError("The temporary file is closed.")
        with room_for(self.what):
            descriptor: int = self.file.fileno()
            self.file.flush()
        return descriptor

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Appends bytes. Raises StoreFull."""
        with room_for(self.what):
            self.file.write(data)
        self.size += len(data)

    def seek(self, offset: int) -> None:
        """Moves the position of `file`. Raises StoreFull, because buffered bytes are written to disk first."""
        with room_for(self.what):
            self.file.seek(offset)

    def reserve(self, size: int) -> None:
        """Extends the file with zeros to this size, and allocates the space immediately if the system can. Raises StoreFull."""
        with room_for(self.what):
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.descriptor, 0, size)
            else:
                self.file.truncate(size)

    def read_at(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset`, or fewer if the contents end earlier."""
        return os.pread(self.descriptor, length, offset)

    def pieces(self) -> Iterator[bytes]:
        """Yields all bytes in order, a few MiB at a time. Raises StoreFull."""
        self.seek(0)
        while piece := self.file.read(_PIECE):
            yield piece

    def map(self) -> mmap.mmap:
        """Maps the file into memory, read-only. The mapping stays valid after the file is closed. Raises ValueError for an empty file."""
        return mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        """Removes the file."""
        # Closing flushes the last bytes. They are no longer needed, so ignore the error if the disk is full.
        with suppress(OSError):
            self.file.close()
