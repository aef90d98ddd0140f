"""Builds the two kinds of child Jobs around a pod template: Jobs with a single pod, and Indexed Jobs. All functions are pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dataprep_api.exits import Exit
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children.metadata import Body, child_name, owned_labels, owned_metadata
from dataprep_operator.objects import ranges
from dataprep_operator.objects.child_jobs import ANNOTATION_LEAST, ANNOTATION_SUSPEND, ANNOTATION_TASKS, QUEUE_LABEL, RESUMED
from dataprep_operator.objects.observed import Observed
from dataprep_operator.objects.pods import CODE_CONTAINER, CONTAINER

# Linux limits the length of an argument. A task list of more than MOST_TASKS_TEXT characters is left out. Then all tasks run, and each task
# skips its finished shards.
MOST_TASKS_TEXT: Final = 100_000
# With more completions than MANY_INDEXES, the API server requires maxFailedIndexes, which must not exceed MOST_FAILED_INDEXES.
MANY_INDEXES: Final = 100_000
MOST_FAILED_INDEXES: Final = 10_000

FATAL_WHILE_PLANNING: Final = (Exit.BAD_SPEC, Exit.BAD_DATA, Exit.UNREACHABLE, Exit.NOT_FOUND)
"""The plan step itself retries requests to an unreachable store. When it gives up, the Job fails immediately."""

# Evictions, lost nodes and SIGTERM (from a deletion, drain or suspension) don't indicate a problem with the data. The module `evictions`
# counts evictions, and `steps` counts exit code 143 as a failure if the pod was not stopped from outside. There is no rule for exit code
# 137, because this code can mean either a kill or a lack of memory.
_IGNORED_FAILURES: Final[tuple[Body, ...]] = (
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Ignore", "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [int(Exit.TERMINATED)]}},
)


@dataclass(frozen=True)
class Indexes:
    """The completion indexes of an Indexed Job."""

    count: int
    tasks: str
    """The task of each index, as ranges. Empty if the index and the task have the same number."""

    @classmethod
    def of(cls, tasks: int, *, only: Sequence[int]) -> "Indexes":
        """Return one index for each task. If `only` isn't empty, only these tasks get an index."""
        text = ranges.write(only)
        return cls(len(set(only)), text) if text and len(text) <= MOST_TASKS_TEXT else cls(tasks, "")

    @property
    def arguments(self) -> list[str]:
        """The arguments that map a pod's index to its task."""
        return ["--tasks", self.tasks] if self.tasks else []


def indexed_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    step: str,
    attempt: int,
    pod: Body,
    indexes: Indexes,
    annotation: Mapping[str, str],
    final_failure_rules: Sequence[Body],
) -> Body:
    """Return a Job whose pods share the work of a step. `annotation` names this work."""
    annotations = dict(observed.queue_annotations) | dict(annotation) | ({ANNOTATION_TASKS: indexes.tasks} if indexes.tasks else {})
    body = {
        "completionMode": "Indexed",
        "completions": indexes.count,
        "parallelism": parallelism(spec, indexes.count),
        "backoffLimitPerIndex": spec.backoff_limit_per_index,
        "podFailurePolicy": {"rules": [*_IGNORED_FAILURES, *_code_failure_rules(spec), *final_failure_rules]},
        "podReplacementPolicy": "Failed",
        # A queued Job must not have pods before the queue admits and resumes it.
        "suspend": bool(observed.queue),
        "template": pod,
    }
    most_failed = spec.max_failed_indexes
    if most_failed is None and indexes.count > MANY_INDEXES:
        most_failed = MOST_FAILED_INDEXES
    if most_failed is not None:
        body["maxFailedIndexes"] = min(most_failed, indexes.count)
    labels = owned_labels(observed, step=step, attempt=attempt) | dict(observed.queue_labels)
    return _job(owned_metadata(observed, child_name(observed, step, attempt), labels=labels, annotations=annotations), body)


def single_pod_job(observed: Observed, spec: DataPrepJobSpec, *, step: str, attempt: int, pod: Body, fatal_exits: Sequence[Exit]) -> Body:
    """Return a Job with a single pod. After one of `fatal_exits`, the pod isn't run again."""
    body = {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": spec.backoff_limit,
        "podFailurePolicy": {"rules": [*_IGNORED_FAILURES, *_code_failure_rules(spec), on_exit("FailJob", *fatal_exits)]},
        "podReplacementPolicy": "Failed",
        "template": pod,
    }
    return _job(
        owned_metadata(observed, child_name(observed, step, attempt), labels=owned_labels(observed, step=step, attempt=attempt)), body
    )


def spark_job(observed: Observed, spec: DataPrepJobSpec, *, attempt: int, pod: Body, indexes: Indexes) -> Body:
    """Return the Job of a plan step on Spark. All of its pods run at the same time, and it succeeds as soon as index 0 succeeds.

    If no queue Job represents all steps, this Job itself waits in the DataPrepJob's queue, because it has several pods.
    """
    body = {
        "completionMode": "Indexed",
        "completions": indexes.count,
        "parallelism": indexes.count,
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        "backoffLimitPerIndex": spec.backoff_limit,
        # The Job fails when one index has failed permanently. Without this rule, the Job would never end, because workers don't end by
        # themselves.
        "maxFailedIndexes": 0,
        "podFailurePolicy": {"rules": [*_IGNORED_FAILURES, *_code_failure_rules(spec), on_exit("FailJob", *FATAL_WHILE_PLANNING)]},
        "podReplacementPolicy": "Failed",
        "suspend": bool(observed.queue),
        "template": pod,
    }
    labels = owned_labels(observed, step="plan", attempt=attempt) | dict(observed.queue_labels)
    # Kueue must admit all pods, so the annotation that allows fewer pods is left out.
    annotations = {key: value for key, value in observed.queue_annotations.items() if key != ANNOTATION_LEAST}
    return _job(owned_metadata(observed, child_name(observed, "plan", attempt), labels=labels, annotations=annotations), body)


def parallelism(spec: DataPrepJobSpec, completions: int) -> int:
    """Return the number of pods that run at the same time: the requested number, but at most the number of tasks."""
    return min(spec.workers.parallelism, max(1, completions))


def on_exit(action: str, *codes: Exit, container: str = CONTAINER) -> Body:
    """Return the failure rule for these exit codes of a container."""
    return {"action": action, "onExitCodes": {"containerName": container, "operator": "In", "values": sorted(int(code) for code in codes)}}


def _code_failure_rules(spec: DataPrepJobSpec) -> list[Body]:
    """Return the rules that fail the Job without a retry if the user's code doesn't exist or access to it is denied."""
    if spec.code is None or spec.code.git is None:
        return []
    return [on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND, container=CODE_CONTAINER)]


def _job(metadata: Body, spec: Body) -> Body:
    if QUEUE_LABEL not in metadata["labels"]:
        metadata = metadata | {"annotations": metadata.get("annotations", {}) | suspend_annotation(suspend=False)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def suspend_annotation(*, suspend: bool, resumed: bool = False) -> dict[str, str]:
    """Return the annotation that records the requested value of `suspend`.

    `resumed` says whether the operator resumes a Job that somebody else suspended.
    """
    return {ANNOTATION_SUSPEND: RESUMED if resumed and not suspend else str(suspend).lower()}
