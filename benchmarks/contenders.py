"""Who takes part in a workload, and how each is started."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, Literal

from benchmarks import measuring
from benchmarks.measuring import Took

import environments

Role = Literal["ours", "peer", "limit"]


@dataclass(frozen=True)
class Contender:
    """One line of a workload's table."""

    name: str
    role: Role
    script: str
    kind: str
    peer: str = ""
    """What `--peers` calls it."""
    environment: str | None = None
    """Of `requirements/environments`; None is ours, which has TensorFlow as well."""
    options: tuple[str, ...] = ()
    share: float = 1.0
    """How much of the data it gets, from its beginning: what takes minutes gets less, and rates are compared."""
    writes: bool = True

    def records(self, of: int) -> int:
        """How many of so many records it gets."""
        return max(1, ceil(of * self.share))

    def run(self, source: Path, output: Path, records: int) -> Took:
        """One run; what it writes is in `output`, an empty folder. Raises RunFailed."""
        arguments: list[str | Path] = [self.kind, source, output, str(self.records(records)), *self.options]
        printed, peak = measuring.python_run(_interpreter(self.environment), self.script, arguments)
        return measuring.took(printed, peak, measuring.size_of(output))


@dataclass(frozen=True)
class Command(Contender):
    """A whole command of ours, its start included."""

    def run(self, source: Path, output: Path, records: int) -> Took:
        """See `Contender`."""
        del records
        words = [word.replace("INPUT", str(source)).replace("OUTPUT", str(output)) for word in self.options]
        return measuring.timed([sys.executable, *words])


@dataclass(frozen=True)
class Checked:
    """What an output was read back as."""

    records: int
    digests: dict[str, str]
    """By how many of the first records they are over."""
    values: list[list[float]] = field(default_factory=list)


def read_back(kind: str, output: Path, counts: Sequence[int]) -> Checked:
    """The output, read by a library that is not ours, with a digest over the first so many records for each of `counts`."""
    environment = "sagemaker" if kind == "recordio" else None
    printed, _ = measuring.python_run(_interpreter(environment), "reading_back.py", [kind, output, *map(str, counts)])
    return Checked(**json.loads(printed.splitlines()[-1]))


def install() -> None:
    """Makes the environments of all peers."""
    for name in ENVIRONMENTS:
        print(f"{name}: {environments.python(name)}")


ENVIRONMENTS = ("tfrecord", "sagemaker", "webdataset")


def ours(kind: str, options: Mapping[str, Any], *, name: str = "ours", writes: bool = True) -> Contender:
    """A run of ours."""
    return Contender(name, "ours", "ours.py", kind, options=(json.dumps(options),), writes=writes)


def limit(name: str, kind: str, script: str = "limits.py", *, options: tuple[str, ...] = ()) -> Contender:
    """A limit."""
    return Contender(name, "limit", script, kind, options=options, writes=False)


def tensorflow(kind: str, share: float, *, name: str = "TensorFlow") -> Contender:
    """TensorFlow's writer."""
    return Contender(name, "peer", "tensorflow_records.py", kind, peer="tf", share=share)


def _interpreter(environment: str | None) -> Path | None:
    return None if environment is None else environments.python(environment)


def machine() -> dict[str, str]:
    """What the figures were taken on, as far as a reader may care."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor")
    cores = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607
    return {"processor": model, "cores": cores, "python": sys.version.split()[0]}
