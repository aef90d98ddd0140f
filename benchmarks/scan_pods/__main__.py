"""`make bench-scan`: how long 1, 2, 4 and 8 scan pods take to plan 4 GiB of CSV in a store with 10 MB/s for each connection.

The store is versitygw, behind a proxy that limits each connection. The pods are processes that run the pods' commands with a pod's memory
limit, on the same cores as the store. The number of concurrent processes is the number of pods. The measured time is the total of the plan
pod (which lists the input), the scan pods and the merge pod, including the time to start the processes.

A pod reads several files at the same time, and reads some of these files over several connections. So by default, each pod is restricted to
one connection: it has memory for only one file at a time, and the job sets `requestsPerSecond`. `--connections many` measures pods with the
chart's memory limit.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.scan_pods.slow_proxy import SlowProxy

from dataprep_api import names
from storeservers import S3Server

ROOT: Final = Path(__file__).resolve().parents[2]
_BUCKET: Final = "scan"
_FILE_BYTES: Final = 64 << 20
_MIB: Final = 1 << 20
_LEAST: Final = 0.85
"""The command fails if several pods reach less than this share of a linear speed-up."""
_ONE_FILE_BYTES: Final = 128 * _MIB
_DEFAULT_BYTES: Final = 2048 * _MIB
"""The memory limit of a converter pod in the chart."""


@dataclass(frozen=True)
class Measured:
    """The durations of the steps with a certain number of pods."""

    pods: int
    parts: int
    listing: float
    scan: float
    merge: float
    cpu: float
    """The processor time of all processes except the store."""
    connections: float
    """The average number of connections per pod that the store used at full speed during the scan."""
    most_connections: int
    """The largest number of connections over which the store sent at the same time."""
    run_id: str

    @property
    def seconds(self) -> float:
        """The time of all steps."""
        return self.listing + self.scan + self.merge

    def of_linear(self, first: "Measured") -> float:
        """Returns the speed-up over the first row, as a fraction of a linear speed-up."""
        return first.pods * first.seconds / (self.pods * self.seconds)


def main() -> int:
    """Measures and prints a table. Returns 1 if a speed-up is too far from linear."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scan_pods", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", nargs="+", type=int, default=[1, 2, 4, 8], help="numbers of pods (%(default)s)")
    parser.add_argument("--mib", type=int, default=4096, help="size of the input, more than 1024 (%(default)s)")
    parser.add_argument("--rate", type=float, default=10.0, metavar="MB", help="MB per second over one connection (%(default)s)")
    parser.add_argument("--connections", choices=["one", "many"], default="one", help="of each pod (%(default)s)")
    options = parser.parse_args()
    rows: list[Measured] = []
    with (
        tempfile.TemporaryDirectory(prefix="dataprep-scan-pods-") as folder,
        S3Server(Path(folder) / "server") as server,
        SlowProxy(server.port, bytes_per_second=options.rate * 1e6) as proxy,
    ):
        _write_files(server, options.mib * _MIB // _FILE_BYTES)
        sys.stdout.write(f"{_row('pods', 'parts', 'listing', 'scan', 'merge', 'all s', 'of linear', 'CPU s', 'conn./pod', 'most conn.')}\n")
        for pods in options.pods:
            store = _store(proxy.port, limits_requests=options.connections == "one")
            bench = Bench(Path(folder), proxy, server, store, _ONE_FILE_BYTES if options.connections == "one" else _DEFAULT_BYTES)
            rows.append(bench.measure(pods, rate=options.rate * 1e6))
            sys.stdout.write(f"{_shown(rows[-1], rows[0])}\n")
            sys.stdout.flush()
    if len({row.run_id for row in rows}) != 1:
        raise RuntimeError("The plans of different numbers of pods have different run ids.")
    return int(any(row.of_linear(rows[0]) < _LEAST for row in rows))


@dataclass(frozen=True)
class Bench:
    """Runs the steps of a job with a number of pods."""

    folder: Path
    proxy: SlowProxy
    server: S3Server
    store: Mapping[str, Any]
    """The entry of the job's `stores`."""
    memory: int

    def measure(self, pods: int, *, rate: float) -> Measured:
        """Plans the job with this many pods."""
        job = self.folder / f"job-{pods}.json"
        job.write_text(json.dumps(_job(self.store, pods)))
        cpu = _children_cpu()
        listing, request = self._timed_plan(job)
        if request["kind"] != "scan":
            raise RuntimeError("The input is too small for a scan by several pods.")
        self.proxy.reset()
        scan = _seconds(lambda: self._scan(job, request, pods))
        sent, most = self.proxy.bytes, self.proxy.most_sending
        merge, plan = self._timed_plan(job, "--scan", request["scan"])
        return Measured(
            pods=pods,
            parts=request["parts"],
            listing=listing,
            scan=scan,
            merge=merge,
            cpu=_children_cpu() - cpu,
            connections=sent / rate / scan / pods,
            most_connections=most,
            run_id=plan["runId"],
        )

    def _timed_plan(self, job: Path, *arguments: str) -> tuple[float, Any]:
        """Runs `dataprep plan`. Returns the seconds that the command took, and its message."""
        began = time.monotonic()
        message = json.loads(self._pod("plan", "--job", str(job), *arguments, environment={names.MAY_SCAN: "true"}))
        return time.monotonic() - began, message

    def _scan(self, job: Path, request: Mapping[str, Any], pods: int) -> None:
        """Scans all parts, `pods` of them at a time."""
        arguments = ("scan", "--job", str(job), "--scan", request["scan"], "--parts", str(request["parts"]))

        def scan(part: int) -> None:
            self._pod(*arguments, environment={"JOB_COMPLETION_INDEX": str(part)})

        with ThreadPoolExecutor(pods) as running:
            list(running.map(scan, range(request["parts"])))

    def _pod(self, *arguments: str, environment: Mapping[str, str]) -> str:
        """Runs a pod's command. Returns its output."""
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.scan_pods.pod", str(self.memory), *arguments],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
                "AWS_ACCESS_KEY_ID": self.server.access_key,
                "AWS_SECRET_ACCESS_KEY": self.server.secret_key,
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{arguments[0]} ended with {done.returncode}: {done.stderr[-3000:]}")
        return done.stdout


def _write_files(server: S3Server, count: int) -> None:
    """Makes CSV files of 64 MiB. All of them are links to one file, so they take only the space of one file."""
    row = b"%07d,a product with a name of medium length,19.99,true\n"
    rows = b"".join(row % number for number in range(_FILE_BYTES // len(row % 0)))
    server.make_bucket(_BUCKET)
    server.write(_BUCKET, "in/000.csv", b"id,name,price,sold\n" + rows)
    for number in range(1, count):
        (server.data_dir / _BUCKET / f"in/{number:03}.csv").hardlink_to(server.data_dir / _BUCKET / "in/000.csv")


def _store(port: int, *, limits_requests: bool) -> Mapping[str, Any]:
    limit = {"requestsPerSecond": 1_000_000} if limits_requests else {}
    return {"uriPrefix": "s3://", "endpoint": f"http://127.0.0.1:{port}", "region": "us-east-1", "pathStyle": True, **limit}


def _job(store: Mapping[str, Any], pods: int) -> Mapping[str, Any]:
    spec = {
        "source": {"csv": {"uris": [f"s3://{_BUCKET}/in"], "header": True}},
        "output": {"uri": f"s3://{_BUCKET}/out-{pods}", "format": "tfrecord"},
        "stores": [store],
        "workers": {"parallelism": pods},
    }
    return {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "scan"}, "spec": spec}


def _children_cpu() -> float:
    """Returns the processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _shown(row: Measured, first: Measured) -> str:
    times = (f"{seconds:.1f}" for seconds in (row.listing, row.scan, row.merge, row.seconds))
    rest = (f"{row.of_linear(first):.2f}", f"{row.cpu:.1f}", f"{row.connections:.1f}", row.most_connections)
    return _row(row.pods, row.parts, *times, *rest)


def _row(*cells: object) -> str:
    return "".join(f"{cell:>11}" for cell in cells)


def _seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
