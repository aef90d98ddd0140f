"""The OpenLineage events that are sent when a job's status changes."""

from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import Condition, DataPrepJobStatus
from dataprep_operator.decisions.lineage import Change, between

START = "2026-01-31T12:00:00Z"
PENDING = DataPrepJobStatus(phase="Pending", attempt=1, step="Plan")
PLANNING = DataPrepJobStatus(phase="Planning", attempt=1, step="Plan", start_time=START)
RUNNING = DataPrepJobStatus(phase="Running", attempt=1, step="Convert", start_time=START)
SUCCEEDED = DataPrepJobStatus(phase="Succeeded", attempt=1, step="Commit", start_time=START)


def failed(attempt: int = 1, start_time: str | None = START) -> DataPrepJobStatus:
    condition = Condition(
        type=ConditionType.FAILED, status="True", reason=Reason.INPUT_CHANGED, message="rows.csv is bad.", last_transition_time=START
    )
    return DataPrepJobStatus(phase="Failed", attempt=attempt, step="Convert", start_time=start_time, conditions=[condition])


def test_the_first_status_with_a_start_starts_a_run() -> None:
    assert list(between(DataPrepJobStatus(), PLANNING)) == [Change("START", 1)]
    assert list(between(PENDING, PLANNING)) == [Change("START", 1)]


def test_a_job_that_waits_or_goes_on_changes_nothing() -> None:
    assert list(between(DataPrepJobStatus(), PENDING)) == []
    assert list(between(PLANNING, RUNNING)) == []


def test_a_job_that_succeeds_is_left_to_its_pods() -> None:
    assert list(between(RUNNING, SUCCEEDED)) == []


def test_a_failure_has_the_message_of_its_condition() -> None:
    assert list(between(RUNNING, failed())) == [Change("FAIL", 1, "rows.csv is bad.")]
    assert list(between(failed(), failed())) == []


def test_a_job_that_fails_before_its_start_has_no_run() -> None:
    assert list(between(PENDING, failed(start_time=None))) == []


def test_a_retry_is_another_run() -> None:
    again = DataPrepJobStatus(phase="Pending", attempt=2, step="Convert", start_time=START)
    assert list(between(failed(), again)) == [Change("START", 2)]


def test_an_attempt_that_another_one_replaces_has_failed() -> None:
    more_memory = RUNNING.model_copy(update={"attempt": 2})
    assert list(between(RUNNING, more_memory)) == [
        Change("FAIL", 1, "Attempt 2 follows, from the step Convert."),
        Change("START", 2),
    ]


def test_every_start_has_an_end_even_if_the_next_attempt_fails_at_once() -> None:
    kinds = [(change.kind, change.attempt) for change in between(RUNNING, failed(attempt=2))]
    assert kinds == [("FAIL", 1), ("START", 2), ("FAIL", 2)]
