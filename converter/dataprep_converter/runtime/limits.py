"""Finds how much memory and how many processors this process may use, from its control groups (version 1 or 2) or the machine."""

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")

_OWN_BYTES: Final = 128 << 20
"""Memory reserved for the process that starts the workers. If the output is on HDFS, this process isn't a worker itself."""
_WORKER_BYTES: Final = 256 << 20
"""The memory that a worker needs for rows of typical size, as measured by `make memory`."""


MEMORY_VARIABLE: Final = "DATAPREP_MEMORY_BYTES"
"""The environment variable that contains this process's share of a memory limit, if no control group sets this limit (YARN's
containers)."""


def memory_bytes(*, groups: Path = _GROUPS, membership: Path = _MEMBERSHIP) -> int:
    """Returns the smallest of the limits of this process's control groups, the limit in MEMORY_VARIABLE, and the machine's memory."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    if (share := os.environ.get(MEMORY_VARIABLE, "")).isdecimal():
        limits.append(int(share))
    for folder in _folders("memory", groups, _text(membership)):
        for name in ("memory.max", "memory.limit_in_bytes"):
            words = _words(folder / name)
            if words and words[0].isdigit():
                limits.append(int(words[0]))
    return min(limits)


def processors(*, groups: Path = _GROUPS, membership: Path = _MEMBERSHIP) -> int:
    """Returns the number of processors, rounded down, but at least one."""
    limits = [float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)]
    for folder in _folders("cpu", groups, _text(membership)):
        words = _words(folder / "cpu.max") or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
        if len(words) == 2 and words[0].isdigit():
            limits.append(int(words[0]) / int(words[1]))
    return max(1, int(min(limits)))


def processes(*, groups: Path = _GROUPS, membership: Path = _MEMBERSHIP) -> int:
    """Returns how many processes may work on a job, including the current process.

    This is the number of processors or the number of processes that fit into memory, whichever is smaller.
    """
    room = memory_bytes(groups=groups, membership=membership) - _OWN_BYTES
    return max(1, min(processors(groups=groups, membership=membership), room // _WORKER_BYTES))


@lru_cache(maxsize=4)  # cached, because each reader asks for the limits
def _folders(controller: str, groups: Path, membership: str) -> Sequence[Path]:
    """Returns the folders of this process's control groups and of their parents, each once. `membership` is the text of `_MEMBERSHIP`.

    In a container, version 1 of control groups reports each group's path on the host. Only the top folder of that path exists in the
    container.
    """
    folders: list[Path] = []
    for line in membership.splitlines():
        number, controllers, path = line.split(":", 2)
        if number != "0" and controller not in controllers.split(","):
            continue
        # Version 2 has one tree. In version 1, each controller has its own tree of groups, or shares a tree with other controllers. A tree
        # is named after all of its controllers.
        for top in [groups] if number == "0" else [groups / controller, groups / controllers]:
            parts = [part for part in path.split("/") if part]
            folders += [top.joinpath(*parts[:count]) for count in range(len(parts) + 1)]
    return tuple(dict.fromkeys(folders))


def _words(file: Path) -> list[str]:
    return _text(file).split()


def _text(file: Path) -> str:
    """Returns a file's text, which is empty if the file can't be read."""
    try:
        return file.read_text()
    except OSError:
        return ""
