"""Random sequences of events for a job in a Kueue queue.

Whatever the queue, the users and the pods do, the job's pods stay within the quota, and the job succeeds in the end.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.operator.world import NAMESPACE, World, a_failure, a_scan

from dataprep_api import names
from dataprep_api.reasons import Reason
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.objects import job_steps
from dataprep_operator.objects.child_jobs import ANNOTATION_PLACEMENT, QUEUE_LABEL

pytestmark = pytest.mark.slow

ADMITTED: Final = 2
"""The number of pods that the queue admits. The job asks for four."""
MOVES: Final = (
    "admit", "admit", "evict", "another flavor", "succeed", "succeed", "succeed", "half", "out of memory", "lost message", "deleted Job",
    "restart", "suspend", "resume", "no queues", "queues", "label", "later",
)  # fmt: skip


class QueuedLife:
    """One job, the queue that admits it, and its pods."""

    def __init__(self, *, parts: int, slices: int | None, kueue: bool) -> None:
        self.world = World(kueue=kueue)
        self.parts, self.slices = parts, slices
        workers = {"parallelism": 4, "resources": {"limits": {"memory": "1Gi"}}}
        self.world.apply(labels={QUEUE_LABEL: "research"} if kueue else {}, workers=workers, retry={"memoryGrowth": 2, "maxMemory": "64Gi"})
        self.checked: set[str] = set()
        """The uids of the Jobs that were checked when they were created."""
        self.settle()

    def settle(self) -> None:
        """Reconcile until nothing changes, and check each Job when it is created."""
        listen = self.world.cluster.watch

        def watch(plural: str, body: Body, gone: bool) -> None:
            if plural == "jobs" and body["metadata"]["uid"] not in self.checked:
                self.checked.add(body["metadata"]["uid"])
                assert not is_within_quota(body) or body["spec"]["parallelism"] <= ADMITTED, "a new Job has the admitted number of pods"
            listen(plural, body, gone)

        self.world.cluster.watch = watch
        self.world.settle()
        self.world.cluster.watch = listen

    def move(self, name: str) -> None:
        match name:
            case "admit" | "another flavor":
                self.admit(pool="spot" if name == "admit" else "on-demand")
            case "evict":
                for suffix, _ in self.waiting(suspended=False):
                    self.change(suffix, {"spec": {"suspend": True}})
            case "restart":
                self.world.restart()
            case "suspend" | "resume":
                self.world.edit(suspend=name == "suspend")
            case "queues" | "no queues":
                self.world.settings = replace(self.world.settings, kueue=name == "queues")
                self.world.restart()
            case "label":
                self.world.cluster.change("dataprepjobs", "mnist", {"metadata": {"labels": {QUEUE_LABEL: "research"}}})
            case "later":
                self.world.cluster.now += timedelta(seconds=31)
            case _:
                self.act(name)
        self.settle()

    def act(self, name: str) -> None:
        """If a step is running, make its pods do what `name` describes, or delete the step's Job."""
        found = next((suffix for suffix, job in self.steps() if not job["spec"].get("suspend")), None)
        if found is None:
            return
        job, step = self.world.job(found), self.world.job(found)["metadata"]["labels"][names.LABEL_STEP]
        completions = job["spec"].get("completions", 1)
        match name:
            case "succeed" if job_steps.is_indexed(step):
                self.world.complete(found, completedIndexes=f"0-{completions - 1}" if completions > 1 else "0")
            case "succeed" if step == "commit":
                self.world.committed(found)
            case "succeed":
                self.planned(found, job)
            case "half" if job_steps.is_indexed(step) and completions > 1:
                self.change(found, {"status": {"completedIndexes": f"0-{completions // 2 - 1}" if completions > 3 else "0"}})
            case "out of memory":
                self.world.pod(found, self.world.ended(137, a_failure(Reason.OUT_OF_MEMORY, "too large"), reason="OOMKilled"))
                self.world.fail(found, "BackoffLimitExceeded")
            case "lost message" if not job_steps.is_indexed(step):
                self.world.complete(found)
            case "deleted Job":
                self.world.cluster.remove("jobs", NAMESPACE, job["metadata"]["name"])

    def planned(self, suffix: str, job: Body) -> None:
        variables = {variable["name"] for variable in job["spec"]["template"]["spec"]["containers"][0]["env"]}
        if self.parts and names.MAY_SCAN in variables:
            self.world.pod(suffix, self.world.ended(0, a_scan(parts=self.parts)))
            self.world.complete(suffix)
        else:
            self.world.planned(suffix, shuffle_tasks=self.slices if names.TWO_ROUNDS in variables else None)

    def admit(self, *, pool: str) -> None:
        for suffix, job in self.waiting(suspended=True):
            fields = {"suspend": False, "template": {"spec": {"nodeSelector": {"pool": pool}}}}
            is_queue_job = job["metadata"]["labels"][names.LABEL_STEP] == "queue"
            self.change(suffix, {"spec": fields | ({"parallelism": ADMITTED} if is_queue_job else {})})

    def steps(self) -> list[tuple[str, Body]]:
        """The unfinished Jobs of steps, keyed by the last part of their names."""
        jobs = [(suffix, self.world.job(suffix)) for suffix in self.world.jobs()]
        return [
            (suffix, job) for suffix, job in jobs if job["metadata"]["labels"][names.LABEL_STEP] in job_steps.BY_LABEL and not _ended(job)
        ]

    def waiting(self, *, suspended: bool) -> list[tuple[str, Body]]:
        """The unfinished Jobs in the queue: only suspended Jobs, or only active Jobs."""
        jobs = [(suffix, self.world.job(suffix)) for suffix in self.world.jobs()]
        in_queue = [(suffix, job) for suffix, job in jobs if QUEUE_LABEL in job["metadata"]["labels"] and not _ended(job)]
        return [(suffix, job) for suffix, job in in_queue if bool(job["spec"].get("suspend")) is suspended]

    def change(self, suffix: str, body: Body) -> None:
        self.world.cluster.change("jobs", self.world.job(suffix)["metadata"]["name"], body)

    def check(self) -> None:
        """Check that at most one step works. If there is a queue Job, also check that the step stays within the admitted quota."""
        working = [job for _, job in self.steps() if not job["spec"].get("suspend")]
        assert len(working) <= 1
        for job in working:
            if is_within_quota(job) and self.world.settings.kueue:
                admitted = [suffix for suffix, _ in self.waiting(suspended=False) if suffix.startswith("queue")]
                assert admitted, "nothing runs without quota"
                assert job["spec"]["parallelism"] <= ADMITTED

    def ends_well(self) -> str:
        self.world.edit(suspend=False)
        for _ in range(16):
            self.world.cluster.now += timedelta(seconds=301)
            self.settle()
            self.admit(pool="spot")
            self.settle()
            self.act("succeed")
            self.check()
        return self.world.settle()


def is_within_quota(job: Body) -> bool:
    return ANNOTATION_PLACEMENT in job["metadata"].get("annotations", {})


def _ended(job: dict[str, Any]) -> bool:  # Any: JSON
    return any(condition["status"] == "True" for condition in (job.get("status") or {}).get("conditions") or [])


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    moves=st.lists(st.sampled_from(MOVES), max_size=25),
    parts=st.sampled_from([0, 2, 5]),
    slices=st.sampled_from([None, 3]),
    kueue=st.booleans(),
)
def test_a_queued_job_stays_within_its_quota_and_ends_well(moves: list[str], parts: int, slices: int | None, kueue: bool) -> None:
    life = QueuedLife(parts=parts, slices=slices, kueue=kueue)
    for move in moves:
        life.move(move)
        life.check()

    assert life.ends_well() == "Succeeded"
