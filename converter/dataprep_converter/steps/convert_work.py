"""The work step: the shards of one task, less those that are done. One is written to its end and published while the next is read."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass

from dataprep_api.dataset.plan import Shard
from dataprep_api.dataset.report import ShardReport
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.pipeline.shard_samples import samples_of
from dataprep_converter.pipeline.shard_writer import ShardWriter
from dataprep_converter.pipeline.task_progress import Counts, TaskProgress
from dataprep_converter.readers import AcceptsReadPlan
from dataprep_converter.runtime import allocator
from dataprep_converter.runtime.retry import Patience, retrying
from dataprep_converter.sampling.plan import Plan, check_versions
from dataprep_converter.sampling.selection import Samples
from dataprep_converter.steps import table_output
from dataprep_converter.transforms.hash import digests_of_keys

logger = logging.getLogger(__name__)

_SHARD_PATIENCE = Patience(attempts=3, total_seconds=300, first_delay_seconds=1)
"""A shard is made again from its beginning, under a new temporary name, when its store fails."""


def check_keys(plan: Plan) -> None:
    """Raises InputChanged when a key that records are hashed with is not the one of the plan: one data set has one key."""
    for variable, digest in digests_of_keys(plan.head.keys).items():
        if plan.head.keys[variable] != digest:
            raise InputChanged(
                f"The environment variable {variable}, the key of the transform hash, has changed since the job was planned; make a new job for the new key."
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
    """Makes what is missing of these shards. Each is tried again when its store fails; what is done stays done."""
    check_versions(plan.head, spec, spec.output.uri)
    allocator.tune_allocator()
    check_keys(plan)
    folder = OutputFolder(spec.output.uri, access).of_run(plan.head.run_id)
    progress = TaskProgress()
    with (
        Pipeline(spec, plan.head.reader_state, access, plan.head.learned) as pipeline,
        ThreadPoolExecutor(1, thread_name_prefix="publish") as publishing,
    ):
        rows = table_output.opened(spec, folder, access)
        maker = _Maker(plan, pipeline, folder, access, attempt, publishing, progress, watch)
        for report, is_new in maker.reports(shards):
            if is_new:
                logger.info("shard %s: %d records, %d bytes", report.file, report.records_out, report.size)
            if rows is not None:
                rows.send(report, is_new=is_new)
            progress.finish(report, is_new=is_new)
            watch(progress)
    return progress


@dataclass(frozen=True)
class _Maker:
    """What all shards of a task are made with."""

    plan: Plan
    pipeline: Pipeline
    folder: RunFolder
    access: Access
    attempt: str
    publishing: Executor
    progress: TaskProgress
    watch: Callable[[TaskProgress], None]

    def reports(self, shards: Sequence[Shard]) -> Iterator[tuple[ShardReport, bool]]:
        """Each shard's report, in order, and whether it was made now. While one is written to its end and published, the next is read."""
        begun: deque[tuple[Sequence[Shard], Future[ShardReport]]] = deque()
        for position, one in enumerate(shards):
            coming = shards[position:]
            report = self._done(one)
            if report is None:
                begun.append((coming, self._begun(coming)))
            # What has failed already is told before another is read.
            yield from self._ends(begun, left=int(report is None and not begun[-1][1].done()))
            if report is not None:
                yield report, False
        yield from self._ends(begun, left=0)

    def _ends(self, begun: "deque[tuple[Sequence[Shard], Future[ShardReport]]]", *, left: int) -> Iterator[tuple[ShardReport, bool]]:
        """Those of the attempts that are to end, all but so many."""
        while len(begun) > left:
            yield self._ended(*begun.popleft()), True

    def _done(self, one: Shard) -> ShardReport | None:
        """The report of a shard that needn't be made."""
        report = self.folder.report(one.number)
        return report if report is not None and self.folder.is_done(report, self.plan) else None

    def _begun(self, coming: Sequence[Shard]) -> "Future[ShardReport]":
        """An attempt at the first of these shards: it has been read, or has failed. The others come later, which a reader may want to know."""
        one, plan, folder, most = coming[0], self.plan, self.folder, self.pipeline.most_records

        def foreseen() -> Iterator[Iterator[Samples]]:
            # The reader keeps this. It must not lead back to the pipeline: what the reader has kept would only go with the next garbage collection.
            return (samples_of(each, plan=plan, most_records=most) for each in coming if each is one or folder.report(each.number) is None)

        def seen(counts: Counts) -> None:
            self.progress.watch(one.number, counts)
            self.watch(self.progress)

        try:
            if isinstance(self.pipeline.reader, AcceptsReadPlan):
                self.pipeline.reader.accept_read_plan(foreseen)
            writer = ShardWriter(one, plan=plan, pipeline=self.pipeline, folder=folder, access=self.access, attempt=self.attempt)
            writer.encode(seen)
        except Exception as exc:  # raised by `_ended`, after what came before
            failed: Future[ShardReport] = Future()
            failed.set_exception(exc)
            return failed
        return self.publishing.submit(writer.publish)

    def _ended(self, coming: Sequence[Shard], begun: "Future[ShardReport]") -> ShardReport:
        """The report of that attempt, or of another one when its store failed."""
        one = coming[0]
        attempts = iter([begun])

        def once() -> ShardReport:
            attempt = next(attempts, None)
            if attempt is None:
                # What failed may have failed because another worker has done it, and the commit has swept ours away.
                report = self._done(one)
                if report is not None:
                    return report
                attempt = self._begun(coming)
            return attempt.result()

        return retrying(once, what=f"shard {one.file}", patience=_SHARD_PATIENCE)
