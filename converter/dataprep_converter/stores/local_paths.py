"""Local paths: gets the path from a URI, and translates operating system errors."""

import errno
import os
import pwd
import time
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

from dataprep_converter.core.errors import BadSpec, NotFound, NotPermitted, StoreError, StoreFull, Unreachable

_STALE_ATTEMPTS = 4
_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
ABSENT = {errno.ENOENT, errno.ENOTDIR}
T = TypeVar("T")
P = ParamSpec("P")


def path_of(uri: str) -> str:
    """Returns the path of a `file://` URI; a path is returned unchanged.

    Raises NotFound for a URI with a host, and BadSpec for a URI with a NUL character.
    """
    if "\0" in uri:
        raise BadSpec(f"{uri!r} contains a NUL character, which isn't allowed in paths.", uri=uri)
    if uri[: len("file://")].lower() != "file://":
        return uri
    host, slash, path = uri[len("file://") :].partition("/")
    if host not in ("", "localhost"):
        raise NotFound(f"{uri}: a file URI has no host (file:///path), but this one has {host!r}.", uri=uri)
    return slash + path


def is_regular(status: os.stat_result) -> bool:
    """Returns whether this is a regular file, not a folder, pipe or device."""
    return (status.st_mode & 0o170000) == 0o100000


def unstale(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns the result of the call. Repeats the call a few times if NFS reports a stale handle."""
    for _ in range(_STALE_ATTEMPTS - 1):
        try:
            return call(*args, **kwargs)
        except OSError as exc:
            if exc.errno != errno.ESTALE:
                raise
            time.sleep(0.05)
    return call(*args, **kwargs)


def loop_error(path: str) -> NotFound:
    """Returns the error for a symbolic link that leads to itself."""
    return NotFound(f"{path} is a symbolic link that leads back to itself: remove it, or make it point to a file or a folder.", uri=path)


def translate(error: OSError, path: str) -> NoReturn:
    """Translates an operating system error and raises the translated error."""
    if error.errno in _FULL:
        raise StoreFull(f"No space or quota left for {path}: {error.strerror}.", uri=path) from error
    if error.errno in _REFUSED:
        raise NotPermitted(f"AccessDenied: user={_user()} path={path}: {error.strerror}.", uri=path) from error
    if error.errno == errno.ENOENT:
        raise NotFound(f"{path} does not exist.", uri=path) from error
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        raise NotPermitted(
            f"A part of the path {error.filename or path} is a file, but must be a folder: {error.strerror}.", uri=path
        ) from error
    if error.errno == errno.EISDIR:
        raise NotPermitted(f"{path} is a folder.", uri=path) from error
    if error.errno == errno.ELOOP:
        raise loop_error(path) from error
    if error.errno == errno.ENAMETOOLONG:
        raise BadSpec(
            f"{path} is too long for its file system (one part of the path has {_longest(path)} bytes; most file systems allow 255).",
            uri=path,
        ) from error
    if error.errno in (errno.EINVAL, errno.EFBIG):
        raise StoreError(f"{path}: {error.strerror}.", uri=path) from error
    raise Unreachable(f"The file system of {path} failed: {error.strerror or error}.", uri=path) from error


def translate_creation(error: OSError, folder: str) -> NoReturn:
    """Translates the failure to create a file in `folder`, and raises the translated error. The folder and its parents may be missing."""
    parent = os.path.abspath(folder)  # noqa: PTH100 - links must stay as they are
    while not os.path.isdir(parent) and parent != "/":  # noqa: PTH112 - names that aren't UTF-8 are possible
        parent = os.path.dirname(parent)  # noqa: PTH120 - as above
    if error.errno in (errno.EACCES, errno.EPERM, errno.ENOENT) and parent != os.path.abspath(folder):  # noqa: PTH100 - as above
        raise NotPermitted(
            f"AccessDenied: user={_user()} path={folder}: this folder doesn't exist and can't be created in {parent} ({error.strerror}). "
            "Choose another folder, or get permission to write there.",
            uri=folder,
        ) from error
    translate(error, folder)


def _user() -> str:
    number = os.geteuid()
    try:
        return f"{pwd.getpwuid(number).pw_name} (uid {number})"
    except KeyError:
        return f"uid {number}"


def _longest(path: str) -> int:
    return max(len(os.fsencode(part)) for part in path.split("/"))
