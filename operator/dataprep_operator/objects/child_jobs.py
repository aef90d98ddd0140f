"""Parses the child Jobs of a DataPrepJob. All functions are pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dataprep_api import KIND, names
from dataprep_operator.objects import times, untrusted
from dataprep_operator.objects.owners import controller
from dataprep_operator.objects.pods import CONTAINER

ANNOTATION_TASKS: Final = "dataprep.io/tasks"
"""Annotation on a convert Job that runs only some tasks. The annotation maps each completion index of the Job to a task."""
ANNOTATION_PLAN: Final = "dataprep.io/plan-sha256"
ANNOTATION_SPEC: Final = "dataprep.io/spec-sha256"
"""Annotation on every child Job: the digest of the spec in the DataPrepJob's ConfigMap."""
ANNOTATION_SUSPEND: Final = "dataprep.io/suspend"
"""Annotation on every child Job without a queue: the value that the operator last set `suspend` to, or RESUMED."""
RESUMED: Final = "resumed"
"""Value of the annotation after the operator has resumed a Job that somebody else suspended."""
QUEUE_DOMAIN: Final = "kueue.x-k8s.io"
QUEUE_LABEL: Final = f"{QUEUE_DOMAIN}/queue-name"
CLEANUP: Final = "cleanup"
"""The step whose Job removes a deleted job's output."""


@dataclass(frozen=True)
class Child:
    """A parsed child Job."""

    name: str
    namespace: str
    uid: str
    owner_uid: str
    """The uid of the DataPrepJob."""
    owner_name: str
    step: str
    attempt: int
    created: datetime | None = None
    suspended: bool = False
    queued: bool = False
    """Whether Kueue decides when the Job runs."""
    suspended_by_others: bool = False
    """Whether the Job is suspended although the operator didn't suspend it: by Kueue's `manageJobsWithoutQueueName` or by hand."""
    resumed: bool = False
    """Whether the operator has already resumed the Job once."""
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
    """Digest of the spec that the Job's pods mount. None if an older operator created the Job."""
    deleting: bool = False
    image: str | None = None
    """The image of the Job's pods. The image may differ from the current default, if an older operator created the Job."""

    @property
    def finished(self) -> bool:
        """Whether the Job is complete or failed."""
        return self.complete or self.failed


# Any, because a Job is a JSON object of the API.
def read(raw: Mapping[str, Any]) -> Child:
    """Parse a child Job."""
    metadata, spec, status = raw["metadata"], untrusted.mapping(raw.get("spec")), untrusted.mapping(raw.get("status"))
    labels, annotations = untrusted.mapping(metadata.get("labels")), untrusted.mapping(metadata.get("annotations"))
    owner = controller(raw)
    owner = owner if owner.get("kind") == KIND else {}
    conditions = {kind: condition for kind, condition in untrusted.conditions(status).items() if condition.get("status") == "True"}
    # FailureTarget, which Kubernetes sets first, is ignored: only Failed means that the Job's last pod has ended.
    failure = conditions.get("Failed") or {}
    end = failure or conditions.get("Complete") or {}
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
        failure_reason=untrusted.text(failure.get("reason")),
        failure_message=untrusted.text(failure.get("message")),
        started_at=times.parse(status.get("startTime")),
        ended_at=times.parse(status.get("completionTime") or end.get("lastTransitionTime")),
        tasks=untrusted.text(annotations.get(ANNOTATION_TASKS)) or None,
        plan_sha256=untrusted.text(annotations.get(ANNOTATION_PLAN)) or None,
        spec_sha256=untrusted.text(annotations.get(ANNOTATION_SPEC)) or None,
        deleting="deletionTimestamp" in metadata,
        image=_image(spec),
    )


def _image(spec: Mapping[str, Any]) -> str | None:
    pod = untrusted.mapping(untrusted.mapping(spec.get("template")).get("spec"))
    images = [
        untrusted.text(container.get("image"))
        for container in untrusted.mappings(pod.get("containers"))
        if container.get("name") == CONTAINER
    ]
    return images[0] or None if images else None
