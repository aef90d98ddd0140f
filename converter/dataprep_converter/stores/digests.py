"""Checks the bytes of a whole object against its ETag. For S3 and OSS.

The ETag of an object that was put in one piece is its MD5, unless it is encrypted with a key of the store's key service or the server
computes ETags differently. So a different digest alone proves nothing: the object is read again, and two equal readings are accepted.
Neither store has a checksum for ranges of an object; there, TLS protects them.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator

from dataprep_converter.core.errors import Unreachable

_MD5 = re.compile(r"[0-9a-fA-F]{32}")


def checked(read: Callable[[], tuple[bytes, str]], *, uri: str) -> bytes:
    """A whole object, which `read` returns with its ETag. Raises Unreachable if it was damaged in transit."""
    content, etag = read()
    if not _MD5.fullmatch(etag) or _md5([content]) == etag.lower() or read()[0] == content:
        return content
    raise _damaged(uri)


def checked_stream(pieces: Iterable[bytes], *, size: int, etag: str, uri: str, again: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """The pieces of a whole object of `size` bytes; the last one only once the digest is right. Raises Unreachable.

    `again` starts another read.
    """
    if not _MD5.fullmatch(etag):
        yield from pieces
        return
    digest = hashlib.md5(usedforsecurity=False)
    got = 0
    for piece in pieces:
        digest.update(piece)
        got += len(piece)
        if got == size and digest.hexdigest() != etag.lower() and digest.hexdigest() != _md5(again()):
            raise _damaged(uri)
        yield piece


def _md5(pieces: Iterable[bytes]) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _damaged(uri: str) -> Unreachable:
    return Unreachable(f"The bytes of {uri} were changed on the way: its MD5 is not its ETag, and a second reading differs.", uri=uri)
