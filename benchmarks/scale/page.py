"""Writes docs/scale.md from the results in docs/scale.json."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmarks.scale.ledger import (
    ANSWER_SECONDS,
    FILE_BYTES,
    LISTING_REQUESTS,
    MIB,
    PAGE_SECONDS,
    PAGES_AT_ONCE,
    REQUESTS,
    STREAM_MIB,
    TB,
    TEXT_CONNECTIONS,
    WORKERS,
    Coefficients,
    Cost,
    Job,
    Kind,
    Limit,
    Results,
    costs,
    job_of,
)
from benchmarks.scale.rows import MOST_MIB, ROWS

_SIZES: Final = (TB, 10 * TB, 100 * TB)
_KINDS: Final[dict[Kind, str]] = {
    "images": f"Image files of {FILE_BYTES['images'] // 1000} kB",
    "parquet": f"Parquet files of {FILE_BYTES['parquet'] // MIB} MiB with four row groups",
    "csv": f"CSV files of {FILE_BYTES['csv'] // MIB} MiB",
}
_NEEDED: Final = {row.name for row in ROWS if not row.name.endswith("-s3")}


def page_of(results: Results) -> str:
    """Returns the page. Formulas and costs are left out if a row that they need has no figures."""
    parts = [_INTRODUCTION, "## Measurements\n", *_measurements(results)]
    if all(results.get(name, {}).get("sizes") for name in _NEEDED):
        known = Coefficients(results)
        parts += [_formulas(known), _costs(known)]
    return "\n".join([*parts, _LIMITS]).rstrip("\n") + "\n"


_INTRODUCTION: Final = """\
# Large jobs

`make scale` writes this page from [scale.json](scale.json). Don't edit it. The page shows the time, the requests and the memory that
each step of a job needs. It answers whether a job of 100 TB is possible, how long the job takes, and which step takes longest.

The measurements run the real code of each step on a *simulated store*. This store is in the same process as the step. It computes names,
sizes, pins and contents on request, answers immediately, and counts the requests that an object store would get. Each measurement runs in
a separate process. Memory is the peak resident memory of this process, including libraries. `make scale` fails if a process takes more
than 512 MiB, or if the CPU time for each file or shard grows by more than half. It also fails if a worker of a job with ten million files
takes over 10 % more memory than a worker of a job with ten thousand files.

All figures were measured on two cores that other programs used at the same time. So the seconds are upper bounds, and the CPU seconds are
more meaningful.
"""


def _measurements(results: Results) -> Iterator[str]:
    yield "| measurement | size | seconds | CPU s | peak MiB | requests |\n|---|--:|--:|--:|--:|--:|"
    for row in ROWS:
        entry = results.get(row.name, {})
        title = row.title
        for size, found in sorted(entry.get("sizes", {}).items(), key=lambda item: int(item[0])):
            figures = found["figures"]
            step = next(name for name in ("commit", "work", "divide", "merge", "scan", "plan") if f"{name}_seconds" in figures)
            played = figures.get("played_cpu_seconds", 0.0) if step == "plan" else 0.0
            cpu = max(0.0, figures[f"{step}_cpu_seconds"] - played)
            peak = f"{figures['peak_mib']:,.0f}{' ✗' if figures['peak_mib'] > MOST_MIB else ''}"
            yield (
                f"| {title} | {int(size):,} | {figures[f'{step}_seconds']:,.1f} | {cpu:,.1f} | {peak} "
                f"| {figures[f'{step}_all_requests']:,.0f} |"
            )
            title = ""
        if "error" in entry:
            yield f"| {title} | | not measured: {entry['error'].splitlines()[0].replace('|', '/')} | | | |"
    if million := results.get("plan-images", {}).get("sizes", {}).get("1000000"):
        figures = million["figures"]
        cpu = figures["plan_cpu_seconds"] - figures["played_cpu_seconds"]
        yield (
            f"\nListing and planning a million images takes {cpu:.1f} CPU seconds and {figures['plan_list_requests']:,.0f} pages of names."
        )
    yield (
        "\nThe size is the number of files or of shards. The plan step's CPU seconds don't include the time that the simulated store\n"
        f"takes for the listing. ✗ marks a process that took more than {MOST_MIB} MiB.\n"
    )


def _formulas(known: Coefficients) -> str:
    base, growth = known.line("plan-images", "peak_mib")
    commit_base, commit_growth = known.line("commit", "peak_mib")
    worker = [known.figure("work-images", "peak_mib", size=size) for size in known.sizes("work-images")]
    stored = known.per("plan-images", "stored_mib", "units") * MIB
    table = known.per("plan-images", "table_mib", "units") * MIB
    reads, pages = (1000 * known.per("commit", f"commit_{kind}_requests", "shards") for kind in ("get", "list"))
    rows = [
        ("list", "plan", f"F / 1000 pages, about {PAGES_AT_ONCE} at the same time; CPU for each file", f"{1e6 * known.list_cpu:.1f} CPU s per million files"),
        ("list, and store the listing for the pods of a scan", "plan", f"F / 1000 pages, about {PAGES_AT_ONCE} at the same time; CPU for each file",
         f"{1e6 * known.divide_cpu:.1f} CPU s per million files, {MIB * known.per_file('divide-parquet', 'stored_mib'):.0f} bytes stored per file"),
        ("read a part of the listing", "scan", "a constant number of requests for each part", f"{LISTING_REQUESTS} requests"),
        ("read footers (Parquet, ORC)", "scan", "F · requests · answer time / (8 P); CPU for each file",
         f"{known.footer_requests:.1f} requests and {1e3 * known.footer_cpu:.2f} CPU ms per file"),
        ("read text for record ends (CSV, JSONL, text, libsvm)", "scan", f"N / (P · min({TEXT_CONNECTIONS} b, rate))",
         f"{known.text_mib:,.0f} MiB per CPU s"),
        ("plan from the results of the scan", "merge", "U · CPU", f"{1e6 * known.merge_cpu:.0f} CPU µs per unit"),
        ("memory of the merge pod", "merge", "constant + U · bytes, as in the plan pod", _peaks(known, "merge-csv", "files of 64 MiB")),
        ("assign splits by fraction", "plan", "a hash for each sample; a key for each file",
         f"{1e6 * known.fraction_cpu('images'):.2f} CPU s per million files, {1e6 * known.fraction_cpu('csv'):.3f} per million rows"),
        ("keep the table of units", "plan", "U · bytes in `$TMPDIR`", f"{table:.0f} bytes per unit"),
        ("write the plan", "plan", "U · bytes / b", f"{stored:.0f} bytes per unit"),
        ("memory of the plan pod", "plan", "constant + U · bytes", f"{base:.0f} MiB + {growth * MIB:.1f} bytes per unit"),
        ("load the plan", "workers", "a constant number of requests for each task; U / S units for each shard",
         f"{known.figure('work-images', 'load_all_requests'):.0f} requests"),
        ("read, convert, publish: images", "workers", "N / (P · min(8 b, rate)), or requests / r", _work(known, "images")),
        ("read, convert, publish: Parquet", "workers", "N / (P · min(b, rate)), or requests / r", _work(known, "parquet")),
        ("read, convert, publish: CSV", "workers", "N / (P · min(b, rate)), or requests / r", _work(known, "csv")),
        ("divide the records among the tasks (shuffles of sources that are decoded in units)", "shuffle", "N / (P · min(b, rate))",
         f"{known.divided_mib:,.0f} MiB of the source per CPU s, {known.per('shuffle-csv', 'mib_out', 'mib'):.2f} bytes written per byte read"),
        ("read the divided records", "workers", "N / (P · min(b, rate)); slices · T · requests / r",
         f"{known.shuffled_mib:,.0f} MiB of the source per CPU s, {known.range_requests:.1f} requests per slice and task"),
        ("read in a shuffled order without a first round", "workers", "P · N bytes; N / min(b, rate)",
         f"{known.pass_mib:,.0f} MiB of the source per CPU s"),
        ("memory of a worker", "workers", "constant",
         f"{worker[0]:.0f} MiB with {known.sizes('work-images')[0]:,} units, {worker[-1]:.0f} MiB with {known.sizes('work-images')[-1]:,}"),
        ("commit: requests", "commit", "a bundle of reports for each task, 4 at a time (a task with fewer than 8 shards: its reports); several listings of S / 1000 pages",
         f"{reads:,.0f} reads and {pages:.1f} pages per 1000 shards, reports of {known.figure('commit', 'report_bytes'):,.0f} bytes"),
        ("commit: compare, merge, write the manifest", "commit", "CPU for each shard",
         f"{1e3 * known.line('commit', 'commit_cpu_seconds')[1]:.2f} CPU ms per shard"),
        ("memory of the commit pod", "commit", "constant + S · bytes", f"{commit_base:.0f} MiB + {1024 * commit_growth:.1f} KiB per shard"),
    ]  # fmt: skip
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([_FORMULAS, "| step | pod | formula | measured |\n|---|---|---|---|", *lines, ""])


def _peaks(known: Coefficients, row: str, what: str) -> str:
    sizes = known.sizes(row)
    small, large = (f"{known.figure(row, 'peak_mib', size=size):.0f} MiB with {size:,}" for size in (sizes[0], sizes[-1]))
    return f"{small}, {large} {what}"


def _work(known: Coefficients, kind: Kind) -> str:
    return f"{known.work_mib(kind):,.0f} MiB per CPU s, {known.work_requests(kind):,.0f} requests per shard"


_FORMULAS: Final = """\
## Formulas

The formulas use these numbers:

- N: the bytes of the input
- F: the files of the input
- U: the units of the plan. For images and whole files, U = F. A unit of Parquet is a row group, and a unit of CSV is a piece of 4 MiB
- S: the shards
- P: the worker pods, which also run a scan
- T: the tasks. T is the larger of 4 P and N / 256 MiB, but at most 10,000 and at most S
- b: the bytes per second over one connection
- r: the requests per second that the store answers

Every pod of a scan reads the same number of parts. It is the smallest number that keeps every part at or below 1 GiB; opening a
file counts as 100 KiB. But a part has at least 64 MiB, and there are at most 10,000 parts. If N is at most 1 GiB, or if the job can't have
a scan, the plan pod examines the input.
"""


def _costs(known: Coefficients) -> str:
    lines = [
        "## Jobs of 1, 10 and 100 TB",
        "",
        _ASSUMPTIONS,
    ]
    for kind, title in _KINDS.items():
        lines += ["", f"### {title}", "", *_table(kind, known)]
    return "\n".join([*lines, ""])


_ASSUMPTIONS: Final = f"""\
The tables apply the formulas to jobs with {WORKERS:,} worker pods of one core and TFRecord shards of 128 MiB, and to a store with b = {STREAM_MIB:.0f} MiB/s,
r = {REQUESTS:,.0f} requests per second, {1000 * ANSWER_SECONDS:.0f} ms until a request is answered, and {1000 * PAGE_SECONDS:.0f} ms for a page of a thousand names. These four figures
are assumptions, not measurements. r is the rate that S3 documents for reads of one prefix; a bucket whose names are spread over many
prefixes answers more requests. Steps in brackets run only in jobs that request them. The memory is that of the step's pod. For the merge
pod, the memory is an estimate, because at most 2,048 files were measured."""


def _table(kind: Kind, known: Coefficients) -> Iterator[str]:
    jobs = [job_of(kind, size, known) for size in _SIZES]
    columns = [list(costs(job, known)) for job in jobs]
    sizes = [f"{size // TB} TB" for size in _SIZES]
    yield f"| step | time: {' | '.join(sizes)} | requests: {' | '.join(sizes)} | MiB: {' | '.join(sizes)} |"
    yield f"|---|{'--:|' * 3 * len(sizes)}"
    for steps in zip(*columns, strict=True):
        name = f"{steps[0].pods}: {steps[0].step}"
        cells = [
            name if steps[0].always else f"({name})",
            *(_text_of(step.time.seconds) for step in steps),
            *(_count(step.requests) for step in steps),
            *(f"{step.mib:,.0f}" if step.mib is not None else "" for step in steps),
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    for job, column in zip(jobs, columns, strict=True):
        yield f"- {_summary(job, column, known)}"


def _summary(job: Job, steps: Sequence[Cost], known: Coefficients) -> str:
    longest = max((step for step in steps if step.always), key=lambda step: step.time.seconds)
    table = job.files * known.per("plan-images", "table_mib", "units") / 1024
    parts = [
        f"{job.size // TB} TB: {job.files:,} files become {job.shards:,} shards.",
        *([f"The plan pod needs {table:,.1f} GiB in `$TMPDIR`."] if job.kind == "images" else []),
        f"The longest step is *{longest.step}* ({_text_of(longest.time.seconds)}), limited by {_LIMITED_BY[longest.time.limit]}.",
    ]
    return " ".join(parts)


_LIMITED_BY: Final[Mapping[Limit, str]] = {
    "CPU": "the processor",
    "bandwidth": "the bandwidth of its connections",
    "answers": "the time until the store answers",
    "requests": "the number of requests that the store answers in a second",
}


def _text_of(seconds: float) -> str:
    if seconds < 1:
        return "< 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def _count(requests: float) -> str:
    for digits, unit in ((1e9, "billion"), (1e6, "million")):
        if requests >= digits:
            return f"{requests / digits:,.1f} {unit}"
    return f"{requests:,.0f}" if requests >= 1 else ""


_LIMITS: Final = f"""\
## What doesn't scale yet

- **A listing is made by one pod**, with at most eight requests at the same time. At {1000 * PAGE_SECONDS:.0f} ms a page, a billion names take {1e6 * PAGE_SECONDS / PAGES_AT_ONCE / 3600:.0f} hours. Fewer,
  larger files (WebDataset, Parquet, TFRecord) avoid this, and also avoid two requests per image.
- **A source that is scanned is listed twice**, by the plan pod and by the merge pod. The workers then read text, TFRecord, Avro and tar files a
  second time. Members of archives are examined by one process.
- **Each of the following reads the complete input once more in the plan pod**: a split rule on a column, `groupBy`, `stratifyBy`,
  `deduplicate`, a vocabulary, and a `standardize` that collects statistics. The bandwidth of this pod limits these steps. With
  [`--engine spark`](spark-jobs.md#duplicates), executors read the input for `deduplicate`.
- **`deduplicate` in the plan pod** needs 17 bytes in `$TMPDIR` for each record, of which 16 are a digest. It passes over all digests once per
  1.8 million records (with 16 GiB of memory, once per 29 million records). So ten times as many records take a hundred times as long.
- **A shuffle of a source that is decoded in units** (CSV, Parquet, TFRecord and so on) decodes 2 · N bytes if it has a
  [first round](splits.md#two-rounds). The files of the first round take up to about N bytes in the output's store, and each convert task
  requests a range of each file. Without a first round, each task reads the complete source, and all tasks together read P · N bytes: 100 PB
  for a thousand workers and 100 TB. In that case, shuffle while training, or shuffle a source in which each sample is a file.
- **A join is computed by the plan pod**, and its rows must fit on the disk of this pod. A retry of the plan step computes the join again.
- **The commit step is one pod.** It reads the bundles of reports, and lists the shards, their indexes and their reports, each in one
  sequence of pages. Its time grows with the number of shards, and its memory by about 200 bytes for each shard (see the formulas).
  With larger shards (`output.shards.targetSize`), the commit step takes less time.
- **A job has at most 10,000 tasks**, so a task of a job of 100 TB makes 10 GB. If a pod is lost, only its unfinished shards are
  repeated.
- **The store's limit of requests** is shared by all workers. A job with small files reaches this limit long before the workers are busy. Set
  `requestsPerSecond` in `spec.stores` if other programs use the store.
"""
