"""One server process: started with a log, watched until it is ready, ended by its process id.

Every server is the leader of its own session, so that a Ctrl-C in the terminal reaches the tests only, and is killed
by the kernel when the tests die, so that no run leaves servers behind.
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
from dataclasses import dataclass
from pathlib import Path

# Below the range from which the kernel takes ports for outgoing connections, so that a server that is stopped finds
# its port free when it starts again, and below the range of Kubernetes' node ports.
_FIRST_PORT, _LAST_PORT = 15_000, 29_999
_POLL_SECONDS = 0.1


class ServerFailed(RuntimeError):
    """A server ended too early or was not ready in time; the message ends with its log."""


class Lifetime(enum.Enum):
    """How long a server lives when nobody stops it."""

    WITH_STARTER = "with starter"
    UNTIL_STOPPED = "until stopped"


@dataclass(frozen=True)
class ProcessIdentity:
    """A process id, and the kernel's start time of that process, since ids are used again."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of a process that is running now."""
        return cls(pid, _start_ticks(pid) or 0)

    def running(self) -> bool:
        """Tell whether this very process is alive."""
        return self.start_ticks != 0 and _start_ticks(self.pid) == self.start_ticks

    def end(self, *, grace_seconds: float) -> None:
        """Ask the process to end, and kill it after the grace period."""
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
    # The command's name stands in parentheses and may hold blanks: count the fields behind it. State is the first of
    # them, the start time the twentieth.
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    is_zombie = fields[0] == "Z"
    return None if is_zombie else int(fields[19])


class ServerProcess:
    """A running server; it is over when `stop` or `kill` returns."""

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
        """Start a command whose output goes to the end of the log. When the thread that starts it also waits for its end, it is `awaited`."""
        prefix: list[str] = []
        if lifetime is Lifetime.WITH_STARTER:
            # The kernel watches the thread that started the server, not its process.
            if not awaited and threading.current_thread() is not threading.main_thread():
                raise ServerFailed(f"{name} must be started by the main thread, or it dies with the thread.")
            # A starter that dies before the kernel is asked to watch it would not be missed: hence the look at the parent afterwards.
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
        """Ask the server to end and wait for it; kill it when it takes too long."""
        if self.running:
            self._process.terminate()
        try:
            self._process.wait(timeout=grace_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the server as a power failure would."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Freeze the server: connections open, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen server go on."""
        os.kill(self.pid, signal.SIGCONT)

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait for a condition; fail with the log when the server ends or the time is over."""
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
    """Wait for a condition that no single process answers for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailed(f"Expected within {seconds:g} s: {what}.")
        time.sleep(_POLL_SECONDS)


def free_ports(host: str, *, count: int) -> list[int]:
    """Return ports of this address that nobody uses now, and that nobody else is given as long as this process lives.

    Test processes start their servers at the same time, and a server that is killed and comes back needs its old port.
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
    # An address that begins with a zero byte is a name in the kernel and no file: it is free again when this process ends, however it ends.
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0dataprep-test-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def accepts_connections(host: str, port: int) -> bool:
    """Tell whether somebody listens there."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
