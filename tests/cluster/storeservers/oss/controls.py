"""Lets tests control the running fake: keys and their rights, faults to inject, the request log.

The control server has its own port, so it isn't affected by faults, and its paths can't conflict with objects. The module `fake` is its
client.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from storeservers.oss.errors import OssError
from storeservers.oss.operations import ACTIONS
from storeservers.oss.shelf import Shelf
from storeservers.oss.signatures import AccessKey

PREFIX = "/__control/"


@dataclass(frozen=True)
class Fault:
    """A fault that affects the next matching requests."""

    kind: Literal["drop", "error", "stall", "truncate"]
    """What happens. drop: close the connection without a response. error: respond with `status`. stall: wait `seconds`, or until the faults
    are cleared, and continue. truncate: send only the first `size` bytes of the response body and close the connection.
    """
    count: int = 1
    """The number of requests that the fault affects."""
    skip: int = 0
    """The number of matching requests that are skipped first."""
    method: str | None = None
    matching: str | None = None
    """A regular expression that is searched for in `<operation> /<bucket>/<key>`."""
    after: bool = False
    """Whether the operation takes effect first, so that only its response is lost (drop and error) or late (stall)."""
    status: int = 503
    code: str | None = None
    """The error code; None for OSS's default code of that status."""
    seconds: float = 0
    size: int = 0


@dataclass(frozen=True)
class LoggedRequest:
    """A request to which the fake has responded, or that the fake has dropped."""

    time: float
    method: str
    operation: str
    action: str
    bucket: str
    key: str
    access_key: str
    status: int
    """0 if the connection was closed without a response."""
    code: str
    """OSS's error code; empty on success."""
    received_bytes: int
    sent_bytes: int
    fault: str
    """The kind of fault that affected the request, if any."""


class Controls:
    """The state behind the control server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, AccessKey] = {}
        self._faults: list[Fault] = []
        self._cleared = threading.Event()
        self._log: list[LoggedRequest] = []

    def keys(self) -> Mapping[str, AccessKey]:
        """Return the known keys, by name."""
        with self._lock:
            return dict(self._keys)

    def add_key(self, key: AccessKey) -> None:
        """Add a key, or change its secret and rights."""
        for pattern in key.denied:
            # A misspelt action would have no effect, so the test would prove nothing.
            if not any(fnmatchcase(action, pattern) for action in ACTIONS):
                raise ValueError(f"No action is named {pattern!r}; known: {', '.join(sorted(ACTIONS))}.")
        with self._lock:
            self._keys[key.access_key] = key

    def remove_key(self, name: str) -> None:
        """Remove a key."""
        with self._lock:
            self._keys.pop(name, None)

    def inject(self, fault: Fault) -> None:
        """Arm a fault. Faults take effect in the order in which they are armed."""
        re.compile(fault.matching or "")
        with self._lock:
            self._faults.append(fault)

    def faults(self) -> list[Fault]:
        """Return the faults that are still armed."""
        with self._lock:
            return list(self._faults)

    def clear_faults(self) -> None:
        """Disarm all faults, and let the stalled requests continue."""
        with self._lock:
            self._faults.clear()
            self._cleared.set()
            self._cleared = threading.Event()

    def fault_for(self, *, method: str, operation: str, bucket: str, key: str) -> tuple[Fault | None, threading.Event]:
        """Return the fault that affects this request, and the event that is set when the faults are cleared. Count the request."""
        with self._lock:
            for position, fault in enumerate(self._faults):
                wanted = fault.method in (None, method)
                if not wanted or not re.search(fault.matching or "", f"{operation} /{bucket}/{key}"):
                    continue
                if fault.skip > 0:
                    self._faults[position] = replace(fault, skip=fault.skip - 1)
                    continue
                self._faults[position] = replace(fault, count=fault.count - 1)
                if fault.count <= 1:
                    del self._faults[position]
                return fault, self._cleared
            return None, self._cleared

    def log(self, request: LoggedRequest) -> None:
        """Remember a request."""
        with self._lock:
            self._log.append(request)

    def requests(self) -> list[LoggedRequest]:
        """Return the requests since the start or the last `clear_requests`."""
        with self._lock:
            return list(self._log)

    def clear_requests(self) -> None:
        """Forget the requests so far."""
        with self._lock:
            self._log.clear()


def allows(key: AccessKey, action: str) -> bool:
    """Tell whether a key's rights include this action."""
    return not any(fnmatchcase(action, pattern) for pattern in key.denied)


class ControlServer(ThreadingHTTPServer):
    """The HTTP server of the control interface."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], *, controls: Controls, shelf: Shelf) -> None:
        super().__init__(address, _ControlHandler)
        self.controls = controls
        self.shelf = shelf


class _ControlHandler(BaseHTTPRequestHandler):
    server: ControlServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Log nothing: the log is for the clients' requests."""

    def do_GET(self) -> None:  # the base class's name
        """Return state."""
        target = urlsplit(self.path)
        query = dict(parse_qsl(target.query, keep_blank_values=True))
        try:
            self._answer(200, self._state(target.path.removeprefix(PREFIX), query))
        except OssError as exc:
            self._answer(exc.status, {"error": str(exc)})

    def do_POST(self) -> None:  # the base class's name
        """Change state."""
        command = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            self._command(self.path.removeprefix(PREFIX), command)
        except (TypeError, ValueError, re.error) as exc:
            self._answer(400, {"error": str(exc)})
        else:
            self._answer(200, None)

    def do_PUT(self) -> None:  # the base class's name
        """Create or replace an object."""
        query = dict(parse_qsl(urlsplit(self.path).query))
        content = self.rfile.read(int(self.headers["content-length"]))
        headers = {"content-type": "application/octet-stream"}
        try:
            with self.server.shelf.received(query["bucket"], iter([content])) as received:
                self.server.shelf.put(query["bucket"], query["key"], received, headers=headers, overwrite=True)
        except OssError as exc:
            self._answer(exc.status, {"error": str(exc)})
        else:
            self._answer(200, None)

    # Any: JSON of the shapes above.
    def _state(self, name: str, query: Mapping[str, str]) -> Any:
        if name == "requests":
            return [asdict(request) for request in self.server.controls.requests()]
        if name == "faults":
            return [asdict(fault) for fault in self.server.controls.faults()]
        if name == "objects":
            return [asdict(each) for each in self.server.shelf.stats(query["bucket"], self.server.shelf.keys(query["bucket"]))]
        if name == "uploads":
            return [
                {"upload_id": upload.upload_id, "key": upload.key, "part_sizes": _part_sizes(upload.parts.items())}
                for upload in list(self.server.shelf.bucket(query["bucket"]).uploads.values())
            ]
        raise OssError(404, "NoSuchControl", f"Nothing to read at {PREFIX}{name}.")

    def _command(self, name: str, command: dict[str, Any]) -> None:
        match name:
            case "buckets":
                self.server.shelf.make_bucket(command["name"], versioning=command["versioning"])
            case "keys":
                self.server.controls.add_key(AccessKey(**{**command, "denied": frozenset(command["denied"])}))
            case "keys/remove":
                self.server.controls.remove_key(command["access_key"])
            case "faults":
                self.server.controls.inject(Fault(**command))
            case "faults/clear":
                self.server.controls.clear_faults()
            case "requests/clear":
                self.server.controls.clear_requests()
            case _:
                raise ValueError(f"Nothing to change at {PREFIX}{name}.")

    def _answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _part_sizes(parts: Iterable[tuple[int, Any]]) -> dict[int, int]:
    return {number: part.content.size for number, part in sorted(parts)}
