"""A proxy on loopback that limits the speed of each connection from a server, and counts the connections."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 256 << 10


class SlowProxy:
    """Passes all bytes on.

    The proxy limits the server's bytes on each connection to `bytes_per_second`, averaged over the time since the client last sent
    something. So if the server or a thread of this proxy falls behind on a busy machine, it can catch up. But an idle connection doesn't
    save up speed for later.
    """

    def __init__(self, port: int, *, bytes_per_second: float) -> None:
        """`port` is the port of the server."""
        self._server_port = port
        self._bytes_per_second = bytes_per_second
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, name="slow proxy")
        self._lock = threading.Lock()
        self._sending = 0
        self.most_sending = 0
        """The largest number of connections over which the server sent bytes at the same time, since `reset`."""
        self.bytes = 0
        """The number of bytes that the server sent, since `reset`."""

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Unlike `close`, this also ends a call of `accept` in another thread.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def reset(self) -> None:
        """Resets the counts."""
        with self._lock:
            self.most_sending = self.bytes = 0

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server_port)) as server:
            connection = _Connection(client, server)
            requests = threading.Thread(target=connection.pass_requests_on, daemon=True)
            requests.start()
            self._pass_answers_on(connection)
            requests.join()

    def _pass_answers_on(self, connection: "_Connection") -> None:
        chunk, free_at = memoryview(bytearray(_CHUNK)), 0.0
        with connection.ending():
            while size := connection.server.recv_into(chunk):
                self._count(size, begins=1)
                try:
                    connection.client.sendall(chunk[:size])
                    free_at = max(free_at, connection.requested_at) + size / self._bytes_per_second
                    time.sleep(max(0.0, free_at - time.monotonic()))
                finally:
                    self._count(0, begins=-1)

    def _count(self, size: int, *, begins: int) -> None:
        with self._lock:
            self._sending += begins
            self.most_sending = max(self.most_sending, self._sending)
            self.bytes += size


@dataclass
class _Connection:
    client: socket.socket
    server: socket.socket
    requested_at: float = 0.0
    """The time at which the client's latest bytes arrived."""

    def pass_requests_on(self) -> None:
        """Passes on everything that the client sends."""
        chunk = memoryview(bytearray(_CHUNK))
        with self.ending():
            while size := self.client.recv_into(chunk):
                self.requested_at = time.monotonic()
                self.server.sendall(chunk[:size])

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Ends both directions when the block ends."""
        with suppress(OSError):
            yield
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
