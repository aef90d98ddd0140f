"""`make bench-operator`: what the operator costs and how soon it acts; fails when a figure is beyond its threshold.

Needs a cluster of this machine (`make cluster-up`, or its own, which it then stops). `--small` tries everything out with few jobs and keeps no result.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.operator_load import measurements, played
from benchmarks.operator_load.measurements import Bench, Figures
from kubernetes.config import new_client_from_config

import kubecluster
from workbench.installation import install_operator

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "docs" / "operator-load.json"
PAGE: Final = ROOT / "docs" / "operator-load.md"
_NODES: Final = 8


@dataclass(frozen=True)
class Row:
    """One measurement, and how much of a figure is too much."""

    name: str
    title: str
    measure: Callable[[Bench, bool], Figures]
    at_most: Mapping[str, float]


ROWS: Final = (
    Row(
        "latency",
        "create → first worker pod, idle cluster, without the plan pod's own time",
        lambda bench, small: measurements.latency(bench, jobs=5 if small else 30),
        {"p50_seconds": 0.7, "p95_seconds": 1.5},
    ),
    Row(
        "big",
        "one job: 100,000 shards, 1,000 indexes, 500 workers that report",
        lambda bench, small: measurements.big(bench, reporters=20 if small else 500, seconds=10 if small else 60),
        {"p99_ms": 20, "status_writes_per_second": 0.5, "object_kib": 64, "refused": 0},
    ),
    Row(
        "burst",
        "1,000 jobs at once",
        lambda bench, small: measurements.burst(bench, jobs=20 if small else 1000),
        {"plan_jobs_seconds": 60, "requests_per_job": 30, "rss_mib": 200, "wrong_children": 0},
    ),
    Row(
        "burst3000",
        "3,000 jobs at once",
        lambda bench, small: measurements.burst(bench, jobs=40 if small else 3000),
        {"requests_per_job": 30, "rss_mib": 200, "wrong_children": 0},
    ),
    Row(
        "restart",
        "the leader is killed with 1,000 jobs in flight",
        lambda bench, small: measurements.restart(bench, jobs=20 if small else 1000),
        {"looked_after_seconds": 20, "other_children": 0},
    ),
    Row(
        "idle",
        "5,000 finished jobs and nothing to do",
        lambda bench, small: measurements.idle(bench, jobs=20 if small else 5000, seconds=20 if small else 120),
        {"core_percent": 1, "writes_beyond_lease": 0},
    ),
    Row(
        "growth",
        "10,000 jobs that come, complete and go, 1,000 at a time: memory after the last beside the first 1,000",
        lambda bench, small: measurements.growth(bench, batches=2 if small else 10, jobs=20 if small else 1000),
        {"growth_mib": 20},
    ),
)


def main() -> int:
    """Measures; returns 1 when a figure is beyond its threshold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator_load", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[row.name for row in ROWS], default=[row.name for row in ROWS])
    parser.add_argument("--small", action="store_true", help="few jobs; no result is kept")
    options = parser.parse_args()
    found: dict[str, Any] = {} if options.small or not RESULTS.exists() else json.loads(RESULTS.read_text())
    beyond: list[str] = []
    with _bench() as bench:
        for row in ROWS:
            if row.name not in options.only:
                continue
            figures = row.measure(bench, options.small)
            found[row.name] = {"figures": figures, "at": datetime.now(UTC).date().isoformat()}
            sys.stdout.write(f"{row.title}\n" + "".join(f"  {name:26} {value:10.2f}\n" for name, value in figures.items()))
            sys.stdout.flush()
            beyond += [
                f"{row.name}: {name} is {figures[name]:.2f}, at most {most:g}" for name, most in row.at_most.items() if figures[name] > most
            ]
            if not options.small:
                RESULTS.write_text(json.dumps(found, indent=1) + "\n")
                PAGE.write_text(_page(found))
    sys.stderr.write("".join(f"{line}\n" for line in beyond))
    return 1 if beyond else 0


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
                yield Bench(api, installation)
    finally:
        if running is None:
            cluster.down()


def _page(found: Mapping[str, Any]) -> str:
    lines = [
        "# The operator under load",
        "",
        "Made by `make bench-operator` from [operator-load.json](operator-load.json); don't edit. A real API server, etcd, scheduler and controllers; the",
        "operator runs from its image with the chart's defaults; pods are played by kwok and say at once what a converter says at the end. All of",
        "it shares the cores of one small machine, which also sends the load, so figures are upper bounds. `make bench-operator` fails where a figure is beyond",
        "its threshold.",
        "",
        "| what | figure | measured | at most |",
        "|---|---|--:|--:|",
    ]
    for row in ROWS:
        if row.name not in found:
            continue
        for number, (name, value) in enumerate(found[row.name]["figures"].items()):
            most = row.at_most.get(name)
            lines.append(f"| {row.title if number == 0 else ''} | {name} | {value:,.2f} | {'' if most is None else f'{most:g}'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
