"""Publishes files: gives a file its final name once, even if several attempts write it."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import AlreadyExists, NotWhole
from dataprep_converter.stores import Entry, Store, Upload


@contextmanager
def aborted_on_error(upload: Upload) -> Iterator[None]:
    """Aborts the upload if the code in this context raises an error."""
    try:
        yield
    except BaseException:
        upload.abort()
        raise


def publish(upload: Upload, store: Store, uri: str, *, size: int, sha256: str) -> Entry:
    """Commits the upload, unless an object with the same bytes already exists.

    If an object with the same bytes exists, another attempt finished first, or the response to our own commit was lost. The existing object
    is kept and its entry is returned, because another attempt's report may contain the object's pin. An object with other bytes was written
    by an older run, and is replaced.
    """
    existing = store.stat(uri)
    if existing is None:
        try:
            return upload.commit(replace=False)
        except AlreadyExists:
            existing = store.stat(uri)
    if existing is not None and existing.size == size and digest_of(store, uri) == sha256:
        upload.abort()
        return existing
    return upload.commit(replace=True)


def write_file(
    store: Store, uri: str, pieces: Iterable[bytes], *, hdfs: HdfsOptions | None = None, check: Callable[[], None] | None = None
) -> None:
    """Writes the pieces as one file, which replaces any existing file. The file isn't visible until it is complete.

    If `check` is given, it is called when all pieces have been sent, and raises an error if the file must not be completed.
    """
    upload = store.create(uri, hdfs=hdfs)
    with aborted_on_error(upload):
        for piece in pieces:
            upload.write(piece)
        if check is not None:
            upload.stage()
            check()
        upload.commit(replace=True)


def copy_file(
    source: Store,
    source_uri: str,
    target: Store,
    uri: str,
    *,
    sha256: str,
    hdfs: HdfsOptions | None = None,
    on_piece: Callable[[], None],
    before_publishing: Callable[[], None],
) -> Entry:
    """Copies a file and returns the copy's entry.

    The copy isn't visible until it is complete. Raises NotWhole if the SHA-256 of the copied bytes is not `sha256`.
    """
    upload, size = _send_copy(source, source_uri, target, uri, sha256=sha256, hdfs=hdfs, on_piece=on_piece)
    with aborted_on_error(upload):
        before_publishing()
        return publish(upload, target, uri, size=size, sha256=sha256)


def stage_copy(source: Store, source_uri: str, target: Store, uri: str, *, sha256: str) -> Upload:
    """Sends a copy of a file, without making it visible. Pass the returned upload to `publish`.

    Raises NotWhole if the SHA-256 of the copied bytes is not `sha256`.
    """
    upload, _ = _send_copy(source, source_uri, target, uri, sha256=sha256)
    with aborted_on_error(upload):
        upload.stage()
    return upload


def _send_copy(
    source: Store,
    source_uri: str,
    target: Store,
    uri: str,
    *,
    sha256: str,
    hdfs: HdfsOptions | None = None,
    on_piece: Callable[[], None] = lambda: None,
) -> tuple[Upload, int]:
    """Sends a copy of a file, and returns its upload and its size."""
    digest = hashlib.sha256()
    size = 0
    with source.open(source_uri) as opened:
        upload = target.create(uri, size_hint=opened.size, hdfs=hdfs)
        with aborted_on_error(upload):
            for piece in opened.stream():
                on_piece()
                digest.update(piece)
                upload.write(piece)
                size += len(piece)
            if digest.hexdigest() != sha256:
                raise NotWhole(f"{source_uri} has SHA-256 {digest.hexdigest()} instead of {sha256}. See dataprep verify.", uri=source_uri)
    return upload, size


def digest_of(store: Store, uri: str) -> str:
    """Reads an object and returns its SHA-256."""
    digest = hashlib.sha256()
    with store.open(uri) as source:
        for piece in source.stream():
            digest.update(piece)
    return digest.hexdigest()
