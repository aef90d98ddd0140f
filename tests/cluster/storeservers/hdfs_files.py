"""Reads and writes the files of an HDFS over WebHDFS, independently of the client under test."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

# How long a test waits on a loaded machine. This has nothing to do with the product's timeouts.
_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class HdfsEntry:
    """A file or folder as reported by the NameNode."""

    path: str
    is_folder: bool
    size: int
    replication: int
    block_size: int
    permission: str
    owner: str
    group: str


class WebHdfsError(RuntimeError):
    """WebHDFS rejected a request. `exception` is the short name of the Java class, such as AccessControlException."""

    def __init__(self, message: str, *, status: int, exception: str) -> None:
        super().__init__(message)
        self.status = status
        self.exception = exception


class HdfsFiles:
    """A file system with one NameNode, as its superuser sees it."""

    def __init__(self, *, host: str, port: int, http_port: int, user: str) -> None:
        self.host = host
        self.port = port
        self.http_port = http_port
        self.user = user

    @property
    def uri(self) -> str:
        """The file system's URI for clients, without a path."""
        return f"hdfs://{self.host}:{self.port}"

    @property
    def http_address(self) -> str:
        """Host and port of the NameNode's web UI, JMX and WebHDFS."""
        return f"{self.host}:{self.http_port}"

    def ls(self, path: str) -> list[HdfsEntry]:
        """Return a folder's entries, or the single entry of a file."""
        answer = self._call("GET", path, "LISTSTATUS")
        return [_entry(path, status) for status in answer["FileStatuses"]["FileStatus"]]

    def stat(self, path: str) -> HdfsEntry:
        """Return one file or folder."""
        return _entry(path, self._call("GET", path, "GETFILESTATUS")["FileStatus"])

    def files(self, path: str) -> list[HdfsEntry]:
        """Return all files below a folder."""
        found: list[HdfsEntry] = []
        for each in self.ls(path):
            found += self.files(each.path) if each.is_folder else [each]
        return found

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder exists."""
        try:
            self.stat(path)
        except WebHdfsError as exc:
            if exc.status == 404:
                return False
            raise
        return True

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        place = self._call("GET", path, "OPEN", noredirect="true")["Location"]
        return _send_to_datanode("GET", _ascii_url(place))

    def write(self, path: str, content: bytes) -> None:
        """Make or replace a file."""
        place = self._call("PUT", path, "CREATE", overwrite="true", noredirect="true")["Location"]
        _send_to_datanode("PUT", _ascii_url(place), content)

    def mkdirs(self, path: str, *, owner: str | None = None, permission: str = "755") -> None:
        """Create a folder and its parents. Only the folder itself gets the owner and exactly these permissions."""
        self._call("PUT", path, "MKDIRS")
        self.set_permission(path, permission)
        if owner is not None:
            self.set_owner(path, owner)

    def set_permission(self, path: str, permission: str) -> None:
        """Set the permission bits, in octal digits such as 700."""
        self._call("PUT", path, "SETPERMISSION", permission=permission)

    def set_owner(self, path: str, owner: str) -> None:
        """Change the owner of a file or folder."""
        self._call("PUT", path, "SETOWNER", owner=owner)

    def set_quota(self, path: str, *, names: int | None = None, space_bytes: int | None = None) -> None:
        """Limit the files and folders, counting the folder itself, and the bytes of all replicas. None leaves a limit unchanged."""
        asked = {"namespacequota": names, "storagespacequota": space_bytes}
        self._call("PUT", path, "SETQUOTA", **{name: str(value) for name, value in asked.items() if value is not None})

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its contents."""
        self._call("DELETE", path, "DELETE", recursive="true")

    def _url(self, path: str, operation: str, **parameters: str) -> str:
        if not path.startswith("/"):
            raise ValueError(f"A path in HDFS begins with a slash, got {path!r}.")
        query = urllib.parse.urlencode({"op": operation, "user.name": self.user, **parameters})
        return f"http://{self.http_address}/webhdfs/v1{urllib.parse.quote(path)}?{query}"

    def _call(
        self,
        method: Literal["GET", "PUT", "DELETE"],
        path: str,
        operation: str,
        **parameters: str,
    ) -> dict[str, Any]:
        answer = send(method, self._url(path, operation, **parameters))
        result: dict[str, Any] = json.loads(answer) if answer else {}
        return result


def send(method: str, url: str, body: bytes | None = None) -> bytes:
    """Send one request, and return the response body. Raises WebHdfsError if the server rejects the request."""
    request = urllib.request.Request(url, data=body, method=method)  # noqa: S310  # our own server's address
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as exc:
        with exc:
            raise _refusal(exc, url) from exc


def _send_to_datanode(method: str, url: str, body: bytes | None = None) -> bytes:
    try:
        return send(method, url, body)
    except WebHdfsError as exc:
        # If the NameNode was restarted, a DataNode whose connection was open notices the restart only at this request.
        if exc.exception != "EOFException":
            raise
        return send(method, url, body)


def _ascii_url(url: str) -> str:
    # The NameNode does not percent-encode the path in a DataNode's URL.
    return urllib.parse.quote(url, safe=":/?&=%+,;@")


def _refusal(error: urllib.error.HTTPError, url: str) -> WebHdfsError:
    try:
        remote = json.loads(error.read())["RemoteException"]
    except (ValueError, LookupError):
        remote = {"exception": "unknown", "message": error.reason}
    return WebHdfsError(
        f"{error.code} {remote['exception']} for {url}: {remote['message']}",
        status=error.code,
        exception=remote["exception"],
    )


def _entry(path: str, status: Mapping[str, Any]) -> HdfsEntry:
    suffix = status["pathSuffix"]
    return HdfsEntry(
        path=f"{path.rstrip('/')}/{suffix}" if suffix else path,
        is_folder=status["type"] == "DIRECTORY",
        size=status["length"],
        replication=status["replication"],
        block_size=status["blockSize"],
        permission=status["permission"],
        owner=status["owner"],
        group=status["group"],
    )
