"""Lists the files of a source. A URI can be a file, a glob or a folder."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final, TypeAlias

from dataprep_api import names
from dataprep_converter.core import globs
from dataprep_converter.core.errors import NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import is_hidden, relative_path
from dataprep_converter.readers.base.below_inputs import without_data_sets
from dataprep_converter.stores import Entry, FolderFiles, folders_of

FolderChoice: TypeAlias = Callable[[int, str, str], bool]
"""Whether to read a folder.

The arguments are the index of the source's URI, a path in the folder (relative to that URI), and the path's URI.
"""

_HIDDEN_PART: Final = re.compile(r"(?<![^/])[_.].*", re.DOTALL)
_WILDCARD: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FilesOfFolder:
    """Some files of one folder. Each attribute of the files is a sequence, with one entry per file."""

    root: int
    """The index, in the source's list of URIs, of the URI below which the files were found."""
    folder: str
    """The URI of the files' folder, with a trailing slash. Empty if the source's URI is a bare name, without a folder."""
    below: str
    """The folder's path relative to the source's URI, in UTF-8, with a trailing slash. The path is empty for the folder that the URI
    names."""
    names: Sequence[str]
    sizes: Sequence[int]
    pins: Sequence[str]

    @property
    def paths(self) -> list[str]:
        """The paths of the files relative to the source's URI."""
        return [self.below + name for name in self.names]

    @property
    def uris(self) -> list[str]:
        """The URIs of the files."""
        return [self.folder + name for name in self.names]

    def only(self, is_kept: Sequence[bool]) -> "FilesOfFolder":
        """The files for which `is_kept` is true."""
        if all(is_kept):
            return self
        return replace(
            self,
            names=list(compress(self.names, is_kept)),
            sizes=list(compress(self.sizes, is_kept)),
            pins=list(compress(self.pins, is_kept)),
        )


def input_files(access: Access, uris: Sequence[str], keep: FolderChoice | None = None) -> Iterator[tuple[int, str, Entry]]:
    """Yields every file as a tuple: the index of its URI, its path relative to that URI in UTF-8, and its entry.

    Files are in the order of the URIs, and for each URI sorted by path. Below a folder or a glob, names that begin with `_` or `.` are
    skipped. Files in folders that `keep` refuses are left out, but aren't counted as skipped. Raises NotFound for a URI without files, and
    BadSpec for a name that is not UTF-8.
    """
    for files in input_folders(access, uris, keep):
        for path, uri, size, pin in zip(files.paths, files.uris, files.sizes, files.pins, strict=True):
            yield files.root, path, Entry(uri, size, pin)


def input_folders(access: Access, uris: Sequence[str], keep: FolderChoice | None = None) -> Iterator[FilesOfFolder]:
    """Like `input_files`, but yields groups of files from the same folder."""
    for root, uri in enumerate(uris):
        is_empty = True
        refused: list[str] = []
        for files in _folders(access, uri, root, keep, refused):
            if files.names:
                is_empty = False
                access.progress.files += len(files.names)
                yield files
        if is_empty and not refused:
            others = [each for each in access.skipped.in_data_sets if each.startswith(uri.rstrip("/") + "/")]
            but = f" except files of data sets, such as {min(others)}, which are read only if the source names them" if others else ""
            if hidden := access.skipped.hidden.get(uri):
                but = f" except hidden ones ({hidden:,}): a file or folder whose name begins with _ or a dot is read only if the source names it"
            raise NotFound(f"{uri} names no file{but}.", uri=uri)


def visible_files(folder_files: FolderFiles, *, folder: str, root: int) -> FilesOfFolder:
    """The files of `folder_files` that aren't hidden. Raises BadSpec for a name that is not UTF-8."""
    below = relative_path(folder, folder_files.folder)
    # First search all names at once, as a single string, because hidden names are rare.
    text = "/" + "/".join(folder_files.names)
    if not _is_utf8(text):
        for name in folder_files.names:
            relative_path(folder, folder_files.folder + name)
    files = FilesOfFolder(root, folder_files.folder, below, folder_files.names, folder_files.sizes, folder_files.pins)
    if is_hidden(below):
        return files.only([False] * len(files.names))
    return files.only([not is_hidden(name) for name in files.names]) if "/_" in text or "/." in text else files


def hidden_files(folder_files: FolderFiles, visible: FilesOfFolder, pattern: re.Pattern[str] | None = None) -> int:
    """The number of files in `folder_files` that match the pattern but are hidden. Data set metadata is not counted."""
    if len(visible.names) == len(folder_files.names) or f"/{visible.below}".find(f"/{names.SIDE}/") >= 0:
        return 0
    paths = [visible.below + name for name in folder_files.names if is_hidden(visible.below + name)]
    return len(paths) if pattern is None else sum(pattern.fullmatch(path) is not None for path in paths)


def _folders(access: Access, uri: str, root: int, keep: FolderChoice | None, refused: list[str]) -> Iterator[FilesOfFolder]:
    """Yields the files of a URI. If `keep` refuses folders, the URI of the first refused folder is added to the list `refused`."""
    store = access.store(uri)
    # A file's name can look like a glob, so look for a file with this name first.
    entry = store.stat(uri)
    if entry is not None:
        path = relative_path(uri.rpartition("/")[0], uri)
        if keep is not None and not keep(root, path, uri):
            refused.append(uri)
            return
        yield FilesOfFolder(root, uri.removesuffix(path), "", [path], [entry.size], [entry.pin])
        return
    folder, pattern = uri, None
    if wildcard := _WILDCARD.search(uri):
        folder = uri[: uri.rfind("/", 0, wildcard.start()) + 1].rstrip("/") or ("/" if uri.startswith("/") else ".")
        pattern = globs.compiled(uri[len(folder) :].lstrip("/") if folder != "." else uri)
    listing = folders_of(store, folder)
    if keep is not None:
        listing = _kept(listing, folder, root, keep, refused)
    if pattern is None or "**" in uri[len(folder) :]:
        # A glob without ** matches folders only at the depth that the user wrote. If such a glob matches a data set, the user wants to read
        # this data set.
        listing = without_data_sets(listing, folder=folder, store=store, counts=access.skipped.in_data_sets)
    hidden = 0
    for folder_files in listing:
        files = visible_files(folder_files, folder=folder, root=root)
        hidden += hidden_files(folder_files, files, pattern)
        yield files if pattern is None else files.only([pattern.fullmatch(path) is not None for path in files.paths])
    access.skipped.hidden[uri] = hidden


def _kept(listing: Iterator[FolderFiles], folder: str, root: int, keep: FolderChoice, refused: list[str]) -> Iterator[FolderFiles]:
    for files in listing:
        # A hidden folder is kept or refused together with the visible folder that contains it.
        if keep(root, _HIDDEN_PART.sub("", relative_path(folder, files.folder)), files.folder):
            yield files
        elif not refused:
            refused.append(files.folder)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
