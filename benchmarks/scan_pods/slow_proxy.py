"""A proxy on loopback that limits the speed of each connection to a server, and counts the connections."""

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 256 << 10
_LATE_SECONDS: Final = 0.1
"""How long a connection may have been idle without losing the time. So a thread that woke up late on a busy machine catches up."""


class SlowProxy:
    """Passes all bytes on. Each direction of each connection has `bytes_per_second`."""

    def __init__(self, port: int, *, bytes_per_second: float) -> None:
        """`port` is that of the server."""
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
        """Begins to count again."""
        with self._lock:
            self.most_sending = self.bytes = 0

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server_port)) as server:
            requests = threading.Thread(target=self._pass_on, args=(client, server), daemon=True)
            requests.start()
            self._pass_on(server, client, is_answer=True)
            requests.join()

    def _pass_on(self, source: socket.socket, target: socket.socket, *, is_answer: bool = False) -> None:
        chunk, free_at = memoryview(bytearray(_CHUNK)), 0.0
        with suppress(OSError):
            while size := source.recv_into(chunk):
                if is_answer:
                    self._count(size, begins=1)
                try:
                    target.sendall(chunk[:size])
                    free_at = max(free_at, time.monotonic() - _LATE_SECONDS) + size / self._bytes_per_second
                    time.sleep(max(0.0, free_at - time.monotonic()))
                finally:
                    if is_answer:
                        self._count(0, begins=-1)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _count(self, size: int, *, begins: int) -> None:
        with self._lock:
            self._sending += begins
            self.most_sending = max(self.most_sending, self._sending)
            self.bytes += size
