"""Determines why a job can't continue: it waits for other objects, or something keeps its pods from starting. All functions are pure."""

from collections.abc import Sequence
from datetime import datetime

from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_operator.decisions import blocked_deadline, conditions, deadlines
from dataprep_operator.decisions.status.context import Context, with_phase
from dataprep_operator.decisions.status.outcomes import fail
from dataprep_operator.objects.observed import Dependency
from dataprep_operator.objects.pods import Blockage


def blockage_by_others(context: Context) -> Blockage | None:
    """Return the blockage if other objects keep the job from starting or working."""
    # Check the dependencies before the output, because a dependency often has the same output. While this job waits for its dependencies,
    # it writes nothing, so sharing the output causes no conflict.
    return (
        _profile_blockage(context)
        or _dependency_blockage(context.observed.dependencies)
        or _removal_blockage(context)
        or _rival_blockage(context)
    )


def _dependency_blockage(jobs: Sequence[Dependency]) -> Blockage | None:
    """Return the blockage if other jobs keep this job from starting."""
    phrases = {None: "which does not exist", "Failed": "which has failed and may be retried"}
    descriptions = [
        f"{dependency.name}, {phrases.get(dependency.phase, f'which is {dependency.phase}')}"
        for dependency in jobs
        if not dependency.complete
    ]
    return Blockage(Reason.WAITING_FOR_JOB, f"Waiting for {'; '.join(descriptions)}.") if descriptions else None


def _profile_blockage(context: Context) -> Blockage | None:
    """Return the blockage if a missing profile keeps the job from starting. A profile's values are read only once, when the job starts."""
    profile_name = context.observed.profile_missing
    if profile_name is None:
        return None
    return Blockage(
        Reason.PROFILE_NOT_FOUND, f"There is no DataPrepProfile {profile_name} in the namespace {context.observed.key.namespace}."
    )


def _removal_blockage(context: Context) -> Blockage | None:
    """Return the blockage if this job can't start because a deleted job's output at the same location is still being removed."""
    if context.observed.output_remover is None:
        return None
    who = context.observed.describe(context.observed.output_remover, how="deleted")
    return Blockage(Reason.WAITING_FOR_JOB, f"Waiting for {who}, which removes {context.spec.output.uri}.")


def _rival_blockage(context: Context) -> Blockage | None:
    """Return the blockage if this job can't work because another job writes to the same location."""
    rival = context.observed.rival
    if rival is None:
        return None
    who = context.observed.describe(rival, how="unfinished")
    return Blockage(Reason.OUTPUT_IN_USE, f"Waiting for {who}, which writes to the same output, {context.spec.output.uri}.")


def report_blockage(context: Context, status: DataPrepJobStatus, blockage: Blockage) -> DataPrepJobStatus:
    """Return the status of a waiting job, or of a failed job if it has waited too long."""
    since = _blocked_since(context, status, blockage)
    waited_seconds = (context.now - since).total_seconds()
    before = conditions.find(status.conditions, ConditionType.RUNNING)
    message = blocked_deadline.message(blockage, before.message if before is not None and before.reason == blockage.reason else "")
    limit = blocked_deadline.seconds(message, context.spec, status, since=since) if blockage.fatal else None
    if limit is not None and waited_seconds >= limit:
        return fail(
            context,
            status,
            blockage.reason,
            message if limit == blocked_deadline.LEAST_SECONDS else f"{message} The job waited for {limit:.0f} s.",
        )
    limit = context.spec.start_deadline_seconds
    if limit is not None and not blockage.fatal and waited_seconds >= limit:
        what = "The job could not start" if blockage.reason in deadlines.NOT_STARTED else "No pod could be scheduled"
        return fail(context, status, Reason.START_DEADLINE_EXCEEDED, f"{what} within {limit} s: {blockage.message}")
    return with_phase(context, status, "Pending", "False", blockage.reason, message)


def _blocked_since(context: Context, status: DataPrepJobStatus, blockage: Blockage) -> datetime:
    """Return when the blockage began, according to the scheduler or to the condition that reported it."""
    if blockage.since is not None and not blockage.fatal:
        return blockage.since
    before = conditions.find(status.conditions, ConditionType.RUNNING)
    if before is None or before.status != "False" or before.reason != blockage.reason:
        return context.now
    return deadlines.waiting_since(status, before) or context.now
