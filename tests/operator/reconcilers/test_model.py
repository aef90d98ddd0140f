"""Random sequences of actions by users, pods, the Job controller and the watch, and of operator restarts. The tests check invariants.

The tests use the `World` of `world.py`, in which an in-memory API server replaces the operator's client. Hypothesis chooses the actions,
and shortens failing sequences.
"""

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.operator.world import NAMESPACE, World, a_commit, a_failure, a_plan, a_scan

from dataprep_api import names
from dataprep_api.dataset.messages import CommitResult, RemoveResult, WorkResult
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import RecordProgress
from dataprep_operator.errors import OperatorError, Unavailable
from dataprep_operator.objects import child_jobs

pytestmark = pytest.mark.slow

JOBS = ("first", "second")
INDEXED = ("scan", "shuffle", "convert")
"""The steps whose Jobs have several pods. It does no harm if the message of such a pod is lost."""
LIES = ('{"kind": "commit", "runId": "../../etc", "files": -1}', '{"kind": "scan", "scan": "../../etc", "parts": 3}')
ENDS = ("Succeeded", "Failed")
ROUNDS = int(os.environ.get("FUZZ", "20"))
"""The number of sequences. `make nightly` tries 60, and `make fuzz` tries 300."""
policies = st.sampled_from(["Retain", "Delete"])
job_names = st.sampled_from(JOBS)


class Died(BaseException):
    """The operator's process has died."""


@contextlib.contextmanager
def dying(world: World, *, at: int, carried_out: bool) -> Iterator[None]:
    """Make the operator's process die at write number `at`, before or after the API server has carried out this write."""
    left = at

    def deadly(write: Any) -> Any:  # Any: a method of the client
        async def written(*place: Any, **rest: Any) -> Any:
            nonlocal left
            left -= 1
            answer = await write(*place, **rest) if left or carried_out else None
            if not left:
                raise Died
            return answer

        return written

    verbs = ("create", "patch", "apply_status", "delete")
    for verb in verbs:
        setattr(world.cluster, verb, deadly(getattr(world.cluster, verb)))
    try:
        yield
    finally:
        for verb in verbs:
            delattr(world.cluster, verb)


class Lives(RuleBasedStateMachine):
    """Two jobs with the same output."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.seen: dict[str, dict[str, Any]] = {}
        """The last status of each job, by uid."""
        self.retries = self.manifests = 0
        self.verified: set[tuple[str, str]] = set()
        """Pairs of a job's uid and the digest of a manifest that one of the job's commit steps has reported."""

    # --- users -----------------------------------------------------------------------------------------------------------

    @rule(name=job_names, suspended=st.booleans(), policy=policies)
    def applied(self, name: str, suspended: bool, policy: str) -> None:
        if self.body(name) is None:
            self.world.apply(name, suspend=suspended, workers={"parallelism": 2}, deletionPolicy=policy)

    @rule(name=job_names, policy=policies)
    def decided_otherwise_about_the_output(self, name: str, policy: str) -> None:
        if self.body(name) is not None:
            self.world.edit(name, deletionPolicy=policy)

    @rule(name=job_names, suspended=st.booleans())
    def suspended_or_resumed(self, name: str, suspended: bool) -> None:
        if self.body(name) is not None:
            self.world.edit(name, suspend=suspended)

    @rule(name=job_names, parallelism=st.integers(1, 6))
    def rescaled(self, name: str, parallelism: int) -> None:
        if self.body(name) is not None:
            self.world.edit(name, workers={"parallelism": parallelism})

    @rule(name=job_names)
    def retried(self, name: str) -> None:
        if self.body(name) is not None:
            self.retries += 1
            self.world.edit(name, annotations={names.ANNOTATION_RETRY: str(self.retries)})

    @rule(name=job_names)
    def deleted(self, name: str) -> None:
        if self.body(name) is not None:
            self.world.cluster.end("dataprepjobs", NAMESPACE, name)

    @rule(data=st.data())
    def a_child_is_deleted_by_hand(self, data: st.DataObject) -> None:
        owned = [name for plural, _, name in self.world.cluster.objects if plural == "jobs"]
        if owned:
            self.world.cluster.remove("jobs", NAMESPACE, data.draw(st.sampled_from(sorted(owned))))

    @rule(data=st.data(), edit=st.sampled_from([{"suspend": True}, {"parallelism": 1}, {"parallelism": 9}]))
    def a_child_is_edited_by_hand(self, data: st.DataObject, edit: dict[str, Any]) -> None:
        owned = [name for plural, _, name in self.world.cluster.objects if plural == "jobs"]
        if owned:
            self.world.cluster.change("jobs", data.draw(st.sampled_from(sorted(owned))), {"spec": edit})

    # --- the Job controller and the pods ----------------------------------------------------------------------------------

    @rule(name=job_names, parts=st.sampled_from([0, 2, 5]), slices=st.sampled_from([None, 3]))
    def the_step_succeeds(self, name: str, parts: int, slices: int | None = None) -> None:
        """A plan pod that may request a scan requests `parts` parts, or makes the plan itself if `parts` is 0.

        The plan has a shuffle with `slices` slices, or no shuffle if `slices` is None.
        """
        found = self.unfinished(name)
        if found is None:
            return
        step, suffix, uid = found
        if parts and has_variable(self.world.job(suffix, name), names.MAY_SCAN):
            self.told(suffix, name, uid, a_scan(parts=parts))
        elif step in ("plan", "merge"):
            self.told(suffix, name, uid, a_plan(run_id=f"run-{name}", shuffle_tasks=slices))
        elif step == "commit":
            self.told(suffix, name, uid, self.a_verified_commit(name))
        elif step == "cleanup":
            self.told(suffix, name, uid, RemoveResult(files=3))
        completions = self.world.job(suffix, name)["spec"].get("completions", 1)
        self.end(suffix, name, "Complete", completedIndexes=f"0-{completions - 1}" if step in INDEXED else None)

    @rule(name=job_names, parts=st.sampled_from([0, 2, 5]))
    def the_pod_reports_before_its_job_is_complete(self, name: str, parts: int) -> None:
        found = self.unfinished(name)
        if found is not None and found[0] in ("plan", "merge"):
            is_scanned = parts and has_variable(self.world.job(found[1], name), names.MAY_SCAN)
            self.told(found[1], name, found[2], a_scan(parts=parts) if is_scanned else a_plan(run_id=f"run-{name}"))

    @rule(name=job_names, part=st.integers(0, 4))
    def the_parts_or_slices_up_to_one_are_done(self, name: str, part: int) -> None:
        found = self.unfinished(name)
        if found is not None and found[0] in ("scan", "shuffle"):
            job = self.world.job(found[1], name)
            last = min(part, job["spec"]["completions"] - 1)
            self.told(found[1], name, found[2], "")
            self.world.cluster.change("jobs", job["metadata"]["name"], {"status": {"completedIndexes": f"0-{last}" if last else "0"}})

    @rule(name=job_names, task=st.integers(0, 3))
    def a_worker_succeeds(self, name: str, task: int) -> None:
        found = self.unfinished(name)
        if found is not None and found[0] == "convert":
            result = WorkResult(index=task, shards_done=2, shards_skipped=0, records=RecordProgress(in_=250, out=250), bytes_out=1000)
            self.told(found[1], name, found[2], result)

    @rule(name=job_names)
    def the_pod_of_the_plan_step_makes_the_data_set(self, name: str) -> None:
        found = self.unfinished(name)
        if found is None or found[0] != "plan" or not has_variable(self.world.job(found[1], name), names.ONE_POD):
            return
        self.told(found[1], name, found[2], a_plan(run_id=f"run-{name}", commit=self.a_verified_commit(name)))

    @rule(name=job_names, reason=st.sampled_from([Reason.INPUT_NOT_FOUND, Reason.BAD_RECORDS, Reason.OUTPUT_LOST, Reason.OUT_OF_MEMORY]))
    def the_step_fails(self, name: str, reason: Reason) -> None:
        found = self.unfinished(name)
        if found is None:
            return
        _, suffix, uid = found
        self.told(suffix, name, uid, a_failure(reason, "as it happens"), exit_code=5)
        self.end(suffix, name, "Failed")

    @rule(name=job_names, lie=st.sampled_from(LIES))
    def a_pod_lies(self, name: str, lie: str) -> None:
        found = self.unfinished(name)
        if found is not None:
            step, suffix, uid = found
            self.told(suffix, name, uid, lie)
            if step not in INDEXED:
                self.end(suffix, name, "Complete")

    @rule(name=job_names)
    def a_message_is_lost(self, name: str) -> None:
        """The Job succeeds, but its pod is deleted before the operator has read the pod's message."""
        found = self.unfinished(name)
        if found is not None and found[0] not in INDEXED:
            self.end(found[1], name, "Complete")

    # --- the operator ------------------------------------------------------------------------------------------------------

    @rule(name=job_names)
    def the_operator_looks(self, name: str) -> None:
        with contextlib.suppress(OperatorError):
            self.world.look(name)

    @rule(name=job_names)
    def the_operator_settles(self, name: str) -> None:
        if self.body(name) is not None:
            self.world.settle(name)

    @rule()
    def the_operator_restarts(self) -> None:
        self.world.restart()

    @rule()
    def the_watches_are_cut(self) -> None:
        """Until a restart, the operator receives no more events, so its writes can be based on outdated objects."""
        self.world.cluster.watch = lambda *_: None

    @rule()
    def the_watches_are_back(self) -> None:
        self.world.listen()

    @rule(name=job_names, writes=st.integers(1, 5), carried_out=st.booleans())
    def the_operator_dies_in_the_middle(self, name: str, writes: int, carried_out: bool) -> None:
        """The operator dies at write number `writes`.

        The API server might or might not have carried out this write. The next process knows only the stored objects.
        """
        with dying(self.world, at=writes, carried_out=carried_out), contextlib.suppress(OperatorError, Died):
            self.world.look(name)
        self.world.restart()

    @rule(name=job_names, verb=st.sampled_from(["create", "patch", "status"]))
    def the_api_server_fails_for_a_moment(self, name: str, verb: str) -> None:
        plurals = {"create": ("jobs", "configmaps", "events"), "patch": ("jobs",), "status": ("dataprepjobs",)}[verb]
        self.world.cluster.refusals |= {(verb, plural): Unavailable("429 Too Many Requests") for plural in plurals}
        self.the_operator_looks(name)
        self.world.cluster.refusals.clear()

    @rule(seconds=st.sampled_from([1, 31, 400]))
    def time_passes(self, seconds: int) -> None:
        self.world.later(seconds, "first") if self.body("first") is not None else None

    # --- invariants ----------------------------------------------------------------------------------------------------------

    @invariant()
    def one_run_writes_the_output(self) -> None:
        writing = {
            body["metadata"]["labels"][names.LABEL_JOB_UID]
            for (plural, _, _), body in self.world.cluster.objects.items()
            if plural == "jobs" and not ended(body) and not body["spec"].get("suspend")
        }
        assert len(writing) <= 1

    @invariant()
    def every_child_is_owned(self) -> None:
        alive = {body["metadata"]["uid"] for (plural, _, _), body in self.world.cluster.objects.items() if plural == "dataprepjobs"}
        for (plural, _, name), body in self.world.cluster.objects.items():
            if plural in ("jobs", "configmaps"):
                assert [owner["uid"] in alive for owner in body["metadata"]["ownerReferences"]] == [True], (plural, name)

    @invariant()
    def statuses_only_go_forward(self) -> None:
        for name in JOBS:
            body = self.body(name)
            if body is None or not body.get("status"):
                continue
            now, before = body["status"], self.seen.get(body["metadata"]["uid"])
            self.seen[body["metadata"]["uid"]] = now
            if now.get("phase") == "Succeeded":
                assert (body["metadata"]["uid"], now["output"]["manifestSha256"]) in self.verified
                records = now["progress"]["records"]
                assert records["in"] + records["added"] == records["out"] + records["bad"] + records["filtered"]
            conditions = {condition["type"]: condition["status"] for condition in now["conditions"]}
            assert (conditions.get("Complete") == "True") == (now["phase"] == "Succeeded")
            assert (conditions.get("Failed") == "True") == (now["phase"] == "Failed")
            assert len(now.get("runs", [])) <= 5
            if now.get("step") in ("Scan", "Merge"):
                assert (now["scan"]["parts"] >= 2, now.get("runId")) == (True, None)
                assert now["phase"] not in ("Running", "Committing", "Succeeded")
            if now.get("step") == "Shuffle":
                assert (now["shuffleTasks"], now["runId"]) == (3, f"run-{name}")
                assert now["phase"] not in ("Planning", "Committing", "Succeeded")
            if before is None:
                continue
            assert now.get("attempt", 0) >= before.get("attempt", 0)
            if before["phase"] == "Succeeded":
                assert now["phase"] == "Succeeded"
            if before["phase"] == "Failed" and now["phase"] != "Failed":
                assert now["handledRetry"] != before.get("handledRetry")
            if before["phase"] not in ENDS and now.get("attempt") == before.get("attempt") and before.get("progress"):
                assert now["progress"]["percent"] >= before["progress"]["percent"]

    @precondition(lambda self: any(self.body(name) is not None for name in JOBS))
    @rule(parts=st.sampled_from([0, 3]))
    def everything_can_still_end_well(self, parts: int) -> None:
        """From any state, if no more faults happen, every job that isn't suspended ends, and every deleted job disappears."""
        self.world.listen()
        for (plural, _, name), job in list(self.world.cluster.objects.items()):
            if plural == "jobs" and job["metadata"].get("annotations", {}).get(child_jobs.ANNOTATION_SUSPEND) == child_jobs.RESUMED:
                self.world.cluster.change(
                    "jobs", name, {"spec": {"suspend": False}}
                )  # if somebody else suspends a Job, the operator resumes it only once
        for _ in range(16):
            left = [name for name in JOBS if self.body(name) is not None]
            for name in left:
                self.world.edit(name, suspend=False)
                self.world.settle(name)
                self.the_step_succeeds(name, parts)
            # A failed removal is retried after 300 seconds.
            self.world.cluster.now += timedelta(seconds=301)
        for name in JOBS:
            body = self.body(name)
            if body is not None:
                assert "deletionTimestamp" not in body["metadata"], "an orphan finalizer"
                assert self.world.settle(name) in ENDS
                assert (names.FINALIZER in body["metadata"].get("finalizers", [])) == (body["spec"]["deletionPolicy"] == "Delete")

    # --- helpers -------------------------------------------------------------------------------------------------------------

    def body(self, name: str) -> dict[str, Any] | None:
        return self.world.cluster.objects.get(("dataprepjobs", NAMESPACE, name))

    def a_verified_commit(self, name: str) -> CommitResult:
        self.manifests += 1
        digest = f"{self.manifests:064x}"
        self.verified.add((self.world.cluster.objects[("dataprepjobs", NAMESPACE, name)]["metadata"]["uid"], digest))
        return a_commit(run_id=f"run-{name}", manifest_sha256=digest)

    def unfinished(self, name: str) -> tuple[str, str, str] | None:
        """Return (step, suffix of the name, uid) of a child Job of this job that could end now."""
        body = self.body(name)
        if body is None:
            return None
        base = names.child_base(name, body["metadata"]["uid"])
        for (plural, _, child), found in self.world.cluster.objects.items():
            if plural == "jobs" and child.startswith(f"{base}-") and not ended(found) and not found["spec"].get("suspend"):
                return found["metadata"]["labels"][names.LABEL_STEP], child.removeprefix(f"{base}-"), found["metadata"]["uid"]
        return None

    def told(self, suffix: str, name: str, uid: str, message: Any, *, exit_code: int = 0) -> None:
        job = self.world.job(suffix, name)
        body = {
            "metadata": {
                "name": f"{job['metadata']['name']}-pod",
                "labels": job["spec"]["template"]["metadata"]["labels"],
                "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
                "ownerReferences": [{"kind": "Job", "name": job["metadata"]["name"], "uid": uid, "controller": True}],
            },
            "status": self.world.ended(exit_code, message),
        }
        self.world.cluster.add("pods", NAMESPACE, body)

    def end(self, suffix: str, name: str, condition: str, **status: Any) -> None:
        told = {key: value for key, value in status.items() if value is not None}
        why = {"reason": "PodFailurePolicy", "message": "Container dataprep failed"} if condition == "Failed" else {}
        job = self.world.job(suffix, name)["metadata"]["name"]
        self.world.cluster.change("jobs", job, {"status": {"conditions": [{"type": condition, "status": "True", **why}], **told}})


def has_variable(job: dict[str, Any], name: str) -> bool:
    [container] = job["spec"]["template"]["spec"]["containers"]
    return any(variable["name"] == name for variable in container["env"])


def ended(job: dict[str, Any]) -> bool:
    return any(condition["status"] == "True" for condition in (job.get("status") or {}).get("conditions") or [])


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=ROUNDS, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
