"""The fake's HTTP server. It handles addresses, bodies, faults and the log, and calls `service` for the operations."""

from __future__ import annotations

import base64
import logging
import socket
import socketserver
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from storeservers.oss.controls import Controls, Fault, LoggedRequest
from storeservers.oss.documents import error_document
from storeservers.oss.errors import OssError
from storeservers.oss.operations import Operation, operation_of
from storeservers.oss.service import Answer, Request, Service, Stretch
from storeservers.oss.signatures import SignedRequest

logger = logging.getLogger(__name__)

_PIECE_BYTES = 1 << 20
_UNKNOWN = Operation("Unknown", action="", method="", on="bucket")


class OssServer(ThreadingHTTPServer):
    """Serves the OSS protocol."""

    daemon_threads = True
    request_queue_size = 128

    service: Service
    """Must be set before serving. It tells clients the server's address, which is known only once the port is bound."""

    def __init__(self, address: tuple[str, int], *, controls: Controls, domain: str) -> None:
        super().__init__(address, _Handler)
        self.controls = controls
        self.domain = domain

    def server_bind(self) -> None:
        """Bind without a reverse DNS lookup, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]


@dataclass(frozen=True)
class _Reply:
    answer: Answer | None
    """None closes the connection without a response."""
    code: str = ""
    """OSS's error code; empty on success."""
    most_bytes: int | None = None
    """The offset at which the body is truncated and the connection closed; None sends the complete body."""


_DROPPED = _Reply(answer=None)


class _BodyCutShort(ConnectionError):
    """The client disconnected before it had sent the complete body."""


class _Handler(BaseHTTPRequestHandler):
    server: OssServer
    protocol_version = "HTTP/1.1"
    server_version = "FakeOss"
    # The headers and the body of a response are written separately. With Nagle's algorithm, the second write would wait for the client's
    # ACK.
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        self._received_bytes = 0
        self._body = self._read_body()
        self._request_id = uuid.uuid4().hex[:24].upper()
        signed = _signed_request(self, domain=self.server.domain)
        try:
            operation = operation_of(
                method=signed.method,
                bucket=signed.bucket,
                key=signed.key,
                query=signed.query,
                headers=signed.headers,
            )
        except OssError as exc:
            self._finish(signed, _UNKNOWN, self._refusal(exc), fault=None)
            return
        fault, self._cleared = self.server.controls.fault_for(
            method=signed.method, operation=operation.name, bucket=signed.bucket, key=signed.key
        )
        self._finish(signed, operation, self._reply(signed, operation, fault), fault=fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815  # the base class's names

    def _reply(self, signed: SignedRequest, operation: Operation, fault: Fault | None) -> _Reply:
        if fault is not None and not fault.after and (disturbed := self._disturbed(fault)):
            return disturbed
        try:
            answer = self.server.service.answer(Request(signed, operation, pieces=lambda: self._body))
        except _BodyCutShort:
            return _DROPPED
        except OssError as exc:
            return self._refusal(exc)
        except Exception as exc:
            logger.exception("%s /%s/%s", operation.name, signed.bucket, signed.key)
            return self._refusal(OssError(500, "InternalError", f"The fake itself has failed: {exc!r}."))
        if fault is not None and fault.after and (disturbed := self._disturbed(fault)):
            return disturbed
        return _Reply(answer, most_bytes=fault.size if fault is not None and fault.kind == "truncate" else None)

    def _disturbed(self, fault: Fault) -> _Reply | None:
        """Return the response that a fault produces; None if the real response is to be sent, perhaps late."""
        if fault.kind == "drop":
            return _DROPPED
        if fault.kind == "error":
            code = fault.code or {500: "InternalError", 503: "ServiceUnavailable"}.get(fault.status, "InjectedFault")
            return self._refusal(OssError(fault.status, code, "A test requested this response."))
        if fault.kind == "stall":
            self._cleared.wait(fault.seconds)
        return None

    def _refusal(self, error: OssError) -> _Reply:
        body = error_document(error, request_id=self._request_id, host=self.headers.get("host", ""))
        headers = {"Content-Type": "application/xml", "x-oss-ec": error.ec}
        if self.command == "HEAD":
            # A response to HEAD has no body, so OSS sends the error document in a header.
            headers["x-oss-err"] = base64.b64encode(body).decode()
        return _Reply(Answer(error.status, headers, body), code=error.code)

    # -- sending ------------------------------------------------------------------------------------------------

    def _finish(self, signed: SignedRequest, operation: Operation, reply: _Reply, *, fault: Fault | None) -> None:
        if reply.answer is None:
            size = 0
        else:
            self._throw_away_body()
            size = 0 if self.command == "HEAD" else _size_of(reply.answer)
        sent_bytes = size if reply.most_bytes is None else min(size, reply.most_bytes)
        # The request is logged before the response is sent, so that a client that has the response finds its request in the log.
        self.server.controls.log(
            LoggedRequest(
                time=time.time(),
                method=signed.method,
                operation=operation.name,
                action=operation.action,
                bucket=signed.bucket,
                key=signed.key,
                access_key=_named_key(signed.headers.get("authorization", "")),
                status=reply.answer.status if reply.answer is not None else 0,
                code=reply.code,
                received_bytes=self._received_bytes,
                sent_bytes=sent_bytes,
                fault=fault.kind if fault is not None else "",
            )
        )
        if reply.answer is not None:
            self._send(reply.answer, sent_bytes=sent_bytes)
        if reply.answer is None or sent_bytes < size:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, answer: Answer, *, sent_bytes: int) -> None:
        self.send_response(answer.status)
        for name, value in {
            "x-oss-request-id": self._request_id,
            "Content-Length": str(_size_of(answer)),
            **answer.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if isinstance(answer.body, bytes):
            self.wfile.write(answer.body[:sent_bytes])
            return
        with answer.body.file as file:
            if sent_bytes:  # sendfile would send everything if the count were 0
                self.connection.sendfile(file, offset=answer.body.offset, count=sent_bytes)

    # -- receiving ----------------------------------------------------------------------------------------------

    def _read_body(self) -> Iterator[bytes]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                yield from self._read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            yield from self._read(int(self.headers.get("content-length", "0")))

    def _read(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self.rfile.read(min(size, _PIECE_BYTES))
            if not piece:
                raise _BodyCutShort
            size -= len(piece)
            self._received_bytes += len(piece)
            yield piece

    def _throw_away_body(self) -> None:
        # Read the rest of the body first, because a client that is still sending it would not see the response.
        try:
            for _ in self._body:
                pass
        except _BodyCutShort:
            self.close_connection = True


def _size_of(answer: Answer) -> int:
    return answer.body.size if isinstance(answer.body, Stretch) else len(answer.body)


def _signed_request(handler: BaseHTTPRequestHandler, *, domain: str) -> SignedRequest:
    target = urlsplit(handler.path)
    path = unquote(target.path).removeprefix("/")
    host = handler.headers.get("host", "").rpartition(":")[0] or handler.headers.get("host", "")
    if host.endswith(f".{domain}"):
        bucket, key = host.removesuffix(f".{domain}"), path
    else:
        bucket, _, key = path.partition("/")
    return SignedRequest(
        method=handler.command,
        bucket=bucket,
        key=key,
        query=dict(parse_qsl(target.query, keep_blank_values=True)),
        # The standard library decodes header bytes as Latin-1; OSS's clients send UTF-8.
        headers={name.lower(): value.encode("latin-1").decode() for name, value in handler.headers.items()},
    )


def _named_key(authorization: str) -> str:
    scheme, _, rest = authorization.partition(" ")
    if scheme == "OSS":
        return rest.partition(":")[0]
    return rest.removeprefix("Credential=").partition("/")[0]
