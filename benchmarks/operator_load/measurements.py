"""One function for each row of the table. Each begins with an idle operator and leaves none of its jobs behind."""

import asyncio
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import aiohttp
from benchmarks.operator_load import observing, played
from benchmarks.operator_load.observing import Reading, until, watching
from kubernetes import client

from dataprep_api import GROUP, VERSION
from dataprep_api.messages import PROGRESS_PATH, TOKEN_AUDIENCE, ProgressReport
from dataprep_api.names import LABEL_STEP
from dataprep_operator.lease import RETRY_SECONDS
from workbench.installation import Installation

Figures = dict[str, float]

_CREATORS: Final = 8
_PATIENCE_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class Bench:
    """What every measurement needs."""

    api: client.ApiClient
    installation: Installation

    def read(self) -> Reading:
        """The leader's metrics. Raises TimeoutError when none leads within two minutes."""
        found: list[Reading] = []

        def leads() -> bool:
            reading = observing.read_leader(self.installation)
            found.extend([reading] if reading else [])
            return reading is not None

        until("a leading operator", leads, seconds=120)
        return found[-1]

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """A namespace for a measurement, gone after it."""
        core: Any = client.CoreV1Api(self.api)  # Any: every field of the generated models may be None
        core.create_namespace({"metadata": {"name": name}})
        try:
            yield name
        finally:
            core.delete_namespace(name)

            def gone() -> bool:
                return name not in {each.metadata.name for each in core.list_namespace().items}

            until(f"the end of namespace {name}", gone, seconds=_PATIENCE_SECONDS, every=2)

    def succeeded(self) -> float:
        """How many jobs of the cluster have."""
        return self.read().jobs.get("Succeeded", 0)

    def until_succeeded(self, count: float) -> None:
        """Waits until as many jobs of the cluster have."""
        until("all complete", lambda: self.succeeded() >= count, seconds=_PATIENCE_SECONDS, every=2)

    def create_all(self, namespace: str, names: Sequence[str], part: str) -> float:
        """Makes many jobs as fast as the API server takes them; returns the time before the first."""
        begun = time.monotonic()
        with ThreadPoolExecutor(_CREATORS) as pool:
            list(pool.map(lambda name: observing.create(self.api, namespace, played.job(name, part)), names))
        return begun


def latency(bench: Bench, *, jobs: int) -> Figures:
    """One job after the other: seconds from `create` to the first worker pod, without the time that the plan's pod lived."""
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

            until(f"a worker of {name}", lambda pod=pod: pod("convert") is not None, seconds=60, every=0.02)  # type: ignore[misc]
            planner, worker = pod("plan"), pod("convert")
            if planner is None or worker is None:
                raise TimeoutError(f"{name} has a worker, but its plan pod was not seen")
            found.append(seen.added[worker] - begun - (seen.ended[planner] - seen.added[planner]))
            time.sleep(1)
    found.sort()
    return {"p50_seconds": statistics.median(found), "p95_seconds": found[round(0.95 * (len(found) - 1))]}


def burst(bench: Bench, *, jobs: int) -> Figures:
    """Many jobs at once: until each has its plan Job, until all are complete, and what that took."""
    before = bench.read()
    batch, peak = client.BatchV1Api(bench.api), before
    with (
        bench.namespace(f"bench-burst-{jobs}") as namespace,
        watching(batch.list_namespaced_job, namespace=namespace, label_selector=f"{LABEL_STEP}=plan") as plans,
    ):
        names = [f"burst-{number}" for number in range(jobs)]
        begun = bench.create_all(namespace, names, played.SHORT)
        created = time.monotonic()
        until("a plan Job for each", lambda: len(plans.added) >= jobs, seconds=_PATIENCE_SECONDS, every=0.1)
        planned = max(plans.added.values())

        def complete() -> bool:
            nonlocal peak
            now = bench.read()
            peak = max(peak, now, key=lambda reading: reading.values["process_resident_memory_bytes"])
            return now.jobs.get("Succeeded", 0) - before.jobs.get("Succeeded", 0) >= jobs

        until("all complete", complete, seconds=_PATIENCE_SECONDS, every=1)
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


def growth(bench: Bench, *, batches: int, jobs: int) -> Figures:
    """Memory after batches of jobs that come, complete and go. The first batch fills what is kept for good."""
    sizes = []
    for number in range(batches):
        with bench.namespace(f"bench-growth-{number}") as namespace:
            before = bench.succeeded()
            bench.create_all(namespace, [f"many-{n}" for n in range(jobs)], played.SHORT)
            bench.until_succeeded(before + jobs)
        until("the operator to forget them", lambda: bench.succeeded() < jobs, seconds=300, every=2)
        sizes.append(bench.read().values["process_resident_memory_bytes"] / 2**20)
    return {"jobs": float(batches * jobs), "first_mib": sizes[0], "last_mib": sizes[-1], "growth_mib": sizes[-1] - sizes[0]}


def big(bench: Bench, *, reporters: int, seconds: float) -> Figures:
    """One job of 1,000 indexes and 100,000 shards with many workers that report."""
    custom, core = client.CustomObjectsApi(bench.api), cast("Any", client.CoreV1Api(bench.api))
    with bench.namespace("bench-big") as namespace:
        observing.create(bench.api, namespace, played.job("big", played.BIG, parallelism=reporters))
        workers: list[Any] = []

        def running() -> bool:
            found = core.list_namespaced_pod(namespace, label_selector=f"{LABEL_STEP}=convert").items
            workers[:] = [pod for pod in found if pod.status.phase == "Running"]
            return len(workers) >= reporters

        until(f"{reporters} workers", running, seconds=600, every=2)
        with ThreadPoolExecutor(_CREATORS) as pool:
            tokens = list(pool.map(lambda pod: _token(core, namespace, pod), workers))
        leader = _leader_address(bench)
        with watching(
            custom.list_namespaced_custom_object, group=GROUP, version=VERSION, namespace=namespace, plural="dataprepjobs"
        ) as seen:
            until("the job", lambda: "big" in seen.objects, seconds=30)
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
    """The leader is killed while jobs are in flight: until another one has looked at each of them."""
    with bench.namespace("bench-restart") as namespace:
        bench.create_all(namespace, [f"held-{n}" for n in range(jobs)], played.HELD)
        until("all running", lambda: bench.read().jobs.get("Running", 0) >= jobs, seconds=_PATIENCE_SECONDS, every=2)
        children = observing.children(bench.api, namespace)
        leading = _leader_pod(bench)
        begun = time.monotonic()
        client.CoreV1Api(bench.api).delete_namespaced_pod(leading, bench.installation.namespace, grace_period_seconds=0)

        def looked_after() -> bool:
            reading = observing.read_leader(bench.installation)
            return reading is not None and (
                reading.values.get("dataprep_reconcile_duration_seconds_count", 0) >= jobs
                and reading.values["dataprep_workqueue_depth"] == 0
            )

        until("all looked after", looked_after, seconds=300, every=0.2)
        took = time.monotonic() - begun
        time.sleep(10)
        more = observing.children(bench.api, namespace) != children
    return {"jobs": float(jobs), "looked_after_seconds": took, "other_children": float(more)}


def idle(bench: Bench, *, jobs: int, seconds: float) -> Figures:
    """Finished jobs and nothing to do: what the operator uses of a core, and what it writes."""
    with bench.namespace("bench-idle") as namespace:
        before = bench.succeeded()
        for first in range(0, jobs, 1000):
            count = min(1000, jobs - first)
            bench.create_all(namespace, [f"done-{first + n}" for n in range(count)], played.SHORT)
            bench.until_succeeded(before + first + count)
        time.sleep(60)
        first_reading, begun = bench.read(), time.monotonic()
        time.sleep(seconds)
        last, took = bench.read(), time.monotonic() - begun
    cpu = last.values["process_cpu_seconds_total"] - first_reading.values["process_cpu_seconds_total"]
    # One more than fit into the time, when it begins and ends at one.
    renewals = took / RETRY_SECONDS + 1
    return {
        "jobs": float(jobs),
        "core_percent": 100 * cpu / took,
        "writes_beyond_lease": max(0.0, last.writes - first_reading.writes - renewals),
        "rss_mib": last.values["process_resident_memory_bytes"] / 2**20,
    }


def _leader_pod(bench: Bench) -> str:
    found = observing.leader(bench.installation)
    if found is None:
        raise TimeoutError("no operator leads")
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
    """Every worker reports as often as it is told to; the seconds that each report took, and how many were refused."""
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
            async with session.post(
                address, data=report.model_dump_json(by_alias=True), headers={"Authorization": f"Bearer {token}"}
            ) as answer:
                body = await answer.json(content_type=None)
                times.append(time.monotonic() - begun)
                refused += answer.status != 200
            await asyncio.sleep(body.get("nextReportSeconds", 5))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(worker(session, number, pod, token) for number, (pod, token) in enumerate(workers)))
    return times, refused
