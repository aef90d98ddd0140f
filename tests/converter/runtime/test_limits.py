"""A process's limits from control groups (v1 and v2), as seen inside and outside a container."""

import os
from pathlib import Path

import pytest

from dataprep_converter.runtime import limits

UNLIMITED = "9223372036854771712"


def groups(folder: Path, membership: str, files: dict[str, str]) -> dict[str, Path]:
    """Make replacements for /sys/fs/cgroup and /proc/self/cgroup."""
    for name, content in files.items():
        (folder / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "groups" / name).write_text(content + "\n")
    (folder / "membership").write_text(membership)
    return {"groups": folder / "groups", "membership": folder / "membership"}


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(("membership", "files", "expected"), [
    ("0::/\n", {"memory.max": "1048576"}, 1 << 20),
    ("0::/a/b\n", {"a/memory.max": "2097152", "a/b/memory.max": "max"}, 2 << 20),
    ("0::/a\n", {"a/memory.max": "max"}, MACHINE),
    ("4:memory:/a\n", {"memory/memory.limit_in_bytes": UNLIMITED, "memory/a/memory.limit_in_bytes": "3145728"}, 3 << 20),
    ("5:cpu,memory:/\n", {"cpu,memory/memory.limit_in_bytes": "4194304"}, 4 << 20),
    ("4:memory:/kubepods/pod1/x\n0::/\n", {"memory/memory.limit_in_bytes": "5242880"}, 5 << 20),
    ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": UNLIMITED}, MACHINE),
    ("", {}, MACHINE),
], ids=["v2", "v2, the parent's", "v2, none", "v1", "v1, shared", "v1, in a container", "v1, none", "no groups"])  # fmt: skip
def test_memory_is_the_smallest_limit(tmp_path: Path, membership: str, files: dict[str, str], expected: int) -> None:
    assert limits.memory_bytes(**groups(tmp_path, membership, files)) == expected


def test_changes_of_limits_and_groups_are_seen(tmp_path: Path) -> None:
    found = [
        limits.memory_bytes(**groups(tmp_path, membership, {"memory.max": parent, "a/memory.max": "1048576"}))
        for membership, parent in (("0::/\n", "3145728"), ("0::/\n", "2097152"), ("0::/a\n", "2097152"))
    ]
    assert found == [3 << 20, 2 << 20, 1 << 20]


@pytest.mark.parametrize(("membership", "files", "expected"), [
    ("0::/\n", {"cpu.max": "200000 100000"}, 2),
    ("0::/\n", {"cpu.max": "50000 100000"}, 1),
    ("0::/\n", {"cpu.max": "max 100000"}, 64),
    ("3:cpu,cpuacct:/\n", {"cpu,cpuacct/cpu.cfs_quota_us": "300000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, 3),
    ("3:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
], ids=["v2", "v2, half of one", "v2, none", "v1", "v1, none"])  # fmt: skip
def test_processors_are_whole_and_at_least_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, membership: str, files: dict[str, str], expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert limits.processors(**groups(tmp_path, membership, files)) == expected


@pytest.mark.parametrize(("mebibytes", "processors", "expected"), [(512, 8, 1), (640, 8, 2), (4096, 8, 8), (64, 8, 1), (4096, 1, 1)])
def test_processes_are_bound_by_processors_and_memory(tmp_path: Path, mebibytes: int, processors: int, expected: int) -> None:
    files = {"memory.max": str(mebibytes << 20), "cpu.max": f"{processors * 100_000} 100000"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
        assert limits.processes(**groups(tmp_path, "0::/\n", files)) == expected


def test_this_process_has_limits() -> None:
    assert 0 < limits.memory_bytes() <= MACHINE
    assert 1 <= limits.processors() <= len(os.sched_getaffinity(0))
