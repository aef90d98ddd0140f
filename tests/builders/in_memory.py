"""Temporary folders in memory, for tests that write many small files and sync each of them.

A file system in memory supports hard links, exclusive renames, sparse files and mapped files, as a disk does. But its files use memory,
`fsync` does nothing, and it is a different device from the folders of `tmp_path_factory`. Tests for which these differences matter have the
marker `disk`.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from dataprep_converter.runtime.limits import memory_bytes

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only folders with unique names are made there
ROOM: Final = 2 << 30
"""The number of bytes that must be free in memory before a test."""
LEAST_MEMORY: Final = 8 << 30
"""The least memory that this process must be allowed to use, because a container's limit also counts the files in `/dev/shm`."""
PREFIX: Final = "dataprep-tests-"
_AVAILABLE: Final = "MemAvailable:"
_FOLDERS: Final = pytest.StashKey[tuple[Path, Path]]()
_FAILED: Final = pytest.StashKey[bool]()
_GUARD: Final = 'exec 3<&0; { read -r line <&3; rm -rf -- "$0"; } >/dev/null 2>&1 &'


def has_room(memory: Path = MEMORY, *, room: int = ROOM) -> bool:
    """Return whether a folder can be made here, and `room` bytes are free both in the file system and in the machine's memory."""
    try:
        free = os.statvfs(memory)
        return os.access(memory, os.W_OK | os.X_OK) and min(free.f_bavail * free.f_frsize, _available_bytes()) >= room
    except OSError:
        return False


def _available_bytes() -> int:
    """Return the number of bytes of the machine's memory that are available. Raises OSError if the system doesn't report it."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(_AVAILABLE)), 0)


def may_be_used() -> bool:
    """Return whether a test's folder may be in memory now. The answer can change while tests run."""
    return has_room() and memory_bytes() >= LEAST_MEMORY


@contextmanager
def folder_of_this_process(memory: Path = MEMORY) -> Iterator[Path]:
    """Yield a new folder. It's removed at the end of the block, or when this process and its forks have ended, even if they are killed.

    A background shell removes the folder at the end of a pipe that only this process and its forks can write to. The shell isn't a child
    of this process.
    """
    folder = Path(tempfile.mkdtemp(dir=memory, prefix=PREFIX))
    reader, writer = os.pipe()
    try:
        subprocess.run(["/bin/sh", "-c", _GUARD, folder], stdin=reader, check=True, start_new_session=True)
    finally:
        os.close(reader)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(writer)


@pytest.fixture(scope="session")
def memory_folder() -> Iterator[Path | None]:
    """This process's folder in memory, or None if there is too little memory."""
    if not may_be_used():
        yield None
        return
    with folder_of_this_process() as folder:
        yield folder


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path, memory_folder: Path | None) -> Iterator[Path]:
    """A temporary folder, in memory if possible. If the test fails, its files are copied to pytest's temporary folder."""
    node: pytest.Item = request.node
    if memory_folder is None or node.get_closest_marker("disk") or not may_be_used():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=memory_folder, prefix=f"{tmp_path.name}-"))
    node.stash[_FOLDERS] = (folder, tmp_path)
    yield folder
    if node.stash.get(_FAILED, False):
        with suppress(OSError, shutil.Error):
            shutil.copytree(folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def report_with_place(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Implement the hook `pytest_runtest_makereport`: add to a failed test's report where the test's files will be."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
        if (folders := item.stash.get(_FOLDERS, None)) is not None and report.when != "teardown":
            report.sections.append(
                ("Temporary files", f"After this test, as many files as possible are copied from {folders[0]} to {folders[1]}")
            )
    return report
