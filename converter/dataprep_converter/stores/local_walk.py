"""Lists the files below a folder of the local file system, ordered by their complete paths."""

# This file uses os and os.path instead of Path, because these calls are made for every file.
# ruff: noqa: PTH118

import errno
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from operator import methodcaller
from typing import TypeAlias

from dataprep_converter.stores.local_paths import ABSENT, is_regular, loop_error, path_of, translate, unstale

FolderStates: TypeAlias = tuple[str, list[str], list[os.stat_result]]
"""A folder's URI, which ends in a slash, and some of the folder's files: their names and stat results."""
_MOST_FILES = 256
_ends_as_folder = methodcaller("endswith", "/")


def walk_files(uri: str, *, recursive: bool) -> Iterator[FolderStates]:
    """Yields the files below a folder, in UTF-8 byte order of their URIs."""
    prefix = uri.rstrip("/") + "/"
    pending = [_list_folder(prefix, path_of(uri), ())]
    try:
        while pending:
            item = next(pending[-1], None)
            if item is None:
                pending.pop()
            elif isinstance(item, tuple):
                yield item
            elif recursive:
                pending.append(_list_folder(item.uri, item.path, item.above))
    finally:
        for walk in pending:
            walk.close()


@dataclass(frozen=True, slots=True)
class _Folder:
    uri: str
    path: str
    above: tuple[tuple[int, int], ...]
    """Device and inode numbers of the folders that contain this folder."""


def _list_folder(uri: str, folder: str, above: tuple[tuple[int, int], ...]) -> Generator[_Folder | FolderStates, None, None]:
    """Yields the files and subfolders of one folder.

    Subfolders sort as `name/`, so that the walk goes through complete paths in order: a-1, a.b, a/b.
    """
    try:
        descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno in ABSENT:
            return
        translate(exc, folder)
    try:
        try:
            # Keep only the names in memory, without stat results, because a folder may have millions of files.
            with os.scandir(descriptor) as entries:
                names = [entry.name + "/" if _is_folder(entry, uri) else entry.name for entry in entries]
            identity = os.fstat(descriptor)
        except OSError as exc:
            translate(exc, folder)
        # A symbolic link may have led back to a parent folder. In this case, don't list the folder again.
        if (identity.st_dev, identity.st_ino) in above:
            return
        above = (*above, (identity.st_dev, identity.st_ino))
        # UTF-8 bytes sort in the same order as code points, except for surrogates, which represent bytes that aren't UTF-8.
        names.sort(key=None if _is_text(names) else os.fsencode)
        for is_folder, run in groupby(names, key=_ends_as_folder):
            if is_folder:
                yield from (_Folder(uri + name, os.path.join(folder, name[:-1]), above) for name in run)
            else:
                while chunk := list(islice(run, _MOST_FILES)):
                    files, states = _states(descriptor, folder, chunk)
                    if files:
                        yield uri, files, states
    finally:
        os.close(descriptor)


def _is_folder(entry: "os.DirEntry[str]", uri: str) -> bool:
    try:
        return entry.is_dir()
    except OSError as exc:
        if exc.errno == errno.ELOOP and not entry.name.startswith(("_", ".")):
            raise loop_error(uri + entry.name) from exc
        if exc.errno != errno.ELOOP:
            raise
        return False


def _is_text(names: list[str]) -> bool:
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return False
    return True


def _states(descriptor: int, folder: str, names: list[str]) -> tuple[list[str], list[os.stat_result]]:
    """Returns the names and the stat results of the regular files among `names`."""
    files = []
    states = []
    for name in names:
        try:
            status = os.stat(name, dir_fd=descriptor)
        except OSError as exc:
            # The file was deleted in the meantime (for example, it was another worker's temporary file), or it is a broken link.
            if exc.errno in ABSENT or exc.errno == errno.ELOOP:
                continue
            if exc.errno != errno.ESTALE:
                translate(exc, os.path.join(folder, name))
            renewed = _stat_again(os.path.join(folder, name))
            if renewed is None:
                continue
            status = renewed
        if is_regular(status):
            files.append(name)
            states.append(status)
    return files, states


def _stat_again(path: str) -> os.stat_result | None:
    """Returns the stat result of a file whose handle was stale, or None if the file is gone."""
    try:
        return unstale(os.stat, path)
    except OSError as exc:
        if exc.errno in ABSENT or exc.errno == errno.ELOOP:
            return None
        translate(exc, path)
