"""Whole lives of jobs, driven through `reconcile` against a fake API server at the operator's own seam.

The fake keeps objects, versions and owners as the real one does; the test plays the Job controller and the pods.
"""

import asyncio
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dataprep_api import API_VERSION, messages, names
from dataprep_api.messages import CommitResult, FailureResult, PlanResult, ProgressReport, WorkResult
from dataprep_api.reasons import Reason
from dataprep_api.status import RecordProgress
from dataprep_operator import times
from dataprep_operator.cache import Cache, Kind
from dataprep_operator.cluster import CONFIG_MAPS, DATAPREPJOBS, EVENTS, JOBS, PODS, Body, Resource
from dataprep_operator.errors import AlreadyExists, ClusterError, Conflict, NotFound, OperatorError, Refused
from dataprep_operator.observed import ANNOTATION_TASKS, QUEUE_LABEL, Key
from dataprep_operator.progress import Board
from dataprep_operator.reconcile import Reconciler
from dataprep_operator.settings import PodDefaults, Settings

NAMESPACE = "team-a"
SHA = "ab" * 32
START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
WATCHED = {"dataprepjobs": Kind.DATAPREPJOBS, "jobs": Kind.JOBS, "pods": Kind.PODS}


class FakeCluster:
    """An API server in memory: objects, versions, owners, and a watch that is as prompt as the test lets it be."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Body] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.refusals: dict[tuple[str, str], ClusterError] = {}
        self.watch: Callable[[str, Body, bool], None] = lambda *_: None
        self._version = 100
        self.now = START

    # --- the seam ----------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, namespace: str, name: str) -> Body:
        return copy.deepcopy(self._known(resource.plural, namespace, name))

    async def list(self, resource: Resource, namespace: str, *, labels: str = "", fields: str = "") -> Sequence[Body]:
        self.calls.append(("list", resource.plural, fields or labels))
        wanted = dict(each.split("=") for each in labels.split(",") if each)
        uid = fields.partition("involvedObject.uid=")[2]
        return [
            copy.deepcopy(body)
            for (plural, place, _), body in self.objects.items()
            if plural == resource.plural
            and place == namespace
            and all((body["metadata"].get("labels") or {}).get(k) == v for k, v in wanted.items())
            and (not uid or body["involvedObject"]["uid"] == uid)
        ]

    async def create(self, resource: Resource, namespace: str, body: Body) -> Body:
        name = body["metadata"]["name"]
        self.calls.append(("create", resource.plural, name))
        self._refuse("create", resource.plural)
        if (resource.plural, namespace, name) in self.objects:
            raise AlreadyExists(f'{resource.plural} "{name}" already exists')
        return copy.deepcopy(self.add(resource.plural, namespace, body))

    async def replace(self, resource: Resource, namespace: str, name: str, body: Body) -> Body:
        known = self._known(resource.plural, namespace, name)
        if known["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        return self._store(resource.plural, namespace, copy.deepcopy(body))

    async def patch(self, resource: Resource, namespace: str, name: str, body: Body, *, subresource: str = "") -> Body:
        self.calls.append(("patch", f"{resource.plural}/{subresource}".rstrip("/"), name))
        self._refuse("patch", resource.plural)
        known = self._known(resource.plural, namespace, name)
        return copy.deepcopy(self._store(resource.plural, namespace, _merged(known, body)))

    async def apply_status(self, key_name: str, namespace: str, *, uid: str, resource_version: str, status: Body) -> Body:
        known = self._known("dataprepjobs", namespace, key_name)
        self.calls.append(("status", "dataprepjobs", key_name))
        self._refuse("status", "dataprepjobs")
        if (known["metadata"]["uid"], known["metadata"]["resourceVersion"]) != (uid, resource_version):
            raise Conflict("the object has been modified")
        if known.get("status") == status:
            return copy.deepcopy(known)
        return copy.deepcopy(self._store("dataprepjobs", namespace, {**known, "status": copy.deepcopy(status)}))

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str) -> None:
        self.calls.append(("delete", resource.plural, name))
        body = self.objects.get((resource.plural, namespace, name))
        if body is not None and body["metadata"]["uid"] == uid:
            self.remove(resource.plural, namespace, name)

    async def document(self, path: str) -> Body:
        raise NotFound(path)

    # --- what the test does to it --------------------------------------------------------------------------------------

    def add(self, plural: str, namespace: str, body: Body) -> Body:
        body = copy.deepcopy(body)
        made = {"uid": f"{plural}-{self._version}-uid", "creationTimestamp": times.text(self.now), "generation": 1, "namespace": namespace}
        body["metadata"] = made | body["metadata"]
        return self._store(plural, namespace, body)

    def change(self, plural: str, name: str, body: Body) -> Body:
        return self._store(plural, NAMESPACE, _merged(self.objects[(plural, NAMESPACE, name)], body))

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """Remove an object and, as the garbage collector does, what it owns."""
        body = self.objects.pop((plural, namespace, name))
        self._version += 1
        self.watch(plural, body, True)
        for place, owned in list(self.objects.items()):
            owners = {owner["uid"] for owner in owned["metadata"].get("ownerReferences") or []}
            if body["metadata"]["uid"] in owners and place in self.objects:
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
    """An operator process, the fake API server, and the hands of the Job controller."""

    def __init__(self, **settings: Any) -> None:  # Any: fields of Settings
        self.cluster = FakeCluster()
        self.settings = Settings(pods=PodDefaults(image="dataprep:1", status_url="http://status:8080"), **settings)
        self.wait: float | None = None
        self.restart()

    def restart(self) -> None:
        """A new operator process: nothing remembered, everything listed."""
        self.cache, self.board = Cache(), Board()
        self.cluster.watch = self._event
        for (plural, _, _), body in list(self.cluster.objects.items()):
            self._event(plural, body, False)
        self.reconciler = Reconciler(
            cache=self.cache, cluster=self.cluster, board=self.board, settings=self.settings, clock=lambda: self.cluster.now
        )

    def _event(self, plural: str, body: Body, gone: bool) -> None:
        if plural in WATCHED:
            (self.cache.drop if gone else self.cache.put)(WATCHED[plural], copy.deepcopy(body))

    def look(self, name: str = "mnist") -> None:
        self.wait = asyncio.run(self.reconciler.reconcile(Key(NAMESPACE, name)))

    def settle(self, name: str = "mnist") -> str:
        """Look until nothing changes; returns the phase."""
        for _ in range(12):
            before = self.cluster._version
            try:
                self.look(name)
            except OperatorError:
                continue
            if self.cluster._version == before:
                break
        return str(self.status(name).get("phase"))

    def later(self, seconds: float, name: str = "mnist") -> str:
        self.cluster.now += timedelta(seconds=seconds)
        return self.settle(name)

    # --- objects -------------------------------------------------------------------------------------------------------

    def apply(self, name: str = "mnist", *, labels: Mapping[str, str] | None = None, **spec: Any) -> None:  # Any: spec as YAML has it
        whole = {
            "source": {"idx": {"subsets": [{"name": "train", "images": "s3://in/images", "labels": "s3://in/labels"}]}},
            "output": {"uri": "s3://out/mnist"},
            "workers": {"parallelism": 2},
            "backoffLimit": 3,
        }
        body = {
            "apiVersion": API_VERSION,
            "kind": "DataPrepJob",
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": whole | spec,
        }
        self.cluster.add("dataprepjobs", NAMESPACE, body)

    def edit(self, name: str = "mnist", *, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:  # Any: the same
        self.cluster.change("dataprepjobs", name, {"metadata": {"annotations": dict(annotations or {})}, "spec": spec})

    def status(self, name: str = "mnist") -> Body:
        return self.cluster.objects[("dataprepjobs", NAMESPACE, name)].get("status") or {}

    def condition(self, kind: str, name: str = "mnist") -> tuple[str, str]:
        found = next((c for c in self.status(name).get("conditions", []) if c["type"] == kind), None)
        return (found["status"], found["reason"]) if found else ("", "")

    def message(self, kind: str = "Failed") -> str:
        return str(next(c["message"] for c in self.status()["conditions"] if c["type"] == kind))

    def job(self, suffix: str, name: str = "mnist") -> Body:
        uid = self.cluster.objects[("dataprepjobs", NAMESPACE, name)]["metadata"]["uid"]
        return self.cluster.objects[("jobs", NAMESPACE, f"{names.child_base(name, uid)}-{suffix}")]

    def jobs(self) -> list[str]:
        prefix = len("mnist-xxxxxx-")
        return sorted(name[prefix:] for plural, _, name in self.cluster.objects if plural == "jobs")

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

    def converted(self, suffix: str = "convert-1", indexes: str = "0-3") -> None:
        self.complete(suffix, completedIndexes=indexes)

    def committed(self, suffix: str = "commit-1", **changes: Any) -> None:  # Any: fields of CommitResult
        self.pod(suffix, self.ended(0, a_commit(**changes)))
        self.complete(suffix)

    def plan_fails(self, result: FailureResult, suffix: str = "plan") -> None:
        pod = self.pod(suffix, self.ended(result.exit_code, result))
        self.fail(suffix, "PodFailurePolicy", f"Container dataprep for pod {NAMESPACE}/{pod['metadata']['name']} failed with exit code")

    def running(self) -> None:
        """Forward to a conversion of four tasks."""
        self.apply()
        self.settle()
        self.planned()
        self.settle()


def _merged(known: Any, change: Any) -> Any:  # Any: JSON
    if not isinstance(known, dict) or not isinstance(change, dict):
        return copy.deepcopy(change)
    return {**copy.deepcopy(known), **{key: _merged(known.get(key), value) for key, value in change.items()}}


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


@pytest.fixture
def world() -> World:
    return World()


# --- all goes well ------------------------------------------------------------------------------------------------------


def test_a_job_goes_from_plan_to_conversion_to_commit(world: World) -> None:
    world.apply()

    assert world.settle() == "Planning"
    assert world.jobs() == ["plan"]
    world.planned()
    assert world.settle() == "Running"
    assert world.jobs() == ["convert-1", "plan"]
    world.converted()
    assert world.settle() == "Committing"
    world.committed()
    assert world.settle() == "Succeeded"

    status = world.status()
    assert world.condition("Complete") == ("True", "Completed")
    assert world.condition("OutputCommitted") == ("True", "Completed")
    assert status["progress"]["percent"] == 100
    assert status["progress"]["records"] == {"total": 1000, "in": 1000, "out": 990, "bad": 10, "filtered": 0}
    assert status["output"]["manifestSha256"] == SHA
    assert status["runId"] == "0123abcd"
    assert [world.created("jobs"), world.created("configmaps")] == [3, 3]


def test_bad_records_are_shown_with_examples_and_where_all_of_them_are(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    bad = [{"uri": "s3://in/a.csv", "row": row, "reason": f"line {row + 1}: no number"} for row in range(20)]
    world.committed(quarantine_uri="s3://out/_dataprep/0123abcd/quarantine", bad=bad)
    assert world.settle() == "Succeeded"
    status = world.status()
    assert status["output"]["quarantineUri"] == "s3://out/_dataprep/0123abcd/quarantine"
    assert [(example["input"], example["index"]) for example in status["badRecords"]] == [("s3://in/a.csv", row) for row in range(20)]
    assert status["badRecords"][0]["message"] == "line 1: no number"


def test_a_finished_job_stays_as_it_is_without_its_children(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed()
    world.settle()
    before = world.status()
    for suffix in ("plan", "convert-1", "commit-1"):
        world.cluster.remove("jobs", NAMESPACE, world.job(suffix)["metadata"]["name"])
    world.restart()

    world.later(1000)

    assert world.status() == before
    assert world.jobs() == []


@pytest.mark.parametrize("stop_at", range(8))
def test_a_restart_at_any_step_loses_nothing(world: World, stop_at: int) -> None:
    moves: list[Callable[[], object]] = [
        world.apply,
        world.look,
        world.planned,
        world.look,
        world.converted,
        world.look,
        world.committed,
        world.look,
    ]
    for number, move in enumerate(moves):
        move()
        if number == stop_at:
            world.restart()
            world.settle()

    assert world.settle() == "Succeeded"
    assert world.jobs() == ["commit-1", "convert-1", "plan"]


def test_a_reused_data_set_needs_no_worker(world: World) -> None:
    world.apply()
    world.settle()
    world.planned(reused=True, commit=a_commit())

    assert world.settle() == "Succeeded"
    assert world.jobs() == ["plan"]
    assert world.condition("Complete") == ("True", "Reused")
    assert world.status()["reused"] is True


def test_an_empty_plan_is_committed_without_a_conversion(world: World) -> None:
    world.apply(allowEmpty=True)
    world.settle()
    world.planned(tasks=0, shards=0, records=0)

    assert world.settle() == "Committing"
    assert world.jobs() == ["commit-1", "plan"]


def test_many_looks_make_one_child_of_each_kind(world: World) -> None:
    world.apply()
    for _ in range(20):
        world.settle()

    assert world.created("jobs") == 1


def test_a_deaf_operator_finds_its_own_children(world: World) -> None:
    world.apply()
    world.settle()
    blind = Cache()
    blind.put(Kind.DATAPREPJOBS, world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")])
    reconciler = Reconciler(cache=blind, cluster=world.cluster, board=world.board, settings=world.settings, clock=lambda: world.cluster.now)

    asyncio.run(reconciler.reconcile(Key(NAMESPACE, "mnist")))

    assert world.jobs() == ["plan"]
    assert [child.step for child in blind.children_of(world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")]["metadata"]["uid"])] == [
        "plan"
    ]


# --- failures -------------------------------------------------------------------------------------------------------------

PLAN_FAILURES = {
    "missing input": a_failure(Reason.INPUT_NOT_FOUND, "s3://in/images names nothing."),
    "unreachable": a_failure(Reason.STORE_UNREACHABLE, "name node nn:8020 can't be reached.", 4),
    "no permission": a_failure(Reason.NOT_PERMITTED, "AccessDenied user=nobody path=/x"),
    "output exists": a_failure(Reason.OUTPUT_EXISTS, "s3://out/mnist holds another run.", 5),
    "bad credentials": a_failure(Reason.BAD_CREDENTIALS, "the access key is unknown", 5),
    "no input": a_failure(Reason.NO_INPUT, "the source holds no records", 3),
}


@pytest.mark.parametrize("told", PLAN_FAILURES.values(), ids=PLAN_FAILURES.keys())
def test_a_failed_plan_names_its_reason_and_starts_no_worker(world: World, told: FailureResult) -> None:
    world.apply()
    world.settle()
    world.plan_fails(told)

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", told.reason)
    assert world.message() == told.message
    assert world.jobs() == ["plan"]
    failure = world.status()["failures"][0]
    assert (failure["step"], failure["exitCode"], failure["reason"]) == ("Plan", told.exit_code, told.reason)
    assert told.reason in world.events()


def test_a_failed_task_ends_in_its_reason_and_its_index(world: World) -> None:
    world.running()
    result = a_failure(
        Reason.BAD_RECORDS, "row 7 of s3://in/images is cut", 3, index=2, shard="train-00002-of-00008", input="s3://in/images"
    )
    pod = world.pod("convert-1", world.ended(3, result), index=2)
    world.fail(
        "convert-1", "PodFailurePolicy", f"Container dataprep for pod {NAMESPACE}/{pod['metadata']['name']} failed", failedIndexes="2"
    )

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "BadRecords")
    assert world.status()["failedIndexes"] == "2"
    assert world.status()["failures"][0]["shard"] == "train-00002-of-00008"


def test_too_many_failures_of_a_task_give_its_last_one(world: World) -> None:
    world.running()
    for n in range(4):
        world.pod(
            "convert-1", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "host b timed out", 4, index=1)), index=1, name=f"try-{n}"
        )
    world.fail("convert-1", "FailedIndexes", "Job has failed indexes", failedIndexes="1", completedIndexes="0,2,3")

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "StoreUnreachable")
    assert "1 of 4 tasks failed" in world.message()
    assert "host b timed out" in world.message()
    assert world.status()["failures"][0]["count"] == 4


def test_an_out_of_memory_kill_is_told_from_another_kill(world: World) -> None:
    world.running()
    world.pod("convert-1", world.ended(137, reason="OOMKilled"), index=0)
    world.fail("convert-1", "FailedIndexes", failedIndexes="0")

    world.settle()

    assert world.condition("Failed") == ("True", "OutOfMemory")


def test_a_kill_without_a_message_is_a_backoff_limit(world: World) -> None:
    world.running()
    world.pod("convert-1", world.ended(137), index=0)
    world.fail("convert-1", "FailedIndexes", failedIndexes="0")

    world.settle()

    assert world.condition("Failed") == ("True", "BackoffLimitExceeded")


def test_a_crash_without_a_message_shows_the_last_words(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(1, "Traceback\nModuleNotFoundError: no module named dataprep"))
    world.fail("plan", "BackoffLimitExceeded", "Job has reached the specified backoff limit")

    world.settle()

    assert world.condition("Failed") == ("True", "InternalError")
    assert "ModuleNotFoundError" in world.message()


def test_numbers_that_do_not_add_up_fail_the_job(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed(records=RecordProgress(in_=1000, out=900, bad=10))

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "VerificationFailed")


def test_a_commit_of_another_run_is_not_believed(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed(run_id="other")

    assert world.settle() == "Failed"


@pytest.mark.parametrize("run_id", ["", "a b", "--help x", "../x/"], ids=["empty", "blank", "option", "path"])
def test_a_run_id_of_the_wrong_form_becomes_no_argument(world: World, run_id: str) -> None:
    world.apply()
    world.settle()
    world.planned(run_id=run_id)

    assert world.settle() == "Failed"
    assert world.jobs() == ["plan"]


def test_a_message_that_is_not_ours_fails_the_step(world: World) -> None:
    world.apply(workers={"image": "hello-world"})
    world.settle()
    world.pod("plan", world.ended(0, "Hello from Docker!"))
    world.complete("plan")

    assert world.settle() == "Failed"
    assert "Hello from Docker!" in world.message()


def test_an_invalid_spec_names_its_faults(world: World) -> None:
    world.apply(output={"uri": "s3://out/${place}"}, suspnd=True)

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InvalidSpec")
    assert world.condition("Validated") == ("False", "InvalidSpec")
    assert "${place}" in world.message()
    assert world.jobs() == []


def test_a_host_path_is_refused_by_default(world: World) -> None:
    world.apply(workers={"volumes": [{"name": "x", "hostPath": {"path": "/"}}]})

    assert world.settle() == "Failed"
    assert "spec.workers.volumes[0].hostPath" in world.message()


def test_a_step_whose_message_was_lost_runs_again(world: World) -> None:
    world.apply()
    world.settle()
    first = world.job("plan")["metadata"]["uid"]
    world.complete("plan")

    assert world.settle() == "Planning"
    assert world.job("plan")["metadata"]["uid"] != first
    world.planned()
    assert world.settle() == "Running"


def test_a_message_that_the_watch_has_not_brought_yet_is_looked_up(world: World) -> None:
    world.apply()
    world.settle()
    world.cluster.watch = lambda plural, body, gone: None if plural == "pods" else world._event(plural, body, gone)
    world.planned()

    assert world.settle() == "Running"
    assert world.created("jobs") == 2


# --- pods that can't start ------------------------------------------------------------------------------------------------

STARTS = {
    "image": ("ErrImagePull", "not found: nope:1", "ImagePullFailed"),
    "image backing off": ("ImagePullBackOff", "Back-off pulling image", "ImagePullFailed"),
    "image name": ("InvalidImageName", "", "ImagePullFailed"),
    "missing Secret in env": ("CreateContainerConfigError", 'secret "x" not found', "ConfigMissing"),
    "bad command": ("CreateContainerError", "no such file", "PodRefused"),
}


@pytest.mark.parametrize(("waiting", "message", "reason"), STARTS.values(), ids=STARTS.keys())
def test_a_pod_that_can_not_start_fails_the_job_after_a_grace(world: World, waiting: str, message: str, reason: str) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.waiting(waiting, message))

    assert world.settle() == "Pending"
    assert world.condition("Running") == ("False", reason)
    world.restart()
    assert world.later(20) == "Pending"
    assert world.wait is not None
    assert world.wait <= 11
    assert world.later(11) == "Failed"
    assert world.condition("Failed") == ("True", reason)
    assert message in world.message()
    assert world.job("plan")["spec"]["suspend"] is True


def test_an_image_that_comes_in_time_goes_on(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.waiting("ErrImagePull", "timeout"))
    world.settle()
    world.later(20)
    world.pod("plan", world.scheduled(phase="Running"))

    assert world.later(60) == "Planning"
    assert world.condition("Running") == ("True", "Planning")


def test_a_missing_secret_volume_is_found_in_the_pods_events(world: World) -> None:
    world.apply()
    world.settle()
    pod = world.pod("plan", world.waiting("ContainerCreating"))
    about = {"uid": pod["metadata"]["uid"]}
    event = {"reason": "FailedMount", "message": 'MountVolume.SetUp failed: secret "oss" not found', "involvedObject": about}
    world.cluster.add("events", NAMESPACE, {"metadata": {"name": "e"}, **event})

    world.settle()
    assert not [call for call in world.cluster.calls if call[:2] == ("list", "events")]
    assert world.later(12) == "Pending"
    assert world.later(31) == "Failed"
    assert world.condition("Failed") == ("True", "ConfigMissing")
    assert 'secret "oss" not found' in world.message()


def test_pods_that_the_api_server_refuses_are_found_in_the_jobs_events(world: World) -> None:
    world.apply()
    world.settle()
    about = {"uid": world.job("plan")["metadata"]["uid"]}
    event = {"reason": "FailedCreate", "message": 'pods "x" is forbidden: serviceaccount "sa" not found', "involvedObject": about}
    world.cluster.add("events", NAMESPACE, {"metadata": {"name": "e"}, **event})

    assert world.later(12) == "Pending"
    assert world.later(31) == "Failed"
    assert world.condition("Failed") == ("True", "PodRefused")


def test_a_job_that_the_api_server_refuses_fails_with_its_words(world: World) -> None:
    world.cluster.refusals[("create", "jobs")] = Refused('Job.batch "x" is invalid: spec.template.spec.volumes[3].name: Duplicate value')
    world.apply()

    assert world.settle() == "Pending"
    assert world.later(31) == "Failed"
    assert "Duplicate value" in world.message()


def test_a_strangers_object_under_our_name_is_not_ours(world: World) -> None:
    world.apply()
    uid = world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")]["metadata"]["uid"]
    stranger = f"{names.child_base('mnist', uid)}-plan"
    world.cluster.add("jobs", NAMESPACE, {"metadata": {"name": stranger}, "spec": {}})

    assert world.settle() == "Pending"
    assert world.condition("Running") == ("False", "ConflictingChild")
    world.cluster.remove("jobs", NAMESPACE, stranger)
    assert world.settle() == "Planning"


# --- scheduling and accelerators --------------------------------------------------------------------------------------------


def gpu_workers(policy: str, **rest: Any) -> Body:  # Any: the spec as YAML has it
    return {"parallelism": 2, "accelerator": {"policy": policy, **rest}}


def test_unschedulable_pods_wait_until_the_start_deadline(world: World) -> None:
    world.apply(startDeadlineSeconds=120)
    world.settle()
    world.pod("plan", world.unschedulable("0/3 nodes are available: 3 Insufficient memory."))

    assert world.settle() == "Pending"
    assert world.condition("Running") == ("False", "Unschedulable")
    assert world.later(119) == "Pending"
    assert world.later(2) == "Failed"
    assert world.condition("Failed") == ("True", "StartDeadlineExceeded")


def test_required_gpus_are_waited_for(world: World) -> None:
    world.apply(workers=gpu_workers("Required"))
    world.settle()
    world.planned()
    world.settle()
    world.pod("convert-1", world.unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), index=0)

    assert world.later(3600) == "Pending"
    assert world.condition("Running") == ("False", "NoGPUNodes")
    assert "Insufficient nvidia.com/gpu" in world.message("Running")
    world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    assert world.settle() == "Running"


def test_preferred_gpus_are_given_up_after_a_while(world: World) -> None:
    world.apply(workers=gpu_workers("Preferred", fallbackAfterSeconds=60))
    world.settle()
    world.planned()
    world.settle()
    assert world.job("convert-1")["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    world.pod("convert-1", world.unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), index=0)

    assert world.later(59) == "Pending"
    assert world.later(2) == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is True
    assert world.job("convert-2")["spec"]["template"]["spec"]["containers"][0]["resources"] == {}
    assert "FellBackToCPU" in world.events()
    assert world.status()["effective"]["accelerator"] == "CPU"
    world.restart()
    world.settle()
    world.converted("convert-2")
    assert world.settle() == "Committing"


def test_preferred_stays_on_gpus_once_one_was_found(world: World) -> None:
    world.apply(workers=gpu_workers("Preferred", fallbackAfterSeconds=60))
    world.settle()
    world.planned()
    world.settle()
    world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    world.pod("convert-1", world.unschedulable("Insufficient nvidia.com/gpu"), index=1)

    assert world.later(300) == "Running"
    assert world.jobs() == ["convert-1", "plan"]


# --- suspension, scale, deadlines --------------------------------------------------------------------------------------------


def test_a_job_that_is_born_suspended_starts_when_it_is_resumed(world: World) -> None:
    world.apply(suspend=True)

    assert world.settle() == "Suspended"
    assert world.jobs() == []
    world.edit(suspend=False)
    assert world.settle() == "Planning"
    assert world.condition("Suspended") == ("False", "Resumed")


def test_suspension_stops_the_pods_and_resuming_goes_on(world: World) -> None:
    world.running()
    world.edit(suspend=True)

    assert world.settle() == "Suspended"
    assert world.job("convert-1")["spec"]["suspend"] is True
    assert world.condition("Running") == ("False", "Suspended")
    before = world.status()
    world.later(100)
    assert world.status() == before
    world.edit(suspend=False)
    assert world.settle() == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is False
    assert world.created("jobs") == 2


def test_a_change_of_parallelism_reaches_the_running_job(world: World) -> None:
    world.running()
    world.edit(workers={"parallelism": 3})

    world.settle()

    assert world.job("convert-1")["spec"]["parallelism"] == 3
    assert world.status()["effective"]["parallelism"] == 3
    assert "Rescaled" in world.events()


def test_no_more_pods_than_tasks(world: World) -> None:
    world.apply(workers={"parallelism": 50})
    world.settle()
    world.planned()
    world.settle()

    assert world.job("convert-1")["spec"]["parallelism"] == 4


def test_a_deadline_fails_the_job_and_stops_its_pods(world: World) -> None:
    world.apply(activeDeadlineSeconds=100)
    world.settle()
    world.planned()

    assert world.settle() == "Running"
    assert world.wait is not None
    assert world.wait <= 101
    assert world.later(101) == "Failed"
    assert world.condition("Failed") == ("True", "DeadlineExceeded")
    assert world.job("convert-1")["spec"]["suspend"] is True


def test_a_suspended_job_has_no_deadline(world: World) -> None:
    world.apply(activeDeadlineSeconds=100)
    world.settle()
    world.edit(suspend=True)

    assert world.later(500) == "Suspended"
    world.edit(suspend=False)
    assert world.later(50) == "Planning"
    assert world.later(101) == "Failed"


# --- queues -----------------------------------------------------------------------------------------------------------------


def test_a_queue_holds_the_convert_job_back_and_starts_it(world: World) -> None:
    world.apply(labels={QUEUE_LABEL: "research"})
    world.settle()
    world.planned()

    assert world.settle() == "Queued"
    job = world.job("convert-1")
    assert job["metadata"]["labels"][QUEUE_LABEL] == "research"
    assert job["spec"]["suspend"] is True
    assert QUEUE_LABEL not in world.job("plan")["metadata"]["labels"]
    world.cluster.change("jobs", job["metadata"]["name"], {"spec": {"suspend": False}})
    assert world.settle() == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is False


def test_suspending_a_queued_job_takes_its_convert_job_away(world: World) -> None:
    world.apply(labels={QUEUE_LABEL: "research"})
    world.settle()
    world.planned()
    world.settle()
    world.edit(suspend=True)

    assert world.settle() == "Suspended"
    assert world.jobs() == ["plan"]
    world.edit(suspend=False)
    assert world.settle() == "Queued"


# --- retries ----------------------------------------------------------------------------------------------------------------


def retry(world: World, value: str = "1") -> str:
    world.edit(annotations={names.ANNOTATION_RETRY: value})
    return world.settle()


def test_a_retry_after_a_failed_plan_plans_again(world: World) -> None:
    world.apply()
    world.settle()
    world.plan_fails(a_failure(Reason.STORE_UNREACHABLE, "nn", 4))
    world.settle()

    assert retry(world) == "Planning"
    assert world.jobs() == ["plan", "plan-2"]
    assert world.condition("Failed") == ("False", "Retrying")
    assert "Retrying" in world.events()
    world.planned("plan-2")
    assert world.settle() == "Running"
    assert world.jobs() == ["convert-2", "plan", "plan-2"]


def test_a_retry_of_the_conversion_makes_only_what_is_missing(world: World) -> None:
    world.running()
    world.pod("convert-1", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "host", 4, index=1)), index=1)
    world.fail("convert-1", "FailedIndexes", completedIndexes="0,2", failedIndexes="1,3")
    world.settle()

    assert retry(world) == "Running"
    job = world.job("convert-2")
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--tasks") + 1] == "1,3"
    assert arguments[arguments.index("--attempt") + 1] == "2"
    assert (job["spec"]["completions"], job["metadata"]["annotations"][ANNOTATION_TASKS]) == (2, "1,3")
    assert world.created("jobs") == 3
    world.fail("convert-2", "FailedIndexes", completedIndexes="0", failedIndexes="1")
    world.settle()
    assert world.status()["failedIndexes"] == "3"
    retry(world, "2")
    assert world.job("convert-3")["metadata"]["annotations"][ANNOTATION_TASKS] == "3"
    world.converted("convert-3", "0")
    assert world.settle() == "Committing"


def test_a_retry_after_a_failed_commit_commits_again(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.pod("commit-1", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "host", 4)))
    world.fail("commit-1", "BackoffLimitExceeded")
    world.settle()

    assert retry(world) == "Committing"
    assert world.jobs() == ["commit-1", "commit-2", "convert-1", "plan"]


def test_a_retry_after_lost_files_converts_again(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.plan_fails(a_failure(Reason.OUTPUT_MISSING, "train-00001 is gone", 5), "commit-1")
    world.settle()

    assert retry(world) == "Running"
    assert ANNOTATION_TASKS not in world.job("convert-2")["metadata"]["annotations"]


def test_one_value_is_one_retry(world: World) -> None:
    world.apply()
    world.settle()
    for suffix in ("plan", "plan-2"):
        world.plan_fails(a_failure(Reason.STORE_UNREACHABLE, "nn", 4), suffix)
        world.settle()
        retry(world)

    assert world.status()["phase"] == "Failed"
    assert world.status()["attempt"] == 2
    assert retry(world, "2") == "Planning"


def test_a_retry_that_was_asked_for_before_the_failure_is_none(world: World) -> None:
    world.apply()
    retry(world)
    world.plan_fails(a_failure(Reason.NO_INPUT, "nothing", 3))

    assert world.settle() == "Failed"
    assert world.later(10) == "Failed"


def test_a_succeeded_job_is_not_retried(world: World) -> None:
    world.apply()
    world.settle()
    world.planned(reused=True, commit=a_commit())
    world.settle()

    assert retry(world) == "Succeeded"
    assert world.jobs() == ["plan"]


def test_a_repaired_spec_runs_by_retry(world: World) -> None:
    world.apply(output={"uri": "s3://out/${place}"})
    world.settle()
    world.edit(output={"uri": "s3://out/mnist"})
    assert world.settle() == "Failed"

    assert retry(world) == "Planning"
    assert world.condition("Validated") == ("True", "Accepted")


# --- one output, one job ------------------------------------------------------------------------------------------------------


def test_of_two_jobs_with_one_output_the_older_wins(world: World) -> None:
    world.apply("mnist")
    world.cluster.now += timedelta(seconds=5)
    world.apply("other", output={"uri": "S3://OUT//mnist/"})

    assert world.settle("other") == "Failed"
    assert world.condition("Failed", "other") == ("True", "OutputInUse")
    assert f"{NAMESPACE}/mnist" in world.status("other")["conditions"][-1]["message"]
    assert world.settle("mnist") == "Planning"


def test_an_output_is_free_again_when_its_job_has_ended(world: World) -> None:
    world.apply("mnist")
    world.settle()
    world.apply("other")
    world.settle("other")
    world.plan_fails(a_failure(Reason.NO_INPUT, "nothing", 3))
    world.settle()

    world.edit("other", annotations={names.ANNOTATION_RETRY: "1"})
    assert world.settle("other") == "Planning"
    retry(world)
    assert world.condition("Failed") == ("True", "OutputInUse")


def test_a_rival_that_is_gone_already_is_none(world: World) -> None:
    world.apply("mnist")
    world.cluster.watch = lambda plural, body, gone: None if gone else world._event(plural, body, gone)
    world.cluster.remove("dataprepjobs", NAMESPACE, "mnist")
    world.apply("other")

    assert world.settle("other") == "Planning"


def test_the_output_counts_after_its_params(world: World) -> None:
    world.apply("mnist")
    world.apply("other", params={"where": "mnist"}, output={"uri": "s3://out/${where}"})

    assert {world.settle("mnist"), world.settle("other")} == {"Planning", "Failed"}


# --- the end ------------------------------------------------------------------------------------------------------------------


def succeeded(world: World, **spec: Any) -> None:  # Any: the spec as YAML has it
    world.apply(**spec)
    world.settle()
    world.planned(reused=True, commit=a_commit())
    world.settle()


def test_nothing_is_cleaned_up_unless_asked(world: World) -> None:
    succeeded(world)
    world.later(10**6)

    assert world.jobs() == ["plan"]
    assert not [call for call in world.cluster.calls if call[0] == "delete"]


def test_a_cleanup_rule_removes_pods_in_time(world: World) -> None:
    succeeded(world, cleanup=[{"when": "Succeeded", "action": "DeletePods", "afterSeconds": 60}])
    assert world.wait is not None
    assert world.wait <= 61

    world.later(59)
    assert [key for key in world.cluster.objects if key[0] == "pods"]
    world.later(2)
    assert not [key for key in world.cluster.objects if key[0] == "pods"]
    assert world.jobs() == ["plan"]
    assert "CleanedUp" in world.events()


def test_a_rule_for_failures_leaves_a_success_alone(world: World) -> None:
    succeeded(world, cleanup=[{"when": "Failed", "action": "DeleteJobs", "afterSeconds": 0}])

    assert world.later(100) == "Succeeded"
    assert world.jobs() == ["plan"]


def test_jobs_are_removed_after_their_status_is_written(world: World) -> None:
    succeeded(world, cleanup=[{"when": "Succeeded", "action": "DeleteJobs", "afterSeconds": 0}])

    assert world.later(1) == "Succeeded"
    assert world.jobs() == []


@pytest.mark.parametrize(
    "spec",
    [{"ttlSecondsAfterFinished": 60}, {"cleanup": [{"when": "Succeeded", "action": "DeleteSelf", "afterSeconds": 60}]}],
    ids=["ttl", "rule"],
)
def test_a_job_removes_itself_with_its_children(world: World, spec: Body) -> None:
    succeeded(world, **spec)
    world.cluster.now += timedelta(seconds=61)
    world.look()

    assert not [key for key in world.cluster.objects if key[0] in ("dataprepjobs", "jobs", "pods", "configmaps")]
    world.look()


def test_a_job_that_is_being_deleted_gets_no_children(world: World) -> None:
    world.apply()
    world.cluster.change("dataprepjobs", "mnist", {"metadata": {"deletionTimestamp": times.text(START)}})
    world.settle()

    assert world.jobs() == []


# --- conflicts and lost nodes -------------------------------------------------------------------------------------------------


def test_a_status_is_not_written_over_a_newer_object(world: World) -> None:
    world.apply()
    world.cluster.watch = lambda *_: None
    world.edit(suspend=True)

    with pytest.raises(Conflict):
        world.look()
    world.look()

    assert world.status()["phase"] == "Suspended"
    assert world.jobs() == []


def test_no_child_is_made_before_the_status_says_so(world: World) -> None:
    world.cluster.refusals[("status", "dataprepjobs")] = Conflict("modified")
    world.apply()
    with pytest.raises(Conflict):
        world.look()

    assert world.jobs() == []


def test_a_pod_on_a_dead_node_is_declared_failed(world: World) -> None:
    world.running()
    due = times.text(world.cluster.now + timedelta(seconds=30))
    pod = world.pod("convert-1", world.scheduled(phase="Running"), index=0, metadata={"deletionTimestamp": due})
    world.settle()
    assert world.wait is not None

    world.later(89)
    assert world.cluster.objects[("pods", NAMESPACE, pod["metadata"]["name"])]["status"]["phase"] == "Running"
    world.later(2)
    status = world.cluster.objects[("pods", NAMESPACE, pod["metadata"]["name"])]["status"]
    assert status["phase"] == "Failed"
    assert ("DisruptionTarget", "True") in {(c["type"], c["status"]) for c in status["conditions"]}
    assert world.status()["phase"] == "Running"
    assert not world.status().get("failures")


# --- progress ----------------------------------------------------------------------------------------------------------------


def report(world: World, index: int, sequence: int, records: int, **rest: Any) -> None:  # Any: fields of ProgressReport
    uid = world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")]["metadata"]["uid"]
    told = ProgressReport(
        job="mnist", attempt=1, index=index, sequence=sequence, records=RecordProgress(in_=records, out=records), shards_active=1, **rest
    )
    world.board.take(told, job_uid=uid, pod_uid=f"pod-{index}", now=world.cluster.now)


def test_progress_rises_with_the_reports(world: World) -> None:
    world.running()
    world.cluster.change("jobs", world.job("convert-1")["metadata"]["name"], {"status": {"startTime": times.text(START), "active": 1}})
    shown = []
    for second in range(6, 60, 6):
        report(world, 0, second, second * 10, bytes_out=second * 100)
        world.later(6)
        shown.append(world.status()["progress"])

    assert [each["percent"] for each in shown] == [6, 12, 18, 24, 30, 36, 42, 48, 54]
    assert shown[-1]["records"]["in"] == 540
    assert shown[-1]["recordsPerSecond"] == pytest.approx(10, abs=0.5)
    assert shown[-1]["estimatedSecondsRemaining"] == pytest.approx(46, abs=3)
    assert shown[-1]["eta"] == f"{shown[-1]['estimatedSecondsRemaining']}s"
    assert "estimatedSecondsRemaining" not in shown[0] or shown[0]["percent"] >= 5
    assert world.status()["phase"] == "Running"


def test_progress_is_not_written_more_often_than_allowed(world: World) -> None:
    world.running()
    before = sum(call[0] == "status" for call in world.cluster.calls)
    for tenth in range(100):
        report(world, 0, tenth, tenth)
        world.cluster.now += timedelta(milliseconds=100)
        world.look()

    assert sum(call[0] == "status" for call in world.cluster.calls) - before <= 3


def test_without_reports_progress_follows_the_completed_tasks(world: World) -> None:
    world.running()
    world._job_status("convert-1", {"completedIndexes": "0-1", "active": 2})

    world.later(6)

    progress = world.status()["progress"]
    assert (progress["percent"], progress["summary"]) == (50, "4/8")


def test_finished_tasks_count_by_their_own_results(world: World) -> None:
    world.running()
    done = WorkResult(index=1, shards_done=1, shards_skipped=1, records=RecordProgress(in_=250, out=250), bytes_out=900)
    world.pod("convert-1", world.ended(0, done), index=1)
    world._job_status("convert-1", {"completedIndexes": "1", "active": 2})
    world.restart()

    world.later(6)

    progress = world.status()["progress"]
    assert (progress["records"]["in"], progress["shards"]["done"], progress["bytesOut"]) == (250, 2, 900)


# --- size and events -----------------------------------------------------------------------------------------------------------


def test_a_status_stays_below_64_kilobytes(world: World) -> None:
    world.running()
    for n in range(200):
        result = a_failure(Reason.BAD_RECORDS, f"{n} " + "x" * 1500, 3, index=n, shard="s" * 250, input="u" * 1500)
        world.pod("convert-1", world.ended(3, result), index=n, name=f"pod-{n}")
    world.fail("convert-1", "FailedIndexes", failedIndexes=",".join(str(n) for n in range(0, 4, 2)))
    world.settle()

    assert world.status()["phase"] == "Failed"
    assert len(json.dumps(world.status())) < 64_000
    assert len(world.status()["failures"]) <= 20


def test_each_change_of_phase_is_told_once(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed()
    world.settle()
    world.restart()
    world.later(100)

    assert world.events() == ["Planning", "Planned", "Converting", "Committing", "Completed"]


def test_an_event_that_is_refused_holds_nothing_up(world: World) -> None:
    world.cluster.refusals[("create", "events")] = Refused("events is forbidden")
    world.apply()

    assert world.settle() == "Planning"
    assert world.events() == []


def test_kinds_of_the_seam_have_the_api_servers_paths() -> None:
    assert JOBS.path("a b", "x", subresource="status") == "/apis/batch/v1/namespaces/a%20b/jobs/x/status"
    assert [each.path("n") for each in (DATAPREPJOBS, PODS, CONFIG_MAPS, EVENTS)] == [
        "/apis/dataprep.io/v1alpha1/namespaces/n/dataprepjobs",
        "/api/v1/namespaces/n/pods",
        "/api/v1/namespaces/n/configmaps",
        "/api/v1/namespaces/n/events",
    ]
