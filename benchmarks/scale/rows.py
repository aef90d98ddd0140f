"""The rows of the benchmark: what is measured, at which sizes, and which limits the figures have."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.scale.measured_process import measure
from benchmarks.scale.measurements import BUCKET
from benchmarks.scale.played_job import Fields, Figures

from storeservers import S3Server

Sizes = Literal["small", "usual", "all"]

MOST_MIB: Final = 512
"""The memory that each process of a job may take."""
_FRACTIONS: Final[Fields] = {"splits": {"into": [{"name": "train", "fraction": 0.9}, {"name": "test", "fraction": 0.1}]}}
_SHUFFLE: Final[Fields] = {"shuffle": {"seed": 1}}


@dataclass(frozen=True)
class Bench:
    """A folder for the stores of the measurements, and the plans that are already in this folder."""

    folder: Path
    seconds: float
    """The time limit of one measurement."""
    plans: dict[str, tuple[Path, Figures]] = field(default_factory=dict)

    def plan(self, kind: str, count: int, fields: Fields) -> tuple[Path, Figures]:
        """Plans a job unless an earlier row has planned the same job. Returns the folder with the plan, and the figures."""
        key = f"{kind} {count} {fields}"
        if key not in self.plans:
            disk = self.fresh()
            self.plans[key] = disk, self.measured("plan", disk=str(disk), kind=kind, count=count, fields=fields)
        return self.plans[key]

    def divide_source(self, kind: str, count: int) -> Figures:
        """Lists a job's source, and stores the listing for a scan."""
        return self.measured("divide_source", disk=str(self.fresh()), kind=kind, count=count)

    def scan(self, kind: str, count: int) -> Figures:
        """Scans one part of a job's source, in another process."""
        return self.measured("scan", disk=str(self.fresh()), kind=kind, count=count)

    def merge(self, kind: str, count: int) -> Figures:
        """Scans all parts of a job's source, and plans the job from the results in another process."""
        disk = self.fresh()
        scanned = self.measured("scan_all", disk=str(disk), kind=kind, count=count)
        return {**self.measured("merge", disk=str(disk), kind=kind, count=count), "parts": scanned["parts"]}

    def divide(self, kind: str, count: int, fields: Fields) -> Figures:
        """Plans a job that shuffles, and divides one slice of its input."""
        disk, _ = self.plan(kind, count, fields)
        return self.measured("divide", disk=str(disk), kind=kind, count=count, fields=fields, most_slices=1)

    def work_on_divided(self, kind: str, count: int, fields: Fields) -> Figures:
        """Divides all slices of a job that shuffles, and makes the shards of one task in another process."""
        disk, planned = self.plan(kind, count, fields)
        divided = self.measured("divide", disk=str(disk), kind=kind, count=count, fields=fields, most_slices=None)
        figures = self.measured("work", disk=str(disk), kind=kind, count=count, fields=fields, most_shards=None)
        return figures | {"gib": planned["gib"], "all_shards": planned["shards"], "slices": divided["slices"]}

    def work(self, kind: str, count: int, fields: Fields, *, most_shards: int) -> Figures:
        """Plans a job, and makes some of its shards in another process."""
        disk, planned = self.plan(kind, count, fields)
        figures = self.measured("work", disk=str(disk), kind=kind, count=count, fields=fields, most_shards=most_shards)
        return figures | {"gib": planned["gib"]}

    def commit(self, shards: int, *, on_s3: bool = False) -> Figures:
        """Prepares a data set with this number of shards, and commits it in another process."""
        disk = self.fresh()
        with S3Server(disk / "server") if on_s3 else nullcontext() as server:
            described: dict[str, str] = {}
            if server is not None:
                server.make_bucket(BUCKET)
                described = {"endpoint": server.endpoint, "region": server.region, "accessKeyId": server.access_key}
                described["accessKeySecret"] = server.secret_key
            prepared = self.measured("prepare_commit", disk=str(disk), count=shards, server=described)
            return {**self.measured("commit", disk=str(disk), count=shards, server=described), "report_bytes": prepared["report_bytes"]}

    def measured(self, name: str, **arguments: Any) -> Figures:
        """Runs a measurement in a separate process."""
        return measure(name, self.folder / "tmp", seconds=self.seconds, **arguments)

    def fresh(self) -> Path:
        """Returns a new empty folder."""
        disk = self.folder / f"disk-{len(list(self.folder.iterdir()))}"
        disk.mkdir()
        return disk


@dataclass(frozen=True)
class Row:
    """One measurement, its sizes and its limits."""

    name: str
    title: str
    measure: Callable[[Bench, int], Figures]
    usual: Sequence[int]
    small: Sequence[int]
    """Sizes for a trial."""
    large: Sequence[int] = ()
    """Sizes that take too long for a usual run."""
    grows: Mapping[str, float] = field(default_factory=dict)
    """Maps the name of a figure to the largest factor by which it may grow from the smallest to the largest size."""
    grows_per_item: Mapping[str, float] = field(default_factory=dict)
    """Like `grows`, but the figures are first divided by the size."""

    def sizes(self, choice: Sizes) -> list[int]:
        """Returns the sizes of a run."""
        return [*self.small] if choice == "small" else [*self.usual, *(self.large if choice == "all" else ())]

    def beyond(self, found: Mapping[int, Figures]) -> list[str]:
        """Returns a message for each figure that is beyond its limit."""
        if not found:
            return []
        messages = [
            f"{self.name}: a process with {size:,} took {figures['peak_mib']:.0f} MiB, but at most {MOST_MIB} MiB are allowed"
            for size, figures in sorted(found.items())
            if figures["peak_mib"] > MOST_MIB
        ]
        first, last = min(found), max(found)
        messages += [
            f"{self.name}: {key} is {found[last][key]:.2f} with {last:,} and {found[first][key]:.2f} with {first:,}, but may grow by at most a factor of {most:g}"
            for key, most in self.grows.items()
            if found[last][key] > most * found[first][key]
        ]
        messages += [
            f"{self.name}: {key} for each of {last:,} is {found[last][key] / last:.2g} and for each of {first:,} {found[first][key] / first:.2g}, "
            f"but may grow by at most a factor of {most:g}"
            for key, most in self.grows_per_item.items()
            if found[last][key] / last > most * found[first][key] / first
        ]
        return messages


ROWS: Final = (
    Row(
        "plan-images",
        "plan: list image files, write the plan",
        lambda bench, size: bench.plan("images", size, {})[1],
        usual=(100_000, 1_000_000, 10_000_000),
        small=(1000, 2000),
        large=(100_000_000,),
        grows_per_item={"plan_cpu_seconds": 1.5},
    ),
    Row(
        "plan-images-fractions",
        "plan: list image files, with splits by fraction",
        lambda bench, size: bench.plan("images", size, _FRACTIONS)[1],
        usual=(1_000_000,),
        small=(1000,),
        large=(10_000_000,),
    ),
    Row(
        "plan-parquet",
        "plan: read the footers of Parquet files",
        lambda bench, size: bench.plan("parquet", size, {})[1],
        usual=(1000, 20_000),
        small=(20,),
        large=(100_000,),
        grows_per_item={"plan_cpu_seconds": 1.5},
    ),
    Row(
        "plan-csv",
        "plan: read CSV files of 64 MiB to find the ends of the records",
        lambda bench, size: bench.plan("csv", size, {})[1],
        usual=(32,),
        small=(1,),
    ),
    Row(
        "plan-csv-fractions",
        "plan: read CSV files of 64 MiB, with splits by fraction",
        lambda bench, size: bench.plan("csv", size, _FRACTIONS)[1],
        usual=(32,),
        small=(1,),
    ),
    Row(
        "divide-parquet",
        "plan: list Parquet files, store the listing for the pods of a scan",
        lambda bench, size: bench.divide_source("parquet", size),
        usual=(20_000, 100_000),
        small=(20_000,),
        large=(1_000_000, 10_000_000),
        grows_per_item={"plan_cpu_seconds": 1.5},
    ),
    Row(
        "scan-csv",
        "scan: read one part (1 GiB) of CSV files of 64 MiB to find the ends of the records",
        lambda bench, size: bench.scan("csv", size),
        usual=(32, 15_000),
        small=(32,),
    ),
    Row(
        "merge-csv",
        "merge: plan from the results of the scan",
        lambda bench, size: bench.merge("csv", size),
        usual=(32, 512),
        small=(32,),
        large=(2048,),
        grows_per_item={"merge_cpu_seconds": 1.5},
    ),
    Row(
        "work-images",
        "worker: two shards of image files, in the middle of the plan",
        lambda bench, size: bench.work("images", size, {}, most_shards=2),
        usual=(10_000, 10_000_000),
        small=(1000,),
        grows={"peak_mib": 1.1},
    ),
    Row(
        "work-parquet",
        "worker: two shards of Parquet files of 32 MiB",
        lambda bench, size: bench.work("tables", size, {}, most_shards=2),
        usual=(32,),
        small=(1,),
    ),
    Row(
        "work-csv",
        "worker: two shards of CSV files of 64 MiB",
        lambda bench, size: bench.work("csv", size, {}, most_shards=2),
        usual=(32,),
        small=(1,),
    ),
    Row(
        "work-csv-shuffled",
        "worker: two shards of CSV files of 64 MiB, shuffled without a first round (the worker reads all files)",
        lambda bench, size: bench.work("csv", size, _SHUFFLE, most_shards=2),
        usual=(32,),
        small=(1,),
    ),
    Row(
        "shuffle-csv",
        "shuffle: divide one slice of CSV files of 64 MiB among the tasks",
        lambda bench, size: bench.divide("csv", size, _SHUFFLE),
        usual=(32,),
        small=(8,),
    ),
    Row(
        "work-csv-divided",
        "worker: the shards of one task, from the records that the first round divided",
        lambda bench, size: bench.work_on_divided("csv", size, _SHUFFLE),
        usual=(32,),
        small=(8,),
    ),
    Row(
        "commit",
        "commit: simulated shards and reports",
        lambda bench, size: bench.commit(size),
        usual=(10_000, 100_000),
        small=(10,),
        large=(1_000_000,),
        grows_per_item={"commit_cpu_seconds": 1.5},
    ),
    Row(
        "commit-s3",
        "commit: shards and reports on an S3 server (versitygw on the same cores)",
        lambda bench, size: bench.commit(size, on_s3=True),
        usual=(10_000,),
        small=(10,),
        large=(100_000,),
        grows_per_item={"commit_cpu_seconds": 1.5},
    ),
)
