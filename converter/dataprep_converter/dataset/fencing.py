"""Prevents processes of an earlier owner from changing an output folder that another run has taken over.

No store can make a write depend on another file's content. Reading OWNER before each write isn't enough, because the process may be paused
in between, while another run takes over the folder. Instead, writes and take-overs consist of these steps:

    write       stage, which makes nothing visible ─▶ read OWNER ─▶ complete
    take-over   write OWNER ─▶ discard everything that is staged ─▶ read OWNER ─▶ the first other change

If OWNER still names the process's own run, the process staged its write before any other run wrote OWNER. So there are only two possible
outcomes:

  - The write is completed before the other run discards staged files. Then the other run sees the written file before it changes anything.
  - The write is discarded by the other run. Then it can no longer be completed.

On stores with folders, files are removed in the same way: a process moves them into a folder, and a run that takes over the output removes
this folder.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, TypeVar

from dataprep_api import names
from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import NotFound, Unreachable
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import MovesFiles, Store, Upload, WritesAside
from dataprep_converter.stores.files import temporary_name

T = TypeVar("T")

_AT_ONCE: Final = 8
_MOST_STAGED: Final = 64
_STAGED_BYTES: Final = 4 << 20
"""Files are staged together until they reach this total size, and are then completed."""


@dataclass(frozen=True)
class SmallFile:
    """A file to be written, as a URI and its content."""

    uri: str
    content: bytes
    hdfs: HdfsOptions | None = None


def write(store: Store, files: Iterable[SmallFile], *, check: Callable[[], None]) -> None:
    """Writes small files durably, several at a time. An existing file is replaced.

    `check` raises an error if the caller no longer owns the folder. Files are written concurrently, because syncing a file takes longer
    than writing it, and syncing several files concurrently takes no longer than syncing one. If `files` is a generator, only a few of its
    files are in memory at the same time.
    """
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="metadata") as threads:
        for group in _groups(files):
            staged = _Staged(store, group, threads)
            retrying(lambda staged=staged: staged.write(check), what=f"writing {group[0].uri}")  # type: ignore[misc] # mypy can't infer a lambda with a default


def _groups(files: Iterable[SmallFile]) -> Iterator[list[SmallFile]]:
    """Yields lists of files that are staged together. Clears each list afterwards, so that the contents of its files are freed."""
    group: list[SmallFile] = []
    for file in files:
        group.append(file)
        del file  # so that this file can be freed before the next file is made
        if len(group) == _MOST_STAGED or sum(len(each.content) for each in group) >= _STAGED_BYTES:
            yield group
            group.clear()
    if group:
        yield group


@dataclass(frozen=True)
class _Staged:
    """Files that are staged together, and completed after a single check."""

    store: Store
    files: Sequence[SmallFile]
    threads: ThreadPoolExecutor

    def write(self, check: Callable[[], None]) -> None:
        """Writes the files. Raises Unreachable if the staged files were discarded; a new attempt may succeed."""
        uploads: list[Upload] = []

        def stage(file: SmallFile) -> None:
            upload = self.store.create(file.uri, hdfs=file.hdfs)
            uploads.append(upload)
            upload.write(file.content)
            upload.stage()

        try:
            self._each(stage, self.files)
            check()
            self._each(lambda upload: upload.commit(replace=True), uploads)
        except BaseException as exc:
            for upload in uploads:
                upload.abort()
            if isinstance(exc, Unreachable):
                check()
            raise

    def _each(self, call: Callable[[T], object], items: Sequence[T]) -> None:
        """Calls `call` with each item, and waits for all calls even if one fails."""
        calls = [self.threads.submit(call, item) for item in items]
        wait(calls)
        for done in calls:
            done.result()


def remove(store: Store, uris: Sequence[str], *, removed: str, check: Callable[[], None]) -> None:
    """Removes files that were listed earlier. `removed` is the URI of the caller's folder for removed files.

    On a store without folders, a file that is rewritten between `check` and the removal is removed with its new content.
    """
    if not uris:
        return
    if isinstance(store, WritesAside):
        retrying(lambda: store.remove_together(uris, check), what=f"removing {uris[0]}")
        return
    if not isinstance(store, MovesFiles):
        check()
        for uri in uris:
            store.delete(uri)
        return
    retrying(lambda: _move_away(store, uris, removed=removed, check=check), what=f"removing {uris[0]}")


def _move_away(store: MovesFiles, uris: Sequence[str], *, removed: str, check: Callable[[], None]) -> None:
    """Removes files by moving them. Raises Unreachable if another attempt by the same run has removed the folder in the meantime."""
    store.make_folder(removed)
    check()
    for uri in uris:
        try:
            # The temporary name marks the file as a leftover, which any sweep removes.
            store.move(uri, names.join(removed, temporary_name(uri.rpartition("/")[2])))
        except NotFound as exc:
            check()
            if store.stat(uri) is not None:
                raise Unreachable(f"{uri} can't be moved into {removed}, because something has removed that folder.", uri=uri) from exc
    store.remove_folder(removed)


def discard(store: Store, removed: str) -> None:
    """Prevents earlier owners from removing files. `removed` is the URI of the folder that contains the removed files of all runs. See also
    `Store.sweep`."""
    if isinstance(store, MovesFiles):
        store.remove_folder(removed)
