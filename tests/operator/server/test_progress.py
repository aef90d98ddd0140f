"""Tests of the sums of the workers' progress reports."""

from datetime import UTC, datetime, timedelta

from dataprep_api.dataset.messages import LARGEST_NUMBER, ProgressReport
from dataprep_api.resources.status import RecordProgress
from dataprep_operator.objects.finished_tasks import FinishedTasks, Work
from dataprep_operator.server.progress import ProgressStore

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def a_report(index: int, sequence: int, records: int, *, attempt: int = 1) -> ProgressReport:
    done = RecordProgress(in_=records, out=records)
    return ProgressReport(job="a", attempt=attempt, index=index, sequence=sequence, records=done, shards_active=1)


def test_an_older_report_is_dropped() -> None:
    progress_store = ProgressStore()
    progress_store.record(a_report(0, 2, 200), job_uid="j", pod_uid="p", now=NOW)
    progress_store.record(a_report(0, 1, 100), job_uid="j", pod_uid="p", now=NOW)

    assert progress_store.live("j", finished=FinishedTasks(), attempt=1, now=NOW).records.in_ == 200


def test_a_task_that_two_pods_worked_on_counts_once() -> None:
    progress_store = ProgressStore()
    progress_store.record(a_report(0, 1, 300), job_uid="j", pod_uid="dead", now=NOW)
    progress_store.record(a_report(0, 1, 100), job_uid="j", pod_uid="new", now=NOW)

    assert progress_store.live("j", finished=FinishedTasks(), attempt=1, now=NOW).records.in_ == 300


def test_a_finished_task_counts_by_its_result() -> None:
    progress_store = ProgressStore()
    progress_store.record(a_report(0, 1, 300), job_uid="j", pod_uid="p", now=NOW)
    finished = FinishedTasks(tasks={0}, work=Work(shards=2, records_in=310, records_out=310, bytes_out=5))

    live = progress_store.live("j", finished=finished, attempt=1, now=NOW)

    assert (live.records.in_, live.shards_done, live.shards_active) == (310, 2, 0)


def test_a_sum_of_untrusted_counts_fits_into_a_status() -> None:
    progress_store = ProgressStore()
    for index in range(3):
        progress_store.record(a_report(index, 1, LARGEST_NUMBER), job_uid="j", pod_uid=f"p{index}", now=NOW)

    assert progress_store.live("j", finished=FinishedTasks(), attempt=1, now=NOW).records.in_ == LARGEST_NUMBER


def test_a_silent_worker_is_not_active() -> None:
    progress_store = ProgressStore()
    progress_store.record(a_report(0, 1, 300), job_uid="j", pod_uid="p", now=NOW)

    assert progress_store.live("j", finished=FinishedTasks(), attempt=1, now=NOW).shards_active == 1
    assert progress_store.live("j", finished=FinishedTasks(), attempt=1, now=NOW + timedelta(seconds=61)).shards_active == 0


def test_the_rate_follows_and_never_falls_below_nothing() -> None:
    progress_store = ProgressStore()
    for second, records in enumerate((0, 100, 200, 300, 0)):
        progress_store.record(a_report(0, second, records), job_uid="j", pod_uid="p", now=NOW)
        live = progress_store.live("j", finished=FinishedTasks(), attempt=1, now=NOW + timedelta(seconds=second))
        assert live.records_per_second is None if second == 0 else live.records_per_second is not None
        assert live.records_per_second is None or 0 <= live.records_per_second <= 100


def test_many_workers_are_asked_to_report_less_often() -> None:
    progress_store = ProgressStore()
    for n in range(1000):
        progress_store.record(a_report(n, 1, 1), job_uid="j", pod_uid=f"p{n}", now=NOW)

    assert progress_store.next_report_seconds() == 10


def test_the_pods_of_many_small_jobs_are_asked_to_report_less_often() -> None:
    progress_store = ProgressStore()
    for n in range(1000):
        progress_store.record(a_report(0, 1, 1), job_uid=f"j{n}", pod_uid=f"p{n}", now=NOW, step="plan")

    assert progress_store.next_report_seconds() == 10

    progress_store.record(a_report(0, 1, 1), job_uid="j0", pod_uid="worker", now=NOW)
    assert progress_store.next_report_seconds() == 10


def test_many_pods_of_a_shuffle_are_asked_to_report_less_often_until_workers_report() -> None:
    progress_store = ProgressStore()
    for n in range(1000):
        progress_store.record(a_report(n, 1, 1), job_uid="j", pod_uid=f"p{n}", now=NOW, step="shuffle")
    assert progress_store.next_report_seconds() == 10

    progress_store.record(a_report(0, 1, 1), job_uid="j", pod_uid="worker", now=NOW)
    assert progress_store.next_report_seconds() == 2
