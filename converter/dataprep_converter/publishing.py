"""Publishing: a file gets its final name once, however many attempts make it."""

import hashlib

from dataprep_api.spec import HdfsOptions
from dataprep_converter.access import Entry, Store, Upload
from dataprep_converter.errors import AlreadyExists


def publish(upload: Upload, store: Store, uri: str, *, size: int, sha256: str) -> Entry:
    """Gives the upload its final name.

    An object that is there already is success when it has our bytes: another attempt finished first, or the answer to our own
    commit was lost. It isn't replaced, because then its pin would no longer be the one in the other attempt's report. Any other object
    is an older run's, and is replaced.
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


def copied(source: Store, source_uri: str, target: Store, uri: str, *, hdfs: HdfsOptions | None = None) -> tuple[Entry, str]:
    """Copies a file, and returns it as it is there now and its SHA-256. Nothing is visible before it is whole."""
    digest = hashlib.sha256()
    size = 0
    with source.open(source_uri) as opened:
        upload = target.create(uri, size_hint=opened.size, hdfs=hdfs)
        try:
            for piece in opened.stream():
                digest.update(piece)
                upload.write(piece)
                size += len(piece)
            entry = publish(upload, target, uri, size=size, sha256=digest.hexdigest())
        except BaseException:
            upload.abort()
            raise
    return entry, digest.hexdigest()


def digest_of(store: Store, uri: str) -> str:
    """SHA-256 of an object, read back."""
    digest = hashlib.sha256()
    with store.open(uri) as source:
        for piece in source.stream():
            digest.update(piece)
    return digest.hexdigest()
