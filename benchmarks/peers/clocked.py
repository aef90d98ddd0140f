"""The clock of every run: what a piece of work took, as one line of JSON. Standard library only: peers have environments of their own.

The clock begins when libraries are imported and inputs that the workload has in memory are loaded.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def clocked(work: Callable[[], int], *, waits: bool = True, again: bool = True) -> None:
    """Does the work, which returns the number of its records, and prints what it took.

    Where processes that work for it outlive it, `waits` is False: their CPU time isn't known. Where BENCH_TWICE is set it is done once before the
    clock begins, unless it can't be done `again`, and what it wrote to OUTPUT, the script's third word, is removed.
    """
    if again and "BENCH_TWICE" in os.environ:
        work()
        for file in Path(sys.argv[3]).iterdir():
            file.unlink()
    else:
        _bring_memory()
    before, began = os.times(), time.perf_counter()
    records = work()
    seconds, after = time.perf_counter() - began, os.times()
    tell(records, seconds, sum(after[:4]) - sum(before[:4]) if waits else None)


def tell(records: int, seconds: float, cpu_seconds: float | None) -> None:
    """Prints what a piece of work took."""
    json.dump({"records": records, "seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": _own_peak()}, sys.stdout)


def _bring_memory() -> None:
    """Writes a file and drops it. A virtual machine gives free memory back to its host, and the first touch of a page afterwards took 9 µs
    where one at hand takes less than 1: what a run took depended on whether the one before it had just freed as much as it wrote.
    """
    piece = b"\1" * (1 << 20)
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(int(os.environ.get("BENCH_BYTES_AT_HAND", "0")) // len(piece)):
            file.write(piece)


def _own_peak() -> int:
    """Most memory that was resident in this process."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
