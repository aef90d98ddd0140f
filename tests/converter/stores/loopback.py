"""Small web servers for tests, which run in a thread on the loopback interface."""

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Quiet(http.server.BaseHTTPRequestHandler):
    """A handler that doesn't log, and sends each response in one piece."""

    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""

    def answer(self, status: int, body: str | bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a complete response, without the body if the request is a HEAD."""
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


class QuietFolder(Quiet, http.server.SimpleHTTPRequestHandler):
    """Serves the files of a folder. Use it as `partial(QuietFolder, directory=…)`."""


@contextlib.contextmanager
# Any: http.server accepts a handler class, or any function that creates a handler.
def served(handler: Callable[..., Any]) -> Iterator[int]:
    """Run a server with this handler, and yield its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
