"""Keeps a process of an earlier owner from changing an output folder that another run has taken over.

No store can make a write depend on the content of another file, so reading OWNER before each write isn't enough: the process may be paused
in between, while another run takes the folder over. Instead, a write and a take-over meet in the store:

    write       stage, which makes nothing visible ─▶ read OWNER ─▶ complete
    take-over   write OWNER ─▶ discard everything that is staged ─▶ read OWNER ─▶ the first other change

If a process has read its own run in OWNER, it had staged its write before the other run wrote OWNER. So either the write is completed before
the other run discards it, and then the other run begins with it, or the write can't be completed any more.

On stores with folders, files are removed in the same way: they are moved into a folder, which the other run removes.
"""

from collections.abc import Callable, Sequence
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


@dataclass(frozen=True)
class SmallFile:
    """A file to be written, as a URI and its content."""

    uri: str
    content: bytes
    hdfs: HdfsOptions | None = None


def write(store: Store, files: Sequence[SmallFile], *, check: Callable[[], None]) -> None:
    """Writes small files durably, several at a time. An existing file is replaced.

    `check` raises an error if the caller no longer owns the folder. Syncing a file takes longer than writing it, and syncing several files
    concurrently takes no longer than syncing one.
    """
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="metadata") as threads:
        for start in range(0, len(files), _MOST_STAGED):
            staged = _Staged(store, files[start : start + _MOST_STAGED], threads)
            retrying(lambda staged=staged: staged.write(check), what=f"writing {staged.files[0].uri}")  # type: ignore[misc] # mypy can't infer a lambda with a default


@dataclass(frozen=True)
class _Staged:
    """Files that are staged together, and completed after a single check."""

    store: Store
    files: Sequence[SmallFile]
    threads: ThreadPoolExecutor

    def write(self, check: Callable[[], None]) -> None:
        """Writes the files. Raises Unreachable if something has discarded them, which a new attempt may repair."""
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

    On a store without folders, a file that is written between `check` and its removal is lost.
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
    """Removes files by moving them. Raises Unreachable if another attempt of the same run has removed the folder meanwhile."""
    store.make_folder(removed)
    check()
    for uri in uris:
        try:
            # The temporary name marks the file as a leftover, which any sweep removes.
            store.move(uri, names.join(removed, temporary_name(uri.rpartition("/")[2])))
        except NotFound as exc:
            check()
            if store.stat(uri) is not None:
                raise Unreachable(f"{removed} is gone, so {uri} can't be moved there: something has removed it.", uri=uri) from exc
    store.remove_folder(removed)


def discard(store: Store, removed: str) -> None:
    """Keeps earlier owners from removing files. `removed` is the URI of the folder of all runs' removed files. See `Store.sweep`, too."""
    if isinstance(store, MovesFiles):
        store.remove_folder(removed)
