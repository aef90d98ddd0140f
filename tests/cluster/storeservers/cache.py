"""What is slow to fetch or to build is made once and kept in a folder outside the checkout.

An entry is named after the content that it is made from, so a change of version makes a new entry and two checkouts
never disturb each other.
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
    """A tool that makes a cache entry has failed; the message ends with what it said."""


def folder() -> Path:
    """Return the folder that holds all entries: DATAPREP_TEST_CACHE, or dataprep-test in the user's cache."""
    chosen = os.environ.get("DATAPREP_TEST_CACHE")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "dataprep-test"


def key_of(*files: Path) -> str:
    """Return a short name for the contents of these files."""
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()[:12]


def entry(name: str, make: Callable[[Path], None]) -> Path:
    """Return the entry of this name; if there is none, call `make` with an empty folder that becomes the entry."""
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
    # The rename is what makes the entry visible, so a build that is killed halfway leaves nothing that looks whole.
    unfinished = Path(tempfile.mkdtemp(prefix=f".{finished.name}-", dir=finished.parent))
    try:
        make(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(finished)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def jars(pom: Path) -> Path:
    """Return the folder of the jars that `<name>/pom.xml` asks for; the first call on a machine fetches them."""

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
    """Run one tool to its end."""
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
        raise BuildFailed(f"{command[0]} is needed to make what the tests run, but it is not installed.") from exc
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
