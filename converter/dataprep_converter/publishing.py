"""Publishing: a file gets its final name once, however many attempts make it."""

import hashlib

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


def digest_of(store: Store, uri: str) -> str:
    """SHA-256 of an object, read back."""
    digest = hashlib.sha256()
    with store.open(uri) as source:
        for piece in source.stream():
            digest.update(piece)
    return digest.hexdigest()
