"""`make bench-start`: the processor time of a worker pod from its start to its first read of input.

Each start runs the command of a pod's container on a plan that was made in advance. As in the image, the modules are already compiled to
byte code. An audit hook ends the process when it opens its input. The time includes the process that watches the pod's working process. The
medians are printed, and the command fails if a median is over the limit.
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.measuring import ROOT

_LIMIT_SECONDS: Final = 0.6
_PACKAGES: Final = os.pathsep.join(str(ROOT / folder) for folder in ("api", "converter"))
_START: Final = """
import os, sys, time

seconds = [0.0]
os.register_at_fork(before=lambda: seconds.append(time.process_time()))

def end_at_first_read(event, arguments):
    if event == "open" and isinstance(arguments[0], str | bytes) and os.fsdecode(arguments[0]).startswith(sys.argv[1]):
        os.write(1, f"{seconds[-1] + time.process_time()}\\n".encode())
        os._exit(0)

sys.addaudithook(end_at_first_read)
from dataprep_converter.cli.commands import main
main(sys.argv[2:])
"""
"""The program of a pod's container. Its first argument is the folder of the input, and the others are the command."""


def main() -> int:
    """Measures, prints the medians, and returns 1 if a worker takes longer than allowed."""
    parser = argparse.ArgumentParser(prog="make bench-start", description=__doc__)
    parser.add_argument("--starts", type=int, default=15, help="number of starts (%(default)s)")
    starts = parser.parse_args().starts
    subprocess.run([sys.executable, "-m", "compileall", "-q", *_PACKAGES.split(os.pathsep)], check=True)
    with tempfile.TemporaryDirectory(prefix="dataprep-start-") as folder:
        workers = {kind: _Worker(Path(folder, kind), source) for kind, source in _sources(Path(folder)).items()}
        # The workers start in turn, so that other load on the machine affects all of them.
        seconds = [[worker.seconds() for worker in workers.values()] for _ in range(starts + 1)][1:]
    medians = dict(zip(workers, map(statistics.median, zip(*seconds, strict=True)), strict=True))
    sys.stdout.write(f"{starts} starts, medians: {', '.join(f'{kind} {median:.3f} s' for kind, median in medians.items())}\n")
    return int(max(medians.values()) > _LIMIT_SECONDS)


class _Worker:
    """A worker of a planned job."""

    def __init__(self, folder: Path, source: Mapping[str, Any]) -> None:
        (folder / "mounts").mkdir(parents=True, exist_ok=True)
        self._input = folder / "in"
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DATAPREP_"))}
        self._environment |= {"PYTHONPATH": _PACKAGES, "PYTHONDONTWRITEBYTECODE": "1"}
        job = folder / "job.json"
        spec = {"source": source, "output": {"uri": str(folder / "out"), "format": "tfrecord"}}
        job.write_text(json.dumps({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "j"}, "spec": spec}))
        plan = json.loads(self._run("-m", "dataprep_converter", "plan", str(job)))
        self._command = ["work", "--job", str(job), "--run", plan["runId"], "--plan-sha256", plan["planSha256"], "--index", "0"]
        self._environment |= {"DATAPREP_MOUNTS": str(folder / "mounts"), "DATAPREP_TERMINATION_LOG": str(folder / "log")}

    def seconds(self) -> float:
        """Starts the worker. Returns the processor time from its start to its first read."""
        return float(self._run("-c", _START, str(self._input), *self._command))

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([sys.executable, "-P", *arguments], env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not done.stdout:
            raise SystemExit(f"The command ended with {done.returncode} before it read its input: {done.stderr[-3000:]}")
        return done.stdout


def _sources(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Makes small inputs, each in a separate folder. Returns their sources."""
    table, digits = folder / "csv" / "in", folder / "idx" / "in"
    for made in (table, digits):
        made.mkdir(parents=True)
    (table / "table.csv").write_text("a,b\n" + "1,2.5\n" * 1000)
    (digits / "images.idx").write_bytes(struct.pack(">BBBB3I", 0, 0, 8, 3, 100, 28, 28) + bytes(100 * 28 * 28))
    (digits / "labels.idx").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, 100) + bytes(100))
    return {
        "csv": {"csv": {"uris": [str(table / "table.csv")], "header": True}},
        "idx": {"idx": {"subsets": [{"name": "all", "images": str(digits / "images.idx"), "labels": str(digits / "labels.idx")}]}},
    }


if __name__ == "__main__":
    sys.exit(main())
