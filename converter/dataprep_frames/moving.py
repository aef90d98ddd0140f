"""Gives files of attempts their final names. They are moved or, on a store that can't move files, copied."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from dataprep_converter.core.errors import NotFound, NotWhole
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.stores import CopiesObjects, Entry, MovesFiles, SyncsFolders, Upload
from dataprep_converter.stores.publish import publish, stage_copy

AT_ONCE: Final = 8
"""The number of files that are checked, copied or moved at the same time."""


@dataclass(frozen=True)
class Move:
    """A file of an attempt, and its place in the data set."""

    source: str
    """The URI in the attempt's folder."""
    target: str
    """The path in the output folder."""
    size: int
    sha256: str
    pin: str | None
    """The pin in the attempt's folder. None for companions, because tasks don't report their pins."""


class Mover:
    """Moves files of attempts into an output folder. At the end, discards the copies that haven't become visible."""

    def __init__(self, folder: RunFolder, access: Access) -> None:
        self._folder = folder
        self._store = access.store(folder.uri)
        self._copies: dict[str, Upload] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for copy in self._copies.values():
            copy.abort()

    def check(self, moves: Iterable[Move]) -> None:
        """Raises NotWhole if a file has changed since its task wrote it. Called before anything in the output folder is changed."""

        def check(move: Move) -> None:
            entry = self._store.stat(move.source)
            if entry is None:
                raise _gone(move)
            if entry.size != move.size or move.pin not in (None, entry.pin):
                raise NotWhole(f"{move.source} has changed since its task wrote it.", uri=move.source)

        for _ in mapped_ahead(check, moves, most=AT_ONCE):
            pass

    def copy_ahead(self, moves: Iterable[Move]) -> None:
        """On a store that can't move files, stages copies. Either the store copies the files, or this process uploads them again.

        Called after the folder was claimed, because a claim discards all uploads. Called before `_SUCCESS` is removed, so that the earlier
        data set stays readable while the files are copied.
        """
        if isinstance(self._store, MovesFiles):
            return

        def copy(move: Move) -> None:
            target = self._folder.at(move.target)
            # The pin proves that the file still has the bytes that its task wrote. Companions have no pins, so their bytes are compared.
            if move.pin is not None and isinstance(self._store, CopiesObjects):
                copied = self._store.stage_copy(Entry(move.source, move.size, move.pin), target)
            else:
                copied = None
            self._copies[move.target] = copied or stage_copy(self._store, move.source, self._store, target, sha256=move.sha256)

        for _ in mapped_ahead(copy, moves, most=AT_ONCE):
            pass

    def make_room(self, moves: Sequence[Move]) -> None:
        """On a store that moves files, makes the target folders. Removes files of replaced runs that have the same names as the targets."""
        if not isinstance(self._store, MovesFiles):
            return
        present = {path for path, _ in (*self._folder.visible(), *self._folder.indexes())}
        self._folder.remove(sorted({move.target for move in moves} & present))
        for folder in self._folders(moves):
            self._store.make_folder(folder)

    def move(self, move: Move) -> Entry:
        """Makes the file visible under its final name, and returns its entry. Raises OutputLost if another run owns the folder."""
        self._folder.check_owner()
        target = self._folder.at(move.target)
        if not isinstance(self._store, MovesFiles):
            return publish(self._copies[move.target], self._store, target, size=move.size, sha256=move.sha256)
        try:
            self._store.move(move.source, target)
        except NotFound as exc:
            # The response to an earlier request to move the file may have been lost.
            if self._store.stat(move.source) is not None or self._store.stat(target) is None:
                self._folder.check_owner()
                raise _gone(move) from exc
        entry = self._store.stat(target)
        if entry is None:
            raise NotWhole(f"{target} is gone: something has removed it.", uri=target)
        return entry

    def make_durable(self, moves: Iterable[Move]) -> None:
        """Makes the names of moved files durable."""
        if isinstance(self._store, SyncsFolders):
            for folder in self._folders(moves):
                self._store.sync_folder(folder)

    def _folders(self, moves: Iterable[Move]) -> list[str]:
        return sorted({self._folder.at(move.target).rpartition("/")[0] for move in moves})


def _gone(move: Move) -> NotWhole:
    return NotWhole(f"{move.source} is gone, although its task has succeeded: something has removed it.", uri=move.source)
