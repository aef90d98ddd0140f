"""Leaves data sets out of the listing of an input folder. A data set is the output of another job, and is read only if the source names the
data set.

Listings are sorted by path, so the files of a data set whose names begin with a digit or a capital letter come before the data set's
marker, `_dataprep/`. Therefore, files are held back until it is certain that no marker follows.
"""

from collections.abc import Iterator, MutableMapping
from typing import Final

from dataprep_api import names
from dataprep_converter.inputs.pinned import is_hidden
from dataprep_converter.stores import FolderFiles, Store

MOST_HELD = 4096
"""The maximum number of files that are held back. If there are more, the store is asked whether the markers exist."""
_MARK: Final = f"{names.SIDE}/"


def without_data_sets(
    listing: Iterator[FolderFiles], *, folder: str, store: Store, counts: MutableMapping[str, int]
) -> Iterator[FolderFiles]:
    """Yields the listing of `folder` without the data sets below it. `counts` maps the URI of each omitted data set to the number of
    visible files in that data set."""
    sieve = _DataSetFilter(folder.rstrip("/") + "/", store, counts)
    for files in listing:
        yield from sieve.filter_files(files)
    yield from sieve.rest()


class _DataSetFilter:
    def __init__(self, base: str, store: Store, counts: MutableMapping[str, int]) -> None:
        self._base = base
        self._store = store
        self._counts = counts
        self._undecided: list[FolderFiles] = []
        self._data_set: str | None = None
        """The data set folder whose files are being listed."""
        self._plain: set[str] = set()
        """Folders that, according to the store, are not data sets."""

    def filter_files(self, files: FolderFiles) -> Iterator[FolderFiles]:
        """Takes the next files of the listing. Yields the files that are now known not to belong to a data set."""
        if self._data_set is not None and files.folder.startswith(self._data_set):
            self._count(files)
            return
        self._data_set = None
        root, mark, _ = files.folder.partition(f"/{_MARK}")
        if mark and len(root) + 1 > len(self._base):
            self._enter_data_set(f"{root}/", files)
            return
        # A folder isn't a data set if the listing is already past the position of its marker.
        at = files.folder + files.names[-1]
        self._undecided.append(files)
        while self._undecided and all(self._is_plain(each, at) for each in self._folders(self._undecided[0])):
            yield self._undecided.pop(0)
        if sum(len(each.names) for each in self._undecided) > MOST_HELD:
            yield from self._query_store()

    def rest(self) -> Iterator[FolderFiles]:
        """Yields the files that are still held back at the end of the listing."""
        yield from self._undecided

    def _enter_data_set(self, data_set: str, files: FolderFiles) -> None:
        self._data_set = data_set
        self._counts[data_set.rstrip("/")] = 0
        for each in [*self._undecided, files]:
            if each.folder.startswith(data_set):
                self._count(each)
        self._undecided = [each for each in self._undecided if not each.folder.startswith(data_set)]

    def _count(self, files: FolderFiles) -> None:
        if self._data_set is not None and not is_hidden(files.folder[len(self._data_set) :]):
            self._counts[self._data_set.rstrip("/")] += sum(not is_hidden(name) for name in files.names)

    def _query_store(self) -> Iterator[FolderFiles]:
        for folder in sorted({folder for each in self._undecided for folder in self._folders(each)} - self._plain):
            if self._store.stat(folder + names.OWNER) is not None:
                for each in self._undecided:
                    if not each.folder.startswith(folder):
                        yield each
                self._undecided = [each for each in self._undecided if each.folder.startswith(folder)]
                undecided, self._undecided = self._undecided, []
                self._data_set = folder
                self._counts[folder.rstrip("/")] = 0
                for each in undecided:
                    self._count(each)
                return
            self._plain.add(folder)
        undecided, self._undecided = self._undecided, []
        yield from undecided

    def _is_plain(self, folder: str, at: str) -> bool:
        if folder in self._plain or not at.startswith(folder):
            return True
        return at[len(folder) :] > _MARK

    def _folders(self, files: FolderFiles) -> list[str]:
        """The folders between the input folder and these files, the outermost first."""
        steps = files.folder[len(self._base) :].split("/")[:-1]
        return [self._base + "".join(f"{step}/" for step in steps[: count + 1]) for count in range(len(steps))]
