"""The ledger: what each step of a large job costs, computed from measured coefficients and from assumptions about the store."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from benchmarks.scale.played_store import KEYS_OF_A_PAGE

from dataprep_api.dataset.messages import MOST_TASKS
from dataprep_converter.planning.planner import TASK_BYTES, TASKS_PER_WORKER, count_shuffle_tasks
from dataprep_converter.planning.scan import most_parts
from dataprep_converter.planning.splits import DEFAULT_SHARD_BYTES
from dataprep_converter.readers.base import examined
from dataprep_converter.runtime import scans
from dataprep_converter.stores.objects.parts import PART_BYTES
from dataprep_converter.stores.ranged import AHEAD_BYTES, AHEAD_CONNECTIONS

Results = Mapping[str, Any]
"""The content of scale.json."""
Kind = Literal["images", "parquet", "csv"]

TB: Final = 10**12
MIB: Final = 1 << 20

# --- assumptions about the cluster and the store -------------------------------------------------------------------------

WORKERS: Final = 1000
STREAM_MIB: Final = 60.0
"""b: MiB per second over one connection."""
ANSWER_SECONDS: Final = 0.03
"""The time until a request for an object is answered."""
PAGE_SECONDS: Final = 0.1
"""The time until a request for a thousand names is answered."""
PAGES_AT_ONCE: Final = 4
"""The average number of useful pages among the pages that a large listing requests at the same time. See docs/design.md."""
REQUESTS: Final = 5500.0
"""r: requests per second that the store answers."""
TEXT_CONNECTIONS: Final = 6 + 2 * AHEAD_CONNECTIONS
"""The plan step reads eight text files or cells at a time. Two of these files are read ahead."""
FILE_BYTES: Final[Mapping[Kind, int]] = {"images": 110_000, "parquet": 256 * MIB, "csv": 64 * MIB}
_UNITS_OF_A_FILE: Final[Mapping[Kind, int]] = {"images": 1, "parquet": 4, "csv": FILE_BYTES["csv"] // (4 * MIB)}

_FILES_AT_ONCE: Final = 8
"""The number of files that a process examines or reads at the same time, if each file takes one or two requests."""
LISTING_REQUESTS: Final = 3
"""The number of requests with which a scan's part reads its slice of the stored listing."""
_RANGES_AT_ONCE: Final = 4
"""The number of ranges from a shuffle's first round that a worker reads at the same time."""
_BUNDLES_AT_ONCE: Final = 4
"""The number of bundles of reports that the commit step reads at the same time."""


@dataclass(frozen=True)
class Job:
    """A job of a certain size."""

    kind: Kind
    size: int
    """N: bytes."""
    shards: int
    """S: the number of shards."""

    @property
    def files(self) -> int:
        """F: the number of files."""
        return -(-self.size // FILE_BYTES[self.kind])

    @property
    def tasks(self) -> int:
        """T: the number of tasks."""
        largest = max(self.size, self.shards * DEFAULT_SHARD_BYTES)
        return min(self.shards, MOST_TASKS, max(TASKS_PER_WORKER * WORKERS, -(-largest // TASK_BYTES)))

    @property
    def mib(self) -> float:
        """N in MiB."""
        return self.size / MIB


Limit = Literal["CPU", "bandwidth", "answers", "requests"]
"""The limit of a step: the processors, the bandwidth of connections, the time until requests are answered, or the number of requests that
the store answers in a second."""


@dataclass(frozen=True)
class Time:
    """The seconds that a step takes, and what limits it."""

    seconds: float
    limit: Limit

    @classmethod
    def longest(cls, times: Mapping[Limit, float]) -> Self:
        """Returns the longest of several durations that run in parallel."""
        limit = max(times, key=lambda each: times[each])
        return cls(times[limit], limit)


@dataclass(frozen=True)
class Cost:
    """The cost of one step."""

    step: str
    pods: str
    """`plan`, `scan`, `merge`, `shuffle`, `workers` or `commit`."""
    time: Time
    requests: float
    mib: float | None = None
    """The peak memory of the pod. None if another step of the same pod states the peak memory."""
    always: bool = True
    """Whether all jobs that read this kind of file have this step."""


@dataclass(frozen=True)
class Coefficients:
    """The measured costs of each file, sample, MiB and shard."""

    results: Results

    def figure(self, row: str, name: str, *, size: int | None = None) -> float:
        """Returns a figure of a row, by default the figure of the largest measured size."""
        sizes = self.results[row]["sizes"]
        return float(sizes[str(size or max(map(int, sizes)))]["figures"][name])

    def sizes(self, row: str) -> list[int]:
        """Returns the sizes of a row, the smallest first."""
        return sorted(map(int, self.results[row]["sizes"]))

    def per(self, row: str, name: str, of: str) -> float:
        """Returns a figure divided by another figure of the row."""
        return self.figure(row, name) / self.figure(row, of)

    def line(self, row: str, name: str) -> tuple[float, float]:
        """Returns the line through the figures of the two largest sizes: the value at zero, and the growth per item."""
        *_, low, high = self.sizes(row)
        first, second = (self.figure(row, name, size=size) for size in (low, high))
        growth = max(0.0, second - first) / (high - low)
        return first - growth * low, growth

    @property
    def list_cpu(self) -> float:
        """CPU seconds of the plan step for each listed file, not counting the time that the simulated store takes for the listing."""
        row = "plan-images"
        return (self.figure(row, "plan_cpu_seconds") - self.figure(row, "played_cpu_seconds")) / self.figure(row, "units")

    @property
    def footer_cpu(self) -> float:
        """CPU seconds for each footer."""
        return self.figure("plan-parquet", "plan_cpu_seconds") / max(self.sizes("plan-parquet"))

    @property
    def footer_requests(self) -> float:
        """Requests for each footer."""
        return self.per_file("plan-parquet", "plan_head_requests") + self.per_file("plan-parquet", "plan_get_requests")

    @property
    def text_mib(self) -> float:
        """MiB of text that can be searched for the ends of records in a CPU second."""
        return 1024 * self.per("plan-csv", "gib", "plan_cpu_seconds")

    @property
    def merge_cpu(self) -> float:
        """CPU seconds of the merge step for each unit."""
        return self.line("merge-csv", "merge_cpu_seconds")[1] * self.per("merge-csv", "files", "units")

    @property
    def divide_cpu(self) -> float:
        """CPU seconds of the plan step for each listed file whose entry is stored for a scan, not counting the time of the simulated
        store."""
        return self.per_file("divide-parquet", "plan_cpu_seconds") - self.per_file("divide-parquet", "played_cpu_seconds")

    def fraction_cpu(self, kind: Kind) -> float:
        """Additional CPU seconds for each sample if the splits are fractions."""
        row = "plan-images" if kind == "images" else "plan-csv"
        with_fractions = f"{row}-fractions"
        size = min(self.sizes(with_fractions))
        more = self.figure(with_fractions, "plan_cpu_seconds", size=size) - self.figure(row, "plan_cpu_seconds", size=size)
        return max(0.0, more) / self.figure(with_fractions, "samples", size=size)

    def per_file(self, row: str, name: str) -> float:
        """Returns a figure divided by the number of files."""
        return self.figure(row, name) / max(self.sizes(row))

    def work_mib(self, kind: Kind) -> float:
        """MiB that a worker converts in a CPU second."""
        return self.per(f"work-{kind}", "mib", "work_cpu_seconds")

    @property
    def divided_mib(self) -> float:
        """MiB of the source that the first round of a shuffle divides in a CPU second."""
        return self.per("shuffle-csv", "mib", "divide_cpu_seconds")

    @property
    def shuffled_mib(self) -> float:
        """MiB of the source that a worker converts in a CPU second if it reads the records that a shuffle's first round has divided."""
        share = self.figure("work-csv-divided", "shards") / self.figure("work-csv-divided", "all_shards")
        return 1024 * self.figure("work-csv-divided", "gib") * share / self.figure("work-csv-divided", "work_cpu_seconds")

    @property
    def range_requests(self) -> float:
        """Requests that a worker sends to read the records of one slice."""
        row = "work-csv-divided"
        return (self.figure(row, "work_head_requests") + self.figure(row, "work_get_requests")) / self.figure(row, "slices")

    @property
    def pass_mib(self) -> float:
        """MiB of the source that a worker reads in a CPU second if the job shuffles without a first round."""
        return 1024 * self.per("work-csv-shuffled", "gib", "work_cpu_seconds")

    def work_requests(self, kind: Kind) -> float:
        """Requests that a worker sends for each shard: to read the shard's input, to write the shard and to report it."""
        return self.per(f"work-{kind}", "work_all_requests", "shards")


def job_of(kind: Kind, size: int, known: Coefficients) -> Job:
    """Returns the job that reads this many bytes. A shard has 128 MiB of output; its amount of input comes from the measurements."""
    return Job(kind, size, shards=math.ceil(size / MIB / known.per(f"work-{kind}", "mib", "shards")))


def costs(job: Job, known: Coefficients) -> Iterator[Cost]:
    """Yields the cost of each step of a job, in the order of the steps."""
    pages = -(-job.files // KEYS_OF_A_PAGE)
    base, growth = known.line("plan-images", "peak_mib")
    if job.kind != "images":
        base = known.figure(f"plan-{job.kind}", "peak_mib")
    units = job.files * _UNITS_OF_A_FILE[job.kind]
    listing = Time.longest({"answers": pages * PAGE_SECONDS / PAGES_AT_ONCE, "CPU": job.files * known.list_cpu})
    yield Cost("list the files", "plan", listing, pages, base + growth * units)
    if job.kind == "parquet":
        requests = job.files * known.footer_requests
        footers: dict[Limit, float] = {"answers": requests * ANSWER_SECONDS / _FILES_AT_ONCE, "CPU": job.files * known.footer_cpu}
        yield _scan("read the footers", footers, requests, job.files * examined.FILE_BYTES)
    if job.kind == "csv":
        text: dict[Limit, float] = {"bandwidth": job.mib / TEXT_CONNECTIONS / STREAM_MIB, "CPU": job.mib / known.text_mib}
        peak = known.figure("scan-csv", "peak_mib")
        yield _scan("read all text for the ends of records", text, job.size / AHEAD_BYTES, job.size, peak)
        merged = Time(units * known.merge_cpu, "CPU")
        # The measured peak includes the results of the last files, but not the units.
        peak = known.figure("merge-csv", "peak_mib") + growth * units
        yield Cost("plan from the results of the scan", "merge", merged, _parts(job.size) + pages, peak)
    if job.kind != "parquet":
        samples = job.files if job.kind == "images" else job.size / _row_bytes(known)
        yield Cost("assign splits by fraction", "plan", Time(samples * known.fraction_cpu(job.kind), "CPU"), 0, always=False)
    stored = units * known.per("plan-images", "stored_mib", "units")
    yield Cost("write the plan", "plan", Time(stored / STREAM_MIB, "bandwidth"), stored * MIB / PART_BYTES + 3)
    per_task = known.figure("work-images", "load_all_requests")
    yield Cost("load the plan", "workers", Time(per_task * ANSWER_SECONDS, "answers"), per_task * job.tasks)
    yield _work(job, known)
    if job.kind == "csv":
        yield from _shuffle(job, known)
    yield _commit(job, known)


def _parts(size: int) -> int:
    """The number of parts of a scan of this many bytes, or 1 if there is no scan."""
    most = most_parts(size, pods=WORKERS) if size > scans.PART_BYTES else 1
    return max(1, min(most, size // scans.LEAST_PART_BYTES))


def _scan(step: str, alone: Mapping[Limit, float], requests: float, size: int, peak: float | None = None) -> Cost:
    """Returns the cost of a scan. Each part reads its slice of the listing. If there is only one part, it is examined in the plan step.

    `alone` contains the times if one process does all the work, and `size` is the number of bytes that the scan divides into parts.
    """
    parts = _parts(size)
    if parts < 2:
        return Cost(step, "scan", Time.longest(alone), requests, peak)
    rounds = -(-parts // WORKERS)
    requests += parts * LISTING_REQUESTS
    times: dict[Limit, float] = {limit: seconds * rounds / parts for limit, seconds in alone.items()}
    times["answers"] = times.get("answers", 0.0) + rounds * LISTING_REQUESTS * ANSWER_SECONDS
    times["requests"] = requests / REQUESTS
    return Cost(step, "scan", Time.longest(times), requests, peak)


def _work(job: Job, known: Coefficients) -> Cost:
    requests = known.work_requests(job.kind) * job.shards
    at_once = _FILES_AT_ONCE if job.kind == "images" else 1
    times: dict[Limit, float] = {
        "CPU": job.mib / WORKERS / known.work_mib(job.kind),
        "bandwidth": job.mib / WORKERS / (at_once * STREAM_MIB),
        "requests": requests / REQUESTS,
        "answers": requests / WORKERS * ANSWER_SECONDS / at_once,
    }
    return Cost("read, convert, publish", "workers", Time.longest(times), requests, known.figure(f"work-{job.kind}", "peak_mib"))


def _shuffle(job: Job, known: Coefficients) -> Iterator[Cost]:
    """The first round reads the source once and writes its records, and the workers read these records instead of the source."""
    written = known.per("shuffle-csv", "mib_out", "mib") * job.mib
    requests = known.per("shuffle-csv", "divide_all_requests", "mib") * job.mib
    times: dict[Limit, float] = {
        "CPU": job.mib / WORKERS / known.divided_mib,
        "bandwidth": (job.mib + written) / WORKERS / STREAM_MIB,
        "requests": requests / REQUESTS,
    }
    peak = known.figure("shuffle-csv", "peak_mib")
    yield Cost("divide the records among the tasks", "shuffle", Time.longest(times), requests, peak, always=False)
    slices = count_shuffle_tasks(job.size, job.files * _UNITS_OF_A_FILE[job.kind], tasks=job.tasks, parallelism=WORKERS)
    requests = job.tasks * slices * known.range_requests
    times = {
        "CPU": job.mib / WORKERS / known.shuffled_mib,
        "bandwidth": written / WORKERS / STREAM_MIB,
        "requests": requests / REQUESTS,
        "answers": requests / WORKERS * ANSWER_SECONDS / _RANGES_AT_ONCE,
    }
    peak = known.figure("work-csv-divided", "peak_mib")
    yield Cost("read the divided records, convert, publish", "workers", Time.longest(times), requests, peak, always=False)


def _commit(job: Job, known: Coefficients) -> Cost:
    base, growth = known.line("commit", "peak_mib")
    _, cpu = known.line("commit", "commit_cpu_seconds")
    lists, gets, requests = (known.per("commit", f"commit_{kind}_requests", "shards") * job.shards for kind in ("list", "get", "all"))
    waiting = lists * PAGE_SECONDS + gets * ANSWER_SECONDS / _BUNDLES_AT_ONCE
    return Cost("commit", "commit", Time.longest({"answers": waiting, "CPU": job.shards * cpu}), requests, base + growth * job.shards)


def _row_bytes(known: Coefficients) -> float:
    return known.figure("plan-csv", "gib") * 2**30 / known.figure("plan-csv", "samples")
