"""What is there: one DataPrepJob with its children, as the caches and a few look-ups show it. Values only; nothing here decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from dataprep_api import KIND, names
from dataprep_api.dataset.messages import CommitResult, PlanResult, WorkResult
from dataprep_api.resources.status import TERMINAL_PHASES, DataPrepJobStatus, FromJob, RecordProgress
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.objects import times, untrusted
from dataprep_operator.objects.pods import CONTAINER, Blockage, Pod

ANNOTATION_TASKS: Final = "dataprep.io/tasks"
"""On a convert Job: the tasks behind its indexes, when it is not all of them."""
ANNOTATION_PLAN: Final = "dataprep.io/plan-sha256"
ANNOTATION_SPEC: Final = "dataprep.io/spec-sha256"
"""On every child Job: the digest of the spec that the job's ConfigMap keeps."""
ANNOTATION_SUSPEND: Final = "dataprep.io/suspend"
"""On every child Job that no queue's label is on: the `suspend` that the operator has last asked for, or RESUMED."""
RESUMED: Final = "resumed"
"""The operator has started the Job again after somebody else suspended it."""
QUEUE_DOMAIN: Final = "kueue.x-k8s.io"
QUEUE_LABEL: Final = f"{QUEUE_DOMAIN}/queue-name"
CLEANUP: Final = "cleanup"
"""The step of the Job that removes a deleted job's output."""


class Key(NamedTuple):
    """The place of a DataPrepJob, or of a DataPrepCronJob."""

    namespace: str
    name: str
    kind: str = KIND

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Child:
    """One child Job, read."""

    name: str
    namespace: str
    uid: str
    owner_uid: str
    """The DataPrepJob's."""
    owner_name: str
    step: str
    attempt: int
    created: datetime | None = None
    suspended: bool = False
    queued: bool = False
    """Whether a queue decides when it runs."""
    suspended_by_others: bool = False
    """Whether it stands still although the operator wants it to run: Kueue's `manageJobsWithoutQueueName`, or somebody by hand."""
    resumed: bool = False
    """Whether the operator has started it again once, after somebody else suspended it."""
    parallelism: int = 1
    completions: int = 1
    active: int = 0
    completed_indexes: str = ""
    failed_indexes: str = ""
    complete: bool = False
    failed: bool = False
    failure_reason: str = ""
    failure_message: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    tasks: str | None = None
    plan_sha256: str | None = None
    spec_sha256: str | None = None
    """Of the spec that its pods get. None of a Job that an older operator made."""
    deleting: bool = False
    image: str | None = None
    """What its pods run: an operator of another release, with another default, may have made it."""

    @property
    def finished(self) -> bool:
        """Whether the Job controller is through with it."""
        return self.complete or self.failed


@dataclass(frozen=True)
class Live:
    """What the workers report, added up."""

    shards_done: int = 0
    shards_active: int = 0
    records: RecordProgress = field(default_factory=RecordProgress)
    bytes_in: int = 0
    bytes_out: int = 0
    records_per_second: float | None = None
    bytes_per_second: float | None = None


@dataclass(frozen=True)
class Awaited:
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
    guarded: bool = False
    """Whether our finalizer makes a deletion wait."""
    removes: bool = False
    """Whether `deletionPolicy` is Delete, by the spec as it is now."""
    doomed: bool = False
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
    missed: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    """When a child that was there, by its step and attempt, was first found gone."""
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """By the uid of their Job."""
    rival: Key | None = None
    """Another unfinished job with the same output and the better claim."""
    profile: str | None = None
    """The DataPrepProfile that has filled in what the job leaves out."""
    profile_missing: str | None = None
    """The one that the job names and that isn't there."""
    awaited: tuple[Awaited, ...] = ()
    """Jobs that this one waits for, until it starts."""
    leaving: Key | None = None
    """A deleted job whose output, the same as this one's, is still being removed."""
    keeper: Key | None = None
    """Of a deleted job: another one that has its data set, or writes to its output."""
    pods_left: tuple[Pod, ...] = ()
    """Of a deleted job: pods that may still write."""
    circle: tuple[Key, ...] = ()
    """Jobs that wait for each other, from this one back to this one."""
    missing: Blockage | None = None
    """What Events say about pods that can't be made or started."""
    refusal: Blockage | None = None
    """What the API server said when a child was last created."""
    live: Live = Live()

    @property
    def finished(self) -> bool:
        """Whether the job's phase is final."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def child_prefix(self) -> str:
        """How the names of its children begin. Those of a job that began before statuses said so keep theirs: none is made twice."""
        told = self.status.child_prefix
        named = names.first_child_base if self.status.start_time is not None else names.child_base
        return told or named(self.key.name, self.uid)

    @property
    def retry_wanted(self) -> bool:
        """Whether the user asked for another attempt of a failed job."""
        return self.status.phase == "Failed" and self.retry is not None and self.retry != self.status.handled_retry

    @property
    def written_runs(self) -> list[str]:
        """Ids of the runs that the job has made, the last one first; a data set that it found finished is not among them."""
        told = [result.run_id for child in self.children if isinstance(result := self.result_of(child), PlanResult) and not result.reused]
        found = [self.status.run_id, *(run.run_id for run in self.status.runs), *told]
        return list(dict.fromkeys(run for run in found if run and not (self.status.reused and run == self.status.run_id)))

    def called(self, other: Key, *, how: str = "") -> str:
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
        found: dict[int, WorkResult] = {}
        for child in self.children:
            for pod in self.pods_of(child) if child.step == "convert" else ():
                result = pod.result if pod.phase == "Succeeded" else None
                if isinstance(result, WorkResult):
                    found[result.index] = result
        return found

    def result_of(self, child: Child) -> PlanResult | CommitResult | None:
        """The message of the plan or commit step's pod that succeeded."""
        for pod in self.pods_of(child):
            result = pod.result if pod.phase == "Succeeded" else None
            if isinstance(result, PlanResult if child.step == "plan" else CommitResult):
                return result
        return None


# Any: a Job as the API server's JSON.
def read_child(raw: Mapping[str, Any]) -> Child:
    """The child Job in the API server's JSON."""
    metadata, spec, status = raw["metadata"], untrusted.mapping(raw.get("spec")), untrusted.mapping(raw.get("status"))
    labels, annotations = untrusted.mapping(metadata.get("labels")), untrusted.mapping(metadata.get("annotations"))
    owner = controller(raw)
    owner = owner if owner.get("kind") == KIND else {}
    conditions = {kind: each for kind, each in untrusted.conditions(status).items() if each.get("status") == "True"}
    # FailureTarget comes first and names the real reason; Failed follows when the last pod is gone.
    broken = conditions.get("Failed") or {}
    ended = broken or conditions.get("Complete") or {}
    return Child(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        owner_uid=untrusted.text(owner.get("uid")),
        owner_name=untrusted.text(owner.get("name")),
        step=untrusted.text(labels.get(names.LABEL_STEP)),
        attempt=untrusted.number(labels.get(names.LABEL_ATTEMPT)),
        created=times.parse(metadata.get("creationTimestamp")),
        suspended=bool(spec.get("suspend")),
        queued=QUEUE_LABEL in labels,
        suspended_by_others=bool(spec.get("suspend"))
        and QUEUE_LABEL not in labels
        and annotations.get(ANNOTATION_SUSPEND) in ("false", RESUMED),
        resumed=annotations.get(ANNOTATION_SUSPEND) == RESUMED,
        parallelism=untrusted.number(spec.get("parallelism"), 1),
        completions=untrusted.number(spec.get("completions"), 1),
        active=untrusted.number(status.get("active")),
        completed_indexes=untrusted.text(status.get("completedIndexes")),
        failed_indexes=untrusted.text(status.get("failedIndexes")),
        complete="Complete" in conditions,
        failed="Failed" in conditions,
        failure_reason=untrusted.text(broken.get("reason")),
        failure_message=untrusted.text(broken.get("message")),
        started_at=times.parse(status.get("startTime")),
        ended_at=times.parse(status.get("completionTime") or ended.get("lastTransitionTime")),
        tasks=untrusted.text(annotations.get(ANNOTATION_TASKS)) or None,
        plan_sha256=untrusted.text(annotations.get(ANNOTATION_PLAN)) or None,
        spec_sha256=untrusted.text(annotations.get(ANNOTATION_SPEC)) or None,
        deleting="deletionTimestamp" in metadata,
        image=_image(spec),
    )


def _image(spec: Mapping[str, Any]) -> str | None:
    pod = untrusted.mapping(untrusted.mapping(spec.get("template")).get("spec"))
    found = [untrusted.text(each.get("image")) for each in untrusted.mappings(pod.get("containers")) if each.get("name") == CONTAINER]
    return found[0] or None if found else None


def controller(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ownerReference of the object's controller, or an empty mapping."""
    return next((owner for owner in untrusted.mappings(raw["metadata"].get("ownerReferences")) if owner.get("controller")), {})


def owned_by(raw: Mapping[str, Any], *, uid: str) -> bool:
    """Whether the DataPrepJob with that uid controls the object."""
    owner = controller(raw)
    return owner.get("kind") == KIND and owner.get("uid") == uid
