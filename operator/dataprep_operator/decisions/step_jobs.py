"""Builds the Job of a DataPrepJob's current step, with the values that the status has recorded for this step. All functions are pure."""

from dataclasses import replace

from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children import jobs, queue_jobs, spark_jobs
from dataprep_operator.children.metadata import Body
from dataprep_operator.decisions import memory, steps
from dataprep_operator.decisions.status.effective import accelerator
from dataprep_operator.objects import job_steps
from dataprep_operator.objects.child_jobs import Child, scan_digest
from dataprep_operator.objects.observed import Observed
from dataprep_operator.settings import PodDefaults


def job(observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, *, queue: Child | None, defaults: PodDefaults) -> Body:
    """Return the Job of the current step. If `queue` is the admitted queue Job, the step's Job runs within its quota."""
    if queue is None:
        # If only the convert Job is in a queue, the pods of other steps run outside the quota. So each of these steps must have only one
        # pod.
        return _job(observed, spec, status, may_divide=observed.queue is None, defaults=defaults)
    on_cpu_nodes = accelerator(spec, status) == "CPU"
    outside_queue = replace(observed, queue=None, queue_labels={}, queue_annotations={})
    # If a job uses GPUs, the queue has admitted only its converter pods to the GPU nodes, so its other pods run on CPU nodes. The scan and
    # shuffle steps aren't allowed then, because their many pods on CPU nodes would exceed the quota.
    body = _job(outside_queue, spec, status, may_divide=on_cpu_nodes, defaults=defaults)
    return queue_jobs.within_quota(body, queue, placed=status.step == "Convert" or on_cpu_nodes)


def network(observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus) -> spark_jobs.Network | None:
    """Return the Service and the Secret for the pods of the current step, or None if these pods aren't a Spark cluster."""
    on_spark = spec.engine is not None and job_steps.of_status(status.step).label == spark_jobs.STEP
    return spark_jobs.network(observed, attempt=status.attempt) if on_spark else None


def _job(observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus, *, may_divide: bool, defaults: PodDefaults) -> Body:
    run_id, plan_sha256 = status.run_id or "", status.plan_sha256 or ""
    # `advance` makes sure that these values exist for the steps that need them.
    scan, parts = (status.scan.id, status.scan.parts) if status.scan is not None else ("", 0)
    code_commit = status.code.commit if status.code is not None else None
    match status.step:
        case "Scan":
            return jobs.scan_job(
                observed,
                spec,
                scan=scan,
                parts=parts,
                only=steps.unfinished_tasks(
                    observed, step="scan", attempt=status.attempt, digest=scan_digest(scan, parts=parts), tasks=parts
                ),
                attempt=status.attempt,
                memory=memory.of(status),
                code_commit=code_commit,
                defaults=defaults,
            )
        case "Merge":
            return jobs.merge_job(
                observed,
                spec,
                scan=scan,
                attempt=status.attempt,
                memory=memory.of(status),
                code_commit=code_commit,
                defaults=defaults,
            )
        case "Shuffle":
            slices = status.shuffle_tasks or 0
            return jobs.shuffle_job(
                observed,
                spec,
                run_id=run_id,
                plan_sha256=plan_sha256,
                slices=slices,
                only=steps.unfinished_tasks(observed, step="shuffle", attempt=status.attempt, digest=plan_sha256, tasks=slices),
                attempt=status.attempt,
                memory=memory.of(status),
                code_commit=code_commit,
                defaults=defaults,
            )
        case "Convert":
            tasks = status.tasks or 0
            return jobs.convert_job(
                observed,
                spec,
                run_id=run_id,
                plan_sha256=plan_sha256,
                tasks=tasks,
                only=steps.unfinished_tasks(observed, step="convert", attempt=status.attempt, digest=plan_sha256, tasks=tasks),
                attempt=status.attempt,
                gpu=accelerator(spec, status) == "GPU",
                memory=memory.of(status),
                code_commit=code_commit,
                defaults=defaults,
            )
        case "Commit":
            return jobs.commit_job(
                observed,
                spec,
                run_id=run_id,
                plan_sha256=plan_sha256,
                attempt=status.attempt,
                memory=memory.of(status),
                code_commit=code_commit,
                defaults=defaults,
            )
        case _:
            return jobs.plan_job(observed, spec, attempt=status.attempt, memory=memory.of(status), may_divide=may_divide, defaults=defaults)
