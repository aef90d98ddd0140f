"""Measures one reconciliation of a job with many pods, and the memory that the informer's cache keeps for a finished pod.

This measurement needs no cluster. A small in-memory API server holds the objects that the operator creates, and the cache receives the pods
as JSON objects that look like those of a real API server.
"""

import asyncio
import gc
import json
import statistics
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from benchmarks.operator_load import played

from dataprep_api.dataset.messages import FailureResult, PlanResult, ProgressReport, WorkResult, dump
from dataprep_api.exits import Exit
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import RecordProgress
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects import ranges, times
from dataprep_operator.objects.observed import Key
from dataprep_operator.objects.pods import CONTAINER, INDEX_ANNOTATION
from dataprep_operator.reconcilers.job import Reconciler
from dataprep_operator.server.progress import ProgressStore
from dataprep_operator.settings import PodDefaults, Settings

Body = dict[str, Any]  # Any, because these are JSON objects of the API

_KEY: Final = Key("team-a", "big")
_START: Final = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
_SHARDS_OF_A_TASK: Final = 10


def measure(*, pods: int, looks: int) -> dict[str, float]:
    """Measures reconciliations of a job with this many pods. Before each reconciliation, one more pod succeeds.

    At the beginning, nine out of ten pods have finished, and one out of a hundred has failed. The other pods run and have reported
    progress.
    """
    running, failed = list(range(0, pods, 10)), list(range(0, pods, 100))
    succeeded = [index for index in range(pods) if index % 10][: pods - len(running) - len(failed)]
    with asyncio.Runner() as runner:
        operator = _Operator(runner)
        job = operator.begin(tasks=pods)
        kept_bytes = operator.put_traced([json.dumps(_pod(job, index, _succeeded(index))) for index in succeeded])
        for index in failed:
            operator.put(Kind.PODS, _pod(job, index, _failed(), name="failed"))
        for index in running:
            operator.put(Kind.PODS, _pod(job, index, _running()))
            operator.receive_report(index)
        look_seconds = []
        for number, index in enumerate(running[:looks], start=1):
            operator.put(Kind.PODS, _pod(job, index, _succeeded(index)))
            completed = ranges.write([*succeeded, *running[:number]])
            operator.put(Kind.JOBS, {**job, "status": {"active": len(running) - number, "completedIndexes": completed}})
            look_seconds.append(operator.look())
        shards_done = operator.status()["progress"]["shards"]["done"]
    return {
        "pods": float(pods),
        "finished_pods": float(len(succeeded) + len(failed)),
        "cpu_ms": 1000 * statistics.median(look_seconds),
        "bytes_per_finished_pod": kept_bytes / len(succeeded),
        "shards_done_seen": float(shards_done),
    }


class _Operator:
    """An operator's cache and reconciler, and the API server that they use."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._api, self._cache, self._progress_store = _Api(), Cache(), ProgressStore()
        self._now = _START
        self._reconciler = Reconciler(
            cache=self._cache,
            cluster=cast("Any", self._api),  # `_Api` has only the methods that this measurement needs
            progress_store=self._progress_store,
            settings=Settings(pods=PodDefaults(image="dataprep:1", status_url="http://status:8080")),
            clock=lambda: self._now,
        )

    def begin(self, *, tasks: int) -> Body:
        """Brings a job of this many tasks to its convert step. Returns the Job of this step."""
        self.put(Kind.DATAPREPJOBS, self._api.add("dataprepjobs", played.job(_KEY.name, played.BIG, parallelism=tasks // 10)))
        self.look()
        [plan_job] = self._api.all("jobs")
        self.put(Kind.PODS, _pod(plan_job, None, _ended(Exit.DONE, _plan(tasks))))
        self.look()
        return self._api.all("jobs")[-1]

    def put(self, kind: Kind, raw: Body) -> None:
        """Delivers a new version of an object."""
        self._cache.put(kind, self._api.versioned(raw))

    def put_traced(self, pods: list[str]) -> int:
        """Delivers pods as JSON text, and reconciles the job. Returns the bytes of memory that the operator keeps for the pods."""
        gc.collect()
        tracemalloc.start()
        for text in pods:
            self.put(Kind.PODS, json.loads(text))
        self.look()
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return kept

    def receive_report(self, index: int) -> None:
        """Receives a worker's report about its task."""
        report = ProgressReport(job=_KEY.name, attempt=1, index=index, sequence=1, shards_active=1, records=_records(1), bytes_out=1000)
        self._progress_store.record(report, job_uid=self._job()["metadata"]["uid"], pod_uid=f"reporter-{index}", now=self._now)

    def status(self) -> Body:
        """Returns the job's status."""
        status: Body = self._job()["status"]
        return status

    def _job(self) -> Body:
        [job] = self._api.all("dataprepjobs")
        return job

    def look(self) -> float:
        """Advances the clock by a second and reconciles the job. Returns the CPU seconds."""
        self._now += timedelta(seconds=1)
        begun = time.process_time()
        self._runner.run(self._reconciler.reconcile(_KEY))
        return time.process_time() - begun


class _Api:
    """An API server that supports only the requests of an undisturbed job. Any other request raises AttributeError."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], Body] = {}
        self._version = 100

    def versioned(self, raw: Body) -> Body:
        self._version += 1
        return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(self._version)}}

    def add(self, plural: str, body: Body) -> Body:
        name = body["metadata"]["name"]
        metadata = {"uid": f"{name}-uid", "namespace": _KEY.namespace, "generation": 1, "creationTimestamp": times.text(_START)}
        added = self._objects[plural, name] = self.versioned({**body, "metadata": {**metadata, **body["metadata"]}})
        return added

    def all(self, plural: str) -> list[Body]:
        return [body for (kind, _), body in self._objects.items() if kind == plural]

    async def get(self, resource: Any, _: str, name: str) -> Body:
        return self._objects[resource.plural, name]

    async def create(self, resource: Any, _: str, body: Body, **__: Any) -> Body:
        # Events have no name.
        return self.add(resource.plural, body) if "name" in body["metadata"] else body

    async def apply_status(self, resource: Any, _: str, name: str, *, status: Body, **__: Any) -> Body:
        self._objects[resource.plural, name] = self.versioned({**self._objects[resource.plural, name], "status": status})
        return self._objects[resource.plural, name]


def _plan(tasks: int) -> str:
    shards = tasks * _SHARDS_OF_A_TASK
    return dump(
        PlanResult(
            run_id=played.RUN,
            plan_sha256="0" * 64,
            plan_uri="/data/_dataprep/plan.json",
            tasks=tasks,
            shards=shards,
            records=played.RECORDS * shards,
            bytes_in=played.RECORDS * shards,
        )
    )


def _records(shards: int) -> RecordProgress:
    return RecordProgress(in_=played.RECORDS * shards, out=played.RECORDS * shards)


def _pod(job: Body, index: int | None, status: Body, *, name: str = "pod") -> Body:
    """Returns a pod of the Job as the API server stores it."""
    metadata, template = job["metadata"], job["spec"]["template"]
    marks = {} if index is None else {INDEX_ANNOTATION: str(index)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    pod_name = f"{metadata['name']}-{index or 0}-{name}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name,
            "namespace": _KEY.namespace,
            "uid": f"{pod_name:->36.36}",
            "creationTimestamp": times.text(_START),
            "labels": template["metadata"].get("labels", {}) | {"batch.kubernetes.io/job-name": metadata["name"]},
            "annotations": template["metadata"].get("annotations", {}) | marks,
            "ownerReferences": [owner | {"blockOwnerDeletion": True}],
            "managedFields": [
                {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {f"f:{field}": {} for field in template["spec"]}}}
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": template["spec"] | {"nodeName": f"node-{(index or 0) % 100}"},
        "status": status,
    }


def _status(phase: str, state: Body) -> Body:
    conditions = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    return {
        "phase": phase,
        "hostIP": "10.0.0.1",
        "podIP": "10.0.0.2",
        "startTime": times.text(_START),
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": times.text(_START)} for kind in conditions],
        "containerStatuses": [{"name": CONTAINER, "image": "dataprep:1", "restartCount": 0, "state": state}],
    }


def _running() -> Body:
    return _status("Running", {"running": {"startedAt": times.text(_START)}})


def _ended(exit_code: int, message: str) -> Body:
    moment = times.text(_START + timedelta(minutes=1))
    terminated = {"exitCode": exit_code, "startedAt": times.text(_START), "finishedAt": moment, "message": message}
    return _status("Failed" if exit_code else "Succeeded", {"terminated": terminated})


def _succeeded(index: int) -> Body:
    records = _records(_SHARDS_OF_A_TASK)
    result = WorkResult(index=index, shards_done=_SHARDS_OF_A_TASK, shards_skipped=0, records=records, bytes_out=played.RECORDS * 1000)
    return _ended(Exit.DONE, dump(result))


def _failed() -> Body:
    code = Exit.UNREACHABLE
    return _ended(code, dump(FailureResult(reason=Reason.STORE_UNREACHABLE, message="the store timed out", exit_code=code)))
