"""What is running, written down as it starts.

Another process (a pytest worker, `make cluster-down`) attaches by this file, and a start after a crash cleans up by it:
so every entry is written before, or at once after, the thing it names exists.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kubecluster.daemons import Daemon


@dataclass
class NodeState:
    """One real node: its address, and what has to be given back to it when its kubelet starts again."""

    ip: str
    taints: list[str] = field(default_factory=list)
    capacity: dict[str, str] = field(default_factory=dict)


@dataclass
class State:
    """Everything that `down` needs to know."""

    boot: str
    ready: bool = False
    daemons: dict[str, Daemon] = field(default_factory=dict)
    nodes: dict[str, NodeState] = field(default_factory=dict)
    # The archive of each image that all nodes have, by name.
    images: dict[str, str] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    made_folders: list[str] = field(default_factory=list)

    def of_this_boot(self) -> bool:
        """Say whether the process ids in here can still mean the processes they meant."""
        return self.boot == this_boot()


def run_dir() -> Path:
    """Return the folder of the running cluster; it must be on a file system that overlayfs can stand on."""
    return Path(os.environ.get("DATAPREP_TEST_RUN") or "/var/tmp/dataprep-test-cluster")  # noqa: S108 -- one cluster a machine


def this_boot() -> str:
    """Return what tells this boot of the machine from every other."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read() -> State | None:
    """Return the written state, or None when nothing was left here."""
    try:
        written: dict[str, Any] = json.loads(_file().read_text())  # Any: JSON, checked by the constructors below
    except FileNotFoundError:
        return None
    return State(
        **{
            **written,
            "daemons": {name: Daemon(**daemon) for name, daemon in written["daemons"].items()},
            "nodes": {name: NodeState(**node) for name, node in written["nodes"].items()},
        }
    )


def write(state: State) -> None:
    """Write the state whole, or not at all."""
    unfinished = _file().with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(asdict(state), indent=1))
    unfinished.rename(_file())


@contextmanager
def changing() -> Iterator[State]:
    """Read the state, let the caller change it, and write it, while everybody else waits."""
    with _locked("state.lock"):
        state = read() or State(boot=this_boot())
        try:
            yield state
        finally:
            write(state)


@contextmanager
def starting_or_stopping() -> Iterator[None]:
    """Keep two processes from starting or stopping the cluster at the same time."""
    with _locked("cluster.lock"):
        yield


@contextmanager
def loading_images() -> Iterator[None]:
    """Let one process load an image while the others, who want the same one, wait."""
    with _locked("images.lock"):
        yield


@contextmanager
def marking_nodes() -> Iterator[None]:
    """Let one test give nodes labels, taints and resources while the others that look at these wait."""
    with _locked("nodes.lock"):
        yield


@contextmanager
def _locked(name: str) -> Iterator[None]:
    run_dir().mkdir(parents=True, exist_ok=True)
    with (run_dir() / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _file() -> Path:
    return run_dir() / "state.json"
