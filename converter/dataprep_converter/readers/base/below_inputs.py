"""Data sets below an input folder: what other jobs have written there is no input, unless it is named.

A listing is in the order of its paths, so the mark of a data set, `_dataprep/`, comes after those of its files whose names begin with a digit or a
capital. These are held until it is known whether they belong to one.
"""

from collections.abc import Iterator, MutableMapping
from typing import Final

from dataprep_api import names
from dataprep_converter.inputs.pinned import is_hidden
from dataprep_converter.stores import FolderFiles, Store

MOST_HELD = 4096
"""Files. When there are more, the store is asked instead."""
_MARK: Final = f"{names.SIDE}/"


def without_data_sets(
    found: Iterator[FolderFiles], *, folder: str, store: Store, passed_over: MutableMapping[str, int]
) -> Iterator[FolderFiles]:
    """What a listing of `folder` found, without the data sets below it; their visible files are counted by their URIs."""
    sieve = _DataSetFilter(folder.rstrip("/") + "/", store, passed_over)
    for files in found:
        yield from sieve.passed(files)
    yield from sieve.rest()


class _DataSetFilter:
    def __init__(self, base: str, store: Store, passed_over: MutableMapping[str, int]) -> None:
        self._base = base
        self._store = store
        self._passed_over = passed_over
        self._held: list[FolderFiles] = []
        self._data_set: str | None = None
        """That the listing is in."""
        self._plain: set[str] = set()
        """Folders of which the store was asked: they are none."""

    def passed(self, files: FolderFiles) -> Iterator[FolderFiles]:
        """What is known to be no data set's once these files have come."""
        if self._data_set is not None and files.folder.startswith(self._data_set):
            self._count(files)
            return
        self._data_set = None
        root, mark, _ = files.folder.partition(f"/{_MARK}")
        if mark and len(root) + 1 > len(self._base):
            self._begin(f"{root}/", files)
            return
        # These have come by a folder's mark, or left it behind.
        at = files.folder + files.names[-1]
        self._held.append(files)
        while self._held and all(self._is_plain(each, at) for each in self._folders(self._held[0])):
            yield self._held.pop(0)
        if sum(len(each.names) for each in self._held) > MOST_HELD:
            yield from self._asked()

    def rest(self) -> Iterator[FolderFiles]:
        """What is still held when the listing has ended."""
        yield from self._held

    def _begin(self, data_set: str, files: FolderFiles) -> None:
        self._data_set = data_set
        self._passed_over[data_set.rstrip("/")] = 0
        for each in [*self._held, files]:
            if each.folder.startswith(data_set):
                self._count(each)
        self._held = [each for each in self._held if not each.folder.startswith(data_set)]

    def _count(self, files: FolderFiles) -> None:
        if self._data_set is not None and not is_hidden(files.folder[len(self._data_set) :]):
            self._passed_over[self._data_set.rstrip("/")] += sum(not is_hidden(name) for name in files.names)

    def _asked(self) -> Iterator[FolderFiles]:
        for folder in sorted({folder for each in self._held for folder in self._folders(each)} - self._plain):
            if self._store.stat(folder + names.OWNER) is not None:
                for each in self._held:
                    if not each.folder.startswith(folder):
                        yield each
                self._held = [each for each in self._held if each.folder.startswith(folder)]
                held, self._held = self._held, []
                self._data_set = folder
                self._passed_over[folder.rstrip("/")] = 0
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
        """The folders below the input that files lie in."""
        steps = files.folder[len(self._base) :].split("/")[:-1]
        return [self._base + "".join(f"{step}/" for step in steps[: count + 1]) for count in range(len(steps))]
