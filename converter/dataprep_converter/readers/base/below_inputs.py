"""Leaves data sets out of the listing of an input folder: unless the source names it, the output of another job isn't input.

Listings are sorted by path, so files whose names begin with a digit or a capital letter come before a data set's marker, `_dataprep/`.
Files before a possible marker are held back until it is known whether they belong to a data set.
"""

from collections.abc import Iterator, MutableMapping
from typing import Final

from dataprep_api import names
from dataprep_converter.inputs.pinned import is_hidden
from dataprep_converter.stores import FolderFiles, Store

MOST_HELD = 4096
"""The maximum number of files that are held back. If more files would be held back, the store is queried for the markers of data sets."""
_MARK: Final = f"{names.SIDE}/"


def without_data_sets(
    found: Iterator[FolderFiles], *, folder: str, store: Store, counts: MutableMapping[str, int]
) -> Iterator[FolderFiles]:
    """Yields the listing of `folder` without the data sets below it. `counts` maps the URI of each omitted data set to the number of
    visible files in that data set."""
    sieve = _DataSetFilter(folder.rstrip("/") + "/", store, counts)
    for files in found:
        yield from sieve.passed(files)
    yield from sieve.rest()


class _DataSetFilter:
    def __init__(self, base: str, store: Store, counts: MutableMapping[str, int]) -> None:
        self._base = base
        self._store = store
        self._counts = counts
        self._held: list[FolderFiles] = []
        self._data_set: str | None = None
        """The data set folder whose files are being listed."""
        self._plain: set[str] = set()
        """Folders that, according to the store, are not data sets."""

    def passed(self, files: FolderFiles) -> Iterator[FolderFiles]:
        """Takes the next files of the listing. Yields the files that are now known not to belong to a data set."""
        if self._data_set is not None and files.folder.startswith(self._data_set):
            self._count(files)
            return
        self._data_set = None
        root, mark, _ = files.folder.partition(f"/{_MARK}")
        if mark and len(root) + 1 > len(self._base):
            self._begin(f"{root}/", files)
            return
        # A folder isn't a data set if the listing is already past the position of its marker.
        at = files.folder + files.names[-1]
        self._held.append(files)
        while self._held and all(self._is_plain(each, at) for each in self._folders(self._held[0])):
            yield self._held.pop(0)
        if sum(len(each.names) for each in self._held) > MOST_HELD:
            yield from self._asked()

    def rest(self) -> Iterator[FolderFiles]:
        """Yields the files that are still held back at the end of the listing."""
        yield from self._held

    def _begin(self, data_set: str, files: FolderFiles) -> None:
        self._data_set = data_set
        self._counts[data_set.rstrip("/")] = 0
        for each in [*self._held, files]:
            if each.folder.startswith(data_set):
                self._count(each)
        self._held = [each for each in self._held if not each.folder.startswith(data_set)]

    def _count(self, files: FolderFiles) -> None:
        if self._data_set is not None and not is_hidden(files.folder[len(self._data_set) :]):
            self._counts[self._data_set.rstrip("/")] += sum(not is_hidden(name) for name in files.names)

    def _asked(self) -> Iterator[FolderFiles]:
        for folder in sorted({folder for each in self._held for folder in self._folders(each)} - self._plain):
            if self._store.stat(folder + names.OWNER) is not None:
                for each in self._held:
                    if not each.folder.startswith(folder):
                        yield each
                self._held = [each for each in self._held if each.folder.startswith(folder)]
                held, self._held = self._held, []
                self._data_set = folder
                self._counts[folder.rstrip("/")] = 0
                for each in held:
                    self._count(each)
                return
            self._plain.add(folder)
        held, self._held = self._held, []
        yield from held

    def _is_plain(self, folder: str, at: str) -> bool:
        if folder in self._plain or not at.startswith(folder):
            return True
        return at[len(folder) :] > _MARK

    def _folders(self, files: FolderFiles) -> list[str]:
        """The folders between the input folder and these files, the outermost first."""
        steps = files.folder[len(self._base) :].split("/")[:-1]
        return [self._base + "".join(f"{step}/" for step in steps[: count + 1]) for count in range(len(steps))]
