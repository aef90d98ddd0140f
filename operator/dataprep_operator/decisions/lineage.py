"""Derives OpenLineage events from two successive statuses of a job: the start and the failure of an attempt. All functions are pure.

The operator doesn't send COMPLETE. Only the pods know the pins of the inputs and the finished data set, so the pods send this event.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dataprep_api.lineage.events import Kind
from dataprep_api.reasons import ConditionType
from dataprep_api.resources.status import TERMINAL_PHASES, DataPrepJobStatus
from dataprep_operator.decisions import conditions


@dataclass(frozen=True)
class Change:
    """A change of an attempt, such as its start or its failure."""

    kind: Kind
    attempt: int
    error: str | None = None


def is_under_way(status: DataPrepJobStatus) -> bool:
    """Return whether the job has started and has not ended."""
    return status.start_time is not None and status.phase not in TERMINAL_PHASES


def between(before: DataPrepJobStatus, after: DataPrepJobStatus) -> Iterator[Change]:
    """Yield the changes between two statuses of a job. If a new attempt replaces an unfinished attempt, the unfinished attempt has failed.

    A job that fails before its start, for example because of an invalid spec, has no run, so nothing is yielded.
    """
    is_next = after.attempt > before.attempt
    was_under_way = is_under_way(before)
    if was_under_way and is_next:
        yield Change("FAIL", before.attempt, f"Attempt {after.attempt} follows, from the step {after.step}.")
    if is_under_way(after) and (is_next or not was_under_way):
        yield Change("START", after.attempt)
    if after.phase == "Failed" and was_under_way:
        if is_next:
            yield Change("START", after.attempt)
        failed = conditions.find(after.conditions, ConditionType.FAILED)
        yield Change("FAIL", after.attempt, failed.message if failed is not None else "The job has failed.")
