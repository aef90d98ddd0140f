"""Shared by `hdfs://` and `webhdfs://`: small files, lengths, leftovers, pins, and the NameNode's refusals."""

import re
from typing import Final

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import AlreadyExists, NotPermitted, Unreachable
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import Entry, Store

SCHEMES: Final = ("hdfs", "webhdfs", "swebhdfs")
_DENIED: Final = re.compile(
    r"Permission denied: user=(?P<user>[^,]*), access=(?P<access>\w+), inode=\\?\"(?P<inode>[^\"\\]*)\\?\":(?P<owner>[^\s\\]*)"
)


def put(store: Store, uri: str, data: bytes, *, replace: bool, hdfs: HdfsOptions | None) -> Entry:
    """`Store.put` by an upload, with retries."""
    in_doubt = False

    def attempt() -> Entry:
        nonlocal in_doubt
        upload = store.create(uri, hdfs=hdfs)
        try:
            upload.write(data)
            return upload.commit(replace=replace)
        except AlreadyExists:
            # An earlier attempt may have succeeded, with only its answer lost.
            found = store.stat(uri) if in_doubt and store.get(uri) == data else None
            if found is None:
                raise
            return found
        except Unreachable:
            in_doubt = True
            raise
        finally:
            upload.abort()

    return retrying(attempt, what=f"writing {uri}")


def check_length(uri: str, found: int, written: int) -> None:
    """Raises Unreachable when the file that HDFS has isn't as long as what was written."""
    if found != written:
        raise Unreachable(f"HDFS has {found} bytes of {uri}, {written} were written.", uri=uri)


def gone(uri: str) -> Unreachable:
    """The error if a commit swept the leftovers of attempts and took this one for dead. A new attempt writes it again."""
    return Unreachable(f"The temporary file of {uri} is gone: something has removed it.", uri=uri)


def pin(size: int, modified_milliseconds: int) -> str:
    """The same for both, so that inputs may be planned by one and read by the other."""
    return f"{size}-{modified_milliseconds * 1_000_000}"


def denied(text: str, path: str) -> NotPermitted | None:
    """The error for the NameNode's refusal; None if it isn't about permissions."""
    found = _DENIED.search(text)
    if found is None:
        return None
    needed = f"needs {found['access']} on {found['inode']}, which is {found['owner']}"
    return NotPermitted(f"AccessDenied: user={found['user']} path={path} ({needed}).", uri=path)
