"""Runs commands in separate processes without importing the modules again, because imports take most of a command's time.

Each command is a fork of one process that has imported the modules. Like a process started from a shell, the fork has its own arguments,
environment, folder and standard streams, and ends with the interpreter's normal exit. The parent process of the forks runs this file.
"""

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

_MODULES: Final = (
    "dataprep_converter.cli.commands",
    "dataprep_converter.cli.display",
    "dataprep_converter.inputs.job_file",
    "dataprep_converter.steps.conversion.convert_commit",
    "dataprep_converter.steps.conversion.convert_plan",
    "dataprep_converter.steps.pool",
    "dataprep_converter.steps.run",
    "dataprep_converter.steps.worker_imports",
    "dataprep_converter.tools.inspect.inspection",
    "dataprep_converter.tools.verification",
    "rich.progress",
)
"""The modules that most commands import."""
_SECONDS: Final = 300.0
"""How long a command is allowed to take."""
_SECONDS_TO_END: Final = 10.0
"""How long the process is allowed to take to end."""
_MOST_BYTES: Final = 1 << 20
"""The maximum size of a command's arguments and environment."""


class Forks:
    """A process that forks one command at a time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_SECONDS)
        self.is_killed = False
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=dict(environment),
                start_new_session=True,
            )

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        streams: Sequence[int | IO[Any]],
        program: str = "",
    ) -> None:
        """Start a command with these arguments. `streams` are its standard input, output and error.

        If `program` is given, start this Python code instead of the command.
        """
        order = {"arguments": list(arguments), "environment": dict(environment), "folder": str(folder), "program": program}
        descriptors = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
        socket.send_fds(self._socket, [json.dumps(order).encode()], descriptors)

    def wait(self) -> int:
        """Return the command's exit code once it has ended.

        If a signal ended the command, the code is the signal's number with a minus sign, as in `subprocess`. If the command doesn't end in
        time, this method kills it and raises TimeoutError.
        """
        try:
            return int(self._socket.recv(_MOST_BYTES))
        except TimeoutError:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the process and all processes that it has started."""
        self.is_killed = True
        os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process."""
        # Forks of this process might also hold the socket open, so closing it here might not be enough.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._process.wait(timeout=_SECONDS_TO_END)


def _serve(connection: socket.socket) -> str:
    """Fork a command for each message. In the child, return the command's program. The parent exits when the tests have ended."""
    while True:
        order, descriptors, _, _ = socket.recv_fds(connection, _MOST_BYTES, 3)
        if not order:
            os._exit(0)
        child = os.fork()
        if child == 0:
            connection.close()
            return _become(descriptors, **json.loads(order))
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become(descriptors: Sequence[int], *, arguments: list[str], environment: dict[str, str], folder: str, program: str) -> str:
    """Give this process the arguments, the environment, the folder and the streams of a command. Return its program."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[1:] = arguments
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    given, said = sys.stdin, sys.stdout
    sys.stdin = open(0, encoding=given.encoding, errors=given.errors, closefd=False)  # noqa: SIM115 - they stay open until the end
    sys.stdout = open(1, "w", encoding=said.encoding, errors=said.errors, closefd=False)  # noqa: SIM115 - see above
    sys.stderr = open(2, "w", encoding=said.encoding, errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115 - see above
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return program


if __name__ == "__main__":
    # A command also sets this variable before it imports numpy.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for _name in _MODULES:
        importlib.import_module(_name)
    from dataprep_converter.__main__ import main

    _program = _serve(socket.socket(fileno=int(sys.argv[1])))
    if _program:
        exec(_program, {"__name__": "__main__"})  # noqa: S102 - the code of a test
    else:
        main()
