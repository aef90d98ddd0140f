"""Identifies the processes that make a data set, so that a later process can tell whether they have ended.

A process is identified by its pid and its start time, because the kernel reuses the pids of processes that have ended. Only Linux provides
both.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dataprep_api.dataset.plan import Maker

_PROCESSES: Final = Path("/proc")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PIDS: Final = Path("/proc/self/ns/pid")
_ENDED: Final = "ZX"
"""The states that Linux reports for a process that has ended (zombie or dead)."""
_at_work: Final[dict[str, list[int]]] = {}
"""Maps each job that this process has run to the threads that are running the job now."""


@contextmanager
def at_work(job: str) -> Iterator[None]:
    """Records that this thread runs the job.

    It isn't enough to know whether the process has ended: a program such as a notebook's kernel can continue after a failed run.
    """
    threads = _at_work.setdefault(job, [])
    threads.append(threading.get_ident())
    try:
        yield
    finally:
        threads.remove(threading.get_ident())


def this_process(job: str) -> Maker | None:
    """Returns this process as the maker of the job's data, or None on a system that doesn't provide a process's start time."""
    pid = os.getpid()
    machine, started = _machine(), _start_of(pid)
    if machine is None or started is None:
        return None
    return Maker(job=job, user=os.getuid(), host=_host(), machine=machine, pid=pid, started=started)


def is_of(maker: Maker, job: str) -> bool:
    """Returns whether the process worked on this job for the current user."""
    return (maker.job, maker.user) == (job, os.getuid())


def has_ended(maker: Maker) -> bool:
    """Returns whether the process is known to have ended, or to have stopped working on the job.

    Returns False for a process on another machine, and for a process that ran before this machine's last restart.
    """
    try:
        if (maker.host, maker.machine) != (_host(), _machine()):
            return False
        if (start := _start_of(maker.pid)) != maker.started or maker.pid != os.getpid():
            return start != maker.started
    except PermissionError:  # Linux may hide the processes of other users
        return False
    return maker.job in _at_work and set(_at_work[maker.job]) <= {threading.get_ident()}


def _host() -> str:
    return socket.gethostname()


def _machine() -> str | None:
    """Returns the machine's boot id and this process's pid namespace. Each container has its own pid namespace."""
    try:
        return f"{_BOOT.read_text().strip()}/{_PIDS.readlink()}"
    except OSError:
        return None


def _start_of(pid: int) -> int | None:
    """Returns a process's start time, or None if there is no such process or if it has ended."""
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return None
    # The program's name may contain spaces and brackets.
    state, *numbers = text.rpartition(") ")[2].split()
    return None if state in _ENDED else int(numbers[18])
