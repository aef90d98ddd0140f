"""Runs one measurement in a separate process, and adds the peak memory of this process to the figures."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.scale.divided_steps import divide, divide_source, merge, scan, scan_all
from benchmarks.scale.measurements import commit, plan, prepare_commit, work
from benchmarks.scale.played_job import MIB, Figures

ROOT: Final = Path(__file__).resolve().parents[2]
MEASUREMENTS: Final[Mapping[str, Callable[..., Figures]]] = {
    function.__name__: function for function in (plan, divide_source, scan, scan_all, merge, work, divide, prepare_commit, commit)
}


class MeasurementFailed(RuntimeError):
    """A measurement failed. The message ends with the error output of its process."""


def measure(name: str, temporary: Path, *, seconds: float, **arguments: Any) -> Figures:
    """Runs a measurement of `MEASUREMENTS` with these arguments. Its temporary files are in the folder `temporary`.

    Raises MeasurementFailed, or TimeoutExpired if the measurement takes longer than `seconds`.
    """
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-m", __name__, name, json.dumps(arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "TMPDIR": str(temporary)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise MeasurementFailed(f"{name} ended with {done.returncode}: {done.stderr[-3000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _peak_mib() -> float:
    """Returns the peak resident memory of this process, from the process's status. `ru_maxrss` isn't used, because in a new process it
    begins with the memory of the process that started it."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / MIB


def main() -> None:
    """Runs the measurement that the arguments name, and prints its figures as one line of JSON."""
    _, name, arguments = sys.argv
    before = _peak_mib()
    figures = MEASUREMENTS[name](**json.loads(arguments))
    json.dump(figures | {"peak_mib": _peak_mib(), "imports_mib": before}, sys.stdout)


if __name__ == "__main__":
    main()
