"""The benchmarks: `make bench`, or `python -m benchmarks --only NAME… --peers tf,vahidk --quick`.

The contenders of a workload take turns on the same data, and each run is a separate process. A third-party library reads the outputs back,
and only equal outputs count. Without `--quick`, the results are written to `docs/benchmarks.json`, from which the page and the plot are
made.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import contenders, report, running
from benchmarks.running import Conditions
from benchmarks.workload import Workload
from benchmarks.workloads import WORKLOADS

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only temporary folders with unique names are made there
_ENOUGH_BYTES: Final = 20 << 30

PEERS = sorted({contender.peer for workload in WORKLOADS for contender in workload.contenders if contender.peer})


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the chosen workloads. Returns 1 if an output was wrong or a contender failed."""
    arguments = _parser().parse_args(argv)
    if arguments.install:
        contenders.install()
        return 0
    if arguments.page:
        report.write(json.loads(report.RESULTS.read_text()))
        return 0
    results: dict[str, Any] = {}
    # In quick mode, two workloads run at the same time. They disturb each other, but the figures aren't kept. The workloads run in separate
    # processes, not in threads, because a server would end with the thread that started it.
    peers = None if arguments.peers is None else set(filter(None, arguments.peers.split(",")))
    chosen = [workload for workload in _chosen(arguments.only) if workload.taking_part(peers)]
    with (
        tempfile.TemporaryDirectory(prefix="dataprep-bench-data-", dir=arguments.folder) as data,
        ProcessPoolExecutor(2 if arguments.quick else 1) as at_work,
    ):
        conditions = _conditions(arguments, peers, Path(data))
        for workload, result in zip(chosen, at_work.map(partial(_found, arguments, conditions), chosen), strict=True):
            results[workload.name] = result
            if not arguments.quick:
                # Write after each workload, so that an interrupted run keeps its results.
                report.write(_merge_results({workload.name: result}, machine=contenders.machine(arguments.folder)))
            print(f"{workload.title}\n\n{report.table(workload.name, result)}", flush=True)
    conditions.tell(f"{len(chosen)} workloads done")
    faults = [f"{name}: {fault}" for name, result in results.items() for fault in result["faults"]]
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


def _conditions(arguments: argparse.Namespace, peers: set[str] | None, data: Path) -> Conditions:
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    return Conditions(rounds=rounds, seed=arguments.seed, peers=peers, data=data, began=time.monotonic())


def _found(arguments: argparse.Namespace, conditions: Conditions, workload: Workload) -> dict[str, Any]:
    records = max(1, round((workload.quick if arguments.quick else workload.records) * arguments.size))
    with tempfile.TemporaryDirectory(prefix="dataprep-bench-", dir=arguments.folder) as folder:
        result = running.run(workload, Path(folder), records=records, conditions=conditions)
    if not arguments.quick:
        return result
    # With little data, a job spends most of its time starting and ending, so only the goals for start-up time are meaningful.
    return result | {"goals": {}, "bounds": {who: bound for who, bound in result["bounds"].items() if bound[0] == "s"}}


def _chosen(only: Sequence[str]) -> list[Workload]:
    unknown = set(only) - {workload.name for workload in WORKLOADS}
    if unknown:
        sys.exit(f"No workload named {', '.join(sorted(unknown))}; known: {', '.join(workload.name for workload in WORKLOADS)}.")
    return [workload for workload in WORKLOADS if not only or workload.name in only]


def _merge_results(results: dict[str, Any], *, machine: dict[str, str]) -> dict[str, Any]:
    """Returns these results together with the stored results of the other workloads."""
    before = json.loads(report.RESULTS.read_text())["workloads"] if report.RESULTS.exists() else {}
    found = {**before, **{name: {**each, "at": datetime.now(UTC).date().isoformat(), "machine": machine} for name, each in results.items()}}
    return {"workloads": {workload.name: found[workload.name] for workload in WORKLOADS if workload.name in found}}


def _folder() -> str:
    """Returns a folder in memory, if there is enough memory.

    On a disk, the runs would mostly measure the disk, because our jobs, unlike the peers, wait until the output is on the disk.
    """
    enough = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES
    return str(_MEMORY) if enough else tempfile.gettempdir()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these workloads")
    parser.add_argument("--peers", metavar="NAMES", help=f"only these peers, separated by commas: {','.join(PEERS)}; '' for none")
    parser.add_argument(
        "--quick", action="store_true", help="use little data and one round, two workloads at a time; only print the results"
    )
    parser.add_argument("--rounds", type=int, help="runs of each contender")
    parser.add_argument("--size", type=float, default=1.0, help="factor for the number of records")
    parser.add_argument("--seed", type=int, default=7, help="seed of the data")
    parser.add_argument("--folder", default=_folder(), help="folder for data and outputs while a workload runs (%(default)s)")
    parser.add_argument("--install", action="store_true", help="only install the peers' environments")
    parser.add_argument("--page", action="store_true", help="make the page and the plot again from docs/benchmarks.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
