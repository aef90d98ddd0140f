"""Builds a DataPrepJob's ConfigMap, the Jobs of its steps and its cleanup Job. All functions are pure.

The same job always gets the same objects with the same names. Bodies are typed as Any, because they are JSON objects of the API.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dataprep_api import API_VERSION, KIND, canonical, names
from dataprep_api.exits import Exit
from dataprep_api.formats import COPY
from dataprep_api.resources.defaults import without_defaults
from dataprep_api.resources.from_job import resolve as resolve_from_job
from dataprep_api.resources.status import FromJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children import scripts, spark_jobs
from dataprep_operator.children.job_bodies import FATAL_WHILE_PLANNING, Indexes, indexed_job, on_exit, single_pod_job
from dataprep_operator.children.metadata import Body, owned_labels, owned_metadata, spec_config_map_name
from dataprep_operator.children.pod_template import JOB_FILE, MOUNTS, code_folder, has_devices, planning_resources, pod_template
from dataprep_operator.errors import SpecUnreadable
from dataprep_operator.objects import untrusted
from dataprep_operator.objects.child_jobs import ANNOTATION_PLAN, ANNOTATION_SCAN, ANNOTATION_SPEC, CLEANUP, scan_digest
from dataprep_operator.objects.observed import Observed
from dataprep_operator.settings import PodDefaults


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
    """Return the spec in the form in which a run stores it.

    `fromJob` is replaced with the other job's output.

    The API server's defaults are left out, because earlier releases refuse fields that they don't know. Without these fields, an earlier
    release can still read the spec after a downgrade.
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
            "delete the ConfigMap, so that the operator can recreate it."
        )
    return spec


def with_spec_digest(job: Body, spec: Mapping[str, Any]) -> Body:
    """Return the Job with the spec's digest in an annotation, so that a new leader needn't read the ConfigMap."""
    metadata = job["metadata"]
    annotations = {**metadata.get("annotations", {}), ANNOTATION_SPEC: canonical.sha256(spec)}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def plan_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    attempt: int,
    memory: str | None = None,
    may_divide: bool = True,
    defaults: PodDefaults,
) -> Body:
    """Return the Job of the plan step, whose pod lists the input, divides it into tasks, and checks all permissions. With an engine, the
    step has several pods.

    `may_divide` says whether the scan and shuffle steps are allowed to follow. Each of these steps has several pods on CPU nodes.
    """
    if spec.engine is not None:
        return spark_jobs.plan_job(
            observed, spec, spec.engine.spark, attempt=attempt, memory=memory, may_divide=may_divide, defaults=defaults
        )
    arguments = ["plan", "--job", f"{MOUNTS}/{JOB_FILE}"]
    variables = {names.ONE_POD: f"{observed.child_prefix}-"} if may_be_one_pod(observed, spec, defaults) else {}
    if may_divide and spec.script is None and spec.output.format != COPY:
        variables |= {names.MAY_SCAN: "true", names.TWO_ROUNDS: "true"}
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
    return single_pod_job(observed, spec, step="plan", attempt=attempt, pod=pod, fatal_exits=FATAL_WHILE_PLANNING)


def scan_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    scan: str,
    parts: int,
    only: Sequence[int],
    attempt: int,
    memory: str | None,
    defaults: PodDefaults,
    code_commit: str | None = None,
) -> Body:
    """Return the Job of the scan step, an Indexed Job with one index for each part. If `only` isn't empty, only these parts have an
    index."""
    indexes = Indexes.of(parts, only=only)
    arguments = ["scan", "--job", f"{MOUNTS}/{JOB_FILE}", "--scan", scan, "--parts", str(parts)]
    pod = pod_template(
        observed,
        spec,
        step="scan",
        attempt=attempt,
        arguments=[*arguments, *indexes.arguments],
        gpu=False,
        memory=memory,
        code_commit=code_commit,
        defaults=defaults,
    )
    return indexed_job(
        observed,
        spec,
        step="scan",
        attempt=attempt,
        pod=pod,
        indexes=indexes,
        annotation={ANNOTATION_SCAN: scan_digest(scan, parts=parts)},
        # The plan needs all parts. So a part that can't be read fails the Job, whatever `onBadRecord` says.
        final_failure_rules=[on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND, Exit.BAD_DATA)],
    )


def merge_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    scan: str,
    attempt: int,
    memory: str | None = None,
    defaults: PodDefaults,
    code_commit: str | None = None,
) -> Body:
    """Return the Job of the merge step, whose pod makes the plan from the results of the scan.

    The pod may neither ask for another scan nor do the other steps of a small job.
    """
    pod = pod_template(
        observed,
        spec,
        step="merge",
        attempt=attempt,
        arguments=["plan", "--job", f"{MOUNTS}/{JOB_FILE}", "--scan", scan],
        gpu=False,
        memory=memory,
        variables={names.TWO_ROUNDS: "true"},
        code_commit=code_commit,
        defaults=defaults,
    )
    return single_pod_job(observed, spec, step="merge", attempt=attempt, pod=pod, fatal_exits=FATAL_WHILE_PLANNING)


def shuffle_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    run_id: str,
    plan_sha256: str,
    slices: int,
    only: Sequence[int],
    attempt: int,
    memory: str | None,
    defaults: PodDefaults,
    code_commit: str | None = None,
) -> Body:
    """Return the Job of the shuffle step, an Indexed Job with one index for each slice of the input. If `only` isn't empty, only these
    slices have an index. The Job's pods divide the records among the convert tasks."""
    indexes = Indexes.of(slices, only=only)
    arguments = ["shuffle", "--job", f"{MOUNTS}/{JOB_FILE}", "--run", run_id, "--plan-sha256", plan_sha256]
    pod = pod_template(
        observed,
        spec,
        step="shuffle",
        attempt=attempt,
        arguments=[*arguments, *indexes.arguments],
        gpu=False,
        memory=memory,
        code_commit=code_commit,
        defaults=defaults,
    )
    return indexed_job(
        observed,
        spec,
        step="shuffle",
        attempt=attempt,
        pod=pod,
        indexes=indexes,
        annotation={ANNOTATION_PLAN: plan_sha256},
        final_failure_rules=[on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND, Exit.BAD_DATA)],
    )


def may_be_one_pod(observed: Observed, spec: DataPrepJobSpec, defaults: PodDefaults) -> bool:
    """Return whether the plan pod may do all steps of the job if it finds that the job is small."""
    # A user's code may be slow even with little data, so its work is always shared among several workers.
    has_own_code = spec.script is not None or spec.code is not None
    # If only the convert Job is in a queue, the plan pod runs outside the quota, so it must not convert.
    outside_of_quota = observed.queue is not None
    # With any of these settings, each step needs its own pods:
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
    return single_pod_job(observed, spec, step="commit", attempt=attempt, pod=pod, fatal_exits=fatal_exits)


def cleanup_job(observed: Observed, spec: DataPrepJobSpec, *, runs: Sequence[str], defaults: PodDefaults) -> Body:
    """Return the Job whose pod removes a deleted job's output."""
    arguments = ["remove", "--job", f"{MOUNTS}/{JOB_FILE}", *(word for run in runs for word in ("--run", run))]
    spec_without_code = spec.model_copy(update={"code": None})  # the code isn't needed, and may no longer exist
    pod = pod_template(observed, spec_without_code, step=CLEANUP, attempt=1, arguments=arguments, gpu=False, defaults=defaults)
    return single_pod_job(observed, spec_without_code, step=CLEANUP, attempt=1, pod=pod, fatal_exits=(Exit.BAD_SPEC, Exit.NOT_FOUND))


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

    It is an Indexed Job with one index for each task. If `only` isn't empty, only these tasks have an index.
    """
    arguments = ["work", "--job", f"{MOUNTS}/{JOB_FILE}", "--run", run_id, "--plan-sha256", plan_sha256, "--attempt", str(attempt)]
    indexes = Indexes.of(tasks, only=only)
    pod = pod_template(
        observed,
        spec,
        step="convert",
        attempt=attempt,
        arguments=[*arguments, *indexes.arguments],
        gpu=gpu,
        memory=memory,
        code_commit=code_commit,
        defaults=defaults,
    )
    if spec.script is not None:
        pod = scripts.pod(pod, spec, spec.script, run_id=run_id, code=code_folder(spec), defaults=defaults)
    return indexed_job(
        observed,
        spec,
        step="convert",
        attempt=attempt,
        pod=pod,
        indexes=indexes,
        annotation={ANNOTATION_PLAN: plan_sha256},
        final_failure_rules=_final_failure_rules(spec),
    )


def _final_failure_rules(spec: DataPrepJobSpec) -> list[Body]:
    """Return the rules for the exit codes after which the converter isn't run again. The list is empty if the job runs a user's program."""
    if spec.script is not None:
        return []
    if spec.on_bad_record.policy == "Fail":
        return [on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND, Exit.BAD_DATA)]
    return [on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND), on_exit("FailIndex", Exit.BAD_DATA)]
