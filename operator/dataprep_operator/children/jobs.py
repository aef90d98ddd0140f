"""Builds a DataPrepJob's ConfigMap and its plan, convert, commit and cleanup Jobs. All functions are pure.

The same job always gets the same objects with the same names. Bodies are typed as Any, because they are JSON objects of the API.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dataprep_api import API_VERSION, KIND, canonical, names
from dataprep_api.exits import Exit
from dataprep_api.resources.defaults import without_defaults
from dataprep_api.resources.from_job import resolve as resolve_from_job
from dataprep_api.resources.status import FromJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children import scripts
from dataprep_operator.children.metadata import Body, child_name, owned_labels, owned_metadata, spec_config_map_name
from dataprep_operator.children.pod_template import JOB_FILE, MOUNTS, code_folder, has_devices, planning_resources, pod_template
from dataprep_operator.errors import SpecUnreadable
from dataprep_operator.objects import ranges, untrusted
from dataprep_operator.objects.child_jobs import (
    ANNOTATION_PLAN,
    ANNOTATION_SPEC,
    ANNOTATION_SUSPEND,
    ANNOTATION_TASKS,
    CLEANUP,
    QUEUE_LABEL,
    RESUMED,
)
from dataprep_operator.objects.observed import Observed
from dataprep_operator.objects.pods import CODE_CONTAINER, CONTAINER
from dataprep_operator.settings import PodDefaults

# Linux limits the length of an argument. A task list of more than MOST_TASKS_TEXT characters is left out; all tasks then run, and each task
# skips its finished shards.
MOST_TASKS_TEXT: Final = 100_000
# With more completions than MANY_INDEXES, the API server requires maxFailedIndexes, which must not exceed MOST_FAILED_INDEXES.
MANY_INDEXES: Final = 100_000
MOST_FAILED_INDEXES: Final = 10_000


def spec_config_map(observed: Observed, from_job: FromJob | None) -> Body:
    """Return the immutable ConfigMap that contains the job, with its spec in the form that the run uses (`frozen_form`)."""
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": observed.key.name, "namespace": observed.key.namespace, "uid": observed.uid},
        "spec": frozen_form(observed.raw_spec, from_job),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(observed, spec_config_map_name(observed), labels=owned_labels(observed)),
        "immutable": True,
        "data": {JOB_FILE: json.dumps(document, separators=(",", ":"), sort_keys=True)},
    }


# Any, because specs are JSON objects of the API.
def frozen_form(spec: Mapping[str, Any], from_job: FromJob | None) -> Body:
    """Return the spec in the form that a run freezes: with the other job's output in place of `fromJob`, and without the API server's defaults.

    An earlier release refuses fields that it doesn't know. Leaving out the defaults lets it read the spec after a downgrade.
    """
    return without_defaults(resolve_from_job(spec, from_job))


def read_spec(config_map: Mapping[str, Any]) -> Body:
    """Return the spec in the ConfigMap that `spec_config_map` builds. Raises SpecUnreadable."""
    text = untrusted.text(untrusted.mapping(config_map.get("data")).get(JOB_FILE))
    try:
        spec = untrusted.mapping(json.loads(text)).get("spec")
    except (ValueError, RecursionError):
        spec = None
    if not isinstance(spec, dict):
        raise SpecUnreadable(
            f"the ConfigMap {config_map['metadata']['name']} contains no spec in {JOB_FILE}; "
            "delete the ConfigMap, and the operator recreates it."
        )
    return spec


def with_spec_digest(job: Body, spec: Mapping[str, Any]) -> Body:
    """Return the Job with the spec's digest in an annotation, so that a new leader needn't read the ConfigMap."""
    metadata = job["metadata"]
    annotations = {**metadata.get("annotations", {}), ANNOTATION_SPEC: canonical.sha256(spec)}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def plan_job(observed: Observed, spec: DataPrepJobSpec, *, attempt: int, memory: str | None = None, defaults: PodDefaults) -> Body:
    """Return the Job of the plan step, whose pod lists the input, divides it into tasks, and checks all permissions."""
    # The plan step itself retries requests to an unreachable store. When it gives up, the Job fails immediately.
    fatal_exits = (Exit.BAD_SPEC, Exit.BAD_DATA, Exit.UNREACHABLE, Exit.NOT_FOUND)
    arguments = ["plan", "--job", f"{MOUNTS}/{JOB_FILE}"]
    variables = {names.ONE_POD: f"{observed.child_prefix}-"} if may_be_one_pod(observed, spec, defaults) else {}
    pod = pod_template(
        observed,
        spec,
        step="plan",
        attempt=attempt,
        arguments=arguments,
        gpu=False,
        memory=memory,
        variables=variables,
        defaults=defaults,
    )
    return _single_pod_job(observed, spec, step="plan", attempt=attempt, pod=pod, fatal_exits=fatal_exits)


def may_be_one_pod(observed: Observed, spec: DataPrepJobSpec, defaults: PodDefaults) -> bool:
    """Return whether the plan pod may do all steps of the job if it finds that the job is small."""
    # A user's code may be slow even with little data, so its work is always shared among several workers.
    has_own_code = spec.script is not None or spec.code is not None
    # If only the convert Job is in a queue, the plan pod runs outside the quota, so it must not convert.
    outside_of_quota = observed.queue is not None
    # - stepDeadlines: the plan step's deadline isn't meant to include the conversion.
    # - backoffLimit 0: if the pod died while it did the other steps, the plan step would have to be repeated.
    # - deletionPolicy Delete: the operator can remove the files of a run only if it knows the run.
    needs_steps = spec.step_deadlines is not None or spec.backoff_limit == 0 or spec.deletion_policy == "Delete"
    has_other_pods = planning_resources(spec) is not None or has_devices(spec, defaults)
    return spec.workers.one_pod != "Never" and not (has_own_code or has_other_pods or outside_of_quota or needs_steps)


def commit_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    run_id: str,
    plan_sha256: str,
    attempt: int,
    memory: str | None = None,
    defaults: PodDefaults,
    code_commit: str | None = None,
) -> Body:
    """Return the Job of the commit step, whose pod checks every shard and writes the manifest and `_SUCCESS`."""
    fatal_exits = (Exit.BAD_SPEC, Exit.BAD_DATA, Exit.NOT_FOUND)
    arguments = ["commit", "--job", f"{MOUNTS}/{JOB_FILE}", "--run", run_id, "--plan-sha256", plan_sha256]
    pod = pod_template(
        observed,
        spec,
        step="commit",
        attempt=attempt,
        arguments=arguments,
        gpu=False,
        memory=memory,
        code_commit=code_commit,
        defaults=defaults,
    )
    return _single_pod_job(observed, spec, step="commit", attempt=attempt, pod=pod, fatal_exits=fatal_exits)


def cleanup_job(observed: Observed, spec: DataPrepJobSpec, *, runs: Sequence[str], defaults: PodDefaults) -> Body:
    """Return the Job whose pod removes a deleted job's output."""
    arguments = ["remove", "--job", f"{MOUNTS}/{JOB_FILE}", *(word for run in runs for word in ("--run", run))]
    spec_without_code = spec.model_copy(update={"code": None})  # the code isn't needed, and may no longer exist
    pod = pod_template(observed, spec_without_code, step=CLEANUP, attempt=1, arguments=arguments, gpu=False, defaults=defaults)
    return _single_pod_job(observed, spec_without_code, step=CLEANUP, attempt=1, pod=pod, fatal_exits=(Exit.BAD_SPEC, Exit.NOT_FOUND))


def convert_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    run_id: str,
    plan_sha256: str,
    tasks: int,
    only: Sequence[int],
    attempt: int,
    gpu: bool,
    memory: str | None,
    defaults: PodDefaults,
    code_commit: str | None = None,
) -> Body:
    """Return the Job of the convert step.

    It is an Indexed Job with one index for each task or, if `only` isn't empty, for each task in `only`.
    """
    task_ranges = ranges.write(only)
    task_ranges = task_ranges if len(task_ranges) <= MOST_TASKS_TEXT else ""
    completions = len(set(only)) if task_ranges else tasks
    arguments = ["work", "--job", f"{MOUNTS}/{JOB_FILE}", "--run", run_id, "--plan-sha256", plan_sha256, "--attempt", str(attempt)]
    pod = pod_template(
        observed,
        spec,
        step="convert",
        attempt=attempt,
        arguments=arguments + (["--tasks", task_ranges] if task_ranges else []),
        gpu=gpu,
        memory=memory,
        code_commit=code_commit,
        defaults=defaults,
    )
    if spec.script is not None:
        pod = scripts.pod(pod, spec, spec.script, run_id=run_id, code=code_folder(spec), defaults=defaults)
    annotations = (
        dict(observed.queue_annotations) | {ANNOTATION_PLAN: plan_sha256} | ({ANNOTATION_TASKS: task_ranges} if task_ranges else {})
    )
    body = {
        "completionMode": "Indexed",
        "completions": completions,
        "parallelism": parallelism(spec, completions),
        "backoffLimitPerIndex": spec.backoff_limit_per_index,
        "podFailurePolicy": {"rules": [*_IGNORED_FAILURES, *_code_failure_rules(spec), *_final_failure_rules(spec)]},
        "podReplacementPolicy": "Failed",
        # A queued Job must not have pods before the queue admits and resumes it.
        "suspend": bool(observed.queue),
        "template": pod,
    }
    most_failed = spec.max_failed_indexes
    if most_failed is None and completions > MANY_INDEXES:
        most_failed = MOST_FAILED_INDEXES
    if most_failed is not None:
        body["maxFailedIndexes"] = min(most_failed, completions)
    labels = owned_labels(observed, step="convert", attempt=attempt) | dict(observed.queue_labels)
    return _job(owned_metadata(observed, child_name(observed, "convert", attempt), labels=labels, annotations=annotations), body)


def _final_failure_rules(spec: DataPrepJobSpec) -> list[Body]:
    """Return the rules for the exit codes after which the converter isn't run again. The list is empty if the job runs a user's program."""
    if spec.script is not None:
        return []
    if spec.on_bad_record.policy == "Fail":
        return [_on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND, Exit.BAD_DATA)]
    return [_on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND), _on_exit("FailIndex", Exit.BAD_DATA)]


def parallelism(spec: DataPrepJobSpec, completions: int) -> int:
    """Return the number of pods that run at the same time: the requested number, but not more than there are tasks."""
    return min(spec.workers.parallelism, max(1, completions))


# --- Jobs -----------------------------------------------------------------------------------------------------------------

# Evictions, lost nodes and SIGTERM (from a deletion, drain or suspension) don't indicate a problem with the data. The module `evictions`
# counts evictions, and `steps` counts exit code 143 as a failure if the pod was not stopped from outside. There is no rule for exit code
# 137, because this code can mean either a kill or a lack of memory.
_IGNORED_FAILURES: Final[tuple[Body, ...]] = (
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Ignore", "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [int(Exit.TERMINATED)]}},
)


def _on_exit(action: str, *codes: Exit, container: str = CONTAINER) -> Body:
    return {"action": action, "onExitCodes": {"containerName": container, "operator": "In", "values": sorted(int(code) for code in codes)}}


def _code_failure_rules(spec: DataPrepJobSpec) -> list[Body]:
    """Return the rules that fail the Job without a retry if the user's code doesn't exist or access to it is denied."""
    if spec.code is None or spec.code.git is None:
        return []
    return [_on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND, container=CODE_CONTAINER)]


def _single_pod_job(observed: Observed, spec: DataPrepJobSpec, *, step: str, attempt: int, pod: Body, fatal_exits: Sequence[Exit]) -> Body:
    body = {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": spec.backoff_limit,
        "podFailurePolicy": {"rules": [*_IGNORED_FAILURES, *_code_failure_rules(spec), _on_exit("FailJob", *fatal_exits)]},
        "podReplacementPolicy": "Failed",
        "template": pod,
    }
    return _job(
        owned_metadata(observed, child_name(observed, step, attempt), labels=owned_labels(observed, step=step, attempt=attempt)), body
    )


def _job(metadata: Body, spec: Body) -> Body:
    if QUEUE_LABEL not in metadata["labels"]:
        metadata = metadata | {"annotations": metadata.get("annotations", {}) | suspend_annotation(suspend=False)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def suspend_annotation(*, suspend: bool, resumed: bool = False) -> dict[str, str]:
    """Return the annotation that records the requested value of `suspend`.

    `resumed` says whether somebody else had suspended the Job and the operator now resumes it.
    """
    return {ANNOTATION_SUSPEND: RESUMED if resumed and not suspend else str(suspend).lower()}
