"""The recorded state of the running cluster.

Other processes (a pytest worker, `make cluster-down`) use this file to attach to the cluster, and a start after a crash uses it to clean
up. Therefore each entry is written before its resource is created, or immediately afterwards.
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
    """A real node: its address, and what to restore when its kubelet restarts."""

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
    # The archives of the images that all nodes have, by image name.
    images: dict[str, str] = field(default_factory=dict)
    unpacked: str = ""
    """The folder with unpacked images that every node begins with."""
    unpacked_images: dict[str, str] = field(default_factory=dict)
    """The archives of these images, by image name."""
    sysctls: dict[str, str] = field(default_factory=dict)
    made_folders: list[str] = field(default_factory=list)

    def of_this_boot(self) -> bool:
        """Say whether the recorded process ids are still valid, because they are from the current boot."""
        return self.boot == this_boot()


def run_dir() -> Path:
    """Return the folder of the running cluster. Its file system must support overlayfs."""
    return Path(os.environ.get("DATAPREP_TEST_RUN") or "/var/tmp/dataprep-test-cluster")  # noqa: S108 -- one cluster per machine


def this_boot() -> str:
    """Return an identifier of the machine's current boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read() -> State | None:
    """Return the recorded state, or None if there is none."""
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
    """Write the state atomically."""
    unfinished = _file().with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(asdict(state), indent=1))
    unfinished.rename(_file())


@contextmanager
def changing() -> Iterator[State]:
    """Under a lock, read the state, let the caller change it, and write it back."""
    with _locked("state.lock"):
        state = read() or State(boot=this_boot())
        try:
            yield state
        finally:
            write(state)


@contextmanager
def starting_or_stopping() -> Iterator[None]:
    """Keep other processes from starting or stopping the cluster during the block."""
    with _locked("cluster.lock"):
        yield


@contextmanager
def loading_images() -> Iterator[None]:
    """Keep other processes from loading images (most likely the same ones) during the block."""
    with _locked("images.lock"):
        yield


@contextmanager
def installing() -> Iterator[None]:
    """Keep other processes from installing a program (most likely the same one) into the cluster during the block."""
    with _locked("programs.lock"):
        yield


@contextmanager
def marking_nodes() -> Iterator[None]:
    """Keep tests that depend on the labels, taints and resources of nodes from running at the same time."""
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
