"""Parses a pod: its termination message, and the scheduler's and kubelet's reports about it. All functions are pure.

This module reads a single pod. `steps.py` evaluates all pods of a step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from dataprep_api import names
from dataprep_api.dataset import messages
from dataprep_api.dataset.messages import FailureResult, Message
from dataprep_api.errors import MessageError
from dataprep_api.exits import Exit
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import Failure
from dataprep_operator.objects import job_steps, times, untrusted

CONTAINER: Final = "dataprep"
CODE_CONTAINER: Final = "dataprep-code"
"""The init container that fetches code from Git."""
INDEX_ANNOTATION: Final = "batch.kubernetes.io/job-completion-index"
STUCK_CREATING_SECONDS: Final = 10.0
STUCK_TERMINATING_SECONDS: Final = 60.0
LINGERING_SECONDS: Final = 10.0

_IMAGE_REASONS: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"}
)
_CONFIG_REASONS: Final = frozenset({"CreateContainerConfigError"})
_REFUSED_REASONS: Final = frozenset({"CreateContainerError", "RunContainerError"})
_CREATING_REASONS: Final = frozenset({"ContainerCreating", "PodInitializing"})
_MISSING_OBJECT_PHRASES: Final = ("not found", "references non-existent")


@dataclass(frozen=True)
class Blockage:
    """The reason why a pod, or all pods of a step, can't start."""

    reason: Reason
    message: str
    since: datetime | None = None
    fatal: bool = False
    """Whether only the user can remove the blockage. Such a blockage fails the job after a grace period."""


@dataclass(frozen=True)
class Pod:
    """A parsed pod of a child Job."""

    name: str
    namespace: str
    uid: str
    version: str
    """The resourceVersion."""
    owner_uid: str
    """The uid of the Job that controls the pod."""
    owner_name: str
    phase: str
    step: str
    attempt: int = 0
    created: datetime | None = None
    scheduled_at: datetime | None = None
    unschedulable: Blockage | None = None
    waiting: Blockage | None = None
    creating: bool = False
    """Whether the pod is scheduled, but its container has not been created yet."""
    deletion_due: datetime | None = None
    """The end of the pod's grace period, if the pod is being deleted."""
    disrupted_at: datetime | None = None
    """Transition time of the pod's `DisruptionTarget` condition."""
    disrupted_by: str = ""
    kubelet_message: str = ""
    """The kubelet's message when it evicts the pod, for example because an emptyDir exceeds its size limit."""
    index: int | None = None
    exit_code: int | None = None
    exit_reason: str | None = None
    finished_at: datetime | None = None
    message: str = ""
    script: bool = False
    """Whether the pod runs the user's program. The operator doesn't interpret that program's exit codes and messages."""

    @property
    def finished(self) -> bool:
        """Whether all containers of the pod have ended."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def scheduled(self) -> bool:
        """Whether the pod is assigned to a node."""
        return self.scheduled_at is not None

    @property
    def started(self) -> bool:
        """Whether the pod's container has started."""
        return self.finished or (self.phase == "Running")

    @property
    def terminated_unprompted(self) -> bool:
        """Whether the pod ended with SIGTERM's exit code although it was neither disrupted nor deleted."""
        return self.phase == "Failed" and self.exit_code == Exit.TERMINATED and self.disrupted_at is None and self.deletion_due is None

    def stuck_creating(self, now: datetime) -> bool:
        """Return whether creating the container takes too long. Then the pod's Events should be read to find the reason."""
        waited_seconds = times.seconds_between(self.scheduled_at, now) if self.creating else None
        return waited_seconds is not None and waited_seconds > STUCK_CREATING_SECONDS

    def stuck_terminating(self, now: datetime) -> bool:
        """Return whether the termination of a deleted pod is overdue, because the pod's node is lost or unreachable."""
        overdue_seconds = times.seconds_between(self.deletion_due, now) if not self.finished else None
        return overdue_seconds is not None and overdue_seconds >= STUCK_TERMINATING_SECONDS

    def awaits_finalizer(self, now: datetime) -> bool:
        """Return whether the pod is finished and deleted, but still exists because of a finalizer.

        The Job controller removes the finalizer when the Job creates a replacement pod.
        """
        overdue_seconds = times.seconds_between(self.deletion_due, now) if self.finished else None
        return overdue_seconds is not None and overdue_seconds >= LINGERING_SECONDS

    @cached_property
    def result(self) -> Message | None:
        """The pod's termination message, if dataprep wrote it."""
        try:
            return messages.parse(self.message) if self.message else None
        except MessageError:
            return None

    @cached_property
    def failure(self) -> Failure | None:
        """The reason why the pod failed, or None if it didn't fail or was asked to stop."""
        return _failure(self) if self.phase == "Failed" else None


# Any, because a Pod is a JSON object of the API server.
def read(raw: Mapping[str, Any]) -> Pod:
    """Parse a pod."""
    metadata, status = raw["metadata"], untrusted.mapping(raw.get("status"))
    conditions = untrusted.conditions(status)
    scheduled = conditions.get("PodScheduled", {})
    scheduled_at = times.parse(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None
    fetch_state = _container_state(status, "initContainerStatuses", CODE_CONTAINER)
    is_fetching = "waiting" in fetch_state or bool(untrusted.mapping(fetch_state.get("terminated")).get("exitCode"))
    state = fetch_state if is_fetching else _container_state(status, "containerStatuses", CONTAINER)
    terminated, waiting = untrusted.mapping(state.get("terminated")), untrusted.mapping(state.get("waiting"))
    labels, annotations = untrusted.mapping(metadata.get("labels")), untrusted.mapping(metadata.get("annotations"))
    phase, exit_code = untrusted.text(status.get("phase")) or "Pending", terminated.get("exitCode")
    disruption = conditions.get("DisruptionTarget", {})
    is_disrupted = disruption.get("status") == "True"
    owner = _controlling_job(metadata)
    return Pod(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        version=untrusted.text(metadata.get("resourceVersion")),
        owner_uid=untrusted.text(owner.get("uid")),
        owner_name=untrusted.text(owner.get("name")),
        phase=phase,
        step=untrusted.text(labels.get(names.LABEL_STEP)),
        attempt=untrusted.number(labels.get(names.LABEL_ATTEMPT)),
        created=times.parse(metadata.get("creationTimestamp")),
        scheduled_at=scheduled_at,
        unschedulable=_unschedulable_blockage(scheduled),
        waiting=_waiting_blockage(waiting),
        creating=scheduled_at is not None
        and phase == "Pending"
        and untrusted.text(waiting.get("reason", "ContainerCreating")) in _CREATING_REASONS,
        deletion_due=times.parse(metadata.get("deletionTimestamp")),
        disrupted_at=times.parse(disruption.get("lastTransitionTime")) if is_disrupted else None,
        disrupted_by=str(disruption.get("reason") or "") if is_disrupted else "",
        kubelet_message=str(status.get("message") or "") if status.get("reason") == "Evicted" else "",
        index=untrusted.number(annotations[INDEX_ANNOTATION]) if INDEX_ANNOTATION in annotations else None,
        exit_code=untrusted.number(exit_code) if exit_code is not None else None,
        exit_reason=untrusted.text(terminated.get("reason")) or None,
        finished_at=times.parse(terminated.get("finishedAt")),
        message=untrusted.text(terminated.get("message")),
        script=annotations.get(names.ANNOTATION_SCRIPT) == "true" and labels.get(names.LABEL_STEP) == "convert" and not is_fetching,
    )


def missing_mount(pod_events: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the message of the latest Event that reports a missing object for one of the pod's volumes. Slow mounts don't count."""
    for event in reversed(pod_events):
        message = untrusted.text(event.get("message"))
        if event.get("reason") in ("FailedMount", "FailedAttachVolume") and any(phrase in message for phrase in _MISSING_OBJECT_PHRASES):
            return message
    return None


def pod_creation_error(job_events: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why the API server refuses to create a Job's pods, according to the Job's Events."""
    return next((untrusted.text(event.get("message")) for event in reversed(job_events) if event.get("reason") == "FailedCreate"), None)


def is_temporary(refusal: str) -> bool:
    """Return whether a refusal may be temporary, for example because a quota is full."""
    return "exceeded quota" in refusal


def _failure(pod: Pod) -> Failure | None:
    is_evicted = bool(pod.kubelet_message) and pod.disrupted_at is None
    if pod.exit_code in (None, Exit.DONE) and not is_evicted:
        return None
    if pod.exit_code == Exit.TERMINATED and not (pod.terminated_unprompted or is_evicted):
        return None
    result = pod.result if not pod.script else None
    report = result if isinstance(result, FailureResult) else None
    reason, message = _reason_and_message(pod, report)
    return Failure(
        reason=reason,
        message=message[:1024],
        step=job_steps.BY_LABEL[pod.step].name if pod.step in job_steps.BY_LABEL else None,
        index=report.index if report and report.index is not None else pod.index,
        shard=report.shard if report else None,
        input=report.input[:512] if report and report.input else None,
        pod=pod.name[:256],
        exit_code=pod.exit_code,
        at=times.text(pod.finished_at) if pod.finished_at else None,
    )


_REASONS_BY_EXIT: Final[Mapping[int, Reason]] = {
    Exit.BAD_SPEC: Reason.INVALID_SPEC,
    Exit.BAD_DATA: Reason.BAD_RECORDS,
    Exit.UNREACHABLE: Reason.STORE_UNREACHABLE,
    Exit.NOT_FOUND: Reason.NOT_PERMITTED,
}


def _reason_and_message(pod: Pod, report: FailureResult | None) -> tuple[Reason, str]:
    if report is not None:
        return report.reason, report.message
    if pod.kubelet_message and pod.disrupted_at is None:
        return Reason.BACKOFF_LIMIT_EXCEEDED, f"The kubelet ended the pod: {pod.kubelet_message}"
    if pod.exit_reason == "OOMKilled":
        return Reason.OUT_OF_MEMORY, f"The container needed more memory than its limit (OOMKilled); raise {_memory_field(pod)}."
    # A plan pod that also does a small job's work reports the plan before it begins the work. So its message doesn't explain the failure.
    has_last_words = pod.message.strip() and (pod.script or pod.result is None)
    last_words = f": {pod.message.strip()[-700:]}" if has_last_words else ""
    reason = _REASONS_BY_EXIT.get(pod.exit_code or 0, Reason.INTERNAL_ERROR if pod.exit_code != 137 else Reason.BACKOFF_LIMIT_EXCEEDED)
    if pod.script:
        reason = Reason.SCRIPT_FAILED
    program = "script" if pod.script else "container"
    ending = "was killed (exit code 137)" if pod.exit_code == 137 else f"ended with exit code {pod.exit_code}"
    if pod.terminated_unprompted:
        ending += ", as if it had been told to stop, but it was neither evicted nor deleted"
    return reason, f"The {program} {ending}{last_words}"


def _memory_field(pod: Pod) -> str:
    """Return the spec field that sets the pod's memory."""
    if not job_steps.has_single_pod(pod.step):
        return "workers.resources.limits.memory"
    if pod.index is None:
        return "planning.resources.limits.memory"
    # Pods of the plan step have indexes only on Spark. The size of Spark's heap is fixed, so the memory was used by the Python processes
    # outside the heap.
    return f"engine.spark.{'driver' if pod.index == 0 else 'executor'}.memoryOverhead"


def _container_state(status: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    for container in untrusted.mappings(status.get(kind)):
        if container.get("name") == name:
            return untrusted.mapping(container.get("state"))
    return {}


def _unschedulable_blockage(condition: Mapping[str, Any]) -> Blockage | None:
    if condition.get("status") != "False" or condition.get("reason") != "Unschedulable":
        return None
    return Blockage(
        reason=Reason.UNSCHEDULABLE,
        message=untrusted.text(condition.get("message")) or "the pod can't be scheduled on any node",
        since=times.parse(condition.get("lastTransitionTime")),
    )


def _waiting_blockage(waiting: Mapping[str, Any]) -> Blockage | None:
    reason, message = untrusted.text(waiting.get("reason")), untrusted.text(waiting.get("message"))
    for kubelet_reasons, blockage_reason in (
        (_IMAGE_REASONS, Reason.IMAGE_PULL_FAILED),
        (_CONFIG_REASONS, Reason.CONFIG_MISSING),
        (_REFUSED_REASONS, Reason.POD_REFUSED),
    ):
        if reason in kubelet_reasons:
            return Blockage(reason=blockage_reason, message=f"{reason}: {message}" if message else reason, fatal=True)
    return None


def _controlling_job(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the owner reference of the controlling Job, or an empty mapping."""
    controller = next((owner for owner in untrusted.mappings(metadata.get("ownerReferences")) if owner.get("controller")), {})
    return controller if controller.get("kind") == "Job" else {}
