"""A proxy between a client and a real store server that injects network and server faults into selected requests.

`HttpProxy` understands requests and responses and can respond in the server's place. `TcpProxy` only sees connections and bytes, and is for
HDFS's RPC. Each proxy runs on its own thread on loopback, and counts the requests since it was armed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self


class Kind(StrEnum):
    """A fault that affects one request."""

    RESET = "connection reset"
    """The connection is reset before the request reaches the server."""
    LOST = "lost answer"
    """The request takes effect; the connection is reset."""
    STALL = "stall"
    """For `stall_seconds`, nothing is forwarded and no response is sent."""
    LATE = "lost answer after a stall"
    """The request takes effect, but no response is sent; after `stall_seconds` the connection is reset."""
    SLOW = "slow answer"
    FAILED = "500"
    BUSY = "503"
    TOO_MANY = "429"
    FAILED_LATE = "500 after acting"
    TRUNCATED = "truncated body"
    FLIPPED = "flipped bit in an answer"
    """Affects only the bodies of objects that are read, because a flipped bit in any other body would not be detected."""
    FLIPPED_UP = "flipped bit on the way up"
    EXPIRED = "expired token"


OF_TCP: Final = (Kind.RESET, Kind.LOST, Kind.SLOW, Kind.TRUNCATED)
"""Faults that need no knowledge of the protocol. Bits are not flipped, because Hadoop's RPC has no checksums."""

_LIMIT = 1 << 26
_RST = b"\1\0\0\0\0\0\0\0"
_SLOW_PIECES = 8
_SLOW_SECONDS = 0.03


@dataclass(frozen=True)
class Fault:
    """Makes one request fail with a fault of this kind. The requests are numbered from 1 since the faults were armed."""

    number: int
    kind: Kind


class _Proxy:
    """What `HttpProxy` and `TcpProxy` have in common: a port, a thread and the armed faults."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", stall_seconds: float = 3.0) -> None:
        self.host = host
        self._server_port = port
        self._stall_seconds = stall_seconds
        self.port = 0
        self.count = 0
        """Requests since arming."""
        self.hits: list[Fault] = []
        """Faults injected since arming."""
        self._faults: dict[int, Kind] = {}
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._listener = self._run(asyncio.start_server(self._serve, self.host, 0, limit=_LIMIT))
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def arm(self, faults: Sequence[Fault] = ()) -> None:
        """Replaces the faults and restarts the count at 1. Without faults, the proxy forwards everything unchanged."""
        with self._lock:
            self.count = 0
            self.hits = []
            self._faults = {fault.number: fault.kind for fault in faults}

    def _next(self) -> Kind | None:
        with self._lock:
            self.count += 1
            kind = self._faults.pop(self.count, None)
            if kind is not None:
                self.hits.append(Fault(self.count, kind))
            return kind

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def _serve_quietly(self, serving: Callable[[], Coroutine[Any, Any, None]], writer: asyncio.StreamWriter) -> None:
        # Clients can disconnect at any time.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await serving()
        with contextlib.suppress(OSError):
            writer.close()

    async def _close(self) -> None:
        self._listener.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    # Any, because a coroutine can return a value of any type.
    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)


class HttpProxy(_Proxy):
    """Handles one request per connection.

    Each request and each response is received completely before it is forwarded. To a request with the fault `EXPIRED`, the proxy responds
    with `status` and the store's error code `expired`.
    """

    def __init__(self, port: int, *, expired: str, status: int = 403, stall_seconds: float = 3.0) -> None:
        super().__init__(port, stall_seconds=stall_seconds)
        self._expired = expired
        self._status = status

    @property
    def endpoint(self) -> str:
        """The URL for clients."""
        return f"http://{self.host}:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve_quietly(lambda: self._request(reader, writer), writer)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await _body(reader, head)
        kind = self._next()
        match kind:
            case Kind.RESET:
                _reset(writer)
                return
            case Kind.STALL:
                await asyncio.sleep(self._stall_seconds)
                _reset(writer)
                return
            case Kind.FAILED:
                # This is a gateway's response, which lacks the server's error document and Date header.
                answer = b"HTTP/1.1 500 Refused\r\nContent-Length: 0\r\n\r\n"
            case Kind.BUSY:
                answer = _refusal(503, "SlowDown")
            case Kind.TOO_MANY:
                answer = _refusal(429, "TooManyRequests")
            case Kind.EXPIRED:
                answer = _refusal(self._status, self._expired)
            case _:
                answer = await self._answer(head, _flipped(body) if kind is Kind.FLIPPED_UP else body)
        answer_head, _, answer_body = answer.partition(b"\r\n\r\n")
        if kind is Kind.LATE:
            await asyncio.sleep(self._stall_seconds)
        if kind in (Kind.LOST, Kind.LATE):
            _reset(writer)
            return
        if kind is Kind.FAILED_LATE:
            answer_head, _, answer_body = _refusal(500, "InternalError").partition(b"\r\n\r\n")
        if kind is Kind.FLIPPED and _reads_an_object(head, answer_head):
            answer_body = _flipped(answer_body)
        if kind is Kind.TRUNCATED:
            answer_body = answer_body[: len(answer_body) // 2]
        writer.write(_closing(answer_head) + b"\r\n\r\n")
        for piece in _pieces(answer_body) if kind is Kind.SLOW else [answer_body]:
            writer.write(piece)
            await writer.drain()
            if kind is Kind.SLOW:
                await asyncio.sleep(_SLOW_SECONDS)

    async def _answer(self, head: bytes, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self.host, self._server_port, limit=_LIMIT)
        try:
            writer.write(_closing(head) + b"\r\n\r\n" + body)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()


class ThrottlingProxy(HttpProxy):
    """Responds with `503 SlowDown` to requests beyond `per_second` in any second."""

    def __init__(self, port: int, *, per_second: int) -> None:
        super().__init__(port, expired="")
        self._per_second = per_second
        self._accepted: deque[float] = deque()
        self.answers: list[tuple[float, bool]] = []
        """The monotonic time of each request, and whether it was refused."""

    def _next(self) -> Kind | None:
        with self._lock:
            now = time.monotonic()
            while self._accepted and self._accepted[0] <= now - 1:
                self._accepted.popleft()
            is_refused = len(self._accepted) >= self._per_second
            self.answers.append((now, is_refused))
            if is_refused:
                return Kind.BUSY
            self._accepted.append(now)
            return None


class TcpProxy(_Proxy):
    """Forwards bytes in both directions; every chunk from the client counts as a request."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve_quietly(lambda: self._connection(reader, writer), writer)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(self.host, self._server_port)
        fault: list[Kind] = []
        down = asyncio.create_task(self._down(server_reader, writer, fault))
        try:
            while piece := await reader.read(1 << 16):
                kind = self._next()
                if kind is Kind.RESET:
                    break
                if kind is not None:
                    fault.append(kind)
                server_writer.write(piece)
                await server_writer.drain()
        finally:
            down.cancel()
            _reset(writer)
            server_writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: list[Kind]) -> None:
        while piece := await reader.read(1 << 16):
            kind = fault.pop(0) if fault else None
            if kind is Kind.LOST:
                _reset(writer)
                return
            if kind is Kind.TRUNCATED:
                writer.write(piece[: len(piece) // 2])
                await writer.drain()
                _reset(writer)
                return
            for part in _pieces(piece) if kind is Kind.SLOW else [piece]:
                writer.write(part)
                await writer.drain()
                if kind is Kind.SLOW:
                    await asyncio.sleep(_SLOW_SECONDS)
        _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    # Without lingering, the kernel sends RST instead of FIN.
    import socket

    found = writer.get_extra_info("socket")
    if found is not None:
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
    writer.transport.abort()


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """The body of a request as it was sent, chunked or with a length."""
    said = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in head.split(b"\r\n"))}
    if said.get(b"transfer-encoding", b"").lower() != b"chunked":
        return await reader.readexactly(int(said.get(b"content-length", 0)))
    pieces: list[bytes] = []
    while pieces[-2:-1] != [b"0\r\n"]:
        line = await reader.readuntil(b"\r\n")
        pieces += [line, await reader.readexactly(int(line.partition(b";")[0], 16) + 2)]
    return b"".join(pieces)


def _closing(head: bytes) -> bytes:
    """The head with its `Connection` header replaced by `Connection: close`."""
    lines = [line for line in head.rstrip(b"\r\n").split(b"\r\n") if not line.lower().startswith((b"connection:", b"keep-alive:"))]
    return b"\r\n".join([*lines, b"Connection: close"])


def _refusal(status: int, code: str) -> bytes:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>The proxy says so.</Message></Error>'.encode()
    now = formatdate(usegmt=True)
    # A response to HEAD has no body, so OSS and Azure send the error in a header.
    said = base64.b64encode(body).decode()
    head = f"HTTP/1.1 {status} Refused\r\nDate: {now}\r\nx-oss-err: {said}\r\nx-ms-error-code: {code}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _reads_an_object(head: bytes, answer_head: bytes) -> bool:
    method, _, rest = head.partition(b" ")
    path, _, query = rest.partition(b" ")[0].partition(b"?")
    status = answer_head.split(b" ", 2)[1]
    return method == b"GET" and path.count(b"/") > 1 and not query and status in (b"200", b"206")


def _flipped(body: bytes) -> bytes:
    """Flips a bit of the middle byte."""
    changed = bytearray(body)
    if changed:
        changed[len(changed) // 2] ^= 1
    return bytes(changed)


def _pieces(body: bytes) -> list[bytes]:
    size = max(1, -(-len(body) // _SLOW_PIECES))
    return [body[start : start + size] for start in range(0, len(body), size)]
