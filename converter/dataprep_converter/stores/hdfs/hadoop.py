"""Functions shared by the stores of `hdfs://` and `webhdfs://`: writing small files, checking lengths, pins, and errors."""

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

_NO_DATA_NODE: Final = "could only be written to 0 of the "


def put(store: Store, uri: str, data: bytes, *, replace: bool, hdfs: HdfsOptions | None) -> Entry:
    """Implements `Store.put` as an upload, with retries."""
    in_doubt = False

    def attempt() -> Entry:
        nonlocal in_doubt
        upload = store.create(uri, hdfs=hdfs)
        try:
            upload.write(data)
            return upload.commit(replace=replace)
        except AlreadyExists:
            # An earlier attempt may have succeeded although we got no response.
            entry = store.stat(uri) if in_doubt and store.get(uri) == data else None
            if entry is None:
                raise
            return entry
        except Unreachable:
            in_doubt = True
            raise
        finally:
            upload.abort()

    return retrying(attempt, what=f"writing {uri}")


def check_length(uri: str, actual: int, expected: int) -> None:
    """Raises Unreachable if the size of the file in HDFS differs from the number of bytes written."""
    if actual != expected:
        raise Unreachable(f"HDFS has {actual} bytes of {uri}, but {expected} were written.", uri=uri)


def gone(uri: str) -> Unreachable:
    """Returns the error for an upload whose temporary file is gone, for example because the sweep at the data set's commit has removed it.

    A new attempt writes the file again.
    """
    return Unreachable(f"The temporary file of {uri} is gone: something has removed it.", uri=uri)


def explained(line: str) -> str:
    """Returns a NameNode's message. If the message says that no DataNode accepted a block, adds the possible causes."""
    return f"{line} (no DataNode has space for another block, or none can be reached from here)" if _NO_DATA_NODE in line else line


def pin(size: int, modified_milliseconds: int) -> str:
    """Returns a file's pin. `hdfs://` and `webhdfs://` use the same pins, so that a plan made through one store can be read through the
    other store."""
    return f"{size}-{modified_milliseconds * 1_000_000}"


def permission_error(text: str, path: str) -> NotPermitted | None:
    """Returns the error for a NameNode's message about permissions, or None if the message is about something else."""
    match = _DENIED.search(text)
    if match is None:
        return None
    reason = f"needs {match['access']} on {match['inode']}, which is {match['owner']}"
    return NotPermitted(f"AccessDenied: user={match['user']} path={path} ({reason}).", uri=path)
