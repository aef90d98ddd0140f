"""Derives the complete status from the previous status and the observed state. All functions are pure.

`_derive` first checks whether the job is finished, then whether it may run, and then the state of its current step.
"""

from datetime import datetime
from typing import Any, Final, Literal

from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import Condition, DataPrepJobStatus, OutputStatus, bounded
from dataprep_operator.decisions import conditions, deadlines, evictions, handover, memory, removal
from dataprep_operator.decisions.status import health
from dataprep_operator.decisions.status.context import Context, with_condition, with_phase
from dataprep_operator.decisions.status.current_step import BEFORE_PLANNING, advance
from dataprep_operator.decisions.status.outcomes import fail, resume, suspend
from dataprep_operator.decisions.status.waits import blockage_by_others, report_blockage
from dataprep_operator.objects import redaction, times
from dataprep_operator.objects.observed import Observed
from dataprep_operator.settings import PodDefaults

_RETRY_FROM_CONVERT: Final = frozenset({Reason.OUTPUT_MISSING, Reason.VERIFICATION_FAILED})
# After a failure with one of these reasons, a retry starts with the plan step. The output folder must be claimed again, and only the plan
# step claims it.
_RETRY_FROM_PLAN: Final = frozenset({Reason.INPUT_CHANGED, Reason.INPUT_NOT_FOUND, Reason.OUTPUT_LOST})


def next_status(observed: Observed, *, now: datetime, defaults: PodDefaults) -> DataPrepJobStatus:
    """Return the job's next status."""
    context = Context(observed, now, defaults)
    return bounded(_keep_times(observed.status, redaction.redact_status(health.with_health(context.observed, _derive(context), now=now))))


def _derive(context: Context) -> DataPrepJobStatus:
    observed = context.observed
    if observed.deleting and observed.has_finalizer:
        return _await_removal(context)
    if observed.finished and not observed.restart_wanted:
        return _keep_final(context)
    status = _initialize(context)
    if observed.too_new:
        return _await_upgrade(context, status)
    if observed.spec is None:
        return fail(context, status, Reason.INVALID_SPEC, observed.faults)
    profile_text = f", with the DataPrepProfile {observed.profile}" if observed.profile is not None else ""
    status = with_condition(context, status, ConditionType.VALIDATED, "True", Reason.ACCEPTED, f"The spec is valid{profile_text}.")
    if status.output is None or status.start_time is None:
        # The output is set early, so that `kubectl get -o wide` shows the output with its parameters filled in.
        status = status.model_copy(update={"output": OutputStatus(uri=context.spec.output.uri)})
    if observed.wait_cycle:
        return fail(context, status, Reason.CIRCULAR_WAIT, _cycle_message(observed))
    blockage = blockage_by_others(context)
    if context.spec.suspend and (status.start_time is None or blockage is not None):
        return suspend(context, status)
    if blockage is not None:
        return _enforce_deadlines(context, report_blockage(context, resume(context, status), blockage))
    status = evictions.count(context.observed, _start(context, status))
    status = advance(context, status)
    if status.phase in ("Succeeded", "Failed"):
        return status
    evictions_message = evictions.too_many(context.spec, status)
    if evictions_message is not None:
        return fail(context, status, Reason.TOO_MANY_EVICTIONS, evictions_message)
    return _enforce_deadlines(context, suspend(context, status) if context.spec.suspend else resume(context, status))


def _enforce_deadlines(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    if status.phase == "Failed":
        return status
    overdue = deadlines.overdue(context.observed, context.spec, status, now=context.now)
    return status if overdue is None else fail(context, status, *overdue)


def _await_upgrade(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Make a job wait if its spec is newer than this operator. The pods of a started job continue, but its next step waits."""
    fields = ", ".join(context.observed.too_new)
    is_new = status.start_time is None
    cause = "which the CustomResourceDefinition contains" if is_new else "which a later release added"
    phase = "Pending" if is_new or status.phase is None else status.phase
    child = context.observed.current_child(status)
    runs = child is not None and not (child.finished or child.suspended)
    waits = "The pods of the current step continue; then the job" if runs else "The job"
    message = f"This operator doesn't support {fields}, {cause}. {waits} waits until the operator is upgraded."
    return with_phase(context, status, phase, "True" if runs else "False", Reason.OPERATOR_OUTDATED, message)


def _keep_times(before: DataPrepJobStatus, after: DataPrepJobStatus) -> DataPrepJobStatus:
    """Return the status `after`, with the times from `before` where nothing has changed.

    A condition keeps its time if its status is unchanged. The progress keeps its time if nothing else in it has changed. Therefore the new
    status of an unchanged job equals its old status.
    """
    old_times = {(condition.type, condition.status): condition.last_transition_time for condition in before.conditions}
    new_conditions = [
        condition.model_copy(
            update={"last_transition_time": old_times.get((condition.type, condition.status), condition.last_transition_time)}
        )
        for condition in after.conditions
    ]
    progress = after.progress
    if progress is not None and before.progress is not None:
        with_old_time = progress.model_copy(update={"updated_at": before.progress.updated_at})
        progress = with_old_time if with_old_time == before.progress else progress
    return after.model_copy(update={"conditions": new_conditions, "progress": progress})


def _keep_final(context: Context) -> DataPrepJobStatus:
    """Return the status of a finished job.

    It changes only to record the observed generation and, if the job can't be retried, to mark the retry annotation as handled.
    """
    observed = context.observed
    status = observed.status.model_copy(update={"observed_generation": observed.generation})
    if observed.retry is not None and observed.retry != status.handled_retry:
        status = status.model_copy(update={"handled_retry": observed.retry[:256]})
    return status


def _await_removal(context: Context) -> DataPrepJobStatus:
    """Return the status of a deleted job whose output is being removed. Only the condition OutputRemoved changes."""
    judgement = removal.judge(context.observed)
    if isinstance(judgement, removal.Release):
        return context.observed.status
    status = handover.with_condition(context.observed.status, None, now=context.now, generation=context.observed.generation)
    return with_condition(context, status, ConditionType.OUTPUT_REMOVED, "False", judgement.reason, judgement.message)


def _initialize(context: Context) -> DataPrepJobStatus:
    observed = context.observed
    status = observed.status.model_copy(update={"observed_generation": observed.generation})
    if observed.retry_wanted:
        return _retry(context, status)
    if observed.edited:
        restart: dict[str, Any] = {"phase": "Pending", "step": "Plan", "completion_time": None, "failures": [], "rejected_spec": None}
        status = status.model_copy(update=restart)
        status = with_condition(context, status, ConditionType.FAILED, "False", Reason.EDITED, "The spec was edited.")
    if observed.retry is not None and observed.retry != status.handled_retry:
        # The retry was requested before the job failed. Mark the request as handled, so that it causes no retry after a later failure.
        status = status.model_copy(update={"handled_retry": observed.retry[:256]})
    if status.phase is None:
        status = status.model_copy(update={"phase": "Pending", "attempt": 1, "step": "Plan"})
    return status


def _retry(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    failed_condition = conditions.find(status.conditions, ConditionType.FAILED)
    step = _retry_step(status, failed_condition)
    status = status.model_copy(
        update={
            "phase": "Pending",
            "handled_retry": (context.observed.retry or "")[:256],
            "attempt": status.attempt + 1,
            "step": step,
            "completion_time": None,
            "failures": [],
            "failed_indexes": None,
            "evictions": evictions.reset(status),
            # Keep the raised memory, but request GPUs again, because some GPUs may be free now.
            "effective": memory.carry_over(status.effective),
            **(BEFORE_PLANNING if step == "Plan" else {}),
        }
    )
    return with_condition(
        context, status, ConditionType.FAILED, "False", Reason.RETRYING, f"Attempt {status.attempt}, from the step {step}."
    )


def _retry_step(status: DataPrepJobStatus, failed_condition: Condition | None) -> Literal["Plan", "Shuffle", "Convert", "Commit"]:
    reason = failed_condition.reason if failed_condition is not None else ""
    if status.run_id is None or reason in _RETRY_FROM_PLAN:
        return "Plan"
    if status.step == "Commit" and reason not in _RETRY_FROM_CONVERT:
        return "Commit"
    return "Shuffle" if status.step == "Shuffle" else "Convert"


def _start(context: Context, status: DataPrepJobStatus) -> DataPrepJobStatus:
    if status.start_time:
        return status
    source = context.spec.source
    name = source.from_job.name if source is not None and source.from_job is not None else None
    # Record the other job's output before creating children that depend on it, because the other job may no longer exist when the operator
    # restarts.
    from_job = next((dependency.data_set for dependency in context.observed.dependencies if dependency.name == name), None)
    return status.model_copy(
        update={"start_time": times.text(context.now), "child_prefix": context.observed.child_prefix, "from_job": from_job}
    )


def _cycle_message(observed: Observed) -> str:
    job_names = [key.name if key.namespace == observed.key.namespace else "another namespace's job" for key in observed.wait_cycle]
    return f"These jobs wait for each other: {' → '.join(job_names)}."


# Any, because these are JSON objects of the API.
def as_json(status: DataPrepJobStatus) -> dict[str, Any]:
    """Return the status as the API's JSON. Empty fields are left out, so that server-side apply removes them."""
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in document.items() if value != []}
