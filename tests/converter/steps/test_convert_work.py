"""The work step: one shard is finished and published while the next one is being read, and a failed shard doesn't affect the others."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.builders.digits import EIGHT, commit_result, digits_job, sha256s
from tests.builders.files import visible

from dataprep_api.dataset.plan import shards
from dataprep_converter.core.errors import BadData, ConvertError, StoreFull, Unreachable
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import shard_writer
from dataprep_converter.pipeline.shard_writer import ShardWriter
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime import retry
from dataprep_converter.runtime.prefetch import prefetched
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import convert_work
from dataprep_converter.stores import publish
from dataprep_converter.tools.verification import verify

SECONDS = 30


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the files of the shards that the work step has begun to read."""
    files: list[str] = []
    begin = ShardWriter.__init__

    def noted(self: ShardWriter, one: Any, **arguments: Any) -> None:
        files.append(one.file)
        begin(self, one, **arguments)

    monkeypatch.setattr(ShardWriter, "__init__", noted)
    monkeypatch.setattr(convert_work, "_SHARD_RETRY_POLICY", retry.RetryPolicy(attempts=3, first_delay_seconds=0.01))
    return files


@pytest.mark.slow
def test_a_shard_is_published_while_the_next_one_is_read(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[str]
) -> None:
    original = publish.publish
    next_was_read = threading.Event()
    encode = ShardWriter.encode

    def noted(self: ShardWriter, watch: Any) -> None:
        encode(self, watch)
        if len(begun) == 2:
            next_was_read.set()

    def waits(*arguments: Any, **sizes: Any) -> Any:
        assert next_was_read.wait(SECONDS), "the second shard was not read before the first was published"
        return original(*arguments, **sizes)

    monkeypatch.setattr(ShardWriter, "encode", noted)
    monkeypatch.setattr(shard_writer, "publish", waits)
    commit_result(digits_job(few, tmp_path / "out", output=EIGHT))
    monkeypatch.undo()
    commit_result(digits_job(few, tmp_path / "plain", output=EIGHT))
    assert sha256s(tmp_path / "out") == sha256s(tmp_path / "plain")


def test_the_time_that_encoding_waits_for_a_batch_is_told(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    reports: list[Any] = []
    put_report = RunFolder.put_report

    def late(items: Any, *, depth: int) -> Any:
        for item in prefetched(items, depth=depth):
            clock[0] += 0.5
            yield item

    def noted(folder: Any, report: Any) -> None:
        reports.append(report)
        put_report(folder, report)

    monkeypatch.setattr(shard_writer, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(shard_writer, "prefetched", late)
    monkeypatch.setattr(RunFolder, "put_report", noted)
    result = commit_result(digits_job(few, tmp_path / "out", output=EIGHT))
    assert [report.seconds["readWait"] for report in reports] == [0.5] * 24, "each shard is one batch"
    assert (result.seconds["readWait"], result.seconds["encode"]) == (12.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0, 3, 23], ids=["first", "fourth", "last"])
def test_a_shard_that_could_not_be_published_is_made_again(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[str], failing: int
) -> None:
    original = publish.publish
    tried: list[str] = []

    def fails_once(upload: Any, store: Any, uri: str, **sizes: Any) -> Any:
        tried.append(uri.rpartition("/")[2])
        if len(tried) == failing + 1:
            raise Unreachable("the store is away")
        return original(upload, store, uri, **sizes)

    monkeypatch.setattr(shard_writer, "publish", fails_once)
    result = commit_result(digits_job(few, tmp_path / "out", output=EIGHT))
    again = tried[failing]
    assert len(begun) == 25
    assert sorted(set(begun)) == visible(tmp_path / "out")
    assert (begun.count(again), tried.count(again)) == (2, 2)
    assert (result.records.out, verify(str(tmp_path / "out"), Access()).records_out) == (1200, 1200)
    assert not list((tmp_path / "out").glob(".dataprep-tmp-*"))


def test_a_store_that_stays_away_ends_the_task_after_some_attempts(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[str]
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise Unreachable("the store is away")

    monkeypatch.setattr(shard_writer, "publish", fails)
    with pytest.raises(Unreachable, match="the store is away"):
        commit_result(digits_job(few, tmp_path / "out", output=EIGHT))
    # The work step might have read the second shard before it knew that the first shard had failed.
    assert begun.count(begun[0]) == 3
    assert len(set(begun)) <= 2
    assert visible(tmp_path / "out") == []
    assert not list((tmp_path / "out").glob(".dataprep-tmp-*"))


def test_what_was_read_before_a_bad_shard_is_published(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[str]
) -> None:
    send = ShardWriter._send_batches

    def fails(self: ShardWriter, watch: Any) -> None:
        if len(begun) == 4:
            raise BadData(f"{begun[3]} has a bad record", uri=begun[3])
        send(self, watch)

    monkeypatch.setattr(ShardWriter, "_send_batches", fails)
    with pytest.raises(BadData, match="has a bad record") as raised:
        commit_result(digits_job(few, tmp_path / "out", output=EIGHT))
    assert (len(begun), raised.value.uri) == (4, begun[3])
    assert visible(tmp_path / "out") == sorted(begun[:3])


def test_of_two_failures_the_earlier_shards_is_told(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[str]) -> None:
    send = ShardWriter._send_batches

    def full(*_: Any, **__: Any) -> None:
        raise StoreFull("no room for the first")

    def fails(self: ShardWriter, watch: Any) -> None:
        if len(begun) == 2:
            raise BadData("the second has a bad record")
        send(self, watch)

    monkeypatch.setattr(shard_writer, "publish", full)
    monkeypatch.setattr(ShardWriter, "_send_batches", fails)
    with pytest.raises(ConvertError, match="no room for the first"):
        commit_result(digits_job(few, tmp_path / "out", output=EIGHT))
    assert visible(tmp_path / "out") == []


@pytest.mark.slow
def test_counts_never_fall(few: Path, tmp_path: Path) -> None:
    job = digits_job(few, tmp_path / "out", output=EIGHT)
    plan = plan_step.run_plan_step(job, Access()).plan
    seen: list[TaskProgress] = []

    def work() -> TaskProgress:
        return convert_work.work(
            job.spec,
            plan=plan,
            shards=list(shards(plan.head)),
            access=Access(),
            attempt="0",
            watch=lambda progress: seen.append(progress.now()),
        )

    done = work()
    for name in ("records_in", "records_out", "bytes_in", "bytes_out", "shards_done"):
        counts = [getattr(progress, name) for progress in seen]
        assert counts == sorted(counts), name
    assert {progress.shards_active for progress in seen} == {0, 1, 2}
    assert (done.records_out, done.shards_done, done.shards_active, done.shards_skipped) == (1200, 24, 0, 0)
    again = work()
    assert (again.records_out, again.shards_done, again.shards_active, again.shards_skipped) == (1200, 24, 0, 24)
