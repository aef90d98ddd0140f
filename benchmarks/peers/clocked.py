"""The clock of every run. It prints the time that the work took, as one line of JSON.

The clock starts once the libraries are imported and the workload's in-memory inputs are loaded. This module uses only the standard library,
because peers have separate environments.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def clocked(work: Callable[[], int], *, waits: bool = True, again: bool = True) -> None:
    """Does the work, and prints the time that the work took. The work returns its number of records.

    `waits` is False if other processes do the work and keep running afterwards, so that their CPU time is unknown. If BENCH_TWICE is set,
    the work is done once before the clock starts, and the files in OUTPUT (the script's third argument) are then removed. `again` is False
    if the work can't be repeated.
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
    """Prints the result of a run."""
    json.dump({"records": records, "seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": _own_peak()}, sys.stdout)


def _bring_memory() -> None:
    """Writes a file and deletes it, so that enough free memory is available at once. A virtual machine returns free pages to its host. The
    first access to a page took 9 µs if the page had been returned, and less than 1 µs otherwise. Without this function, a run's time
    depended on how much memory the previous run had just freed.
    """
    piece = b"\1" * (1 << 20)
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(int(os.environ.get("BENCH_BYTES_AT_HAND", "0")) // len(piece)):
            file.write(piece)


def _own_peak() -> int:
    """Returns the peak resident memory of this process."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
