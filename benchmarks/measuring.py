"""Runs each contender in a separate process. The contender measures its own seconds and CPU time; the memory of all its processes is
measured here."""

import json
import os
import statistics
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "benchmarks" / "peers"
_OURS = [ROOT / folder for folder in ("api", "operator", "converter")]
_SECONDS = 0.02
"""The time in seconds between two measurements of the memory."""


class RunFailed(RuntimeError):
    """A contender failed. The message ends with the contender's error output."""


@dataclass(frozen=True)
class Took:
    """The measurements of one run."""

    records: int
    seconds: float
    cpu_seconds: float | None
    """The CPU time. None if processes that outlive the run do most of the work."""
    peak_bytes: int
    written: int = 0


@dataclass
class Runs:
    """All runs of one contender."""

    runs: list[Took] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """The median number of records per second."""
        return statistics.median(run.records / run.seconds for run in self.runs)

    @property
    def spread(self) -> float:
        """Half of the difference between the fastest and the slowest run, as a fraction of the median."""
        rates = [run.records / run.seconds for run in self.runs]
        return (max(rates) - min(rates)) / 2 / self.per_second


def python_run(interpreter: Path | None, script: str, arguments: Sequence[str | Path], *, borrows: bool = False) -> tuple[str, int]:
    """Runs a script of `peers`. Returns its output, and the peak memory of its processes in bytes. Raises RunFailed."""
    command = [str(interpreter or sys.executable), str(SCRIPTS / script), *map(str, arguments)]
    ours = [Path(sysconfig.get_path("purelib")), *_OURS] if borrows else _OURS if interpreter is None else []
    return watched(command, _environment(ours))


def watched(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, int]:
    """Runs a command. Returns its output, and the peak resident memory of its processes in bytes. Raises RunFailed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        peak = [0]
        over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, peak, over))
        watcher.start()
        output, errors = process.communicate()
        over.set()
        watcher.join()
    if process.returncode != 0:
        raise RunFailed(f"{' '.join(command[:3])} ended with {process.returncode}:\n{errors[-3000:]}")
    return output, peak[0]


def timed(command: Sequence[str]) -> Took:
    """Runs one of our commands and measures all of it, including start-up. The whole run counts as one record."""
    began = time.perf_counter()
    before = os.times()
    _, peak = watched(command, _environment(_OURS))
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(records=1, seconds=time.perf_counter() - began, cpu_seconds=cpu, peak_bytes=peak)


def took(output: str, peak: int, written: int) -> Took:
    """Returns the measurements that a script has printed. The script prints the exact peak of its own memory, and the sampled `peak`
    includes the memory of its children. The larger of the two values is used."""
    said = json.loads(output.splitlines()[-1])
    return Took(said["records"], said["seconds"], said["cpu_seconds"], max(peak, said["peak_bytes"]), written)


def size_of(folder: Path) -> int:
    """Returns the bytes of all visible files below a folder."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in found if not any(part[0] in "_." for part in path.relative_to(folder).parts))


def _environment(paths: Sequence[Path]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DATAPREP_"))}
    kept["CUDA_VISIBLE_DEVICES"] = ""
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    return kept


def _watch(process: int, peak: list[int], over: threading.Event) -> None:
    while not over.wait(_SECONDS):
        peak[0] = max(peak[0], _resident(process))


def _resident(process: int) -> int:
    """Returns the resident bytes of a process and its descendants. Shared memory is counted once for each process."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = [int(child) for task in Path(f"/proc/{process}/task").iterdir() for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(map(_resident, children))
