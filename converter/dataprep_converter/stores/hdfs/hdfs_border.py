"""Wraps every hdfs-native call with the watchdog, and translates the library's errors, which contain text from Java and Rust.

See `hdfs` for the store.
"""

import contextlib
import os
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from dataprep_converter.core.errors import AlreadyExists, BadSpec, NotFound, NotPermitted, StoreError, StoreFull, Unreachable
from dataprep_converter.runtime import watchdog
from dataprep_converter.stores.hdfs import hadoop, hdfs_kerberos

USER_VARIABLE: Final = "HADOOP_USER_NAME"
CONNECT_SECONDS: Final = 5.0


def check_reachable(addresses: Sequence[str]) -> None:
    """Raises Unreachable unless one of the NameNodes accepts a connection."""
    faults = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
        except OSError as exc:
            faults.append(f"cannot connect to {address}: {exc.strerror or exc}")
        else:
            return
    raise Unreachable(f"HDFS: {'; '.join(faults)}.")


@contextlib.contextmanager
def border(addresses: Sequence[str], path: str) -> Iterator[None]:
    """Wraps a client call with the watchdog and translates its errors."""
    try:
        with watchdog.blocking():
            yield
    except (OSError, RuntimeError, NotImplementedError) as exc:
        _translate(exc, addresses, path)
    except BaseException as exc:
        # A panic in Rust. The panic's class can't be imported, and isn't a subclass of Exception.
        if type(exc).__name__ == "PanicException":
            raise Unreachable(f"{', '.join(addresses) or 'HDFS'}: hdfs-native failed at {path}: {exc}.", uri=path) from exc
        raise


def _translate(error: Exception, addresses: Sequence[str], path: str) -> NoReturn:
    text = str(error)
    line = _first_line(text)
    hosts = ", ".join(addresses) or "HDFS"
    if "(is not a directory)" in text:
        # The NameNode reports "is not a directory" if one of the path's parents is a file.
        raise NotFound(f"{path} does not exist on {hosts}: {line}.", uri=path) from error
    if (denial := hadoop.permission_error(text, path)) is not None:
        raise denial from error
    if "AccessControlException" in text or "AuthorizationException" in text:
        raise NotPermitted(
            f"AccessDenied: user={os.environ.get(USER_VARIABLE, 'of this process')} path={path}: {line}.", uri=path
        ) from error
    if "QuotaExceededException" in text or "ClusterStorageCapacityExceeded" in text:
        raise StoreFull(f"No quota left for {path}: {line}.", uri=path) from error
    if refusal := hdfs_kerberos.refusal(text, hosts):
        raise refusal from error
    if isinstance(error, FileNotFoundError):
        raise NotFound(f"{path} does not exist on {hosts}.", uri=path) from error
    if isinstance(error, FileExistsError):
        raise AlreadyExists(f"{path} exists already.", uri=path) from error
    if isinstance(error, IsADirectoryError) or "must both be directories" in text:
        raise NotPermitted(f"{path}: found a folder instead of a file, or a file instead of a folder: {line}.", uri=path) from error
    if "NotImplemented" in type(error).__name__:
        raise StoreError(f"hdfs-native can't do this at {path}: {line}.", uri=path) from error
    if any(name in text for name in ("block size", "InvalidPath", "InvalidArgument", "requested replication", "IllegalArgumentException")):
        raise BadSpec(f"HDFS refuses {path}: {line}.", uri=path) from error
    if isinstance(error, OSError) and any(word in text for word in ("refused", "lookup", "unreachable", "timed out", "No route")):
        raise Unreachable(f"HDFS: cannot connect to {hosts} (NameNode or one of its DataNodes): {line}.", uri=path) from error
    if "RPC listener disconnected" in text:
        line += f" (the NameNode is restarting, or requires Kerberos while the client has no {hdfs_kerberos.AUTHENTICATION}=kerberos)"
    # The NameNode is in safe mode or on standby, DataNodes are missing, or a write was interrupted. Another attempt may succeed after the
    # cluster has recovered.
    raise Unreachable(f"HDFS at {hosts} failed at {path}: {hadoop.explained(line)}.", uri=path) from error


def _first_line(text: str) -> str:
    """Returns the message without Java's stack trace."""
    line = re.split(r"\\n|\n", text)[0].strip().rstrip(".")
    match: Any = re.match(r'\w*RPCError\("[\w.$]*?(\w+)", "(.*)', line)
    return f"{match[1]}: {match[2]}" if match else line
