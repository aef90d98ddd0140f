"""The measurements: one function for each row of the table. Each function starts with an idle operator and deletes its jobs, unless a later
row uses them."""

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

import aiohttp
from benchmarks.operator_load import observing, played
from benchmarks.operator_load.observing import REQUEST_SECONDS, Reading, watching
from benchmarks.operator_load.patience import Patience
from kubernetes import client

from dataprep_api import GROUP, VERSION
from dataprep_api.dataset.messages import PROGRESS_PATH, TOKEN_AUDIENCE, ProgressReport
from dataprep_api.names import LABEL_STEP
from dataprep_operator.leadership.lease import RETRY_SECONDS
from kubecluster.errors import ClusterError
from workbench.installation import Installation

Figures = dict[str, float]

_CREATORS: Final = 8
_LEAST_BATCHES: Final = 3


@dataclass(frozen=True)
class Bench:
    """The objects that every measurement uses."""

    api: client.ApiClient
    installation: Installation
    patience: Patience
    """The time limit of the current row."""
    kept: list[str] = field(default_factory=list)
    """The namespaces with finished jobs that later rows use."""

    def read(self) -> Reading:
        """Returns the leader's metrics. Raises Overdue if there is no leader within two minutes."""
        found: list[Reading] = []

        def leads() -> bool:
            reading = observing.read_leader(self.installation)
            found.extend([reading] if reading else [])
            return reading is not None

        self.patience.until("a leading operator", leads, seconds=120)
        return found[-1]

    @contextmanager
    def namespace(self, name: str, *, keep: bool = False) -> Iterator[str]:
        """Creates a namespace for a measurement, and deletes it afterwards unless a later row uses its finished jobs."""
        core: Any = client.CoreV1Api(self.api)  # Any: every field of the generated models can be None
        core.create_namespace({"metadata": {"name": name}}, _request_timeout=REQUEST_SECONDS)
        try:
            yield name
        except BaseException:
            self._remove(name)
            raise
        if keep:
            self.kept.append(name)
        else:
            self._remove(name)
            self._until_gone([name])

    def clear(self) -> None:
        """Removes the namespaces that earlier rows have kept."""
        for name in self.kept:
            self._remove(name)
        self._until_gone(self.kept)
        self.kept.clear()

    def _remove(self, name: str) -> None:
        # Delete the jobs first: a deleted namespace waits for its pods, and the remaining Jobs would create them again.
        client.CustomObjectsApi(self.api).delete_collection_namespaced_custom_object(
            GROUP, VERSION, name, "dataprepjobs", propagation_policy="Background", _request_timeout=REQUEST_SECONDS
        )
        core: Any = client.CoreV1Api(self.api)  # Any: the same
        core.delete_namespace(name, _request_timeout=REQUEST_SECONDS)

    def _until_gone(self, names: Sequence[str]) -> None:
        core: Any = client.CoreV1Api(self.api)  # Any: the same

        def left() -> set[str]:
            return set(names) & {each.metadata.name for each in core.list_namespace(_request_timeout=REQUEST_SECONDS).items}

        self.patience.until(
            f"the end of {', '.join(names)}", lambda: not left(), every=2, reached=lambda: f"{len(left())} namespaces are left"
        )

    def succeeded(self) -> float:
        """Returns the number of jobs in the cluster that have succeeded."""
        return self.read().jobs.get("Succeeded", 0)

    def until_completed(self, count: float, *, since: Reading) -> Reading:
        """Waits until `count` jobs have completed since the reading `since`. Returns the reading with the highest memory use."""
        peak = now = since

        def complete() -> bool:
            nonlocal peak, now
            now = self.read()
            peak = max(peak, now, key=lambda reading: reading.values["process_resident_memory_bytes"])
            return now.completed - since.completed >= count

        self.patience.until(
            "all jobs to complete",
            complete,
            every=1,
            reached=lambda: f"{now.completed - since.completed:.0f} of {count:.0f} have completed",
        )
        return peak

    def create_all(self, namespace: str, names: Sequence[str], part: str) -> float:
        """Creates many jobs as fast as the API server accepts them. Returns the time just before the first creation."""
        begun, made = time.monotonic(), itertools.count(1)

        def create(name: str) -> None:
            self.patience.check("the creation of jobs")
            observing.create(self.api, namespace, played.job(name, part))
            if (number := next(made)) % 500 == 0:
                self.patience.tell(f"{number} of {len(names)} jobs are created")

        with ThreadPoolExecutor(_CREATORS) as pool:
            list(pool.map(create, names))
        return begun


def latency(bench: Bench, *, jobs: int) -> Figures:
    """Creates one job after another, and measures the seconds from `create` to the first worker pod, not counting the plan pod's
    lifetime."""
    found: list[float] = []
    core = client.CoreV1Api(bench.api)
    with bench.namespace("bench-latency") as namespace, watching(core.list_namespaced_pod, namespace=namespace) as seen:
        for number in range(jobs):
            name = f"one-{number}"
            begun = observing.create(bench.api, namespace, played.job(name, played.SHORT))

            def pod(step: str, name: str = name) -> str | None:
                of_step = [
                    pod
                    for pod, each in list(seen.objects.items())
                    if each["metadata"]["labels"].get(LABEL_STEP) == step and pod.startswith(f"{name}-")
                ]
                return of_step[0] if of_step else None

            bench.patience.until(f"a worker of {name}", lambda pod=pod: pod("convert") is not None, seconds=60, every=0.02)  # type: ignore[misc]
            planner, worker = pod("plan"), pod("convert")
            if planner is None or worker is None:
                raise TimeoutError(f"{name} has a worker, but its plan pod was not seen")
            found.append(seen.added[worker] - begun - (seen.ended[planner] - seen.added[planner]))
            time.sleep(1)
    found.sort()
    return {"p50_seconds": statistics.median(found), "p95_seconds": found[round(0.95 * (len(found) - 1))]}


def burst(bench: Bench, *, jobs: int) -> Figures:
    """Creates many jobs together, and measures four things: the time until each has its plan Job, the time until all are complete, the
    requests, and the memory."""
    before = bench.read()
    batch = client.BatchV1Api(bench.api)
    with (
        bench.namespace(f"bench-burst-{jobs}", keep=True) as namespace,
        watching(batch.list_namespaced_job, namespace=namespace, label_selector=f"{LABEL_STEP}=plan") as plans,
    ):
        names = [f"burst-{number}" for number in range(jobs)]
        begun = bench.create_all(namespace, names, played.SHORT)
        created = time.monotonic()
        bench.patience.until(
            "a plan Job for each job", lambda: len(plans.added) >= jobs, every=0.1, reached=lambda: f"{len(plans.added)} of {jobs} have one"
        )
        planned = max(plans.added.values())

        peak = bench.until_completed(jobs, since=before)
        ended = time.monotonic()
        after, made = bench.read(), observing.children(bench.api, namespace)
    wrong = {key: count for key, count in made.items() if count != 1}
    return {
        "create_seconds": created - begun,
        "plan_jobs_seconds": planned - begun,
        "complete_seconds": ended - begun,
        "requests_per_job": (after.all_requests - before.all_requests) / jobs,
        "rss_mib": peak.values["process_resident_memory_bytes"] / 2**20,
        "wrong_children": float(len(wrong) + abs(len(made) - 3 * jobs)),
    }


def growth(bench: Bench, *, lives: int, jobs: int) -> Figures:
    """Creates, completes and deletes batches of jobs until the operator has completed `lives` jobs. Measures the memory after each batch.

    The count of completed jobs includes the jobs of earlier rows. The first batch fills the caches that are kept permanently. The jobs find
    a finished data set, so each job has only one child.
    """
    bench.clear()
    sizes: list[float] = []
    while len(sizes) < _LEAST_BATCHES or bench.read().completed < lives:
        with bench.namespace(f"bench-growth-{len(sizes)}") as namespace:
            before = bench.read()
            bench.create_all(namespace, [f"many-{n}" for n in range(jobs)], played.FOUND)
            bench.until_completed(jobs, since=before)
        bench.patience.until("the operator to forget the deleted jobs", lambda: bench.succeeded() < jobs, seconds=120, every=2)
        sizes.append(bench.read().values["process_resident_memory_bytes"] / 2**20)
        bench.patience.tell(f"{bench.read().completed:.0f} of {lives} jobs completed, {sizes[-1]:.1f} MiB")
    grown = sizes[-1] - sizes[0]
    return {
        "jobs": bench.read().completed,
        "first_mib": sizes[0],
        "last_mib": sizes[-1],
        "growth_mib": grown,
        "growth_kib_per_job": 1024 * grown / (jobs * (len(sizes) - 1)),
    }


def big(bench: Bench, *, reporters: int, seconds: float) -> Figures:
    """Measures one job with 1,000 indexes and 100,000 shards while many workers report progress."""
    custom, core = client.CustomObjectsApi(bench.api), cast("Any", client.CoreV1Api(bench.api))
    with bench.namespace("bench-big") as namespace:
        observing.create(bench.api, namespace, played.job("big", played.BIG, parallelism=reporters))
        workers: list[Any] = []

        def running() -> bool:
            found = core.list_namespaced_pod(namespace, label_selector=f"{LABEL_STEP}=convert").items
            workers[:] = [pod for pod in found if pod.status.phase == "Running"]
            return len(workers) >= reporters

        bench.patience.until(f"{reporters} workers", running, every=2, reached=lambda: f"{len(workers)} run")
        with ThreadPoolExecutor(_CREATORS) as pool:
            tokens = list(pool.map(lambda pod: _token(core, namespace, pod), workers))
        leader = _leader_address(bench)
        with watching(
            custom.list_namespaced_custom_object, group=GROUP, version=VERSION, namespace=namespace, plural="dataprepjobs"
        ) as seen:
            bench.patience.until("the job", lambda: "big" in seen.objects, seconds=30)
            bench.patience.tell(f"{reporters} workers report, {seconds:.0f} s")
            writes = seen.changes
            times, refused = asyncio.run(_report_all(leader, list(zip(workers, tokens, strict=True)), seconds=seconds))
            writes = seen.changes - writes
            size = len(json.dumps(seen.objects["big"], separators=(",", ":")))
            shards = seen.objects["big"]["status"]["progress"]["shards"]
    times.sort()
    return {
        "reporters": float(reporters),
        "reports": float(len(times)),
        "refused": float(refused),
        "p50_ms": 1000 * statistics.median(times),
        "p99_ms": 1000 * times[round(0.99 * (len(times) - 1))],
        "status_writes_per_second": writes / seconds,
        "object_kib": size / 1024,
        "shards_active_seen": float(shards.get("active", 0)),
    }


def restart(bench: Bench, *, jobs: int) -> Figures:
    """Kills the leader while jobs run, and measures the time until the next leader has reconciled each of them."""
    with bench.namespace("bench-restart") as namespace:
        bench.create_all(namespace, [f"held-{n}" for n in range(jobs)], played.HELD)
        bench.patience.until(
            "all jobs to run",
            lambda: bench.read().jobs.get("Running", 0) >= jobs,
            every=2,
            reached=lambda: f"{bench.read().jobs.get('Running', 0):.0f} of {jobs} run",
        )

        def at_work() -> int:
            return observing.running(bench.api, namespace, step="convert")

        # Kubernetes creates twenty pods a second. Wait for the last pod, because until then, the operator has more work than reconciling
        # unchanged jobs.
        bench.patience.until("all workers", lambda: at_work() >= jobs, every=5, reached=lambda: f"{at_work()} of {jobs} run")
        children = observing.children(bench.api, namespace)
        leading, looks = _leader_pod(bench), 0.0
        begun = time.monotonic()
        bench.patience.tell(f"{leading} is killed")
        client.CoreV1Api(bench.api).delete_namespaced_pod(leading, bench.installation.namespace, grace_period_seconds=0)

        def looked_after() -> bool:
            nonlocal looks
            # The killed pod might still be listed although it no longer responds.
            with suppress(ClusterError):
                reading = observing.read_leader(bench.installation)
                looks = reading.values.get("dataprep_reconcile_duration_seconds_count", 0) if reading is not None else 0.0
                return reading is not None and looks >= jobs and reading.values["dataprep_workqueue_depth"] == 0
            return False

        bench.patience.until(
            "the next leader to reconcile all jobs",
            looked_after,
            seconds=180,
            every=0.2,
            reached=lambda: f"{looks:.0f} reconciliations of {jobs} jobs",
        )
        took = time.monotonic() - begun
        bench.patience.rest("watching for duplicate children", 10)
        more = observing.children(bench.api, namespace) != children
    return {"jobs": float(jobs), "looked_after_seconds": took, "other_children": float(more)}


def idle(bench: Bench, *, jobs: int, seconds: float) -> Figures:
    """Measures the CPU use and the writes of an idle operator with many finished jobs. Jobs kept by earlier rows count too."""
    there = int(bench.succeeded())
    with bench.namespace("bench-idle", keep=True) as namespace:
        for first in range(there, jobs, 1000):
            count = min(1000, jobs - first)
            before = bench.read()
            bench.create_all(namespace, [f"done-{first + n}" for n in range(count)], played.FOUND)
            bench.until_completed(count, since=before)
    bench.patience.rest("settling", 60)
    first_reading, begun = bench.read(), time.monotonic()
    bench.patience.rest("the measurement", seconds)
    last, took = bench.read(), time.monotonic() - begun
    cpu = last.values["process_cpu_seconds_total"] - first_reading.values["process_cpu_seconds_total"]
    # The interval can begin and end with a renewal of the lease, so it can contain one more renewal than its length suggests.
    renewals = took / RETRY_SECONDS + 1
    return {
        "jobs": last.jobs.get("Succeeded", 0),
        "core_percent": 100 * cpu / took,
        "writes_beyond_lease": max(0.0, last.writes - first_reading.writes - renewals),
        "rss_mib": last.values["process_resident_memory_bytes"] / 2**20,
    }


def _leader_pod(bench: Bench) -> str:
    found = observing.leader(bench.installation)
    if found is None:
        raise TimeoutError("No replica of the operator is the leader.")
    return found[0]


def _leader_address(bench: Bench) -> str:
    name = _leader_pod(bench)
    return next(
        f"http://{pod['status']['podIP']}:8080{PROGRESS_PATH}" for pod in bench.installation.pods() if pod["metadata"]["name"] == name
    )


def _token(core: Any, namespace: str, pod: Any) -> str:
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.metadata.name, "uid": pod.metadata.uid}
    request = {"spec": {"audiences": [TOKEN_AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": bound}}
    return str(core.create_namespaced_service_account_token("default", namespace, request).status.token)


async def _report_all(address: str, workers: Sequence[tuple[Any, str]], *, seconds: float) -> tuple[list[float], int]:
    """Lets every worker report as often as the operator asks. Returns the seconds that each report took, and the number of refused
    reports."""
    times: list[float] = []
    refused, deadline = 0, time.monotonic() + seconds

    async def worker(session: aiohttp.ClientSession, number: int, pod: Any, token: str) -> None:
        nonlocal refused
        index = int(pod.metadata.annotations["batch.kubernetes.io/job-completion-index"])
        await asyncio.sleep(5 * number / len(workers))
        sequence = 0
        while time.monotonic() < deadline:
            sequence += 1
            report = ProgressReport(
                job="big", attempt=int(pod.metadata.labels["dataprep.io/attempt"]), index=index, sequence=sequence, shards_active=1
            )
            begun = time.monotonic()
            body: dict[str, float] = {}
            try:
                async with session.post(
                    address, data=report.model_dump_json(by_alias=True), headers={"Authorization": f"Bearer {token}"}
                ) as answer:
                    body = await answer.json(content_type=None)
                    times.append(time.monotonic() - begun)
                    refused += answer.status != 200
            except aiohttp.ClientConnectionError:
                # All reports come from one address, and the number of connections from one address is limited.
                refused += 1
            await asyncio.sleep(body.get("nextReportSeconds", 5))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(worker(session, number, pod, token) for number, (pod, token) in enumerate(workers)))
    return times, refused
