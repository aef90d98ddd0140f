"""The clock of every run: what a piece of work took, as one line of JSON. Standard library only: peers have environments of their own.

The clock begins when libraries are imported and inputs that the workload has in memory are loaded.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path


def clocked(work: Callable[[], int], *, waits: bool = True) -> None:
    """Does the work, which returns the number of its records, and prints what it took.

    Where processes that work for it outlive it, `waits` is False: their CPU time isn't known.
    """
    before, began = os.times(), time.perf_counter()
    records = work()
    seconds, after = time.perf_counter() - began, os.times()
    tell(records, seconds, sum(after[:4]) - sum(before[:4]) if waits else None)


def tell(records: int, seconds: float, cpu_seconds: float | None) -> None:
    """Prints what a piece of work took."""
    json.dump({"records": records, "seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": _own_peak()}, sys.stdout)


def _own_peak() -> int:
    """Most memory that was resident in this process."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
