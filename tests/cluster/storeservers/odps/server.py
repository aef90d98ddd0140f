"""The fake's HTTP interface: the requests that pyodps sends to the service (below `/api`) and to the tunnel, and the responses."""

from __future__ import annotations

import json
import socketserver
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from storeservers.odps import signatures, wire
from storeservers.odps.errors import OdpsError, not_permitted
from storeservers.odps.warehouse import Table, Warehouse

SERVICE = "/api"


@dataclass
class Controls:
    """State that tests control."""

    keys: dict[str, signatures.AccessKey] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    """Rights that are denied to all keys, such as `odps:Select`."""
    cut_after: list[int] = field(default_factory=list)
    """The number of bytes after which each of the next row responses ends early."""
    fail_next: list[int] = field(default_factory=list)
    """Status codes of the next responses."""
    lose_commits: int = 0
    """This many of the next upload commits are carried out, but get no response."""
    lose_blocks: int = 0
    """This many of the next blocks are stored, but get no response."""
    log: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """(method, path, query) of every request."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes | Iterable[bytes]
    """Bytes, or an iterator of chunks that are streamed."""
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


class OdpsServer(ThreadingHTTPServer):
    """Serves the service and the tunnel on a single port."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, warehouse: Warehouse, controls: Controls) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.warehouse = warehouse
        self.controls = controls

    def server_bind(self) -> None:
        """Bind without a reverse DNS lookup, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    @property
    def address(self) -> str:
        return f"{self.server_name}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: OdpsServer
    protocol_version = "HTTP/1.1"
    server_version = "FakeMaxCompute"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _serve(self) -> None:
        target = urlsplit(self.path)
        path, query = unquote(target.path), dict(parse_qsl(target.query, keep_blank_values=True))
        is_service = path.startswith(f"{SERVICE}/")
        path = path.removeprefix(SERVICE) if is_service else path
        body = self._body()
        self.server.controls.log.append((self.command, path, query))
        try:
            if self.server.controls.fail_next:
                raise OdpsError(self.server.controls.fail_next.pop(0), "ServiceUnavailable", "A test requested this response.")
            headers = {name.lower(): value for name, value in self.headers.items()}
            signatures.check(method=self.command, path=path, query=query, headers=headers, keys=self.server.controls.keys)
            answer = _answer(self.server, self.command, path, query, body, is_service=is_service)
        except OdpsError as exc:
            answer = _refusal(exc, is_service=is_service)
        self._send(answer)

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815  # the base class's names

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in {"Content-Type": answer.kind, "x-odps-request-id": "2026", **answer.headers}.items():
            self.send_header(name, value)
        if isinstance(answer.body, bytes):
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for piece in answer.body:
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # the client disconnected because it needs no more data


def _refusal(error: OdpsError, *, is_service: bool) -> Answer:
    """The service sends errors as XML, and the tunnel sends them as JSON."""
    if not is_service:
        return Answer(error.status, json.dumps({"Code": error.code, "Message": error.message}).encode())
    elements = {"Code": error.code, "Message": error.message, "RequestId": "2026", "HostId": "fake"}
    document = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in elements.items())
    return Answer(error.status, f"<Error>{document}</Error>".encode(), "application/xml")


def _answer(server: OdpsServer, method: str, path: str, query: dict[str, str], body: bytes, *, is_service: bool) -> Answer:
    parts = path.strip("/").split("/")
    if is_service and method == "GET" and len(parts) == 3 and parts[0] == "projects" and parts[2] == "tunnel":
        return Answer(200, server.address.encode(), "text/plain")
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != "tables":
        raise OdpsError(405, "MethodNotAllowed", f"The fake doesn't support {method} {path}.")
    _, project, _, name = parts
    needed = ("odps:Describe",) if is_service else ("odps:Update",) if _is_upload(query) else ("odps:Select", "odps:Download")
    for right in needed:
        if right in server.controls.denied:
            raise not_permitted(right, project, name)
    table = server.warehouse.table(project, name)
    if is_service:
        return _described(server.warehouse, table, name, query)
    return _uploading(server, table, method, query, body) if _is_upload(query) else _downloading(server, table, method, query)


def _is_upload(query: dict[str, str]) -> bool:
    return "uploads" in query or "uploadid" in query


# --- the service --------------------------------------------------------------------------------------------------


def _described(warehouse: Warehouse, table: Table, name: str, query: dict[str, str]) -> Answer:
    if "partition" in query:
        part = warehouse.part(table, query["partition"])
        keys = [each.partition("=") for each in query["partition"].replace("'", "").split(",")]
        columns = "".join(f'<Column Name="{escape(key)}" Value="{escape(value)}"/>' for key, _, value in keys)
        schema = json.dumps({"createTime": 1_600_000_000, "lastModifiedTime": part.modified, "partitionRecordNum": part.rows.count})
        return Answer(200, f"<Partition>{columns}<Schema><![CDATA[{schema}]]></Schema></Partition>".encode(), "application/xml")
    modified = max((part.modified for part in table.parts.values()), default=1_600_000_000)
    schema = json.dumps(_schema(table) | {"createTime": 1_600_000_000, "lastModifiedTime": modified, "size": 1000})
    document = f'<Table><Name>{escape(name)}</Name><Schema format="Json"><![CDATA[{schema}]]></Schema></Table>'
    return Answer(200, document.encode(), "application/xml")


def _schema(table: Table) -> dict[str, object]:
    return {
        "columns": [{"name": name, "type": kind, "comment": "", "isNullable": True} for name, kind in table.columns.items()],
        "partitionKeys": [{"name": name, "type": "string", "comment": ""} for name in table.keys],
    }


# --- the tunnel ---------------------------------------------------------------------------------------------------


def _downloading(server: OdpsServer, table: Table, method: str, query: dict[str, str]) -> Answer:
    warehouse = server.warehouse
    if method == "POST" and "downloads" in query:
        name, found = warehouse.open_download(table, query.get("partition", ""))
    elif method == "GET" and "data" not in query:
        name = query["downloadid"]
        found = warehouse.download(name)
    else:
        start, count = (int(number) for number in query["rowrange"].strip("()").split(","))
        columns = [each for each in query.get("columns", "").split(",") if each]
        if "arrow" not in query:
            raise OdpsError(400, "InvalidArgument", "The fake sends rows only as Arrow.")
        rows = warehouse.downloaded(table, query["downloadid"], start, count, columns)
        return Answer(200, _cut(wire.sent(rows), server.controls), "application/octet-stream")
    status = "EXPIRED" if found.ended else "NORMAL"
    document = {"DownloadID": name, "Status": status, "RecordCount": found.rows.count, "Schema": _schema(table)}
    return Answer(200, json.dumps(document).encode())


def _cut(pieces: Iterator[bytes], controls: Controls) -> Iterator[bytes]:
    """Yield the chunks. If a test wants the stream to end early, truncate the stream."""
    if not controls.cut_after:
        yield from pieces
        return
    left = controls.cut_after.pop(0)
    for piece in pieces:
        if left <= 0:
            return
        yield piece[:left]
        left -= len(piece)


def _uploading(server: OdpsServer, table: Table, method: str, query: dict[str, str], body: bytes) -> Answer:
    warehouse = server.warehouse
    if "uploads" in query:
        name, found = warehouse.open_upload(
            table, query.get("partition", ""), overwrite=query.get("overwrite") == "true", create="create_partition" in query
        )
    else:
        name = query["uploadid"]
        found = warehouse.upload(name)
        if method == "PUT":
            if "arrow" not in query:
                raise OdpsError(400, "InvalidArgument", "The fake accepts rows only as Arrow.")
            warehouse.put_block(name, int(query["blockid"]), wire.received(body, table.schema))
            if server.controls.lose_blocks:
                server.controls.lose_blocks -= 1
                raise OdpsError(503, "ServiceUnavailable", "A test requested that this response be lost.")
        elif method == "POST":
            warehouse.commit(name)
            if server.controls.lose_commits:
                server.controls.lose_commits -= 1
                raise OdpsError(503, "ServiceUnavailable", "A test requested that this response be lost.")
    blocks = [{"BlockID": block, "Date": 0} for block in sorted(found.blocks)]
    document = {"UploadID": name, "Status": found.status, "UploadedBlockList": blocks, "Schema": _schema(table)}
    return Answer(200, json.dumps(document).encode())
