"""Small web servers of the tests, on a thread and on loopback."""

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Quiet(http.server.BaseHTTPRequestHandler):
    """Logs nothing, and answers in one piece."""

    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def answer(self, status: int, body: str | bytes, headers: Mapping[str, str] | None = None) -> None:
        """One whole answer; to HEAD without its body."""
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


class QuietFolder(Quiet, http.server.SimpleHTTPRequestHandler):
    """The files of a folder: `partial(QuietFolder, directory=…)`."""


@contextlib.contextmanager
# Any: what http.server takes for a handler, a class or something that makes one.
def served(handler: Callable[..., Any]) -> Iterator[int]:
    """The port on which requests go to this handler."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
