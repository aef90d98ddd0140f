"""A stub API server that simulates rare faults.

It can end a watch at any byte, and revoke permissions. It serves discovery, lists, watches and Leases. Behavior that depends on the meaning
of objects is tested on a real cluster.
"""

import asyncio
import contextlib
import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

import yaml

KINDS: Final = {
    "apis/dataprep.io/v1alpha1": {
        "dataprepjobs": "DataPrepJob",
        "dataprepcronjobs": "DataPrepCronJob",
        "dataprepprofiles": "DataPrepProfile",
    },
    "apis/batch/v1": {"jobs": "Job"},
    "apis/apiextensions.k8s.io/v1": {"customresourcedefinitions": "CustomResourceDefinition"},
    "api/v1": {"pods": "Pod", "namespaces": "Namespace", "events": "Event"},
}
Body = dict[str, Any]  # the API's JSON


@dataclass(frozen=True)
class Piece:
    """The bytes that one watch sends before it ends."""

    content: bytes
    is_reset: bool = False
    """Whether the connection breaks. Otherwise the stream ends normally."""


@dataclass
class StubApi:
    """The stub server. It runs on a separate thread."""

    objects: dict[str, list[Body]] = field(default_factory=dict)
    """The objects, by the plural of their kind."""
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    """Maps the plural of a kind to the contents of its successive watches. Later watches send no data."""
    refused: set[str] = field(default_factory=set)
    """Namespaces that clients aren't allowed to read."""
    listed: Counter[str] = field(default_factory=Counter)
    leases: dict[str, Body] = field(default_factory=dict)
    address: str = ""
    serving: set[Any] = field(default_factory=set)
    """The stub's tasks. They are kept here because otherwise the garbage collector could end a watch whose client was killed."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stub-api", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop).result(timeout=10)
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig file with the stub's address, and return its path."""
        file = folder / "kubeconfig"
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "stub",
                    "clusters": [{"name": "stub", "cluster": {"server": self.address}}],
                    "users": [{"name": "stub", "user": {"token": "none"}}],
                    "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
                }
            )
        )
        return file

    async def _end(self) -> None:
        self._server.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(asyncio.current_task())
        # Without this, a task that is cancelled at the end would log the cancellation.
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, target, _ = head.split("\r\n")[0].split(" ")
            lengths = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            content = await reader.readexactly(int(lengths[0])) if lengths else b""
            url = urlsplit(target)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            await self._answer(method, url.path.strip("/"), query, content, writer)
        writer.close()

    async def _answer(self, method: str, path: str, query: dict[str, str], content: bytes, writer: asyncio.StreamWriter) -> None:
        prefix, namespace, plural = _parts(path)
        found = self._discovered(path)
        if found is not None:
            await _whole(writer, 200, found)
        elif "/leases" in path:
            await _whole(writer, *self._lease(method, path, content))
        elif plural not in KINDS.get(prefix, {}):
            await _whole(writer, 404, _failure(404, "NotFound"))
        elif namespace in self.refused:
            await _whole(writer, 403, _failure(403, "Forbidden"))
        elif query.get("watch") == "true":
            await self._watch(plural, writer)
        else:
            self.listed[plural] += 1
            items = [each for each in self.objects.get(plural, []) if namespace in (None, each["metadata"]["namespace"])]
            kind = f"{KINDS[prefix][plural]}List"
            await _whole(writer, 200, {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})

    async def _watch(self, plural: str, writer: asyncio.StreamWriter) -> None:
        own = self.pieces.get(plural, [])
        if own:
            piece = own.pop(0)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            if piece.is_reset:
                # The announced size of the chunk is larger than its content, so the chunk is incomplete.
                writer.write(b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b" % (len(piece.content) + 10, piece.content))
            else:
                writer.write(b"Connection: close\r\n\r\n" + piece.content)
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    def _lease(self, method: str, path: str, content: bytes) -> tuple[int, Body]:
        name = path.rpartition("/")[2]
        if method == "GET" and name == "leases":
            return 200, {"items": list(self.leases.values())}
        if method == "GET":
            return (200, self.leases[name]) if name in self.leases else (404, _failure(404, "NotFound"))
        body = json.loads(content)
        self.leases[body["metadata"]["name"]] = body
        return 200, body

    def _discovered(self, path: str) -> Body | None:
        if path == "api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "apis":
            groups = [(prefix.split("/")[1], prefix.split("/")[2]) for prefix in KINDS if prefix.startswith("apis/")]
            versions = {group: {"groupVersion": f"{group}/{version}", "version": version} for group, version in groups}
            return {"groups": [{"name": group, "preferredVersion": each, "versions": [each]} for group, each in versions.items()]}
        kinds = KINDS.get(path)
        if kinds is None:
            return None
        verbs = ["get", "list", "watch"]
        resources = [{"name": p, "singularName": "", "kind": k, "namespaced": "crd" not in k, "verbs": verbs} for p, k in kinds.items()]
        return {"kind": "APIResourceList", "resources": resources}


def _parts(path: str) -> tuple[str, str | None, str]:
    """Split a path into prefix, namespace and plural."""
    parts = path.split("/")
    at = 2 if parts[0] == "api" else 3
    rest = parts[at:]
    prefix = "/".join(parts[:at])
    return (prefix, rest[1], rest[2]) if len(rest) > 2 and rest[0] == "namespaces" else (prefix, None, rest[0] if rest else "")


def _failure(code: int, reason: str) -> Body:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "made up by a test"}


async def _whole(writer: asyncio.StreamWriter, status: int, body: Body) -> None:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + content)
    await writer.drain()
