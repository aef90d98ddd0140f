"""The kinds of actions that a job may need. `actions.py` decides which of them a job needs, and the actuator performs them."""

from collections.abc import Mapping
from dataclasses import dataclass

from dataprep_operator.children.metadata import Body
from dataprep_operator.children.spark_jobs import Network
from dataprep_operator.decisions.events import Note
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.finished_tasks import SucceededWorker
from dataprep_operator.objects.pods import Pod


@dataclass(frozen=True)
class CreateJob:
    """Create the spec's ConfigMap if it doesn't exist, and then the child Job."""

    body: Body
    config_map: Body
    network: Network | None = None
    """The objects that the pods of a Spark cluster need to find and authenticate each other. They are created before the Job."""


@dataclass(frozen=True)
class EnsureConfigMap:
    """Recreate the spec's ConfigMap if it doesn't exist, because a pod may be waiting for it."""

    config_map: Body


@dataclass(frozen=True)
class PatchJob:
    """Patch a child Job."""

    child: Child
    spec: Body
    event_message: str = ""
    """Message of the Event about the change, or empty for no Event."""


@dataclass(frozen=True)
class PatchJobStatus:
    """Patch the status of the queue Job, which no other controller writes."""

    child: Child
    status: Body


@dataclass(frozen=True)
class Enqueue:
    """Put a suspended child Job into the job's queue."""

    child: Child
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class DeleteJob:
    """Delete a child Job and its pods."""

    child: Child


@dataclass(frozen=True)
class DeletePod:
    """Delete a finished pod."""

    pod: Pod | SucceededWorker


@dataclass(frozen=True)
class FailPod:
    """Mark a pod as failed, because its node doesn't confirm that the pod has ended."""

    pod: Pod


@dataclass(frozen=True)
class DeleteSelf:
    """Delete the DataPrepJob."""


@dataclass(frozen=True)
class SetFinalizer:
    """Add or remove the finalizer that delays deletion until the output is removed."""

    on: bool


@dataclass(frozen=True)
class EmitEvent:
    """Record an Event."""

    note: Note


Action = (
    SetFinalizer
    | EmitEvent
    | CreateJob
    | EnsureConfigMap
    | PatchJob
    | PatchJobStatus
    | Enqueue
    | DeleteJob
    | DeletePod
    | FailPod
    | DeleteSelf
)
