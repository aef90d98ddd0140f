"""Temporary folders in memory: when they are used, and that nothing stays of them."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.builders import in_memory
from tests.builders.in_memory import MEMORY, PREFIX, folder_of_this_process, has_room, may_be_used, tmp_path

__all__ = ["tmp_path"]

_ROOT = Path(__file__).resolve().parent.parent
_SECONDS = 60.0
_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.builders.in_memory import folder_of_this_process

with folder_of_this_process(Path(sys.argv[1])) as folder:
    (folder / "test").mkdir()
    (folder / "test/file").write_text("x")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
_CONFTEST = """
import pytest
from tests.builders import in_memory
from tests.builders.in_memory import memory_folder, report_with_place, tmp_path

in_memory.may_be_used = lambda: True
pytest_runtest_makereport = pytest.hookimpl(wrapper=True)(lambda item: (yield from report_with_place(item)))
"""
_TESTS = """
from pathlib import Path

def test_that_fails(tmp_path: Path) -> None:
    (tmp_path / "of the failed test").touch()
    assert False

def test_that_passes(tmp_path: Path) -> None:
    (tmp_path / "of the passed test").touch()
"""


def _environment() -> dict[str, str]:
    """The environment of a child that imports from `tests`, wherever it runs, and even with PYTHONSAFEPATH."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "_available_bytes", lambda: 1 << 40)


@pytest.fixture
def usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before `tmp_path`, so that a test's folder is in memory even if there is too little memory since the tests began."""
    monkeypatch.setattr(in_memory, "may_be_used", lambda: True)


@pytest.fixture
def unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "may_be_used", lambda: False)


@pytest.mark.usefixtures("roomy")
def test_there_is_room_in_a_folder_with_enough_free_bytes(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    assert has_room(tmp_path, room=free // 2)
    assert not has_room(tmp_path, room=free * 2)
    assert not has_room(tmp_path / "absent", room=1)


def test_the_machines_memory_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "_available_bytes", lambda: 1000)
    assert has_room(tmp_path, room=1000)
    assert not has_room(tmp_path, room=1001)


def test_a_folder_is_gone_after_its_block(tmp_path: Path) -> None:
    with folder_of_this_process(tmp_path) as folder:
        assert folder.parent == tmp_path
        assert folder.name.startswith(PREFIX)
        (folder / "file").touch()
    assert list(tmp_path.iterdir()) == []


def test_nothing_stays_of_a_process_that_is_killed(tmp_path: Path) -> None:
    command: list[str | Path] = [sys.executable, "-c", _KILLED, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path
    until = time.monotonic() + _SECONDS
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not folder.exists()


@pytest.mark.parametrize(("room", "least", "used"), [(True, 8, True), (True, 9, False), (False, 8, False)])
def test_memory_is_used_if_there_is_room_and_the_process_may_use_enough(
    room: bool, least: int, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_memory, "has_room", lambda: room)
    monkeypatch.setattr(in_memory, "memory_bytes", lambda: 8)
    monkeypatch.setattr(in_memory, "LEAST_MEMORY", least)
    assert may_be_used() == used


@pytest.mark.usefixtures("usable")
def test_a_test_has_its_folder_in_memory(tmp_path: Path, memory_folder: Path | None) -> None:
    if memory_folder is None:
        pytest.skip("there was too little memory when the tests began")
    assert tmp_path.parent == memory_folder
    assert memory_folder.parent == MEMORY


@pytest.mark.usefixtures("unusable")
def test_a_test_has_its_folder_on_the_disk_once_there_is_too_little_memory(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert tmp_path.parent == tmp_path_factory.getbasetemp()


@pytest.mark.disk
def test_a_test_with_the_marker_has_its_folder_on_the_disk(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert tmp_path.parent == tmp_path_factory.getbasetemp()


@pytest.mark.slow
def test_only_the_files_of_a_failed_test_are_kept_and_not_in_memory(tmp_path: Path) -> None:
    if not may_be_used():
        pytest.skip("there is too little memory")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_both.py").write_text(_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntmp_path_retention_policy = failed\n")
    command: list[str | Path] = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", tmp_path / "kept", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=_environment())
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert [each.name for each in (tmp_path / "kept").rglob("of the *")] == ["of the failed test"]
    [(before, after)] = re.findall(r"files as possible are copied from (\S+) to (\S+)$", done.stdout, re.MULTILINE)
    assert Path(before).is_relative_to(MEMORY)
    assert not Path(before).exists()
    assert (Path(after) / "of the failed test").exists()
