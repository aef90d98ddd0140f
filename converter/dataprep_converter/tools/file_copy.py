"""Copies any file or folder to any store. `dataprep copy` uses this module for everything except data sets. `steps/copy_job.py` copies data
sets.

Files outside a data set have no manifest, so they can be compared only with the store's listing. Therefore each file is read with the pin
from the listing. The copy becomes visible only when it is complete, and is then read again. Existing files are compared with the source, so
that an interrupted copy can continue.
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
from dataprep_converter.inputs.pinned import entry_of, open_pinned, relative_path
from dataprep_converter.inputs.places import place_of
from dataprep_converter.runtime.retry import RetryPolicy, retrying
from dataprep_converter.stores import Entry, Store, scheme_of
from dataprep_converter.stores.files import TEMPORARY
from dataprep_converter.stores.publish import aborted_on_error, digest_of

logger = logging.getLogger(__name__)

_FILES_AT_ONCE: Final = 8
_MOST_WAITING: Final = 64
"""Maximum number of files that are listed but not yet copied."""
_FILE_RETRY_POLICY = RetryPolicy(attempts=3, total_seconds=300, first_delay_seconds=1)


class _CancelledError(Exception):
    """Stops the copy of a file if its result is no longer needed."""


@dataclass
class CopyResult:
    """The outcome of a copy."""

    files: int = 0
    """Number of copied files."""
    size: int = 0
    """Total size of the copied files in bytes."""
    kept: int = 0
    """Number of files that already existed."""


def is_data_set(uri: str, access: Access) -> bool:
    """Whether the URI holds a dataprep data set, finished or not. `dataprep copy` copies data sets with `steps/copy_job.py`."""
    if scheme_of(uri) in ("http", "https") or access.store(uri).stat(uri) is not None:
        return False
    folder = OutputFolder(uri, access)
    try:
        return folder.success() is not None or folder.read(names.OWNER) is not None
    except NotWhole:
        return folder.read(names.OWNER) is not None  # Hadoop jobs also write a `_SUCCESS` file


def copy(uri: str, to: str, access: Access, *, overwrite: bool) -> CopyResult:
    """Copies a file, or all files in a folder with their relative paths. Idempotent: existing files with the same bytes are kept.

    Raises NotFound if the URI doesn't exist, and BadSpec if source and destination overlap. Unless `overwrite` is set, raises OutputExists
    if a destination file has different content. Raises InputChanged if a file changed while it was being read.
    """
    store = access.store(uri)
    entry = store.stat(uri)
    if entry is not None:
        target = names.join(to, _name_of(uri)) if to.endswith("/") else to
        source_place, target_place = place_of(uri, access), place_of(target, access)
        if (
            source_place is not None
            and target_place is not None
            and () in (source_place.path_of(target_place), target_place.path_of(source_place))
        ):
            raise BadSpec(f"{target} is {uri} itself, so there is nothing to copy.", uri=uri)
        return _copy_all(iter([(entry, target)]), store, access.store(to), overwrite=overwrite)
    overlaps.check([uri], to, access)
    return _copy_all(_files_below(uri, to, store), store, access.store(to), overwrite=overwrite)


def _name_of(uri: str) -> str:
    """Returns the file's name. In a web address, a query with a signature or token is dropped, and the name is percent-decoded."""
    name = unquote(urlsplit(uri).path).rpartition("/")[2] if scheme_of(uri) in ("http", "https") else uri.rpartition("/")[2]
    if name in ("", ".", ".."):
        raise BadSpec(f"{uri} doesn't end with a file name. As the destination, give a file name instead of a folder.", uri=uri)
    return name


def _files_below(uri: str, to: str, store: Store) -> Iterator[tuple[Entry, str]]:
    """Yields every file of a folder, with its destination."""
    is_empty = True
    for entry in store.list(uri):
        path = relative_path(uri, entry.uri)
        if not path.rpartition("/")[2].startswith(TEMPORARY):
            is_empty = False
            yield entry, names.join(to, path)
    if is_empty:
        raise NotFound(f"{uri} doesn't exist: there is no such file, and no file below it.", uri=uri)


def _copy_all(files: Iterator[tuple[Entry, str]], source: Store, target: Store, *, overwrite: bool) -> CopyResult:
    """Copies several files at a time. If one copy fails, the other copies are stopped."""
    result = CopyResult()
    stop = Event()
    threads = ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="copy")
    copies: deque[tuple[Entry, Future[bool]]] = deque()

    def collect(most: int) -> None:
        while len(copies) > most:
            entry, future = copies.popleft()
            if future.result():
                result.files += 1
                result.size += entry.size
            else:
                result.kept += 1

    try:
        for entry, uri in files:
            copies.append((entry, threads.submit(_Copier(source, target, stop, overwrite).copy, entry, uri)))
            collect(_MOST_WAITING)
        collect(0)
    finally:
        stop.set()
        threads.shutdown(cancel_futures=True)
    return result


@dataclass(frozen=True)
class _Copier:
    source: Store
    target: Store
    stop: Event
    overwrite: bool

    def copy(self, entry: Entry, uri: str) -> bool:
        """Copies the file and returns True, or returns False if the destination already has the same content."""
        return retrying(lambda: self._copy(entry, uri), what=f"copy of {entry.uri}", policy=_FILE_RETRY_POLICY)

    def _copy(self, entry: Entry, uri: str) -> bool:
        existing = self.target.stat(uri)
        if existing is not None:
            if existing.size == entry.size and self._is_same(entry, uri):
                return False
            self._refuse(uri)
        digest = hashlib.sha256()
        size = 0
        with open_pinned(self.source, entry.uri, entry.pin) as source:
            upload = self.target.create(uri, size_hint=entry.size)
            try:
                with aborted_on_error(upload):
                    for piece in source.stream():
                        self._check_cancelled()
                        digest.update(piece)
                        upload.write(piece)
                        size += len(piece)
                    new_pin = entry_of(self.source, entry.uri).pin
                    if size != entry.size or new_pin != entry.pin:
                        raise InputChanged(
                            f"{entry.uri} changed while it was being copied: its pin was {entry.pin} and is now {new_pin}. Copy it again.",
                            uri=entry.uri,
                        )
                    upload.commit(replace=self.overwrite)
            except AlreadyExists:
                # Another writer was faster, or our own commit succeeded but its response was lost.
                if digest_of(self.target, uri) != digest.hexdigest():
                    self._refuse(uri)
        if digest_of(self.target, uri) != digest.hexdigest():
            self.target.delete(uri)
            raise Unreachable(f"The content of {uri} differs from what was written to it, so the file was removed.", uri=uri)
        logger.info("copied %s: %d bytes", uri, size)
        return True

    def _is_same(self, entry: Entry, uri: str) -> bool:
        digest = hashlib.sha256()
        with open_pinned(self.source, entry.uri, entry.pin) as source:
            for piece in source.stream():
                self._check_cancelled()
                digest.update(piece)
        return digest.hexdigest() == digest_of(self.target, uri)

    def _refuse(self, uri: str) -> None:
        if not self.overwrite:
            raise OutputExists(f"{uri} differs from the file to be copied; --overwrite replaces it.", uri=uri)

    def _check_cancelled(self) -> None:
        if self.stop.is_set():
            raise _CancelledError
