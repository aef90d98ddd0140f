"""Runs a command with a memory limit and measures its memory use.

If possible, a control group (version 1 or 2) is used. Otherwise, the command's processes are watched.
"""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_SECONDS = 0.05
"""The time between two measurements."""


@dataclass(frozen=True)
class Used:
    """The resources that a command used. Memory is in bytes."""

    code: int
    output: str
    seconds: float
    own: int
    """The peak of the anonymous memory of all processes. Without a group, it is the peak of the processes' resident memory, in which shared
    pages count once per process."""
    charged: int | None
    """The peak of the group's memory, including page cache, which the kernel can reclaim. None without a group."""
    killed: int
    """The number of processes that the kernel killed because memory ran out."""


@contextlib.contextmanager
def group(limit: int) -> Iterator[Path | None]:
    """Creates a control group below this process's group, with a limit of `limit` bytes and no swap. Yields None if no group can be
    created."""
    made = _made(limit)
    try:
        yield made
    finally:
        if made is not None:
            _remove(made)


def run(command: Sequence[str | Path], inside: Path | None, environment: dict[str, str]) -> Used:
    """Runs a command to completion, in the control group `inside` if it isn't None."""
    enter = [] if inside is None else ["/bin/sh", "-c", f'echo $$ > {inside}/cgroup.procs && exec "$@"', "sh"]
    began = time.monotonic()
    with subprocess.Popen(
        [*enter, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        peaks = [0]
        over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, inside, peaks, over))
        watcher.start()
        output, _ = process.communicate()
        over.set()
        watcher.join()
    seconds = time.monotonic() - began
    charged = None if inside is None else _first_number(inside, "memory.peak", "memory.max_usage_in_bytes")
    return Used(process.returncode, output, seconds, peaks[0], charged, 0 if inside is None else _killed(inside))


def _made(limit: int) -> Path | None:
    for parent, names in _parents():
        folder = parent / f"dataprep-memory-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if not (folder / names[0]).exists():
            folder.rmdir()
            continue
        (folder / names[0]).write_text(str(limit))
        with contextlib.suppress(FileNotFoundError):  # a kernel without swap accounting has no such file
            (folder / names[1]).write_text(names[2].format(limit=limit))
        return folder
    return None


def _remove(folder: Path) -> None:
    """Removes a group. The last process might need a moment to end."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.1)
    left = (folder / "cgroup.procs").read_text().split()
    print(f"{folder} can't be removed: the processes {', '.join(left) or 'in it'} have not ended")  # noqa: T201 - seen by hand


def _parents() -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yields each folder in which a group could be created, and (file for the memory limit, file for the swap limit, swap limit)."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield _GROUPS / "memory" / path.lstrip("/"), ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "{limit}")
        elif number == "0":
            # In version 2, a group that contains processes can't enable controllers for its children. So the new group might have to be a
            # sibling of this process's group.
            for parent in (_GROUPS / path.lstrip("/"), (_GROUPS / path.lstrip("/")).parent):
                yield parent, ("memory.max", "memory.swap.max", "0")


def _watch(process: int, inside: Path | None, peaks: list[int], over: threading.Event) -> None:
    while not over.wait(_SECONDS):
        peaks[0] = max(peaks[0], _resident(process) if inside is None else _own(inside))


def _own(inside: Path) -> int:
    numbers = dict(line.split() for line in (inside / "memory.stat").read_text().splitlines())
    return int(numbers.get("anon") or numbers["total_rss"])


def _resident(process: int) -> int:
    """Returns the resident bytes of a process and all its descendants."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = [int(child) for task in Path(f"/proc/{process}/task").iterdir() for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(map(_resident, children))


def _first_number(inside: Path, *names: str) -> int | None:
    return next((int((inside / name).read_text()) for name in names if (inside / name).is_file()), None)


def _killed(inside: Path) -> int:
    for name in ("memory.events", "memory.oom_control"):
        if (inside / name).is_file():
            words = dict(line.split() for line in (inside / name).read_text().splitlines())
            return int(words.get("oom_kill", 0))
    return 0
