"""The work step of a conversion: makes the unfinished shards of one task. Each shard is published while the next one is read."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataprep_api.dataset.plan import Shard
from dataprep_api.dataset.report import ShardReport
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_reports import BundleWriter
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.pipeline.shard_samples import samples_of
from dataprep_converter.pipeline.shard_writer import ShardWriter
from dataprep_converter.pipeline.task_progress import Counts, TaskProgress
from dataprep_converter.readers import AcceptsReadPlan
from dataprep_converter.runtime import allocator
from dataprep_converter.runtime.retry import RetryPolicy, retrying
from dataprep_converter.sampling.plan import Plan, check_versions
from dataprep_converter.sampling.selection import Samples
from dataprep_converter.transforms.hash import digests_of_keys

if TYPE_CHECKING:
    from dataprep_converter.steps.conversion.table_output import TableRows

logger = logging.getLogger(__name__)

_SHARD_RETRY_POLICY = RetryPolicy(attempts=3, total_seconds=300, first_delay_seconds=1)
"""How a shard is retried when its store fails. Each retry rebuilds the shard from the beginning, under a new temporary name."""


def check_keys(plan: Plan) -> None:
    """Raises InputChanged if a key that hashes records has changed since the job was planned. All records of a data set must be hashed with
    the same key."""
    for variable, digest in digests_of_keys(plan.head.keys).items():
        if plan.head.keys[variable] != digest:
            raise InputChanged(
                f"The environment variable {variable}, the key of the transform hash, has changed since the job was planned; create a new job for the new key."
            )


def work(
    spec: DataPrepJobSpec,
    *,
    plan: Plan,
    shards: Sequence[Shard],
    access: Access,
    attempt: str,
    watch: Callable[[TaskProgress], None],
) -> TaskProgress:
    """Makes the given shards, except those that are already finished. Each shard is retried when its store fails."""
    check_versions(plan.head, spec, spec.output.uri)
    allocator.tune_allocator()
    check_keys(plan)
    folder = OutputFolder(spec.output.uri, access).of_run(plan.head.run_id)
    access.follow(spec, plan.head.parts)
    access.commits.update(plan.head.commits)
    progress = TaskProgress()
    with (
        Pipeline(spec, plan.head.reader_state, access, plan.head.learned) as pipeline,
        ThreadPoolExecutor(1, thread_name_prefix="publish") as publishing,
    ):
        if plan.head.shuffle_tasks:
            _read_from_shuffle(pipeline, spec, shards, plan, folder, access)
        rows = _rows_of_table(spec, folder, access)
        bundles = BundleWriter(folder, plan.head)
        task = _Task(plan, pipeline, folder, access, attempt, publishing, progress, watch)
        for report, is_new in task.reports(shards):
            if is_new:
                logger.info("shard %s: %d records, %d bytes", report.file, report.records_out, report.size)
            if rows is not None:
                rows.send(report, is_new=is_new)
            bundles.add(report)
            progress.finish(report, is_new=is_new)
            watch(progress)
    return progress


# The functions below do their imports locally: most jobs don't need these modules, and a pod of a small job spends most of its time on
# imports.


def _read_from_shuffle(
    pipeline: Pipeline, spec: DataPrepJobSpec, shards: Sequence[Shard], plan: Plan, folder: RunFolder, access: Access
) -> None:
    """Makes the pipeline read the files of a shuffle's first round, if the plan has this round and `shards` are all shards of one task."""
    from dataprep_converter.readers.shuffle.task_reader import task_reader
    from dataprep_converter.steps.conversion.gather import gather_of

    gather = gather_of(spec, shards, plan=plan, reader=pipeline.reader, folder=folder, access=access)
    if gather is not None:
        pipeline.read_from(task_reader(pipeline.reader, gather))


def _rows_of_table(spec: DataPrepJobSpec, folder: RunFolder, access: Access) -> "TableRows | None":
    """Returns the sender of rows, or None for a job without a table."""
    if spec.output.table is None:
        return None
    from dataprep_converter.steps.conversion import table_output

    return table_output.open_rows(spec, folder, access)


@dataclass(frozen=True)
class _Attempt:
    """An attempt to make a shard: either all its records have been read, or the attempt has failed."""

    shards: Sequence[Shard]
    """The shard, followed by the remaining shards of its task."""
    report: "Future[ShardReport]"
    """The shard's report, which is available as soon as the shard is published."""


@dataclass(frozen=True)
class _Task:
    """A task's shards, and the objects needed to make them."""

    plan: Plan
    pipeline: Pipeline
    folder: RunFolder
    access: Access
    attempt: str
    publishing: Executor
    progress: TaskProgress
    watch: Callable[[TaskProgress], None]

    def reports(self, shards: Sequence[Shard]) -> Iterator[tuple[ShardReport, bool]]:
        """For each shard, in order, yields its report and whether this call made the shard. A shard is published while the next one is
        read."""
        attempts: deque[_Attempt] = deque()
        for position, shard in enumerate(shards):
            report = self._existing_report(shard)
            if report is None:
                attempts.append(self._start(shards[position:]))
            # A failed attempt is reported before another shard is read.
            is_under_way = report is None and not attempts[-1].report.done()
            yield from self._finish(attempts, all_but=int(is_under_way))
            if report is not None:
                yield report, False
        yield from self._finish(attempts, all_but=0)

    def _finish(self, attempts: deque[_Attempt], *, all_but: int) -> Iterator[tuple[ShardReport, bool]]:
        """Waits for the oldest attempts, until at most `all_but` attempts are left."""
        while len(attempts) > all_but:
            yield self._await_report(attempts.popleft()), True

    def _existing_report(self, shard: Shard) -> ShardReport | None:
        """Returns the report of a finished shard, or None if the shard isn't finished."""
        report = self.folder.report(shard.number)
        return report if report is not None and self.folder.is_done(report, self.plan) else None

    def _start(self, shards: Sequence[Shard]) -> _Attempt:
        """Reads and encodes the first of these shards. The reader can use the other shards to plan its reads."""
        shard, plan, folder, most = shards[0], self.plan, self.folder, self.pipeline.most_records

        def read_plan() -> Iterator[Iterator[Samples]]:
            # The reader keeps this function, so the function must not capture the pipeline: the reference cycle would delay the release of
            # the reader's cached blocks.
            return (
                samples_of(each, plan=plan, most_records=most) for each in shards if each is shard or folder.report(each.number) is None
            )

        def watch(counts: Counts) -> None:
            self.progress.watch(shard.number, counts)
            self.watch(self.progress)

        try:
            if isinstance(self.pipeline.reader, AcceptsReadPlan):
                self.pipeline.reader.accept_read_plan(read_plan)
            writer = ShardWriter(shard, plan=plan, pipeline=self.pipeline, folder=folder, access=self.access, attempt=self.attempt)
            writer.encode(watch)
        except Exception as exc:  # raised later by `_await_report`, after the earlier shards' reports have been returned
            failed: Future[ShardReport] = Future()
            failed.set_exception(exc)
            return _Attempt(shards, failed)
        return _Attempt(shards, self.publishing.submit(writer.publish))

    def _await_report(self, first: _Attempt) -> ShardReport:
        """Returns the report of the attempt. If the store failed, tries again."""
        shard = first.shards[0]
        attempts = iter([first])

        def once() -> ShardReport:
            attempt = next(attempts, None)
            if attempt is None:
                # Another worker may have finished the shard in the meantime, and the commit step may then have removed our temporary file.
                report = self._existing_report(shard)
                if report is not None:
                    return report
                attempt = self._start(first.shards)
            return attempt.report.result()

        return retrying(once, what=f"shard {shard.file}", policy=_SHARD_RETRY_POLICY)
