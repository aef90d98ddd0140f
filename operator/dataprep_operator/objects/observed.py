"""The observed state of one DataPrepJob and its children. This module contains only values and makes no decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from dataprep_api import KIND, names
from dataprep_api.dataset.messages import CommitResult, PlanResult, ScanRequest
from dataprep_api.resources.status import TERMINAL_PHASES, DataPrepJobStatus, FromJob, RecordProgress
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.objects import job_steps
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.finished_tasks import SucceededWorker
from dataprep_operator.objects.pods import Blockage, Pod


class Key(NamedTuple):
    """Identifies a DataPrepJob or a DataPrepCronJob."""

    namespace: str
    name: str
    kind: str = KIND

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class LiveProgress:
    """The sum of the workers' progress reports."""

    shards_done: int = 0
    shards_active: int = 0
    shards_total: int | None = None
    """A small job's number of shards, as reported by the plan pod that does the work. None if there is no such report."""
    pod_uid: str = ""
    """The uid of that plan pod."""
    records: RecordProgress = field(default_factory=RecordProgress)
    bytes_in: int = 0
    bytes_out: int = 0
    records_per_second: float | None = None
    bytes_per_second: float | None = None


@dataclass(frozen=True)
class Dependency:
    """Another job that must succeed before this job starts."""

    name: str
    phase: str | None
    """The job's phase, or None when the job doesn't exist."""
    data_set: FromJob | None = None
    """The job's output, if the job has succeeded."""

    @property
    def complete(self) -> bool:
        """Whether the job has succeeded."""
        return self.phase == "Succeeded"


@dataclass(frozen=True)
class Admission:
    """The queued Job's state in Kueue."""

    exists: bool = False
    """Whether the Job has a Workload."""
    reserved: bool = False
    message: str = ""
    position: int | None = None
    """Zero-based position among the Workloads that wait in the queue."""


@dataclass(frozen=True)
class Observed:
    """A DataPrepJob and everything that belongs to it."""

    key: Key
    uid: str
    version: str
    """The resourceVersion at which the job was read."""
    generation: int
    status: DataPrepJobStatus
    """The stored status."""
    spec: DataPrepJobSpec | None
    """The parsed spec, or None if the spec is rejected. `faults` or `too_new` gives the reason."""
    # Any, because the spec is kept as the API stores it.
    raw_spec: Mapping[str, Any]
    faults: str = ""
    too_new: tuple[str, ...] = ()
    """Spec fields that the CRD has but this operator doesn't know. Empty if the spec has other faults."""
    deleting: bool = False
    spec_digest: str = ""
    """Digest of the spec's fields that are frozen after the start, without the profile's values. Empty once the job has started."""
    has_finalizer: bool = False
    """Whether the job has the operator's finalizer."""
    deletes_output: bool = False
    """Whether the live spec's `deletionPolicy` is Delete."""
    namespace_terminating: bool = False
    """Whether the namespace is terminating. This is checked only if a deleted pod lingers, or if the output is being removed."""
    retry: str | None = None
    kueue: bool = False
    """Whether the operator may create a Job that represents all steps in the queue (the chart's `kueue.enabled`)."""
    queue: str | None = None
    # The job's kueue.x-k8s.io/… labels, which are copied to the Job in the queue.
    queue_labels: Mapping[str, str] = field(default_factory=dict)
    queue_annotations: Mapping[str, str] = field(default_factory=dict)
    """The job's kueue.x-k8s.io/… annotations."""
    admission: Admission | None = None
    """The queued Job's state in Kueue, or None if Kueue wasn't queried."""
    children: tuple[Child, ...] = ()
    missing_since: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    """Maps (step, attempt) of each child that has disappeared to the time at which it was first found missing."""
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """The pods, keyed by the uid of their Job. Succeeded pods of Indexed Jobs are included only if they were disrupted or deleted."""
    succeeded_workers: Mapping[str, tuple[SucceededWorker, ...]] = field(default_factory=dict)
    """The succeeded pods of Indexed Jobs, by the uid of their Job. There may be thousands of these pods, so they are only counted."""
    rival: Key | None = None
    """Another unfinished job that has the same output and a better claim to it."""
    profile: str | None = None
    """The DataPrepProfile whose defaults were applied."""
    profile_missing: str | None = None
    """The name of the DataPrepProfile that the job refers to, set only if no such profile exists."""
    dependencies: tuple[Dependency, ...] = ()
    """The jobs that this job waits for. Empty after it has started."""
    output_remover: Key | None = None
    """A deleted job that is still removing the same output."""
    output_user: Key | None = None
    """Another job that uses this job's data set or writes to its output. Set only if this job is deleted."""
    writing_pods: tuple[Pod, ...] = ()
    """The job's pods that may still write. Set only if the job is deleted."""
    wait_cycle: tuple[Key, ...] = ()
    """A cycle of jobs that wait for each other. The cycle starts and ends with this job."""
    start_blockage: Blockage | None = None
    """Why pods can't be created or started, according to Events."""
    refusal: Blockage | None = None
    """The API server's refusal to create the latest child, or None if there was no refusal."""
    live_progress: LiveProgress = LiveProgress()

    @property
    def finished(self) -> bool:
        """Whether the job's phase is final."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def child_prefix(self) -> str:
        """Prefix of the children's names.

        If a started job has no recorded prefix, an older operator started it, and the job keeps the older form of the prefix.
        """
        recorded_prefix = self.status.child_prefix
        make_prefix = names.first_child_base if self.status.start_time is not None else names.child_base
        return recorded_prefix or make_prefix(self.key.name, self.uid)

    @property
    def retry_wanted(self) -> bool:
        """Whether the user has requested a retry of the failed job."""
        return self.status.phase == "Failed" and self.retry is not None and self.retry != self.status.handled_retry

    @property
    def edited(self) -> bool:
        """Whether the job failed before its start and its spec has been edited since then. Only fields that the start freezes count."""
        status = self.status
        is_open = self.finished and status.start_time is None and not self.deleting
        return is_open and status.rejected_spec not in (None, self.spec_digest)

    @property
    def restart_wanted(self) -> bool:
        """Whether a finished job must be processed again."""
        return self.retry_wanted or self.edited

    @property
    def written_run_ids(self) -> list[str]:
        """Ids of the runs that this job has written, newest first. The run of a reused data set is excluded."""
        reported_ids = [
            result.run_id for child in self.children if isinstance(result := self.result_of(child), PlanResult) and not result.reused
        ]
        run_ids = [self.status.run_id, *(run.run_id for run in self.status.runs), *reported_ids]
        return list(dict.fromkeys(run_id for run_id in run_ids if run_id and not (self.status.reused and run_id == self.status.run_id)))

    def describe(self, other: Key, *, how: str = "") -> str:
        """Return a description of another job for messages. The names of jobs in other namespaces are not disclosed."""
        kind = f"{how} {KIND}".strip()
        return f"the {kind} {other}" if other.namespace == self.key.namespace else f"another namespace's {kind}"

    def child(self, step: str, attempt: int) -> Child | None:
        """Return the child Job of this step and attempt, if it exists."""
        return next((child for child in self.children if child.step == step and child.attempt == attempt), None)

    def current_child(self, status: DataPrepJobStatus) -> Child | None:
        """Return the child Job of the status's step and attempt, if it exists. A job without a status is in its plan step."""
        return self.child(job_steps.of_status(status.step).label, status.attempt)

    def pods_of(self, child: Child) -> tuple[Pod, ...]:
        """Return the Job's pods. Succeeded worker pods are included only if they were disrupted or deleted."""
        return self.pods.get(child.uid, ())

    def has_pods(self, child: Child) -> bool:
        """Return whether any pod of the Job exists."""
        return bool(self.pods_of(child) or self.succeeded_workers.get(child.uid))

    def has_started(self, child: Child) -> bool:
        """Return whether a container has started in any of the Job's pods."""
        return bool(self.succeeded_workers.get(child.uid)) or any(pod.started for pod in self.pods_of(child))

    def result_of(self, child: Child) -> PlanResult | ScanRequest | CommitResult | None:
        """Return the result that the single pod of a step reported, or None."""
        step = job_steps.BY_LABEL.get(child.step)
        kinds = step.results if step is not None else ()
        for pod in self.pods_of(child):
            result = pod.result if pod.phase == "Succeeded" else None
            if isinstance(result, kinds):
                return result
        return None
