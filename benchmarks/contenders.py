"""The contenders of a workload, and how each is started."""

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
"""The memory limit of each of our jobs."""


@dataclass(frozen=True)
class Contender:
    """A participant in a workload: one row of its table."""

    name: str
    role: Role
    script: str
    kind: str
    peer: str = ""
    """The name of the peer for `--peers`. If one of our own contenders can't run without a peer, it has this peer's name."""
    environment: str | None = None
    """An environment of `requirements/environments`. None means our own environment, which also has TensorFlow."""
    borrows: bool = False
    """Whether the contender also uses our environment, for our code or for TensorFlow. A second copy of TensorFlow would take another
    gigabyte."""
    options: tuple[str, ...] = ()
    share: float = 1.0
    """The share of the data that this contender gets, starting at the first record. Slow contenders get a smaller share, because only rates
    are compared."""
    writes: bool = True
    most_bytes: int | None = None
    """The memory limit for the sum of all processes of the contender."""
    shown_by: "Contender | None" = None
    """Another contender that does the same work and writes to a file. Set if this contender's output isn't kept. The other contender then
    runs once without being measured, and its file is read back."""

    def records(self, of: int) -> int:
        """Returns the number of records that this contender gets if the workload has `of` records."""
        return max(1, ceil(of * self.share))

    def run(self, source: Path, output: Path, records: int) -> Took:
        """Runs the contender once. It writes to `output`, an empty folder. Raises RunFailed."""
        arguments: list[str | Path] = [self.kind, source, output, str(self.records(records)), *self.options]
        printed, peak = measuring.python_run(_interpreter(self.environment), self.script, arguments, borrows=self.borrows)
        took = measuring.took(printed, peak, measuring.size_of(output))
        if took.records != self.records(records):
            raise RunFailed(f"It reported {took.records:,} of {self.records(records):,} records.")
        return took


@dataclass(frozen=True)
class Command(Contender):
    """One of our commands, measured from start to end, including start-up."""

    def run(self, source: Path, output: Path, records: int) -> Took:
        """See `Contender`."""
        del records
        # A command might print nothing, so its terminal output isn't parsed. The files that it writes are read back.
        words = [word.replace("INPUT", str(source)).replace("OUTPUT", str(output)) for word in self.options]
        return measuring.timed([sys.executable, *words])


@dataclass(frozen=True)
class Checked:
    """The result of reading an output back."""

    records: int
    digests: dict[str, str]
    """For each requested number N, the digest of the first N records."""
    values: list[list[float]] = field(default_factory=list)
    order: str = ""
    """A digest of the records' order, if `digests` don't depend on the order."""
    indexes: int = 0
    """The number of indexes whose offsets agree with the records' offsets."""
    error: str = ""
    """The reason why the output could not be read to its end."""


READ_BY: Final[Mapping[str, str]] = {
    "tfrecord": "TensorFlow",
    "sequences": "TensorFlow",
    "decoded": "TensorFlow",
    "shuffled": "TensorFlow",
    "raw": "TensorFlow",
    "contents": "TensorFlow",
    "digits": "TensorFlow",
    "columns": "TensorFlow (and pyarrow for Parquet)",
    "webdataset": "webdataset",
    "resized": "webdataset and Pillow",
    "arrayrecord": "array_record and TensorFlow",
    "recordio": "SageMaker's SDK",
    "npz": "numpy",
    "sequencefile": "Hadoop's SequenceFile.Reader",
    "uploaded": "the server's disk or its REST API",
}
"""Maps each kind of output to the libraries that read it back."""


@dataclass(frozen=True)
class Asked:
    """An output to read back."""

    kind: str
    """The kind, which selects a function of `peers/reading_back.py`."""
    place: Path
    counts: Sequence[int]
    """For each of these numbers N, a digest of the first N records is computed."""


def read_back(asked: Sequence[Asked]) -> list[Checked]:
    """Reads each output with a third-party library."""
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
    """Installs the environments of all peers, and downloads Spark's and Hadoop's jars."""
    for name in ENVIRONMENTS:
        print(f"{name}: {environments.python(name)}")
    print(f"tensorflow-hadoop: {spark_jars()}")
    print(f"hadoop: {hadoop_jars()}")


ONE_CORE: Final = "libraries alone, 1 core"
TWO_CORES: Final = "libraries alone, 2 processes"

ENVIRONMENTS = ("tfrecord", "sagemaker", "webdataset", "img2dataset", "ray", "spark")


def spark_jars() -> str:
    """Returns the class path of TensorFlow's output format for Hadoop and Spark."""
    return javareaders.classpath("tensorflowhadoop")


def hadoop_jars() -> str:
    """Returns the class path of Hadoop's reader for SequenceFiles."""
    return javareaders.classpath("hdfs")


def ours(kind: str, options: Mapping[str, Any], *, name: str = "ours", writes: bool = True) -> Contender:
    """Returns a contender that runs our code."""
    return Contender(name, "ours", "ours.py", kind, options=(json.dumps(options),), writes=writes, most_bytes=_MOST_BYTES)


def limit(name: str, kind: str, script: str = "limits.py", *, options: tuple[str, ...] = ()) -> Contender:
    """Returns a contender that is a limit: it does only a part of the work."""
    return Contender(name, "limit", script, kind, options=options, writes=False)


def write(record_bytes: int | None = None) -> Contender:
    """Returns a limit that only writes: either records of this many bytes, or as many bytes as the input has."""
    return limit("write alone", "write", options=() if record_bytes is None else (str(record_bytes),))


def digest(record_bytes: int | None = None) -> Contender:
    """Returns a limit that computes SHA-256 and writes on one core: either records of this many bytes, or as many bytes as the input
    has."""
    return limit("SHA-256 and write alone", "digest", options=() if record_bytes is None else (str(record_bytes),))


def libraries(kind: str, *options: str) -> tuple[Contender, Contender]:
    """Returns two limits that run only the libraries that our code calls: one process on one core, and two processes on two cores.

    The ratio of their speeds is the possible gain from a second core.
    """
    one, two = (limit(name, kind, "libraries.py", options=(processes, *options)) for name, processes in ((ONE_CORE, "1"), (TWO_CORES, "2")))
    return one, two


def tensorflow(kind: str, share: float = 1.0, *, name: str = "TensorFlow") -> Contender:
    """Returns a peer that uses TensorFlow's writer."""
    return Contender(name, "peer", "tensorflow_records.py", kind, peer="tf", share=share)


def vahidk(kind: str, share: float) -> Contender:
    """Returns a peer that uses the writer of vahidk's `tfrecord`."""
    return Contender("vahidk tfrecord", "peer", "vahidk_records.py", kind, peer="vahidk", environment="tfrecord", share=share)


def tfds(kind: str, share: float) -> Contender:
    """Returns a peer that uses TensorFlow Datasets."""
    return Contender("TensorFlow Datasets", "peer", "tfds_records.py", kind, peer="tfds", share=share)


def ray(kind: str, share: float) -> Contender:
    """Returns a peer that uses Ray Data."""
    return Contender("Ray Data", "peer", "ray_records.py", kind, peer="ray", environment="ray", borrows=True, share=share)


@dataclass(frozen=True)
class Spark(Contender):
    """PySpark. The path of the jar is passed to its script as an option."""

    def run(self, source: Path, output: Path, records: int) -> Took:
        """See `Contender`."""
        return super(Spark, replace(self, options=(spark_jars(),))).run(source, output, records)


def spark(kind: str, share: float) -> Contender:
    """Returns a peer that uses PySpark with TensorFlow's output format."""
    return Spark(
        "PySpark, tensorflow-hadoop", "peer", "spark_records.py", kind, peer="spark", environment="spark", borrows=True, share=share
    )


def spark_writers() -> tuple[Contender, ...]:
    """Returns the contenders that write a DataFrame. All of them need Spark, so ours runs only if Spark takes part."""
    ours = Contender("ours", "ours", "spark_writing.py", "dataprep", peer="spark", environment="spark", borrows=True)
    parquet = replace(ours, name="df.write.parquet", role="peer", kind="parquet")
    hadoop = Spark("tensorflow-hadoop", "peer", "spark_writing.py", "hadoop", peer="spark", environment="spark", borrows=True, share=0.05)
    return ours, parquet, hadoop


def webdataset(kind: str, share: float = 1.0) -> Contender:
    """Returns a peer that uses webdataset's TarWriter."""
    return Contender("webdataset", "peer", "webdataset_tar.py", kind, peer="webdataset", environment="webdataset", share=share)


def sagemaker(kind: str, share: float) -> Contender:
    """Returns a peer that uses SageMaker's SDK, version 2."""
    return Contender("SageMaker's SDK 2", "peer", "sagemaker_recordio.py", kind, peer="sagemaker", environment="sagemaker", share=share)


def _interpreter(environment: str | None) -> Path | None:
    return None if environment is None else environments.python(environment)


def machine(folder: str) -> dict[str, str]:
    """Returns a description of the machine. `folder` is the folder of data and outputs."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor")
    files = subprocess.run(["stat", "--file-system", "--format=%T", folder], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607
    cores = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607
    return {"processor": model, "cores": cores, "python": sys.version.split()[0], "files": files}
