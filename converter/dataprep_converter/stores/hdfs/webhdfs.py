"""HDFS over HTTP, `webhdfs://namenode:9870/path`, for clusters where only the web ports can be reached. `hdfs://` is faster and supports
failover.

The NameNode handles names, and redirects the client to a DataNode to read or write bytes. A file is written under a temporary name by one
streaming PUT, and then renamed. The rename request always has the parameter `renameoptions`. Without `renameoptions`, a file that is
renamed to a folder's path would move into the folder. A file that is renamed to another file's path would keep its old name.
"""

# The public methods are documented on the classes `Store`, `Upload` and `Input`, in `stores/__init__.py`.
# ruff: noqa: D102

import contextlib
import getpass
import http.client
import json
import os
import urllib.parse
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dataprep_api.quantity import to_bytes
from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import (
    AlreadyExists,
    BadCredentials,
    BadSpec,
    ConvertError,
    InputChanged,
    NotFound,
    NotPermitted,
    StoreError,
    StoreFull,
    Unreachable,
)
from dataprep_converter.runtime.request_budget import RequestBudget
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import Details, Entry, StoreSettings
from dataprep_converter.stores.files import swept, temporary_name
from dataprep_converter.stores.folders_ahead import files_in_order
from dataprep_converter.stores.hdfs import hadoop
from dataprep_converter.stores.ranged import RangedInput
from dataprep_converter.stores.store_requests import connected

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 60.0
PORTS: Final = {"webhdfs": 9870, "swebhdfs": 9871}
"""The default ports of Hadoop 3. Hadoop 2 has 50070 and 50470."""

_ROOT = "/webhdfs/v1"
_PIECE = 4 << 20
_FULL = ("QuotaExceededException", "ClusterStorageCapacityExceededException")
_NOT_THERE = ("FileNotFoundException", "ParentNotDirectoryException")
_BAD_LOGIN = ("InvalidToken", "AuthenticationException", "SecurityException")
_REFUSED = b'{"RemoteException"'
_IMPOSSIBLE = ("IllegalArgumentException", "InvalidPathException", "HadoopIllegalArgumentException")


class WebHdfsStore:
    """A store of files on NameNodes, or on gateways in front of NameNodes. A URI contains the web address of the NameNode or gateway."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        token = settings.credentials.get("delegationToken")
        self._user = settings.user or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        self._budget = settings.budget or RequestBudget(name=settings.uri_prefix)
        self._identity = {"delegation": token} if token else {"user.name": self._user}

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        return files_in_order(_children, (self.place(uri), uri.rstrip("/")), recursive=recursive)

    def stat(self, uri: str) -> Entry | None:
        place = self.place(uri)
        try:
            status = place.ask("GET", "GETFILESTATUS")["FileStatus"]
        except NotFound:
            return None
        return None if status["type"] != "FILE" else _entry(uri, status)

    def open(self, uri: str) -> "WebHdfsInput":
        entry = self.stat(uri)
        if entry is None:
            raise NotFound(f"{uri} does not exist.", uri=uri)
        return WebHdfsInput(self.place(uri), entry)

    def get(self, uri: str) -> bytes:
        place = self.place(uri)

        def attempt() -> bytes:
            # Use one request, so that all bytes belong to the same version even if the file is replaced in the meantime.
            with place.border(), contextlib.closing(place.begin("GET", "OPEN", {})) as connection, connection.getresponse() as answer:
                body = answer.read()
                if answer.status != http.client.OK:
                    raise place.refusal(answer.status, body)
                return body

        return retrying(attempt, what=f"reading {uri}")

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> "WebHdfsUpload":  # noqa: ARG002 - HDFS needs no hint
        return WebHdfsUpload(self.place(uri), uri, hdfs or HdfsOptions())

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:
        return hadoop.put(self, uri, data, replace=replace, hdfs=hdfs)

    def delete(self, uri: str) -> None:
        with contextlib.suppress(NotFound):
            self.place(uri).ask("DELETE", "DELETE", recursive="false")

    def sweep(self, uri: str) -> int:
        return swept(self.list(uri), self.delete)

    def make_folder(self, uri: str) -> None:
        self.place(uri).ask("PUT", "MKDIRS")

    def move(self, uri: str, target: str) -> None:
        self.place(uri).ask("PUT", "RENAME", destination=self.place(target).path, renameoptions="NONE")

    def remove_folder(self, uri: str) -> None:
        with contextlib.suppress(NotFound):
            self.place(uri).ask("DELETE", "DELETE", recursive="true")

    def place(self, uri: str) -> "Place":
        """Returns the location of a file. Raises BadSpec if the URI names no host."""
        scheme, _, rest = uri.partition("://")
        authority, _, path = rest.partition("/")
        if not authority:
            raise BadSpec(f"{uri} names no NameNode: write {scheme}://host:{PORTS[scheme]}/path.", uri=uri)
        host, colon, port = authority.rpartition(":")
        if not colon or authority.endswith("]"):
            host, port = authority, str(PORTS[scheme])
        return Place(scheme == "swebhdfs", host.strip("[]"), int(port), f"/{path}", self._identity, self._user, self._budget)


class Place:
    """A path at one web address, and the requests for it."""

    def __init__(
        self, is_https: bool, host: str, port: int, path: str, identity: Mapping[str, str], user: str, budget: RequestBudget
    ) -> None:
        self._is_https = is_https
        self._host = host
        self._port = port
        self.path = path
        self._identity = identity
        self._user = user
        self._budget = budget

    @property
    def peer(self) -> str:
        """Host and port as shown in messages."""
        return f"{self._host}:{self._port}"

    def at(self, path: str) -> "Place":
        """Returns another path at the same address."""
        return Place(self._is_https, self._host, self._port, path, self._identity, self._user, self._budget)

    # Any, because the response is parsed JSON.
    def ask(self, method: str, operation: str, **parameters: str) -> Any:
        """Sends a request and returns the NameNode's response, or None if the response is empty. Failed requests are retried."""
        return retrying(lambda: self.ask_once(method, operation, **parameters), what=f"{operation} of {self.path}")

    # Any, because the response is parsed JSON.
    def ask_once(self, method: str, operation: str, **parameters: str) -> Any:
        """Like `ask`, but without retries."""
        sent_at = self._budget.wait_turn()
        with self.border(), contextlib.closing(_connect(self._is_https, self._host, self._port)) as connection:
            connection.request(method, self._target(operation, parameters), headers={"Content-Length": "0"} if method == "PUT" else {})
            with connection.getresponse() as answer:
                self._budget.answered(answer.status, sent_at=sent_at)
                body = answer.read()
                if answer.status // 100 != 2:
                    raise self.refusal(answer.status, body)
        try:
            return json.loads(body) if body or method == "GET" else None
        except ValueError as exc:
            # NameNodes don't send a response's length, so the HTTP client can't tell a truncated response from a complete one.
            raise self._truncation_error(body) from exc

    def begin(self, method: str, operation: str, headers: Mapping[str, str], **parameters: str) -> http.client.HTTPConnection:
        """Returns a connection to the DataNode that the NameNode redirects to.

        When this method returns, the request's headers have been sent to the DataNode. Call this method within `border`.
        """
        sent_at = self._budget.wait_turn()
        with contextlib.closing(_connect(self._is_https, self._host, self._port)) as connection:
            connection.request(method, self._target(operation, parameters), headers={"Content-Length": "0"} if method == "PUT" else {})
            with connection.getresponse() as answer:
                self._budget.answered(answer.status, sent_at=sent_at)
                body = answer.read()
                if answer.status != http.client.TEMPORARY_REDIRECT:
                    raise self.refusal(answer.status, body)
                location = urllib.parse.urlsplit(answer.headers["Location"])
        is_https = location.scheme == "https"
        data_node = _connect(is_https, location.hostname or "", location.port or (443 if is_https else 80))
        try:
            # Encode the path ourselves, because NameNodes don't encode non-ASCII letters in the address they redirect to.
            data_node.putrequest(method, f"{self._encoded}?{location.query}", skip_accept_encoding=True)
            for name, value in headers.items():
                data_node.putheader(name, value)
            data_node.endheaders()
        except BaseException:
            data_node.close()
            raise
        return data_node

    @contextlib.contextmanager
    def border(self) -> Iterator[None]:
        """Wraps calls to a server and translates their errors."""
        try:
            yield
        except (OSError, http.client.HTTPException) as exc:
            what = f"cannot connect to {self.peer} or one of its DataNodes, or the connection broke"
            raise Unreachable(f"WebHDFS: {what} at {self.path}: {exc}.", uri=self.path) from exc

    def refusal(self, status: int, body: bytes) -> ConvertError:
        """Returns the error for an unsuccessful response."""
        path = self.path
        try:
            exception = json.loads(body)["RemoteException"]
            name, message = exception["exception"], (exception.get("message") or "").partition("\n")[0].rstrip(".")
        except (ValueError, KeyError, TypeError):
            if body.startswith(_REFUSED):
                return self._truncation_error(body)
            name, message = "", body[:200].decode(errors="replace").partition("\n")[0]
        line = " ".join(filter(None, (str(status), name, message)))
        if name in _NOT_THERE or "is not a directory" in message:
            return NotFound(f"{path} does not exist on {self.peer}: {line}.", uri=path)
        if (denial := hadoop.permission_error(message, path)) is not None:
            return denial
        if name == "FileAlreadyExistsException":
            return AlreadyExists(f"{path} exists already.", uri=path)
        if name.endswith(_FULL):
            return StoreFull(f"No quota left for {path}: {line}.", uri=path)
        if status == http.client.UNAUTHORIZED or name in _BAD_LOGIN:
            return BadCredentials(f"WebHDFS at {self.peer} refused the login of {self._user}: {line}.", uri=path)
        if name in ("AccessControlException", "AuthorizationException"):
            return NotPermitted(f"AccessDenied: user={self._user} path={path}: {line}.", uri=path)
        if "is a directory" in message or "must both be directories" in message or "is not a file" in message:
            return NotPermitted(f"{path}: found a folder instead of a file, or a file instead of a folder: {line}.", uri=path)
        if name in _IMPOSSIBLE or "block size" in message or "replication" in message.partition("minReplication")[0]:
            return BadSpec(f"HDFS refuses {path}: {line}.", uri=path)
        if not name and status == http.client.NOT_FOUND:
            return StoreError(f"{self.peer} doesn't serve WebHDFS: {line}.", uri=path)
        # The cluster is in safe mode or on standby, or lacks DataNodes. After the cluster recovers, another attempt may succeed.
        return Unreachable(f"WebHDFS at {self.peer} failed at {path}: {hadoop.explained(line)}.", uri=path)

    def _truncation_error(self, body: bytes) -> Unreachable:
        beginning = body[:200].decode(errors="replace").partition("\n")[0]
        return Unreachable(
            f"WebHDFS: the response from {self.peer} for {self.path} is truncated or isn't from WebHDFS: {beginning!r}.", uri=self.path
        )

    @property
    def _encoded(self) -> str:
        return urllib.parse.quote(f"{_ROOT}{self.path}", safe="/-_.~")

    def _target(self, operation: str, parameters: Mapping[str, str]) -> str:
        query = {"op": operation, **self._identity, **parameters}
        return f"{self._encoded}?{urllib.parse.urlencode(query, quote_via=urllib.parse.quote)}"


def _connect(is_https: bool, host: str, port: int) -> http.client.HTTPConnection:
    return connected("https" if is_https else "http", host, port, connecting=CONNECT_SECONDS, answering=ANSWER_SECONDS)


class WebHdfsUpload:
    """An upload to a temporary file in the target's folder, written by one PUT to one DataNode."""

    blocks = False

    def __init__(self, place: Place, uri: str, options: HdfsOptions) -> None:
        self.uri = uri
        self._place = place
        folder, _, name = place.path.rpartition("/")
        self._temporary = place.at(f"{folder}/{temporary_name(name)}")
        self._size = 0
        self._ended = False
        attributes = {
            "permission": options.permission,
            "replication": None if options.replication is None else str(options.replication),
            "blocksize": None if options.block_size is None else str(to_bytes(options.block_size)),
        }
        headers = {"Content-Type": "application/octet-stream", "Transfer-Encoding": "chunked"}
        parameters = {
            "overwrite": "false",
            "createparent": "true",
            **{name: value for name, value in attributes.items() if value is not None},
        }
        with place.border():
            self._connection: http.client.HTTPConnection | None = self._temporary.begin("PUT", "CREATE", headers, **parameters)
        # If the upload is neither committed nor aborted, close the connection anyway, so that the DataNode doesn't wait for more data.
        weakref.finalize(self, self._connection.close)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._connection is None:
            raise ValueError(f"{self.uri}: the upload has ended.")
        view = memoryview(data).cast("B")
        with self._at_the_datanode() as connection:
            for start in range(0, len(view), _PIECE):
                piece = view[start : start + _PIECE]
                connection.send(b"%x\r\n" % len(piece))
                connection.send(piece)
                connection.send(b"\r\n")
                self._size += len(piece)

    def stage(self) -> None:
        # Wait for the DataNode's response: until then, the file might not exist, and a sweep would miss it.
        self._finish()

    def commit(self, *, replace: bool) -> Entry:
        if self._ended:
            raise ValueError(f"{self.uri}: the upload has ended.")
        self._finish()
        status = self._check_temporary()
        try:
            self._rename_to_target(replace=replace)
        except AlreadyExists as exc:
            raise AlreadyExists(f"{self.uri} exists already.", uri=self.uri) from exc
        except NotFound as exc:
            # An attempt may have renamed the file although we got no response. A rename changes neither a file's length nor its
            # modification time.
            current = self._target_status()
            if current is None or (current["length"], current["modificationTime"]) != (status["length"], status["modificationTime"]):
                raise hadoop.gone(self.uri) from exc
        self._ended = True
        return _entry(self.uri, status)

    def abort(self) -> None:
        if self._ended:
            return
        # The DataNode may create the file at any time until it responds. Wait for the response, because otherwise the DataNode might create
        # the file after our deletion.
        with contextlib.suppress(StoreError):
            self._finish()
        with contextlib.suppress(StoreError):
            self._temporary.ask("DELETE", "DELETE", recursive="false")
        self._ended = True

    def _finish(self) -> None:
        if self._connection is None:
            return
        with self._at_the_datanode() as connection:
            connection.send(b"0\r\n\r\n")
            self._take_answer(connection)
        connection.close()
        self._connection = None

    def _take_answer(self, connection: http.client.HTTPConnection) -> None:
        with connection.getresponse() as answer:
            body = answer.read()
            if answer.status != http.client.CREATED:
                raise self._temporary.refusal(answer.status, body)

    @contextlib.contextmanager
    def _at_the_datanode(self) -> Iterator[http.client.HTTPConnection]:
        connection = self._connection
        if connection is None:
            raise Unreachable(f"The upload of {self.uri} has failed before.", uri=self.uri)
        try:
            with self._place.border():
                try:
                    yield connection
                except (BrokenPipeError, ConnectionResetError):
                    # If a server refuses a request before it has read the complete body, it sends a response and closes the connection.
                    self._take_answer(connection)
                    raise
        except NotFound as exc:
            self._connection = None
            connection.close()
            raise hadoop.gone(self.uri) from exc
        except BaseException:
            self._connection = None
            connection.close()
            raise

    # Any, because a file status is parsed JSON.
    def _check_temporary(self) -> Any:
        try:
            status = self._temporary.ask("GET", "GETFILESTATUS")["FileStatus"]
        except NotFound as exc:
            raise hadoop.gone(self.uri) from exc
        hadoop.check_length(self.uri, status["length"], self._size)
        return status

    def _rename_to_target(self, *, replace: bool) -> None:
        options = "OVERWRITE" if replace else "NONE"
        self._temporary.ask("PUT", "RENAME", destination=self._place.path, renameoptions=options)

    # Any, because a file status is parsed JSON.
    def _target_status(self) -> Any | None:
        with contextlib.suppress(NotFound):
            return self._place.ask("GET", "GETFILESTATUS")["FileStatus"]
        return None


class WebHdfsInput(RangedInput):
    """Ranges of one file."""

    step = _PIECE

    def __init__(self, place: Place, entry: Entry) -> None:
        super().__init__(entry)
        self._place = place

    def read_at(self, offset: int, length: int) -> bytes:
        end = offset + max(0, min(length, self.size - offset))
        return retrying(lambda: b"".join(self._pieces(offset, end)), what=f"reading {self.uri}")

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        """Yields all the bytes from `offset` to `end`. Raises Unreachable if the connection breaks."""
        if offset >= end:
            return
        place = self._place
        try:
            with place.border():
                connection = place.begin("GET", "OPEN", {}, offset=str(offset), length=str(end - offset))
        except StoreError:
            # The file may have shrunk, so that the range now begins beyond the file's end.
            self._check()
            raise
        with contextlib.closing(connection):
            with place.border():
                answer = connection.getresponse()
            with answer:
                if answer.status != http.client.OK:
                    with place.border():
                        refusal = place.refusal(answer.status, answer.read())
                    self._check()
                    raise refusal
                while offset < end:
                    with place.border():
                        piece = answer.read(min(_PIECE, end - offset))
                    if not piece:
                        break
                    offset += len(piece)
                    yield piece
        self._check()
        if offset < end:
            raise Unreachable(f"WebHDFS at {place.peer} sent {self.uri} only up to byte {offset} instead of {end}.", uri=self.uri)

    def _check(self) -> None:
        """Raises InputChanged if the file has changed. The check is needed because each range is requested by name, and the responses don't
        identify the file's version."""
        try:
            status = self._place.ask("GET", "GETFILESTATUS")["FileStatus"]
        except NotFound as exc:
            raise InputChanged(f"{self.uri} was deleted while it was being read.", uri=self.uri) from exc
        if _entry(self.uri, status) != self._entry:
            raise InputChanged(f"{self.uri} has been replaced since it was listed.", uri=self.uri)


def _children(folder: "tuple[Place, str]") -> "list[Entry | tuple[Place, str]]":
    """Returns the files and subfolders of a folder in the order of complete paths. `folder` is the folder's location and its URI."""
    place, uri = folder
    try:
        statuses = place.ask("GET", "LISTSTATUS")["FileStatuses"]["FileStatus"]
    except NotFound:
        return []
    # A listing of a file contains the file itself, with an empty name.
    by_name = {status["pathSuffix"] + ("" if status["type"] == "FILE" else "/"): status for status in statuses if status["pathSuffix"]}
    return [
        (place.at(f"{place.path.rstrip('/')}/{name[:-1]}"), f"{uri}/{name[:-1]}")
        if name.endswith("/")
        else _entry(f"{uri}/{name}", by_name[name])
        for name in sorted(by_name, key=str.encode)
    ]


# Any, because a FileStatus is parsed JSON from the NameNode.
def _entry(uri: str, status: Mapping[str, Any]) -> Entry:
    details = Details(
        modified=status["modificationTime"] / 1000,
        mode=int(status["permission"], 8),
        replication=status["replication"],
        owner=status["owner"],
        group=status["group"],
    )
    return Entry(uri=uri, size=status["length"], pin=hadoop.pin(status["length"], status["modificationTime"]), details=details)
