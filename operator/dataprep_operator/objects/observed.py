"""What is there: one DataPrepJob with its children, as the caches and a few look-ups show it. Values only; nothing here decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from dataprep_api import KIND, names
from dataprep_api.dataset.messages import CommitResult, PlanResult, WorkResult
from dataprep_api.resources.status import TERMINAL_PHASES, DataPrepJobStatus, FromJob, RecordProgress
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.pods import Blockage, Pod


class Key(NamedTuple):
    """The place of a DataPrepJob, or of a DataPrepCronJob."""

    namespace: str
    name: str
    kind: str = KIND

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class LiveProgress:
    """What the workers report, added up."""

    shards_done: int = 0
    shards_active: int = 0
    records: RecordProgress = field(default_factory=RecordProgress)
    bytes_in: int = 0
    bytes_out: int = 0
    records_per_second: float | None = None
    bytes_per_second: float | None = None


@dataclass(frozen=True)
class Dependency:
    """Another job that must be Complete before this one starts."""

    name: str
    phase: str | None
    """None when there is no such job."""
    data_set: FromJob | None = None
    """What it wrote, once it is Complete."""

    @property
    def complete(self) -> bool:
        """Whether the wait for it is over."""
        return self.phase == "Succeeded"


@dataclass(frozen=True)
class Admission:
    """What a queue says about the convert Job."""

    exists: bool = False
    """Whether there is a Workload for it at all."""
    reserved: bool = False
    message: str = ""
    position: int | None = None
    """Among those that wait in the same queue, from 0."""


@dataclass(frozen=True)
class Observed:
    """One DataPrepJob and everything that belongs to it."""

    key: Key
    uid: str
    version: str
    """The resourceVersion that was looked at."""
    generation: int
    status: DataPrepJobStatus
    """As it was last written."""
    spec: DataPrepJobSpec | None
    """None when it can't be accepted; then `faults` or `too_new` says why."""
    # Any: the spec as the user stored it, for the ConfigMap.
    raw_spec: Mapping[str, Any]
    faults: str = ""
    too_new: tuple[str, ...] = ()
    """Fields that the CustomResourceDefinition knows and this operator doesn't, when nothing else is wrong."""
    deleting: bool = False
    has_finalizer: bool = False
    """Whether our finalizer makes a deletion wait."""
    deletes_output: bool = False
    """Whether `deletionPolicy` is Delete, by the spec as it is now."""
    namespace_terminating: bool = False
    """Whether its namespace is being deleted, and waits for pods that only the end of their Job lets go."""
    retry: str | None = None
    queue: str | None = None
    # Labels of a queue (kueue.x-k8s.io/…), carried over to the convert Job.
    queue_labels: Mapping[str, str] = field(default_factory=dict)
    queue_annotations: Mapping[str, str] = field(default_factory=dict)
    """The same for annotations."""
    admission: Admission | None = None
    """What the queue says; None when it wasn't asked."""
    children: tuple[Child, ...] = ()
    missing_since: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    """When a child that was there, by its step and attempt, was first found gone."""
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """By the uid of their Job."""
    rival: Key | None = None
    """Another unfinished job with the same output and the better claim."""
    profile: str | None = None
    """The DataPrepProfile that has filled in what the job leaves out."""
    profile_missing: str | None = None
    """The one that the job names and that isn't there."""
    dependencies: tuple[Dependency, ...] = ()
    """Jobs that this one waits for, until it starts."""
    output_remover: Key | None = None
    """A deleted job whose output, the same as this one's, is still being removed."""
    output_user: Key | None = None
    """Of a deleted job: another one that has its data set, or writes to its output."""
    writing_pods: tuple[Pod, ...] = ()
    """Of a deleted job: pods that may still write."""
    wait_cycle: tuple[Key, ...] = ()
    """Jobs that wait for each other, from this one back to this one."""
    start_blockage: Blockage | None = None
    """What Events say about pods that can't be made or started."""
    refusal: Blockage | None = None
    """What the API server said when a child was last created."""
    live_progress: LiveProgress = LiveProgress()

    @property
    def finished(self) -> bool:
        """Whether the job's phase is final."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def child_prefix(self) -> str:
        """How the names of its children begin. Those of a job that began before statuses said so keep theirs: none is made twice."""
        reported = self.status.child_prefix
        named = names.first_child_base if self.status.start_time is not None else names.child_base
        return reported or named(self.key.name, self.uid)

    @property
    def retry_wanted(self) -> bool:
        """Whether the user asked for another attempt of a failed job."""
        return self.status.phase == "Failed" and self.retry is not None and self.retry != self.status.handled_retry

    @property
    def written_run_ids(self) -> list[str]:
        """Ids of the runs that the job has made, the last one first; a data set that it found finished is not among them."""
        reported = [
            result.run_id for child in self.children if isinstance(result := self.result_of(child), PlanResult) and not result.reused
        ]
        results = [self.status.run_id, *(run.run_id for run in self.status.runs), *reported]
        return list(dict.fromkeys(run for run in results if run and not (self.status.reused and run == self.status.run_id)))

    def describe(self, other: Key, *, how: str = "") -> str:
        """Another job in this one's messages. Who may read this namespace need not know what is in others."""
        kind = f"{how} {KIND}".strip()
        return f"the {kind} {other}" if other.namespace == self.key.namespace else f"another namespace's {kind}"

    def child(self, step: str, attempt: int) -> Child | None:
        """The Job of that step and attempt."""
        return next((child for child in self.children if child.step == step and child.attempt == attempt), None)

    def pods_of(self, child: Child) -> tuple[Pod, ...]:
        """The pods of that Job."""
        return self.pods.get(child.uid, ())

    def work_results(self) -> dict[int, WorkResult]:
        """The finished tasks' own results, by task. A task that was done twice counts once."""
        results: dict[int, WorkResult] = {}
        for child in self.children:
            for pod in self.pods_of(child) if child.step == "convert" else ():
                result = pod.result if pod.phase == "Succeeded" else None
                if isinstance(result, WorkResult):
                    results[result.index] = result
        return results

    def result_of(self, child: Child) -> PlanResult | CommitResult | None:
        """The message of the plan or commit step's pod that succeeded."""
        for pod in self.pods_of(child):
            result = pod.result if pod.phase == "Succeeded" else None
            if isinstance(result, PlanResult if child.step == "plan" else CommitResult):
                return result
        return None
