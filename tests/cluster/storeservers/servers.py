"""What all servers of the tests have in common: `with` starts and stops them, and each is told where to keep its data and how long to live.

`Server` says how a start goes; `OneServer` is one that consists of a single process behind a single port. `processes` has the processes themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from storeservers.processes import Lifetime, ServerProcess, accepts_connections, free_ports

READY_SECONDS: Final = 60.0
"""Not the product's time-out: how long a loaded machine may take until a test gives up."""


class Server(ABC):
    """Started by `launch` and `wait_until_ready`, which are two so that several servers can start at the same time."""

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
        """Start the server, on its old data if it ran before, and wait until it answers."""
        try:
            self.launch()
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    @abstractmethod
    def launch(self) -> None:
        """Start the server and don't wait."""

    @abstractmethod
    def wait_until_ready(self) -> None:
        """Wait until the server answers."""

    @abstractmethod
    def stop(self) -> None:
        """End the server as a power failure would; its data stay in the run folder."""


class OneServer(Server):
    """A server of one process and one port."""

    name: ClassVar[str]
    """What it is called in messages, and in the name of its log."""

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
