"""Digests: whether the bytes of a whole object are those that its ETag tells of. For S3 and OSS.

The ETag of an object that was put in one piece is its MD5, unless it is encrypted with a key of the store's key service, and unless the
server has its own ideas. So a digest that differs proves nothing by itself: the object is read once more, and two equal readings count. Parts of an
object have no checksum on either store; there TLS is what protects them.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator

from dataprep_converter.core.errors import Unreachable

_MD5 = re.compile(r"[0-9a-fA-F]{32}")


def checked(read: Callable[[], tuple[bytes, str]], *, uri: str) -> bytes:
    """The whole of an object, which `read` returns with its ETag. Raises Unreachable when it was damaged on the way."""
    content, etag = read()
    if not _MD5.fullmatch(etag) or _md5([content]) == etag.lower() or read()[0] == content:
        return content
    raise _damaged(uri)


def checked_stream(pieces: Iterable[bytes], *, size: int, etag: str, uri: str, again: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """The pieces, the whole of an object of `size` bytes; the last one only when all were right. Raises Unreachable.

    `again` begins another reading.
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
