"""Starts a server process with a log, waits until the server is ready, and stops it by its process id.

Every server leads its own session, so that Ctrl-C in the terminal reaches only the tests. The kernel kills the servers when the tests die,
so no run leaves servers behind.
"""

from __future__ import annotations

import enum
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# These ports are below the kernel's range for outgoing connections, so that a stopped server finds its port free when it restarts. They are
# also below Kubernetes' node ports.
_FIRST_PORT, _LAST_PORT = 15_000, 29_999
_POLL_SECONDS = 0.1
_STARTER = ThreadPoolExecutor(1, thread_name_prefix="starter of servers")
"""Starts the servers in a thread that lives as long as this process."""


class ServerFailed(RuntimeError):
    """A server ended too early or was not ready in time. The message ends with its log."""


class Lifetime(enum.Enum):
    """How long a server lives unless it is stopped."""

    WITH_STARTER = "with starter"
    UNTIL_STOPPED = "until stopped"


@dataclass(frozen=True)
class ProcessIdentity:
    """A process id and the process's start time according to the kernel, because ids are reused."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of a process that is running now."""
        return cls(pid, _start_ticks(pid) or 0)

    def running(self) -> bool:
        """Return whether this process is alive. Another process that has the same id now doesn't count."""
        return self.start_ticks != 0 and _start_ticks(self.pid) == self.start_ticks

    def end(self, *, grace_seconds: float) -> None:
        """Terminate the process, and kill it after the grace period."""
        if not self.running():
            return
        os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        while self.running():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                return
            time.sleep(_POLL_SECONDS)


def _start_ticks(pid: int) -> int | None:
    # The command's name is in parentheses and can contain spaces, so count the fields after it: the state is the first, and the start time
    # is the twentieth.
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    is_zombie = fields[0] == "Z"
    return None if is_zombie else int(fields[19])


class ServerProcess:
    """A running server. `stop` and `kill` return only after the server has ended."""

    def __init__(self, *, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process
        self.identity = ProcessIdentity.of(process.pid)

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        lifetime: Lifetime,
        awaited: bool = False,
    ) -> ServerProcess:
        """Start a command and append its output to the log. `awaited` says that the calling thread outlives the command."""
        prefix: list[str] = []
        if lifetime is Lifetime.WITH_STARTER:
            # The kernel kills the server when the thread that started it ends, even if that thread's process lives on.
            if not awaited and threading.current_thread() is not threading.main_thread():
                start = partial(cls.start, name, command, log=log, environment=environment, lifetime=lifetime, awaited=True)
                return _STARTER.submit(start).result()
            # The parent might die before the kernel starts watching it, so check afterwards that the parent is still there.
            watched = f'[ "$PPID" = {os.getpid()} ] && exec "$@"'
            prefix = ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", watched, "sh"]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(  # the commands are written in this package
                [*prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        return cls(name=name, process=process, log=log)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the server is alive."""
        return self._process.poll() is None

    def stop(self, *, grace_seconds: float = 10) -> None:
        """Terminate the server and wait; kill it if it takes too long."""
        if self.running:
            self._process.terminate()
        try:
            self._process.wait(timeout=grace_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the server, as a power failure would."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Suspend the server: its connections stay open, but it doesn't respond."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a suspended server."""
        os.kill(self.pid, signal.SIGCONT)

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait for a condition. Fails with the log if the server ends or the time is up."""
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.running:
                raise ServerFailed(f"{self.name} ended with {self._process.poll()}:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.name} was not ready after {seconds:g} s:\n{self.last_words()}")
            time.sleep(_POLL_SECONDS)

    def last_words(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-4000:]


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait for a condition that does not depend on a single process."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailed(f"Expected within {seconds:g} s: {what}.")
        time.sleep(_POLL_SECONDS)


def free_ports(host: str, *, count: int) -> list[int]:
    """Return unused ports of this address. No other process gets these ports while this process lives.

    Test processes start their servers concurrently, and a restarted server needs its old port.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(_FIRST_PORT, _LAST_PORT), k=1000):
        if len(found) == count:
            break
        if _is_unused(host, port) and _claimed(port):
            found.append(port)
    if len(found) < count:
        raise ServerFailed(f"Found only {len(found)} free ports on {host}, wanted {count}.")
    return found


def _is_unused(host: str, port: int) -> bool:
    with socket.socket() as candidate:
        try:
            candidate.bind((host, port))
        except OSError:
            return False
    return True


def _claimed(port: int) -> bool:
    # The socket is abstract, so it has no file. The kernel frees its name no matter how this process ends.
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0dataprep-test-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def accepts_connections(host: str, port: int) -> bool:
    """Tell whether a program listens on the port."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
