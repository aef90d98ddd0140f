"""Derives the status of a job that succeeds, fails, is suspended or is resumed. All functions are pure."""

from collections.abc import Sequence

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import MAX_FAILURES, MAX_RUNS, DataPrepJobStatus, Failure, OutputStatus, Run, Timings
from dataprep_operator.decisions import conditions
from dataprep_operator.decisions.status import progress
from dataprep_operator.decisions.status.context import Context, with_condition
from dataprep_operator.objects import results, times


def fail(context: Context, status: DataPrepJobStatus, reason: Reason, message: str) -> DataPrepJobStatus:
    """Return the status of a job that fails for this reason."""
    if reason is Reason.INVALID_SPEC and status.start_time is None:
        status = with_condition(context, status, ConditionType.VALIDATED, "False", reason, message)
    if status.start_time is None:
        status = status.model_copy(update={"rejected_spec": context.observed.spec_digest})
    failures = status.failures
    if not any(failure.reason == reason for failure in failures):
        failures = [Failure(reason=reason, message=message[:1024], step=status.step, at=times.text(context.now)), *failures][:MAX_FAILURES]
    status = with_condition(context, status, ConditionType.RUNNING, "False", reason, message)
    status = with_condition(context, status, ConditionType.FAILED, "True", reason, message)
    last_progress = status.progress and status.progress.model_copy(
        update={"estimated_seconds_remaining": None, "eta": None, "shards": status.progress.shards.model_copy(update={"active": 0})}
    )
    return _finish(context, status.model_copy(update={"phase": "Failed", "failures": failures, "progress": last_progress}))


def succeed(context: Context, status: DataPrepJobStatus, result: CommitResult) -> DataPrepJobStatus:
    """Return the status of a job whose data set is complete. If the commit's result can't be right, return the status of a failed job."""
    fault = results.commit_fault(result, run_id=status.run_id)
    if fault:
        return fail(context, status, Reason.VERIFICATION_FAILED, fault)
    reused = bool(status.reused)
    reason = Reason.REUSED if reused else Reason.COMPLETED
    message = (
        f"{result.records.out} record{'s' * (result.records.out != 1)} in {result.files} file{'s' * (result.files != 1)} "
        f"at {context.spec.output.uri}" + (" (reused)." if reused else ".")
    )
    status = status.model_copy(
        update={
            "phase": "Succeeded",
            "splits": result.splits or status.splits,
            "outputs": result.outputs,
            "output": OutputStatus(
                uri=context.spec.output.uri,
                manifest_uri=result.manifest_uri,
                manifest_sha256=result.manifest_sha256,
                digest=result.digest,
                quarantine_uri=result.quarantine_uri,
                files=result.files,
                records=result.records.out,
                bytes=result.bytes_out,
                channels=result.channels,
            ),
            "bad_records": [
                Failure(reason=Reason.BAD_RECORDS, message=bad.reason, input=bad.uri, index=bad.row) for bad in result.bad[:MAX_FAILURES]
            ],
            "warnings": bounded_warnings([*status.warnings, *result.warnings]),
            "failed_indexes": None,
            "progress": progress.final(status, result, now=context.now),
        }
    )
    status = with_condition(context, status, ConditionType.RUNNING, "False", reason, message)
    status = with_condition(context, status, ConditionType.OUTPUT_COMMITTED, "True", reason, message)
    status = with_condition(context, status, ConditionType.COMPLETE, "True", reason, message)
    return _finish(context, resume(context, status))


def _finish(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    total = times.seconds_between(times.parse(status.start_time), context.now)
    timings = (status.timings or Timings()).model_copy(update={"total_seconds": progress.round_rate(total)})
    ended_at = times.text(context.now)
    return status.model_copy(
        update={
            "completion_time": ended_at,
            "timings": timings,
            "runs": [_history_entry(context, status, ended_at), *status.runs][:MAX_RUNS],
        }
    )


def _history_entry(context: Context, status: DataPrepJobStatus, ended_at: str) -> Run:
    """Return the history entry of the attempt that ends now. The attempt began at the job's start or at the last retry."""
    failed_condition = conditions.find(context.observed.status.conditions, ConditionType.FAILED)
    started_at = (
        failed_condition.last_transition_time if failed_condition is not None and failed_condition.status == "False" else status.start_time
    )
    running = conditions.find(status.conditions, ConditionType.RUNNING)
    return Run(
        attempt=status.attempt,
        phase="Succeeded" if status.phase == "Succeeded" else "Failed",
        reason=running.reason if running is not None else Reason.INTERNAL_ERROR,
        message=running.message[:256] if running is not None else "",
        run_id=status.run_id,
        started_at=started_at or ended_at,
        ended_at=ended_at,
    )


def suspend(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Return the status of a job that is suspended by `spec.suspend`."""
    message = "spec.suspend is true; finished shards are kept."
    status = with_condition(context, status, ConditionType.RUNNING, "False", Reason.SUSPENDED, message)
    status = with_condition(context, status, ConditionType.SUSPENDED, "True", Reason.SUSPENDED, message)
    last_progress = status.progress and status.progress.model_copy(
        update={
            "records_per_second": None,
            "bytes_per_second": None,
            "estimated_seconds_remaining": None,
            "eta": None,
            "shards": status.progress.shards.model_copy(update={"active": 0}),
        }
    )
    return status.model_copy(update={"phase": "Suspended", "progress": last_progress})


def resume(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Return the status with the suspension ended, if the job was suspended."""
    condition = conditions.find(status.conditions, ConditionType.SUSPENDED)
    if condition is None or condition.status == "False":
        return status
    return with_condition(context, status, ConditionType.SUSPENDED, "False", Reason.RESUMED, "spec.suspend is false again.")


def bounded_warnings(warnings: Sequence[str]) -> list[str]:
    """Return the warnings without duplicates, limited to the number and length that a status may contain."""
    return [warning[:1024] for warning in dict.fromkeys(warnings)][:10]
