"""The common part of the test servers. A server has a data folder and a lifetime, and is started and stopped by a `with` statement.

`Server` defines how servers start. `OneServer` is a server with a single process and port. The processes themselves are in `processes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from storeservers.processes import Lifetime, ServerProcess, accepts_connections, free_ports

READY_SECONDS: Final = 60.0
"""How long a test waits on a loaded machine. This has nothing to do with the product's timeouts."""


class Server(ABC):
    """A server that is started in two steps, `launch` and `wait_until_ready`, so that several servers can start concurrently."""

    def __init__(self, run_dir: Path, *, host: str, lifetime: Lifetime) -> None:
        self.run_dir = run_dir.absolute()
        self.host = host
        self._lifetime = lifetime

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and wait until it responds. If the server ran before, it has its old data."""
        try:
            self.launch()
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    @abstractmethod
    def launch(self) -> None:
        """Start the server without waiting."""

    @abstractmethod
    def wait_until_ready(self) -> None:
        """Wait until the server answers."""

    @abstractmethod
    def stop(self) -> None:
        """Kill the server, as a power failure would. Its data stays in the run folder."""


class OneServer(Server):
    """A server with one process and one port."""

    name: ClassVar[str]
    """The server's name in messages, and the name of its log."""

    def __init__(self, run_dir: Path, *, host: str, lifetime: Lifetime) -> None:
        super().__init__(run_dir, host=host, lifetime=lifetime)
        [self.port] = free_ports(host, count=1)
        self._process: ServerProcess | None = None

    @property
    def endpoint(self) -> str:
        """The server's address for clients."""
        return f"http://{self.host}:{self.port}"

    @property
    def process(self) -> ServerProcess:
        """The running server."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running; call start() first.")
        return self._process

    def wait_until_ready(self) -> None:
        """Wait until the server accepts connections."""
        self.process.wait_until(lambda: accepts_connections(self.host, self.port), seconds=READY_SECONDS)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _launch(self, command: Sequence[str], *, environment: Mapping[str, str]) -> None:
        self._process = ServerProcess.start(
            self.name,
            command,
            log=self.run_dir / "logs" / f"{self.name}.log",
            environment=environment,
            lifetime=self._lifetime,
        )
