"""A copy of files: any file or folder to any store, as `dataprep copy` does with what is no data set of ours (that is `steps/copy_job.py`).

Nothing is known of such files but what their store says, so each is held against itself: read as it was listed, written under its name only when it
is whole, and read back. What is there already is compared and not trusted, so a copy that was stopped goes on.
"""

import hashlib
import logging
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Final
from urllib.parse import unquote, urlsplit

from dataprep_api import names
from dataprep_converter.core.errors import AlreadyExists, BadSpec, InputChanged, NotFound, NotWhole, OutputExists, Unreachable
from dataprep_converter.dataset import overlaps
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import found, open_pinned, relative_path
from dataprep_converter.inputs.places import place_of
from dataprep_converter.runtime.retry import Patience, retrying
from dataprep_converter.stores import Entry, Store, scheme_of
from dataprep_converter.stores.files import TEMPORARY
from dataprep_converter.stores.publish import digest_of

logger = logging.getLogger(__name__)

_FILES_AT_ONCE: Final = 8
_WAITING: Final = 64
"""Files that are listed and not begun."""
_PATIENCE = Patience(attempts=3, total_seconds=300, first_delay_seconds=1)


class _StoppedError(Exception):
    """Nobody waits for this file any more."""


@dataclass
class Copied:
    """What a copy did."""

    files: int = 0
    """That were copied now."""
    size: int = 0
    """Their bytes."""
    kept: int = 0
    """Files that were there."""


def is_data_set(uri: str, access: Access) -> bool:
    """Whether a data set of ours lies there, finished or not: it is copied as one."""
    if scheme_of(uri) in ("http", "https") or access.store(uri).stat(uri) is not None:
        return False
    folder = OutputFolder(uri, access)
    try:
        return folder.success() is not None or folder.read(names.OWNER) is not None
    except NotWhole:
        return folder.read(names.OWNER) is not None  # Hadoop's jobs write a _SUCCESS as well


def copy(uri: str, to: str, access: Access, *, overwrite: bool) -> Copied:
    """Copies a file, or all files of a folder with their paths below it. Idempotent: what is there with the same bytes stays.

    Raises NotFound for a URI that names nothing, BadSpec when source and destination overlap, OutputExists naming a file that holds something else
    (unless `overwrite`), InputChanged for a file that changed while it was read.
    """
    store = access.store(uri)
    entry = store.stat(uri)
    if entry is not None:
        target = names.join(to, _name_of(uri)) if to.endswith("/") else to
        read, written = place_of(uri, access), place_of(target, access)
        if read is not None and written is not None and () in (read.path_of(written), written.path_of(read)):
            raise BadSpec(f"{target} is {uri} itself, so there is nothing to copy.", uri=uri)
        return _all(iter([(entry, target)]), store, access.store(to), overwrite=overwrite)
    overlaps.check([uri], to, access)
    return _all(_below(uri, to, store), store, access.store(to), overwrite=overwrite)


def _name_of(uri: str) -> str:
    """What a file is called. An address of the web may be signed or hold a token, and its percent signs are none of the name's."""
    name = unquote(urlsplit(uri).path).rpartition("/")[2] if scheme_of(uri) in ("http", "https") else uri.rpartition("/")[2]
    if name in ("", ".", ".."):
        raise BadSpec(f"{uri} has no file name at its end: give the copy one, instead of a folder.", uri=uri)
    return name


def _below(uri: str, to: str, store: Store) -> Iterator[tuple[Entry, str]]:
    """Every file of a folder, and where it goes."""
    is_empty = True
    for entry in store.list(uri):
        path = relative_path(uri, entry.uri)
        if not path.rpartition("/")[2].startswith(TEMPORARY):
            is_empty = False
            yield entry, names.join(to, path)
    if is_empty:
        raise NotFound(f"{uri} names nothing: no such file, and no file below it.", uri=uri)


def _all(wanted: Iterator[tuple[Entry, str]], source: Store, target: Store, *, overwrite: bool) -> Copied:
    """Several at a time. What is under way ends when one fails."""
    done = Copied()
    stop = Event()
    threads = ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="copy")
    waiting: deque[tuple[Entry, Future[bool]]] = deque()

    def end(most: int) -> None:
        while len(waiting) > most:
            entry, begun = waiting.popleft()
            if begun.result():
                done.files += 1
                done.size += entry.size
            else:
                done.kept += 1

    try:
        for entry, uri in wanted:
            waiting.append((entry, threads.submit(_Copier(source, target, stop, overwrite).copy, entry, uri)))
            end(_WAITING)
        end(0)
    finally:
        stop.set()
        threads.shutdown(cancel_futures=True)
    return done


@dataclass(frozen=True)
class _Copier:
    source: Store
    target: Store
    stop: Event
    overwrite: bool

    def copy(self, entry: Entry, uri: str) -> bool:
        """Whether the file was copied now; False when it is there."""
        return retrying(lambda: self._copy(entry, uri), what=f"copy of {entry.uri}", patience=_PATIENCE)

    def _copy(self, entry: Entry, uri: str) -> bool:
        there = self.target.stat(uri)
        if there is not None:
            if there.size == entry.size and self._is_same(entry, uri):
                return False
            self._refuse(uri)
        digest = hashlib.sha256()
        size = 0
        with open_pinned(self.source, entry.uri, entry.pin) as opened:
            upload = self.target.create(uri, size_hint=entry.size)
            try:
                for piece in opened.stream():
                    self._go_on()
                    digest.update(piece)
                    upload.write(piece)
                    size += len(piece)
                now = found(self.source, entry.uri).pin
                if size != entry.size or now != entry.pin:
                    raise InputChanged(
                        f"{entry.uri} changed while it was copied: {entry.pin} then, {now} now. Copy it again.", uri=entry.uri
                    )
                upload.commit(replace=self.overwrite)
            except AlreadyExists:
                # Somebody was faster, or it was we, and the answer was lost.
                upload.abort()
                if digest_of(self.target, uri) != digest.hexdigest():
                    self._refuse(uri)
            except BaseException:
                upload.abort()
                raise
        if digest_of(self.target, uri) != digest.hexdigest():
            self.target.delete(uri)
            raise Unreachable(f"{uri} reads back other bytes than were written; it is removed.", uri=uri)
        logger.info("copied %s: %d bytes", uri, size)
        return True

    def _is_same(self, entry: Entry, uri: str) -> bool:
        digest = hashlib.sha256()
        with open_pinned(self.source, entry.uri, entry.pin) as opened:
            for piece in opened.stream():
                self._go_on()
                digest.update(piece)
        return digest.hexdigest() == digest_of(self.target, uri)

    def _refuse(self, uri: str) -> None:
        if not self.overwrite:
            raise OutputExists(f"{uri} holds something else than what is copied there; --overwrite replaces it.", uri=uri)

    def _go_on(self) -> None:
        if self.stop.is_set():
            raise _StoppedError
