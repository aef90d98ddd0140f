"""The clock of every run: what a piece of work took, as one line of JSON. Standard library only: peers have environments of their own.

The clock begins when libraries are imported and inputs that the workload has in memory are loaded.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path


def clocked(work: Callable[[], int]) -> None:
    """Does the work, which returns the number of its records, and prints what it took."""
    before, began = os.times(), time.perf_counter()
    records = work()
    seconds, after = time.perf_counter() - began, os.times()
    cpu = sum(after[:4]) - sum(before[:4])
    json.dump({"records": records, "seconds": seconds, "cpu_seconds": cpu, "peak_bytes": _own_peak()}, sys.stdout)


def _own_peak() -> int:
    """Most memory that was resident in this process."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
