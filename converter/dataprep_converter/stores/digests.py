"""Checks the bytes of a complete object in S3 or OSS against its ETag.

The ETag of an object that was uploaded in one request is normally the object's MD5. But if the object is encrypted with a key from the
store's key service, or if the server computes ETags differently, the ETag isn't the MD5. So a mismatch alone doesn't prove damage. After a
mismatch, the object is read again, and the bytes are accepted if both reads returned the same bytes. Neither S3 nor OSS has a checksum for
a range of an object; only TLS protects ranges.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator

from dataprep_converter.core.errors import Unreachable

_MD5 = re.compile(r"[0-9a-fA-F]{32}")


def checked(read: Callable[[], tuple[bytes, str]], *, uri: str) -> bytes:
    """Returns a complete object's bytes. `read` returns the bytes and the ETag. Raises Unreachable if the bytes were damaged in transit."""
    content, etag = read()
    if not _MD5.fullmatch(etag) or _md5([content]) == etag.lower() or read()[0] == content:
        return content
    raise _damaged(uri)


def checked_stream(pieces: Iterable[bytes], *, size: int, etag: str, uri: str, again: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """Yields the pieces of a complete object of `size` bytes. The last piece is yielded only if the object's digest is correct.

    `again` starts a second read of the object. Raises Unreachable if the bytes were damaged in transit.
    """
    if not _MD5.fullmatch(etag):
        yield from pieces
        return
    digest = hashlib.md5(usedforsecurity=False)
    position = 0
    for piece in pieces:
        digest.update(piece)
        position += len(piece)
        if position == size and digest.hexdigest() != etag.lower() and digest.hexdigest() != _md5(again()):
            raise _damaged(uri)
        yield piece


def _md5(pieces: Iterable[bytes]) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _damaged(uri: str) -> Unreachable:
    return Unreachable(
        f"The bytes of {uri} were changed in transit: their MD5 is not the object's ETag, and a second read returned other bytes.", uri=uri
    )
