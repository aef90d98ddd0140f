"""Processes that outlive the program that started them.

A daemon is identified by its process id and its start time in ticks, so another process that gets the same id later is never signalled.
Daemons run in their own control group. The group also lists children that outlive the daemons, such as containerd's shims.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubecluster.errors import StartFailed

CONTROL_GROUPS = Path("/sys/fs/cgroup")
GROUP = "dataprep-test"
CONTAINERS = "k8s.io"
# cgroup v1 has one hierarchy per controller. Here only `pids` is used, so the caller's memory and CPU limits still apply to the daemons.
VERSION_1_HIERARCHY = "pids"


@dataclass(frozen=True)
class Daemon:
    """A process that this module started."""

    pid: int
    started_tick: int

    def alive(self) -> bool:
        """Return whether this process is still running. Another process that has the same id now doesn't count."""
        return _started_tick(self.pid) == self.started_tick


def start(command: Sequence[str | Path], *, log: Path) -> Daemon:
    """Start a command in its own session and append its output to a log.

    The command inherits only PATH from this process's environment: if it inherited a proxy for downloads, its calls to the cluster would
    leave the machine. All daemons are Go programs with small heaps. They collect garbage a quarter as often as by default, which saves a
    tenth of their processor time.
    """
    group = _group()
    group.mkdir(exist_ok=True)
    # The shell joins the group before it executes the command, so that no child escapes.
    script = 'echo $$ > "$0" && exec "$@"'
    words = ["/bin/sh", "-c", script, str(group / "cgroup.procs"), *(str(word) for word in command)]
    log.parent.mkdir(parents=True, exist_ok=True)
    # subprocess isn't used, because it warns about children that outlive their Popen. Here, children are meant to outlive the program.
    pid = os.posix_spawn(
        "/bin/sh",
        words,
        {"PATH": f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin", "HOME": str(Path.home()), "GOGC": "400"},
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
    """Stop all daemons: first with SIGTERM, then with SIGKILL."""
    left = [daemon for daemon in stopped if daemon.alive()]
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 5.0)):
        for daemon in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon.pid, number)
        left = _wait(left, seconds)


def wait_until(ready: Callable[[], bool], *, what: str, log: Path, timeout_seconds: float = 90) -> None:
    """Wait until a daemon is ready. Raises StartFailed with the end of its log."""
    deadline = time.monotonic() + timeout_seconds
    while not ready():
        if time.monotonic() > deadline:
            raise StartFailed(f"Expected {what} within {timeout_seconds:.0f} s; the end of {log}:\n{end_of(log)}")
        time.sleep(0.2)


def end_of(log: Path) -> str:
    """Return the last lines of a log."""
    return log.read_text(errors="replace")[-3000:] if log.exists() else "(nothing was written)"


def kill_group(group: Path) -> None:
    """Kill every process in a control group and in the groups below it, and remove the groups."""
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
    """Kill the remaining children of the daemons."""
    kill_group(_group())
    for hierarchy in CONTROL_GROUPS.iterdir():
        # runc creates this group for all containers on the machine, so it can be removed only if there are no containers except the tests'.
        with contextlib.suppress(OSError):
            (hierarchy / CONTAINERS).rmdir()


def kill_container(container: str) -> None:
    """Kill the processes of one container and remove its control groups, which runc names after its id."""
    for hierarchy in CONTROL_GROUPS.iterdir():
        group = hierarchy / CONTAINERS / container
        if hierarchy.is_dir() and group.is_dir():
            kill_group(group)


def weigh_containers() -> None:
    """Raise the weight of the containers' cgroup.

    By default, all containers together have the weight of a single process, so on a busy machine pods would take minutes to start.
    """
    unified = (CONTROL_GROUPS / "cgroup.controllers").exists()
    group = CONTROL_GROUPS / CONTAINERS if unified else CONTROL_GROUPS / "cpu" / CONTAINERS
    if not group.parent.is_dir():
        return
    group.mkdir(exist_ok=True)
    name, weight = ("cpu.weight", 200) if unified else ("cpu.shares", 2048)
    if (group / name).exists():
        (group / name).write_text(str(weight))


def _inherited() -> list[int]:
    """Return the file descriptors that the calling process leaves open for its children. A daemon would keep these descriptors open
    forever, and would hold their locks."""
    found = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    # The list includes the descriptor that `iterdir` used, which is closed by now.
    return [number for number in found if number > 2 and Path(f"/proc/self/fd/{number}").exists() and os.get_inheritable(number)]


def _group() -> Path:
    unified = (CONTROL_GROUPS / "cgroup.controllers").exists()
    return CONTROL_GROUPS / GROUP if unified else CONTROL_GROUPS / VERSION_1_HIERARCHY / GROUP


def _remove_group(group: Path) -> None:
    # For a moment after a group's last process has died, the group is busy and can't be removed. A group that stays behind is harmless.
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
    # Only a daemon's parent can reap it.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _started_tick(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the name in parentheses, can contain any characters. The third is the state, and the twenty-second is the start
    # time.
    state, *fields = text[text.rindex(")") + 2 :].split()
    return None if state in "ZX" else int(fields[18])
