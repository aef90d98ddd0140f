"""Runs jobs from creation to end through `reconcile`, with a fake API server instead of the operator's `Cluster`.

The fake stores objects, versions and owners as a real API server does. The test plays the roles of the Job controller and the pods.
"""

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dataprep_api import API_VERSION, names
from dataprep_api.dataset import messages
from dataprep_api.dataset.messages import CommitResult, FailureResult, PlanResult, ScanRequest
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import RecordProgress
from dataprep_operator.cluster.cluster import Body, Resource
from dataprep_operator.errors import AlreadyExists, ClusterError, Conflict, NotFound, OperatorError
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key
from dataprep_operator.reconcilers.cron_job import CronReconciler
from dataprep_operator.reconcilers.job import Reconciler
from dataprep_operator.server.progress import ProgressStore
from dataprep_operator.settings import PodDefaults, Settings

NAMESPACE = "team-a"
SHA = "ab" * 32
START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
WATCHED = {
    "dataprepjobs": Kind.DATAPREPJOBS,
    "dataprepcronjobs": Kind.DATAPREPCRONJOBS,
    "dataprepprofiles": Kind.DATAPREPPROFILES,
    "jobs": Kind.JOBS,
    "pods": Kind.PODS,
}


class FakeCluster:
    """An in-memory API server with objects, versions and owners. The test controls when its watch delivers events."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Body] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.documents: dict[str, Body] = {}
        self.unserved: set[str] = set()
        self.strict: dict[str, bool] = {}
        """Maps the end of each Job's name to a boolean: whether the Job was created with a request to refuse unknown fields."""
        self.refusals: dict[tuple[str, str], ClusterError] = {}
        self.watch: Callable[[str, Body, bool], None] = lambda *_: None
        self._version = 100
        self.now = START

    # --- the methods of Cluster --------------------------------------------------------------------------------------

    async def get(self, resource: Resource, namespace: str, name: str) -> Body:
        self.calls.append(("get", resource.plural, name))
        self._refuse("get", resource.plural)
        return copy.deepcopy(self._known(resource.plural, namespace, name))

    async def list(self, resource: Resource, namespace: str, *, labels: str = "", fields: str = "") -> Sequence[Body]:
        self.calls.append(("list", resource.plural, fields or labels))
        if resource.prefix in self.unserved:
            raise NotFound("the server could not find the requested resource")
        self._refuse("list", resource.plural)
        wanted = dict(each.split("=") for each in labels.split(",") if each)
        kind = fields.partition("type=")[2]
        return [
            copy.deepcopy(body)
            for (plural, place, _), body in self.objects.items()
            if plural == resource.plural
            and namespace in ("", place)
            and all((body["metadata"].get("labels") or {}).get(k) == v for k, v in wanted.items())
            and (not kind or body["type"] == kind)
        ]

    async def create(self, resource: Resource, namespace: str, body: Body, *, strict: bool = False) -> Body:
        name = body["metadata"]["name"]
        self.calls.append(("create", resource.plural, name))
        self._refuse("create", resource.plural)
        if resource.plural == "jobs":
            self.strict[name.split("-", 2)[-1]] = strict
        if (resource.plural, namespace, name) in self.objects:
            raise AlreadyExists(f'{resource.plural} "{name}" already exists')
        return copy.deepcopy(self.add(resource.plural, namespace, body))

    async def replace(self, resource: Resource, namespace: str, name: str, body: Body) -> Body:
        self._refuse("replace", resource.plural)
        known = self._known(resource.plural, namespace, name)
        if known["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        return self._store(resource.plural, namespace, copy.deepcopy(body))

    async def patch(self, resource: Resource, namespace: str, name: str, body: Body, *, subresource: str = "") -> Body:
        self.calls.append(("patch", f"{resource.plural}/{subresource}".rstrip("/"), name))
        self._refuse("patch", resource.plural)
        known = self._known(resource.plural, namespace, name)
        if body.get("metadata", {}).get("resourceVersion", known["metadata"]["resourceVersion"]) != known["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        merged = _merge_patch(known, body)
        if "finalizers" in body.get("metadata", {}) and "deletionTimestamp" in merged["metadata"] and not merged["metadata"]["finalizers"]:
            self.remove(resource.plural, namespace, name)
            return copy.deepcopy(merged)
        return copy.deepcopy(self._store(resource.plural, namespace, merged))

    async def apply_status(self, resource: Resource, namespace: str, name: str, *, uid: str, resource_version: str, status: Body) -> Body:
        known = self._known(resource.plural, namespace, name)
        self.calls.append(("status", resource.plural, name))
        self._refuse("status", resource.plural)
        if (known["metadata"]["uid"], known["metadata"]["resourceVersion"]) != (uid, resource_version):
            raise Conflict("the object has been modified")
        if known.get("status") == status:
            return copy.deepcopy(known)
        return copy.deepcopy(self._store(resource.plural, namespace, {**known, "status": copy.deepcopy(status)}))

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, resource_version: str | None = None) -> None:
        self.calls.append(("delete", resource.plural, name))
        body = self.objects.get((resource.plural, namespace, name))
        if body is None or (resource_version is None and body["metadata"]["uid"] != uid):
            return
        known = body["metadata"]["resourceVersion"]
        if (body["metadata"]["uid"], known) != (uid, resource_version or known):
            raise Conflict("the object has been modified")
        self.end(resource.plural, namespace, name)

    async def document(self, path: str) -> Body:
        self.calls.append(("document", path, ""))
        if path not in self.documents:
            raise NotFound(path)
        return copy.deepcopy(self.documents[path])

    # --- changes by the test -------------------------------------------------------------------------------------------

    def add(self, plural: str, namespace: str, body: Body) -> Body:
        body = copy.deepcopy(body)
        made = {"uid": f"{plural}-{self._version}-uid", "creationTimestamp": times.text(self.now), "generation": 1, "namespace": namespace}
        body["metadata"] = made | body["metadata"]
        return self._store(plural, namespace, body)

    def change(self, plural: str, name: str, body: Body) -> Body:
        return self.change_in(NAMESPACE, plural, name, body)

    def change_in(self, namespace: str, plural: str, name: str, body: Body) -> Body:
        before = self.objects[(plural, namespace, name)]
        after = _merge_patch(before, body)
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        return self._store(plural, namespace, after)

    def end(self, plural: str, namespace: str, name: str) -> None:
        """Delete an object as users do. An object with finalizers stays until they are removed."""
        metadata = self.objects[(plural, namespace, name)]["metadata"]
        if not metadata.get("finalizers"):
            self.remove(plural, namespace, name)
        elif "deletionTimestamp" not in metadata:
            self._store(
                plural,
                namespace,
                _merge_patch(self.objects[(plural, namespace, name)], {"metadata": {"deletionTimestamp": times.text(self.now)}}),
            )

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """Remove an object, and also the objects that have no other owner, as the garbage collector does."""
        body = self.objects.pop((plural, namespace, name))
        self._version += 1
        # An object's deletion has a resourceVersion too.
        self.watch(plural, {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}, True)
        for place, owned in list(self.objects.items()):
            owners = owned["metadata"].get("ownerReferences") or []
            others = [owner for owner in owners if owner["uid"] != body["metadata"]["uid"]]
            if len(others) == len(owners) or place not in self.objects:
                continue
            if others:
                self._store(place[0], place[1], {**owned, "metadata": {**owned["metadata"], "ownerReferences": others}})
            else:
                self.remove(*place)

    def _store(self, plural: str, namespace: str, body: Body) -> Body:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.objects[(plural, namespace, body["metadata"]["name"])] = body
        self.watch(plural, body, False)
        return body

    def _known(self, plural: str, namespace: str, name: str) -> Body:
        try:
            return self.objects[(plural, namespace, name)]
        except KeyError:
            raise NotFound(f'{plural} "{name}" not found') from None

    def _refuse(self, verb: str, plural: str) -> None:
        refusal = self.refusals.get((verb, plural))
        if refusal is not None:
            raise refusal


class World:
    """An operator process, the fake API server, and methods that play the Job controller and the pods."""

    def __init__(self, **settings: Any) -> None:  # Any: fields of Settings
        self.cluster = FakeCluster()
        self.settings = Settings(**({"pods": PodDefaults(image="dataprep:1", status_url="http://status:8080")} | settings))
        self.wait: float | None = None
        self.restart()

    def restart(self) -> None:
        """Start a new operator process, which remembers nothing and has listed all objects."""
        self.cache, self.progress_store = Cache(), ProgressStore()
        self.cluster.watch = self._event
        for (plural, _, _), body in list(self.cluster.objects.items()):
            self._event(plural, body, False)
        self.reconciler = Reconciler(
            cache=self.cache,
            cluster=self.cluster,
            progress_store=self.progress_store,
            settings=self.settings,
            clock=lambda: self.cluster.now,
        )

        self.crons = CronReconciler(cache=self.cache, cluster=self.cluster, clock=lambda: self.cluster.now)

    def listen(self) -> None:
        """Restart the watches after an interruption. All objects are listed, and missing objects are removed from the cache."""
        self.cluster.watch = self._event
        for plural, kind in WATCHED.items():
            listed = [body["metadata"]["uid"] for (each, _, _), body in self.cluster.objects.items() if each == plural]
            self.cache.prune(kind, namespace=None, listed_uids=listed, known_uids=self.cache.uids(kind, namespace=None))
        for (plural, _, _), body in list(self.cluster.objects.items()):
            self._event(plural, body, False)

    def _event(self, plural: str, body: Body, gone: bool) -> None:
        if plural in WATCHED:
            (self.cache.drop if gone else self.cache.put)(WATCHED[plural], copy.deepcopy(body))

    def look(self, name: str = "mnist") -> None:
        self.wait = asyncio.run(self.reconciler.reconcile(Key(NAMESPACE, name)))

    def settle(self, name: str = "mnist") -> str:
        """Reconcile until no object changes. Return the job's phase, or `gone`."""
        for _ in range(12):
            before = self.cluster._version
            try:
                self.look(name)
            except OperatorError:
                continue
            if self.cluster._version == before:
                break
        return str(self.status(name).get("phase")) if ("dataprepjobs", NAMESPACE, name) in self.cluster.objects else "gone"

    def later(self, seconds: float, name: str = "mnist") -> str:
        self.cluster.now += timedelta(seconds=seconds)
        return self.settle(name)

    # --- objects -------------------------------------------------------------------------------------------------------

    def apply(
        self,
        name: str = "mnist",
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,  # Any: fields of the spec
    ) -> None:
        whole = {
            "source": {"idx": {"subsets": [{"name": "train", "images": "s3://in/images", "labels": "s3://in/labels"}]}},
            "output": {"uri": "s3://out/mnist"},
            "workers": {"parallelism": 2},
            "backoffLimit": 3,
        }
        body = {
            "apiVersion": API_VERSION,
            "kind": "DataPrepJob",
            "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
            "spec": whole | spec,
        }
        self.cluster.add("dataprepjobs", NAMESPACE, body)

    def edit(self, name: str = "mnist", *, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:  # Any: as above
        self.cluster.change("dataprepjobs", name, {"metadata": {"annotations": dict(annotations or {})}, "spec": spec})

    def status(self, name: str = "mnist") -> Body:
        return self.cluster.objects[("dataprepjobs", NAMESPACE, name)].get("status") or {}

    def condition(self, kind: str, name: str = "mnist") -> tuple[str, str]:
        found = next((c for c in self.status(name).get("conditions", []) if c["type"] == kind), None)
        return (found["status"], found["reason"]) if found else ("", "")

    def message(self, kind: str = "Failed") -> str:
        return str(next(c["message"] for c in self.status()["conditions"] if c["type"] == kind))

    def job(self, suffix: str, name: str = "mnist") -> Body:
        return self.cluster.objects[("jobs", NAMESPACE, f"{self.child_prefix(name)}-{suffix}")]

    def child_prefix(self, name: str = "mnist") -> str:
        uid = self.cluster.objects[("dataprepjobs", NAMESPACE, name)]["metadata"]["uid"]
        return str(self.status(name).get("childPrefix") or names.first_child_base(name, uid))

    def jobs(self) -> list[str]:
        return sorted(name.split("-", 2)[-1] for plural, _, name in self.cluster.objects if plural == "jobs")

    def created(self, plural: str = "jobs") -> int:
        return sum(1 for verb, what, _ in self.cluster.calls if (verb, what) == ("create", plural))

    def events(self) -> list[str]:
        return [body["reason"] for (plural, _, _), body in self.cluster.objects.items() if plural == "events"]

    # --- the Job controller and the pods -----------------------------------------------------------------------------------

    def pod(self, suffix: str, status: Body, *, name: str = "", index: int | None = None, metadata: Body | None = None) -> Body:
        job = self.job(suffix)
        template = job["spec"]["template"]["metadata"]
        body: Body = {
            "metadata": {
                "name": name or f"{job['metadata']['name']}-{index or 0}-pod",
                "labels": template["labels"],
                "annotations": {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)},
                "ownerReferences": [{"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"], "controller": True}],
                **(metadata or {}),
            },
            "status": status,
        }
        key = ("pods", NAMESPACE, body["metadata"]["name"])
        if key in self.cluster.objects:
            return self.cluster.change("pods", key[2], {"status": status})
        return self.cluster.add("pods", NAMESPACE, body)

    def ended(self, exit_code: int, message: Any = "", *, reason: str = "") -> Body:  # Any: a message model or plain text
        text = message if isinstance(message, str) else messages.dump(message)
        done = {"exitCode": exit_code, "message": text, "finishedAt": times.text(self.cluster.now), "reason": reason or "Error"}
        return self.scheduled(
            phase="Failed" if exit_code else "Succeeded", containerStatuses=[{"name": "dataprep", "state": {"terminated": done}}]
        )

    def scheduled(self, *, phase: str = "Pending", **rest: Any) -> Body:  # Any: the API's JSON
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": times.text(self.cluster.now)}
        return {"phase": phase, "conditions": [condition], **rest}

    def waiting(self, reason: str, message: str = "") -> Body:
        return self.scheduled(containerStatuses=[{"name": "dataprep", "state": {"waiting": {"reason": reason, "message": message}}}])

    def unschedulable(self, message: str) -> Body:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        return {"phase": "Pending", "conditions": [condition | {"lastTransitionTime": times.text(self.cluster.now)}]}

    def complete(self, suffix: str, **status: Any) -> None:  # Any: the API's JSON
        now = times.text(self.cluster.now)
        conditions = [{"type": "Complete", "status": "True", "lastTransitionTime": now}]
        self._job_status(suffix, {"conditions": conditions, "completionTime": now, "active": 0, **status})

    def fail(self, suffix: str, reason: str, message: str = "", **status: Any) -> None:  # Any: the API's JSON
        now = times.text(self.cluster.now)
        conditions = [{"type": "Failed", "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}]
        self._job_status(suffix, {"conditions": conditions, "active": 0, **status})

    def _job_status(self, suffix: str, status: Body) -> None:
        started = {"startTime": times.text(self.cluster.now - timedelta(seconds=10))}
        self.cluster.change("jobs", self.job(suffix)["metadata"]["name"], {"status": started | status})

    def planned(self, suffix: str = "plan", **changes: Any) -> None:  # Any: fields of PlanResult
        self.pod(suffix, self.ended(0, a_plan(**changes)))
        self.complete(suffix)

    def scan_requested(self, suffix: str = "plan", **changes: Any) -> None:  # Any: fields of ScanRequest
        self.pod(suffix, self.ended(0, a_scan(**changes)))
        self.complete(suffix)

    def scanned(self, suffix: str = "scan-1", indexes: str = "0-3") -> None:
        self.complete(suffix, completedIndexes=indexes)

    def converted(self, suffix: str = "convert-1", indexes: str = "0-3") -> None:
        self.complete(suffix, completedIndexes=indexes)

    def committed(self, suffix: str = "commit-1", **changes: Any) -> None:  # Any: fields of CommitResult
        self.pod(suffix, self.ended(0, a_commit(**changes)))
        self.complete(suffix)

    def plan_fails(self, result: FailureResult, suffix: str = "plan") -> None:
        pod = self.pod(suffix, self.ended(result.exit_code, result))
        self.fail(suffix, "PodFailurePolicy", f"Container dataprep for pod {NAMESPACE}/{pod['metadata']['name']} failed with exit code")

    def succeed(self, **changes: Any) -> str:  # Any: fields of CommitResult
        """Bring an applied job to its successful end, and return its phase."""
        self.settle()
        self.committing()
        self.committed(**changes)
        return self.settle()

    def committing(self) -> None:
        """Bring a job with a plan Job to its commit Job."""
        self.planned()
        self.settle()
        self.converted()
        self.settle()

    def scanning(self) -> None:
        """Bring a job to a running scan of four parts."""
        self.apply()
        self.settle()
        self.scan_requested()
        self.settle()

    def running(self) -> None:
        """Bring a job to a running conversion of four tasks."""
        self.apply()
        self.settle()
        self.planned()
        self.settle()


def _merge_patch(known: Any, change: Any) -> Any:  # Any: JSON
    if not isinstance(known, dict) or not isinstance(change, dict):
        return copy.deepcopy(change)
    return {**copy.deepcopy(known), **{key: _merge_patch(known.get(key), value) for key, value in change.items()}}


def a_plan(**changes: Any) -> PlanResult:  # Any: fields of PlanResult
    given = {
        "run_id": "0123abcd",
        "plan_sha256": SHA,
        "plan_uri": "s3://out/plan",
        "tasks": 4,
        "shards": 8,
        "records": 1000,
        "bytes_in": 5000,
    }
    return PlanResult.model_validate(given | changes)


def a_scan(**changes: Any) -> ScanRequest:  # Any: fields of ScanRequest
    return ScanRequest.model_validate({"scan": "feed" * 4, "parts": 4} | changes)


def a_commit(**changes: Any) -> CommitResult:  # Any: fields of CommitResult
    given = {
        "run_id": "0123abcd",
        "manifest_uri": "s3://out/manifest.json",
        "manifest_sha256": SHA,
        "files": 8,
        "records": RecordProgress(in_=1000, out=990, bad=10),
        "bytes_in": 5000,
        "bytes_out": 4000,
    }
    return CommitResult.model_validate(given | changes)


def a_failure(reason: Reason, message: str, exit_code: int = 5, **rest: Any) -> FailureResult:  # Any: fields of FailureResult
    return FailureResult(reason=reason, message=message, exit_code=exit_code, **rest)


def retry(world: World, value: str = "1") -> str:
    world.edit(annotations={names.ANNOTATION_RETRY: value})
    return world.settle()
