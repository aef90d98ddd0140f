"""Who takes part in a workload, and how each is started."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks import measuring
from benchmarks.measuring import RunFailed, Took

import environments
import javareaders

Role = Literal["ours", "peer", "limit"]
_MOST_BYTES: Final = 512 << 20
"""What every job of ours must do with."""


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
    borrows: bool = False
    """Beside its environment it has ours, for TensorFlow: a copy would be a gigabyte more."""
    options: tuple[str, ...] = ()
    share: float = 1.0
    """How much of the data it gets, from its beginning: what takes minutes gets less, and rates are compared."""
    writes: bool = True
    most_bytes: int | None = None
    """Of memory, for all its processes together."""
    shown_by: "Contender | None" = None
    """Where nothing stays of what it writes: the same work to a file. One run of it, of which nothing is measured, is what is read back."""

    def records(self, of: int) -> int:
        """How many of this many records it gets."""
        return max(1, ceil(of * self.share))

    def run(self, source: Path, output: Path, records: int) -> Took:
        """One run; what it writes is in `output`, an empty folder. Raises RunFailed."""
        arguments: list[str | Path] = [self.kind, source, output, str(self.records(records)), *self.options]
        printed, peak = measuring.python_run(_interpreter(self.environment), self.script, arguments, borrows=self.borrows)
        took = measuring.took(printed, peak, measuring.size_of(output))
        if took.records != self.records(records):
            raise RunFailed(f"It says that it did {took.records:,} of {self.records(records):,} records.")
        return took


@dataclass(frozen=True)
class Command(Contender):
    """A whole command of ours, its start included."""

    def run(self, source: Path, output: Path, records: int) -> Took:
        """See `Contender`."""
        del records
        # It may say nothing, so nothing is asked: what it writes is read back.
        words = [word.replace("INPUT", str(source)).replace("OUTPUT", str(output)) for word in self.options]
        return measuring.timed([sys.executable, *words])


@dataclass(frozen=True)
class Checked:
    """What an output was read back as."""

    records: int
    digests: dict[str, str]
    """By how many of the first records they are over."""
    values: list[list[float]] = field(default_factory=list)
    order: str = ""
    """A digest of their order, where the others are the same in any order."""
    indexes: int = 0
    """How many indexes told the places that the records have."""
    error: str = ""
    """Why it could not be read to its end."""


READ_BY: Final[Mapping[str, str]] = {
    "tfrecord": "TensorFlow",
    "sequences": "TensorFlow",
    "decoded": "TensorFlow",
    "shuffled": "TensorFlow",
    "raw": "TensorFlow",
    "contents": "TensorFlow",
    "digits": "TensorFlow",
    "columns": "TensorFlow, Parquet by pyarrow",
    "webdataset": "webdataset",
    "resized": "webdataset and Pillow",
    "arrayrecord": "array_record and TensorFlow",
    "recordio": "SageMaker's SDK",
    "npz": "numpy",
    "sequencefile": "Hadoop's SequenceFile.Reader",
    "uploaded": "the server's disk or its REST API",
}
"""Whose library reads an output back, by how it is read."""


@dataclass(frozen=True)
class Asked:
    """An output that is to be read back."""

    kind: str
    """How, see `peers/reading_back.py`."""
    place: Path
    counts: Sequence[int]
    """Of how many of the first records there is to be a digest."""


def read_back(asked: Sequence[Asked]) -> list[Checked]:
    """Each output, read by a library that is not ours."""
    if not asked:
        return []
    kinds = {each.kind for each in asked}
    if "sequencefile" in kinds:
        os.environ["BENCH_HADOOP_CLASSES"] = hadoop_jars()
    environment = "sagemaker" if "recordio" in kinds else None
    arguments = [json.dumps([[each.kind, str(each.place), list(each.counts)] for each in asked])]
    printed, _ = measuring.python_run(_interpreter(environment), "reading_back.py", arguments)
    return [Checked(**found) for found in json.loads(printed.splitlines()[-1])]


def install() -> None:
    """Makes the environments of all peers, and fetches Spark's jar."""
    for name in ENVIRONMENTS:
        print(f"{name}: {environments.python(name)}")
    print(f"tensorflow-hadoop: {spark_jars()}")
    print(f"hadoop: {hadoop_jars()}")


ONE_CORE: Final = "libraries alone, 1 core"
TWO_CORES: Final = "libraries alone, 2 processes"

ENVIRONMENTS = ("tfrecord", "sagemaker", "webdataset", "img2dataset", "ray", "spark")


def spark_jars() -> str:
    """The class path of TensorFlow's output format for Hadoop and Spark."""
    return javareaders.classpath("tensorflowhadoop")


def hadoop_jars() -> str:
    """The class path of Hadoop's reader of SequenceFiles."""
    return javareaders.classpath("hdfs")


def ours(kind: str, options: Mapping[str, Any], *, name: str = "ours", writes: bool = True) -> Contender:
    """A run of ours."""
    return Contender(name, "ours", "ours.py", kind, options=(json.dumps(options),), writes=writes, most_bytes=_MOST_BYTES)


def limit(name: str, kind: str, script: str = "limits.py", *, options: tuple[str, ...] = ()) -> Contender:
    """A limit."""
    return Contender(name, "limit", script, kind, options=options, writes=False)


def write(record_bytes: int | None = None) -> Contender:
    """Writing alone: records of this many bytes, or as many bytes as the input has."""
    return limit("write alone", "write", options=() if record_bytes is None else (str(record_bytes),))


def digest(record_bytes: int | None = None) -> Contender:
    """SHA-256 and writing, by one core: of records of this many bytes, or of as many bytes as the input has."""
    return limit("SHA-256 and write alone", "digest", options=() if record_bytes is None else (str(record_bytes),))


def libraries(kind: str, *options: str) -> tuple[Contender, Contender]:
    """The libraries that ours calls, by one process on one core and by two on two: what a second core is worth to anybody here."""
    one, two = (limit(name, kind, "libraries.py", options=(processes, *options)) for name, processes in ((ONE_CORE, "1"), (TWO_CORES, "2")))
    return one, two


def tensorflow(kind: str, share: float = 1.0, *, name: str = "TensorFlow") -> Contender:
    """TensorFlow's writer."""
    return Contender(name, "peer", "tensorflow_records.py", kind, peer="tf", share=share)


def vahidk(kind: str, share: float) -> Contender:
    """The writer of vahidk's `tfrecord`."""
    return Contender("vahidk tfrecord", "peer", "vahidk_records.py", kind, peer="vahidk", environment="tfrecord", share=share)


def tfds(kind: str, share: float) -> Contender:
    """TensorFlow Datasets."""
    return Contender("TensorFlow Datasets", "peer", "tfds_records.py", kind, peer="tfds", share=share)


def ray(kind: str, share: float) -> Contender:
    """Ray Data."""
    return Contender("Ray Data", "peer", "ray_records.py", kind, peer="ray", environment="ray", borrows=True, share=share)


@dataclass(frozen=True)
class Spark(Contender):
    """PySpark, which is told where its jar is."""

    def run(self, source: Path, output: Path, records: int) -> Took:
        """See `Contender`."""
        return super(Spark, replace(self, options=(spark_jars(),))).run(source, output, records)


def spark(kind: str, share: float) -> Contender:
    """PySpark with TensorFlow's output format."""
    return Spark(
        "PySpark, tensorflow-hadoop", "peer", "spark_records.py", kind, peer="spark", environment="spark", borrows=True, share=share
    )


def webdataset(kind: str, share: float = 1.0) -> Contender:
    """webdataset's TarWriter."""
    return Contender("webdataset", "peer", "webdataset_tar.py", kind, peer="webdataset", environment="webdataset", share=share)


def sagemaker(kind: str, share: float) -> Contender:
    """SageMaker's SDK, version 2."""
    return Contender("SageMaker's SDK 2", "peer", "sagemaker_recordio.py", kind, peer="sagemaker", environment="sagemaker", share=share)


def _interpreter(environment: str | None) -> Path | None:
    return None if environment is None else environments.python(environment)


def machine(folder: str) -> dict[str, str]:
    """What the figures were taken on, as far as a reader may care; data and outputs lie in this folder."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor")
    files = subprocess.run(["stat", "--file-system", "--format=%T", folder], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607
    cores = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607
    return {"processor": model, "cores": cores, "python": sys.version.split()[0], "files": files}
