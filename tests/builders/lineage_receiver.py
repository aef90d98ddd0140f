"""A receiver of OpenLineage events: a real HTTP server in a thread of the test process."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    """The events that the receiver has received."""

    url: str = ""
    events: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        """The types of the events, in order of arrival."""
        return [event["eventType"] for event in self.events]

    def settings(self) -> dict[str, str]:
        """The environment variables that make a process send events to the receiver."""
        return {"OPENLINEAGE_URL": self.url, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@contextmanager
def lineage_receiver(*, host: str = "127.0.0.1", status: int = 201, silent: threading.Event | None = None) -> Iterator[Received]:
    """Run a receiver on this address, by default on loopback.

    It responds to each request with this status. If `silent` is given, it responds only after `silent` is set.
    """
    received = Received()
    lock = threading.Lock()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                received.paths.append(self.path)
                received.keys.append(self.headers["Authorization"])
                received.events.append(json.loads(body))
            if silent is not None:
                silent.wait(60)
                return
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer((host, 0), Receiver) as server:
        received.url = f"http://{host}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield received
        finally:
            if silent is not None:
                silent.set()
            server.shutdown()
            thread.join()
