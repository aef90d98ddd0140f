"""Parses the child Jobs of a DataPrepJob. All functions are pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dataprep_api import canonical, names
from dataprep_operator.objects import times, untrusted
from dataprep_operator.objects.owners import job_owner
from dataprep_operator.objects.pods import CONTAINER

ANNOTATION_TASKS: Final = "dataprep.io/tasks"
"""Annotation on an Indexed Job that runs only some tasks. The annotation maps each completion index of the Job to a task."""
ANNOTATION_PLAN: Final = "dataprep.io/plan-sha256"
"""Annotation on a convert Job: the digest of the plan."""
ANNOTATION_SCAN: Final = "dataprep.io/scan"
"""Annotation on a scan Job: the name of the scan and the number of its parts (`scan_digest`)."""
ANNOTATION_SPEC: Final = "dataprep.io/spec-sha256"
"""Annotation on every child Job: the digest of the spec in the DataPrepJob's ConfigMap."""
ANNOTATION_SUSPEND: Final = "dataprep.io/suspend"
"""Annotation on every child Job without a queue: the value that the operator last set `suspend` to, or RESUMED."""
RESUMED: Final = "resumed"
"""Value of ANNOTATION_SUSPEND after the operator has resumed a Job that somebody else suspended."""
QUEUE_DOMAIN: Final = "kueue.x-k8s.io"
QUEUE_LABEL: Final = f"{QUEUE_DOMAIN}/queue-name"
ANNOTATION_LEAST: Final = f"{QUEUE_DOMAIN}/job-min-parallelism"
"""Kueue's annotation for the smallest number of pods with which Kueue may admit a Job."""
ANNOTATION_PODS: Final = "dataprep.io/pods"
"""Annotation on a queue Job of a job with `planning.resources`: the number of pods among which these resources are divided."""
ANNOTATION_PLACEMENT: Final = "dataprep.io/placement"
"""Annotation on a step's Job that runs within the quota of a queue Job: the digest of its pods' placement."""
CLEANUP: Final = "cleanup"
"""The step whose Job removes a deleted job's output."""
QUEUE: Final = "queue"
"""The step whose Job has no pods. The Job represents all other steps of the job in the queue."""


@dataclass(frozen=True)
class Placement:
    """Where the pods of a queue Job may run. Kueue adds the admitted flavors' labels and tolerations to the queue Job's pod template."""

    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]  # Any, because a toleration is a JSON object of the API
    annotations: Mapping[str, str]

    def digest(self, queue_uid: str) -> str:
        """Return a digest of the placement and its queue Job's uid."""
        fields = {"nodeSelector": self.node_selector, "tolerations": self.tolerations, "annotations": self.annotations}
        return canonical.sha256({"queue": queue_uid, **fields})


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
    """Whether something other than the operator has suspended the Job: Kueue's `manageJobsWithoutQueueName`, or a user by hand."""
    resumed: bool = False
    """Whether the operator has already resumed the Job once."""
    parallelism: int = 1
    completions: int = 1
    active: int = 0
    ready: int = 0
    """The number of ready pods, for a queue Job only."""
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
    scan: str | None = None
    spec_sha256: str | None = None
    """Digest of the spec that the Job's pods mount. None if an older operator created the Job."""
    within: str | None = None
    """Digest of the placement of the Job's pods, if the Job runs within the quota of a queue Job."""
    least: int = 0
    """The smallest number of pods with which Kueue may admit the Job, or 0 if Kueue must admit all pods."""
    pods: int = 0
    """The number of pods among which a queue Job divides `planning.resources`, or 0 if the job doesn't set them."""
    placement: Placement | None = None
    """The placement of the pods, for a queue Job only."""
    deleting: bool = False
    image: str | None = None
    """The image of the Job's pods. If an older operator created the Job, the image may differ from the current default."""

    @property
    def finished(self) -> bool:
        """Whether the Job is complete or failed."""
        return self.complete or self.failed

    @property
    def digest(self) -> str | None:
        """The digest of the plan or of the scan. It identifies the work of an Indexed Job."""
        return self.plan_sha256 or self.scan


def scan_digest(scan: str, *, parts: int) -> str:
    """Return the text that identifies the work of a scan Job.

    The text includes the number of parts, because this number determines which data each part contains.
    """
    return f"{scan}/{parts}"


# Any, because a Job is a JSON object of the API.
def read(raw: Mapping[str, Any]) -> Child:
    """Parse a child Job."""
    metadata, spec, status = raw["metadata"], untrusted.mapping(raw.get("spec")), untrusted.mapping(raw.get("status"))
    labels, annotations = untrusted.mapping(metadata.get("labels")), untrusted.mapping(metadata.get("annotations"))
    owner, is_queue_job = job_owner(raw), labels.get(names.LABEL_STEP) == QUEUE
    conditions = {kind: condition for kind, condition in untrusted.conditions(status).items() if condition.get("status") == "True"}
    # Kubernetes sets FailureTarget first, then Failed. Only Failed means that the Job's last pod has ended, so FailureTarget is ignored.
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
        ready=untrusted.number(status.get("ready")) if is_queue_job else 0,
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
        scan=untrusted.text(annotations.get(ANNOTATION_SCAN)) or None,
        spec_sha256=untrusted.text(annotations.get(ANNOTATION_SPEC)) or None,
        within=untrusted.text(annotations.get(ANNOTATION_PLACEMENT)) or None,
        least=untrusted.number(annotations.get(ANNOTATION_LEAST)) if is_queue_job else 0,
        pods=untrusted.number(annotations.get(ANNOTATION_PODS)) if is_queue_job else 0,
        placement=_placement(spec) if is_queue_job else None,
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


def _placement(spec: Mapping[str, Any]) -> Placement:
    template = untrusted.mapping(spec.get("template"))
    pod, annotations = (
        untrusted.mapping(template.get("spec")),
        untrusted.mapping(untrusted.mapping(template.get("metadata")).get("annotations")),
    )
    return Placement(
        node_selector={key: untrusted.text(value) for key, value in untrusted.mapping(pod.get("nodeSelector")).items()},
        tolerations=tuple(untrusted.mappings(pod.get("tolerations"))),
        annotations={key: untrusted.text(value) for key, value in annotations.items() if key.partition("/")[0] != QUEUE_DOMAIN},
    )
