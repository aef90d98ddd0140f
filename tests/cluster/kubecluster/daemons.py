"""Processes that keep running after the program that started them has ended.

A daemon is known by its process id together with the tick at which it started, so that an id that the kernel has
given to somebody else is never signalled. Daemons run in a control group of our own: what they leave behind when they are
killed, such as containerd's shims, is found there by process id.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
GROUP = "dataprep-test"
CONTAINERS = "k8s.io"
# Version 1 has one hierarchy a controller. Counting processes is all we need, so limits of memory and CPU stay the caller's.
VERSION_1_HIERARCHY = "pids"


@dataclass(frozen=True)
class Daemon:
    """A process that we started."""

    pid: int
    started_tick: int

    def alive(self) -> bool:
        """Say whether this very process still runs."""
        return _started_tick(self.pid) == self.started_tick


def start(command: Sequence[str | Path], *, log: Path) -> Daemon:
    """Start a command in a session of its own, with its output appended to a log.

    It sees nothing of our environment but where programs are: a proxy meant for downloads would take its calls off the machine.
    """
    group = _group()
    group.mkdir(exist_ok=True)
    # The shell joins the group before it becomes the command, so no child can be born outside.
    script = 'echo $$ > "$0" && exec "$@"'
    words = ["/bin/sh", "-c", script, str(group / "cgroup.procs"), *(str(word) for word in command)]
    log.parent.mkdir(parents=True, exist_ok=True)
    # Not subprocess: it warns about children that outlive their Popen, and these do so on purpose.
    pid = os.posix_spawn(
        "/bin/sh",
        words,
        {"PATH": f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin", "HOME": str(Path.home())},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, number) for number in _inherited()),
        ],
        setsid=True,
    )
    return Daemon(pid=pid, started_tick=_started_tick(pid) or 0)


def stop(stopped: Iterable[Daemon], *, grace_seconds: float = 5) -> None:
    """End the daemons together: politely, then not."""
    left = [daemon for daemon in stopped if daemon.alive()]
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 5.0)):
        for daemon in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon.pid, number)
        left = _wait(left, seconds)


def kill_group(group: Path) -> None:
    """Kill every process of a control group and of the groups below it, and remove the groups."""
    if not group.is_dir():
        return
    for _ in range(50):
        members = [int(line) for procs in group.rglob("cgroup.procs") for line in procs.read_text().split()]
        if not members:
            break
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _reap(pid)
        time.sleep(0.05)
    for folder in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
        _remove_group(folder)
    _remove_group(group)


def kill_leftovers() -> None:
    """Kill what our daemons left behind."""
    kill_group(_group())
    for hierarchy in CONTROL_GROUPS.iterdir():
        # runc makes this for all containers of the machine; it goes if ours were the only ones.
        with contextlib.suppress(OSError):
            (hierarchy / CONTAINERS).rmdir()


def kill_container(container: str) -> None:
    """Kill the processes of one container and remove its control groups, which runc names after its id."""
    for hierarchy in CONTROL_GROUPS.iterdir():
        group = hierarchy / CONTAINERS / container
        if hierarchy.is_dir() and group.is_dir():
            kill_group(group)


def weigh_containers() -> None:
    """All containers lie in one group, which by itself weighs as much as a single process: on a busy machine pods would take minutes to start."""
    unified = (CONTROL_GROUPS / "cgroup.controllers").exists()
    group = CONTROL_GROUPS / CONTAINERS if unified else CONTROL_GROUPS / "cpu" / CONTAINERS
    if not group.parent.is_dir():
        return
    group.mkdir(exist_ok=True)
    name, weight = ("cpu.weight", 200) if unified else ("cpu.shares", 2048)
    if (group / name).exists():
        (group / name).write_text(str(weight))


def _inherited() -> list[int]:
    """What whoever called us has open for its children: a daemon would keep it for good, and with it a lock that is one."""
    found = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    # The folder's own number is closed again by now.
    return [number for number in found if number > 2 and Path(f"/proc/self/fd/{number}").exists() and os.get_inheritable(number)]


def _group() -> Path:
    unified = (CONTROL_GROUPS / "cgroup.controllers").exists()
    return CONTROL_GROUPS / GROUP if unified else CONTROL_GROUPS / VERSION_1_HIERARCHY / GROUP


def _remove_group(group: Path) -> None:
    # A group whose last process has just died stays busy for a moment, and one left behind does no harm.
    for _ in range(20):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return


def _wait(left: list[Daemon], seconds: float) -> list[Daemon]:
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        for daemon in left:
            _reap(daemon.pid)
        left = [daemon for daemon in left if daemon.alive()]
        if left:
            time.sleep(0.05)
    return left


def _reap(pid: int) -> None:
    # Only the process that started a daemon is its parent; for all others there is nothing to reap.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _started_tick(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the name in brackets and may hold anything; the third is the state, the twenty-second the start.
    state, *fields = text[text.rindex(")") + 2 :].split()
    return None if state in "ZX" else int(fields[18])
