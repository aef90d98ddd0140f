"""Identifies the processes that make a data set, so that a later process can tell whether they have ended.

A process is identified by its pid and its start, because the kernel gives the pid of a dead process to a later one. Only Linux tells both.
"""

import os
import socket
from pathlib import Path
from typing import Final

from dataprep_api.dataset.plan import Maker

_PROCESSES: Final = Path("/proc")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PIDS: Final = Path("/proc/self/ns/pid")
_ENDED: Final = "ZX"
"""States of a process that has ended, and that its parent has not yet asked about."""


def this_process(job: str) -> Maker | None:
    """Returns this process as the maker of the job's data, or None on a system that doesn't tell when a process started."""
    pid = os.getpid()
    machine, started = _machine(), _start_of(pid)
    if machine is None or started is None:
        return None
    return Maker(job=job, user=os.getuid(), host=_host(), machine=machine, pid=pid, started=started)


def is_of(maker: Maker, job: str) -> bool:
    """Whether the process did this job for this user."""
    return (maker.job, maker.user) == (job, os.getuid())


def has_ended(maker: Maker) -> bool:
    """Whether it is known that the process has ended. False for a process of another machine, or of this machine before it was restarted."""
    try:
        return (maker.host, maker.machine) == (_host(), _machine()) and _start_of(maker.pid) != maker.started
    except PermissionError:  # Linux may hide the processes of other users
        return False


def _host() -> str:
    return socket.gethostname()


def _machine() -> str | None:
    """Returns the machine's start and the space of process ids that this process is in. Containers have spaces of their own."""
    try:
        return f"{_BOOT.read_text().strip()}/{_PIDS.readlink()}"
    except OSError:
        return None


def _start_of(pid: int) -> int | None:
    """Returns when a process started, or None if there is no such process, or if it has ended."""
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return None
    # The name of the program may contain spaces and brackets.
    state, *numbers = text.rpartition(") ")[2].split()
    return None if state in _ENDED else int(numbers[18])
