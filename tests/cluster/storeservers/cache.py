"""Caches slow downloads and builds in a folder outside the checkout.

The name of an entry is a hash of its inputs, so a new version gets a new entry, and two checkouts never interfere.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class BuildFailed(RuntimeError):
    """A tool that builds a cache entry failed. The message ends with its output."""


def folder() -> Path:
    """Return the folder that holds all entries: DATAPREP_TEST_CACHE, or dataprep-test in the user's cache."""
    chosen = os.environ.get("DATAPREP_TEST_CACHE")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "dataprep-test"


def key_of(*files: Path) -> str:
    """Return a short hash of the contents of these files."""
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()[:12]


def entry(name: str, make: Callable[[Path], None]) -> Path:
    """Return the entry of this name. If there is none, call `make` with an empty folder that becomes the entry."""
    finished = folder() / name
    if finished.is_dir():
        return finished
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.is_dir():
            _make(finished, make)
    return finished


def _make(finished: Path, make: Callable[[Path], None]) -> None:
    # Only the rename makes the entry visible, so an interrupted build never leaves an entry that looks complete.
    unfinished = Path(tempfile.mkdtemp(prefix=f".{finished.name}-", dir=finished.parent))
    try:
        make(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(finished)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def jars(pom: Path) -> Path:
    """Return the folder with the jars of `<name>/pom.xml`; the first call on a machine downloads them."""

    def copy(into: Path) -> None:
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        build([*command, f"-DoutputDirectory={into}", "-DincludeScope=runtime"], cwd=into)

    return entry(f"{pom.parent.name}-{key_of(pom)}", copy)


def build(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a tool to completion."""
    try:
        done = subprocess.run(  # the commands are written in this package
            command,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except FileNotFoundError as exc:
        raise BuildFailed(f"{command[0]} is needed to build what the tests run, but it is not installed.") from exc
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
