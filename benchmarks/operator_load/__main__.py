"""`make bench-operator`: measures the operator's resource use and reaction times. It fails if a figure exceeds its threshold.

The program uses the local cluster of `make cluster-up`, or starts a cluster and stops it afterwards. `--only look` needs no cluster. It
reports its progress, ends within 80 minutes (`--minutes`), and writes the results after each row. `--small` tries out all measurements with
few jobs and keeps no results.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
from benchmarks.operator_load import measurements, one_look, played
from benchmarks.operator_load.measurements import Bench, Figures
from benchmarks.operator_load.patience import Patience
from kubernetes.client.exceptions import ApiException
from kubernetes.config import new_client_from_config
from urllib3.exceptions import HTTPError

import kubecluster
from kubecluster.errors import ClusterError
from workbench.installation import install_operator

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "docs" / "operator-load.json"
PAGE: Final = ROOT / "docs" / "operator-load.md"
_NODES: Final = 8


@dataclass(frozen=True)
class Row:
    """One measurement, and the limits for its figures."""

    name: str
    title: str
    measure: Callable[[Bench, bool], Figures]
    at_most: Mapping[str, float]
    minutes: float
    """The time after which the measurement is aborted. On two idle cores, the measurement takes about half of this time."""
    at_least: Mapping[str, float] = field(default_factory=dict)
    needs_cluster: bool = True

    def beyond(self, figures: Figures, *, small: bool) -> list[str]:
        """Returns a message for each figure that is beyond its limit."""
        most = [
            f"{self.name}: {key} is {figures[key]:.2f}, but must be at most {limit:g}"
            for key, limit in self.at_most.items()
            if figures[key] > limit
        ]
        least = [
            f"{self.name}: {key} is {figures[key]:.2f}, but must be at least {limit:g}"
            for key, limit in self.at_least.items()
            if figures[key] < limit
        ]
        return [*most, *([] if small else least)]


# Later rows use the results of earlier rows: `idle` uses the finished jobs of both bursts, and `growth` counts all jobs that the operator
# has completed.
ROWS: Final = (
    Row(
        "look",
        "the operator reconciles one job with 10,000 pods, of which 9,000 have finished (without a cluster)",
        lambda _, small: one_look.measure(pods=1000 if small else 10_000, looks=20 if small else 100),
        {"cpu_ms": 10, "bytes_per_finished_pod": 1024},
        minutes=2,
        needs_cluster=False,
    ),
    Row(
        "latency",
        "time from the job's creation to its first worker pod, on an idle cluster, without the plan pod's run time",
        lambda bench, small: measurements.latency(bench, jobs=5 if small else 30),
        {"p50_seconds": 0.7, "p95_seconds": 1.5},
        minutes=4,
    ),
    Row(
        "big",
        "one job with 100,000 shards and 1,000 indexes, while 500 workers report progress",
        lambda bench, small: measurements.big(bench, reporters=20 if small else 500, seconds=10 if small else 60),
        {"p99_ms": 20, "status_writes_per_second": 0.5, "object_kib": 64, "refused": 0},
        minutes=6,
    ),
    Row(
        "restart",
        "the leader is killed while 1,000 jobs run",
        lambda bench, small: measurements.restart(bench, jobs=20 if small else 1000),
        {"looked_after_seconds": 20, "other_children": 0},
        minutes=8,
    ),
    Row(
        "burst",
        "1,000 jobs are created together",
        lambda bench, small: measurements.burst(bench, jobs=20 if small else 1000),
        {"plan_jobs_seconds": 60, "requests_per_job": 30, "rss_mib": 200, "wrong_children": 0},
        minutes=10,
    ),
    Row(
        "burst3000",
        "3,000 jobs are created together",
        lambda bench, small: measurements.burst(bench, jobs=40 if small else 3000),
        {"requests_per_job": 30, "rss_mib": 200, "wrong_children": 0},
        minutes=80,
    ),
    Row(
        "idle",
        "the operator is idle, with 5,000 finished jobs",
        lambda bench, small: measurements.idle(bench, jobs=80 if small else 5000, seconds=20 if small else 120),
        {"core_percent": 1, "writes_beyond_lease": 0},
        minutes=20,
    ),
    Row(
        "growth",
        "10,000 jobs are created, completed and deleted: memory after the first and the last thousand",
        lambda bench, small: measurements.growth(bench, lives=0 if small else 10_000, jobs=20 if small else 1000),
        {"growth_mib": 20},
        minutes=25,
        at_least={"jobs": 10_000},
    ),
)
_MINUTES: Final = 80.0
_NO_CLUSTER: Final = Bench(api=cast("Any", None), installation=cast("Any", None), patience=Patience("no cluster", seconds=0))
"""The bench for rows that need no cluster. These rows use neither the API nor the installation."""


def main() -> int:
    """Runs the measurements. Returns 1 if a figure is beyond its limit or a row could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator_load", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[row.name for row in ROWS], default=[row.name for row in ROWS])
    parser.add_argument("--small", action="store_true", help="few jobs; no result is kept")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="time limit for all rows; later rows are aborted (%(default)g)")
    options = parser.parse_args()
    rows = [row for row in ROWS if row.name in options.only]
    with _bench() if any(row.needs_cluster for row in rows) else nullcontext(_NO_CLUSTER) as bench:
        return measure(
            rows,
            bench,
            seconds=60 * options.minutes,
            small=options.small,
            results=None if options.small else RESULTS,
            page=PAGE,
        )


def measure(rows: Sequence[Row], bench: Bench, *, seconds: float, small: bool, results: Path | None, page: Path) -> int:
    """Measures all rows within `seconds`. When a row ends, its figures or its error are written."""
    whole = Patience("all rows", seconds=seconds)
    found: dict[str, Any] = json.loads(results.read_text()) if results is not None and results.exists() else {}
    beyond: list[str] = []
    for row in rows:
        limit = min(60 * row.minutes, seconds - whole.spent)
        sys.stderr.write(f"{row.name}: {row.title}; usually {row.minutes / 2:g} minutes, at most {limit / 60:.1f}\n")
        entry: dict[str, Any] = {"at": datetime.now(UTC).date().isoformat()}
        patience = Patience(row.name, seconds=limit)
        try:
            patience.check("its turn")
            figures = row.measure(replace(bench, patience=patience), small)
        except FAILS as exc:
            entry["error"] = f"{type(exc).__name__}: {str(exc)[:300]}"
            beyond.append(f"{row.name}: not measured: {entry['error']}")
        else:
            entry |= {"figures": figures, "seconds": round(patience.spent)}
            beyond += row.beyond(figures, small=small)
            sys.stdout.write(f"{row.title}\n" + "".join(f"  {name:26} {value:10.2f}\n" for name, value in figures.items()))
            sys.stdout.flush()
        found[row.name] = entry
        if results is not None:
            results.write_text(json.dumps(found, indent=1) + "\n")
            page.write_text(_page(found))
    sys.stderr.write("".join(f"{line}\n" for line in beyond))
    return 1 if beyond else 0


FAILS: Final = (TimeoutError, ClusterError, ApiException, HTTPError, aiohttp.ClientError)
"""Errors that end a row, but don't stop the following rows: a timeout, or a cluster that doesn't respond."""


@contextmanager
def _bench() -> Iterator[Bench]:
    running = kubecluster.attach()
    cluster = running or kubecluster.up()
    try:
        installation = install_operator(cluster)
        installation.wait_ready()
        with tempfile.TemporaryDirectory() as folder:
            stages = played.stages(Path(folder) / "stages.yaml")
            api = new_client_from_config(str(cluster.kubeconfig))  # type: ignore[no-untyped-call]
            with cluster.fake_nodes(_NODES, stages=stages):
                bench = Bench(api, installation, Patience("clean-up", seconds=300))
                yield bench
                if running is not None and bench.kept:
                    replace(bench, patience=Patience("clean-up", seconds=300)).clear()
    finally:
        if running is None:
            cluster.down()


def _page(found: Mapping[str, Any]) -> str:
    lines = [
        "# The operator under load",
        "",
        "`make bench-operator` writes this page from [operator-load.json](operator-load.json). Don't edit it. The cluster has a real API",
        "server, etcd, scheduler and controllers, and the operator runs from its image with the chart's defaults. kwok simulates the pods,",
        "which immediately return the final message of a converter. Everything shares the cores of one small machine, which also creates",
        "the load, so the figures are upper bounds. Only the first row needs no cluster: its job and pods are put into the operator's cache.",
        "`make bench-operator` fails if a figure exceeds its limit.",
        "",
        "| measurement | figure | measured | at most |",
        "|---|---|--:|--:|",
    ]
    for row in ROWS:
        if row.name not in found:
            continue
        if "error" in found[row.name]:
            lines.append(f"| {row.title} | | not measured: {found[row.name]['error'].replace('|', '/')} | |")
            continue
        for number, (name, value) in enumerate(found[row.name]["figures"].items()):
            most = row.at_most.get(name)
            lines.append(f"| {row.title if number == 0 else ''} | {name} | {value:,.2f} | {'' if most is None else f'{most:g}'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
