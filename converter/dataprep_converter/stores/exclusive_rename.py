"""Renames a file without ever replacing another file, even on file systems that have no call for this purpose."""

# This file uses os and os.path instead of Path, because these calls are made for every file.
# ruff: noqa: PTH108, PTH121

import ctypes
import errno
import os

from dataprep_converter.core.errors import StoreError

_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.EMLINK}
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_libc = ctypes.CDLL(None, use_errno=True)


def rename_exclusively(temporary: str, path: str) -> None:
    """Renames a temporary file to its final path.

    Raises FileExistsError if the path exists. Of several concurrent callers, exactly one succeeds.
    """
    try:
        _rename_without_replacing(temporary, path)
    except OSError as exc:
        if exc.errno not in _UNSUPPORTED:
            raise
    else:
        return
    # NFS has no rename that refuses to replace a file, but creating a hard link is just as exclusive.
    try:
        os.link(temporary, path)
    except FileExistsError:
        # If the server's first response was lost and the kernel repeated the request, the existing link is our own.
        if not os.path.samefile(temporary, path):
            raise
    except OSError as exc:
        if exc.errno in _UNSUPPORTED:
            raise StoreError(
                f"The file system of {path} can neither rename without replacing nor make hard links, so a file can't be created exclusively."
            ) from exc
        raise
    os.unlink(temporary)


def _rename_without_replacing(source: str, target: str) -> None:
    if not hasattr(_libc, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), target)
    if _libc.renameat2(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
