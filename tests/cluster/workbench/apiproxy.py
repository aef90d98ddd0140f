"""A proxy between the API server and an operator outside the cluster. It injects the faults of a bad network or an overloaded server.

The proxy listens on loopback without TLS, and forwards the operator's token. It records all requests with their times, so that a test can
also check what an operator did *not* do.
"""

import asyncio
import base64
import contextlib
import json
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import yaml
from aiohttp import web


class Trouble(StrEnum):
    """A fault that affects one request."""

    TOO_MANY = "429"
    BROKEN = "500"
    UNAVAILABLE = "503"
    CONFLICT = "409"
    """Affects only writes: the proxy pretends that the write conflicted with another one."""
    RESET = "connection reset"
    LOST = "lost answer"
    """The request takes effect, but the operator gets no response."""
    STALL = "stall"
    """The request isn't forwarded and gets no response. After `stall_seconds`, the connection is reset."""
    CUT = "watch cut"
    """Affects only watches: the connection is reset within four seconds."""
    EXPIRED = "watch expired"
    """Affects only watches: the response has status 410, which says that the resource version is too old. The client has to list again."""


_WATCH: Final = (Trouble.TOO_MANY, Trouble.BROKEN, Trouble.CUT, Trouble.EXPIRED)
_READ: Final = (Trouble.TOO_MANY, Trouble.BROKEN, Trouble.UNAVAILABLE, Trouble.RESET, Trouble.LOST, Trouble.STALL)
_WRITE: Final = (*_READ, Trouble.CONFLICT)
_STATUS: Final = {Trouble.TOO_MANY: 429, Trouble.BROKEN: 500, Trouble.UNAVAILABLE: 503, Trouble.CONFLICT: 409}
_REASON: Final = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 409: "Conflict", 410: "Expired"}
_NOT_PASSED_ON: Final = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})
_CUT_SECONDS: Final = 4.0


@dataclass(frozen=True)
class Asked:
    """A request that reached the proxy."""

    at: float
    """Monotonic time."""
    method: str
    path: str

    @property
    def writes(self) -> bool:
        """Whether the request writes to anything but the Lease."""
        return self.method != "GET" and "/leases" not in self.path


class ApiProxy:
    """The proxy, which runs on a separate thread. It forwards everything unchanged until `trouble` is called."""

    def __init__(self, kubeconfig: Path, *, seed: int = 0, stall_seconds: float = 3.0) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        self._server = cluster["server"]
        self._tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self._random = random.Random(seed)  # noqa: S311  # reproducible faults
        self._stall_seconds = stall_seconds
        self._share = 0.0
        self._lock = threading.Lock()
        self.asked: list[Asked] = []
        self.met: Counter[Trouble] = Counter()
        self._drawn: Counter[tuple[tuple[Trouble, ...], Trouble]] = Counter()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api-proxy", daemon=True)

    @property
    def address(self) -> str:
        """The URL for the operator."""
        return f"http://127.0.0.1:{self.port}"

    def trouble(self, share: float) -> None:
        """Make this share (0 to 1) of all later requests fail. If the share isn't 0, every new watch fails too."""
        with self._lock:
            self._share = share

    def writes_since(self, moment: float) -> list[Asked]:
        """The requests that would have changed an object, since this monotonic time."""
        return [each for each in list(self.asked) if each.writes and each.at >= moment]

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0), auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        )
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _end(self) -> None:
        await self._runner.cleanup()
        await self._session.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        watches = request.query.get("watch") == "true"
        self.asked.append(Asked(time.monotonic(), request.method, request.path))
        try:
            return await self._answer(request, self._fate(request.method, watches=watches), watches=watches)
        except (aiohttp.ClientError, ConnectionError):
            # The API server itself is down.
            _abort(request)
            return web.Response()

    def _fate(self, method: str, *, watches: bool) -> Trouble | None:
        with self._lock:
            # There are few watches, and they live long, so a random fault would rarely hit one. Therefore every watch fails while faults
            # are injected.
            if self._random.random() >= self._share and not (watches and self._share):
                return None
            kinds = _WATCH if watches else _READ if method == "GET" else _WRITE
            # Choose one of the kinds that have occurred least often, so that even a short test meets all kinds.
            fewest = min(self._drawn[kinds, kind] for kind in kinds)
            met = self._random.choice([kind for kind in kinds if self._drawn[kinds, kind] == fewest])
            self._drawn[kinds, met] += 1
            self.met[met] += 1
            return met

    async def _answer(self, request: web.Request, met: Trouble | None, *, watches: bool) -> web.StreamResponse:
        if met is Trouble.RESET:
            _abort(request)
            return web.Response()
        if met is Trouble.STALL:
            await asyncio.sleep(self._stall_seconds)
            _abort(request)
            return web.Response()
        if met in _STATUS:
            code = _STATUS[met]
            return web.json_response(_failure(code), status=code, headers={"Retry-After": "1"} if code == 429 else {})
        return await self._watch(request, met) if watches else await self._pass_on(request, met)

    async def _pass_on(self, request: web.Request, met: Trouble | None) -> web.StreamResponse:
        async with self._asking(request, await request.read()) as answer:
            content = await answer.read()
            if met is Trouble.LOST:
                _abort(request)
            return web.Response(body=content, status=answer.status, headers=_passed_on(answer.headers))

    async def _watch(self, request: web.Request, met: Trouble | None) -> web.StreamResponse:
        async with self._asking(request, b"") as answer:
            stream = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
            await stream.prepare(request)
            patience = self._random.random() * _CUT_SECONDS if met is not None else None
            with contextlib.suppress(TimeoutError, aiohttp.ClientError, ConnectionError):
                async with asyncio.timeout(patience):
                    async for piece in answer.content.iter_any():
                        await stream.write(piece)
            if met is Trouble.EXPIRED:
                await stream.write(json.dumps({"type": "ERROR", "object": _failure(410)}).encode() + b"\n")
                await stream.write_eof()
            elif met is not None or not answer.content.at_eof():
                _abort(request)
            return stream

    def _asking(self, request: web.Request, body: bytes) -> "aiohttp.client._RequestContextManager":
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON}
        return self._session.request(request.method, f"{self._server}{request.path_qs}", data=body or None, headers=headers)

    # Any, because a coroutine can return a value of any type.
    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_PASSED_ON}


def _failure(code: int) -> dict[str, object]:
    """The API server's error response."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": _REASON[code],
        "message": "made up by a test",
    }


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
