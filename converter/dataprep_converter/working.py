"""The work step: the shards of one task, less those that are done."""

import logging
from collections.abc import Callable, Iterator, Sequence

from dataprep_api.messages import WorkResult
from dataprep_api.plan import Shard, task
from dataprep_api.report import ShardReport
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter import copying, plugins, shard, table_output
from dataprep_converter.access import Access
from dataprep_converter.errors import BadSpec, InputChanged, NotFound
from dataprep_converter.output_folder import OutputFolder
from dataprep_converter.pipeline import Pipeline
from dataprep_converter.planning import Plan
from dataprep_converter.readers import Foresees
from dataprep_converter.retrying import Patience, retrying
from dataprep_converter.selection import Samples
from dataprep_converter.shard import Counts
from dataprep_converter.task_progress import TaskProgress

logger = logging.getLogger(__name__)

_SHARD_PATIENCE = Patience(attempts=3, total_seconds=300, first_delay_seconds=1)
"""A shard is made again from its beginning, under a new temporary name, when its store fails."""


def load_plan(folder: OutputFolder, plan_sha256: str, *, runs_code: bool = True) -> Plan:
    """The stored plan. Raises OutputLost when another run has the folder, BadSpec when the plan is not the expected one.

    Without `runs_code` the code by which it is to be carried out isn't looked at.
    """
    plan = folder.plan()
    if plan is None:
        folder.check_owner()
        raise NotFound(f"{folder.uri} has no plan of run {folder.run_id}; was it deleted? Plan again.", uri=folder.uri)
    if plan.sha256 != plan_sha256:
        raise BadSpec(f"The plan of run {folder.run_id} has SHA-256 {plan.sha256}, this worker was started for {plan_sha256}.")
    if runs_code and plan.head.code_sha256 is not None and plan.head.code_sha256 != plugins.digest():
        raise InputChanged("The files of spec.code have changed since the job was planned; make a new job for the new code.")
    return plan


def work(
    spec: DataPrepJobSpec,
    *,
    plan: Plan,
    index: int,
    access: Access,
    attempt: str,
    watch: Callable[[TaskProgress], None],
) -> WorkResult:
    """Makes the missing shards of task `index`, or copies them. Each is tried again when its store fails; what is done stays done."""
    if spec.output.format == copying.FORMAT:
        return copying.work(spec, plan=plan, index=index, access=access, attempt=attempt, watch=watch)
    folder = OutputFolder(spec.output.uri, access, plan.head.run_id)
    pipeline = Pipeline(spec, plan.head.reader_state, access, plan.head.learned)
    rows = table_output.opened(spec, folder, access)
    progress = TaskProgress()
    skipped = 0
    shards = task(plan.head, index)
    for position, one in enumerate(shards):
        report = folder.report(one.number)
        is_done = report is not None and folder.is_done(report, plan)
        if report is not None and is_done:
            skipped += 1
        else:
            progress.shards_active = 1
            coming = shards[position:]
            report = _made(coming, spec=spec, plan=plan, pipeline=pipeline, access=access, attempt=attempt, progress=progress, watch=watch)
            logger.info("shard %s: %d records, %d bytes", report.file, report.records_out, report.size)
        if rows is not None:
            rows.send(report, is_new=not is_done)
        progress.finish(report)
        watch(progress)
    return progress.result(index, skipped=skipped)


def _made(
    coming: Sequence[Shard],
    *,
    spec: DataPrepJobSpec,
    plan: Plan,
    pipeline: Pipeline,
    access: Access,
    attempt: str,
    progress: TaskProgress,
    watch: Callable[[TaskProgress], None],
) -> ShardReport:
    """The first of these shards. The others come later, which a reader may want to know."""
    one = coming[0]
    folder = OutputFolder(spec.output.uri, access, plan.head.run_id)
    most = pipeline.most_records

    def foreseen() -> Iterator[Iterator[Samples]]:
        # The reader keeps this. It must not lead back to the pipeline: what the reader has kept would only go with the next garbage collection.
        return (shard.samples(each, plan=plan, most_records=most) for each in coming if each is one or folder.report(each.number) is None)

    def seen(counts: Counts) -> None:
        progress.watch(counts)
        watch(progress)

    is_first = True

    def once() -> ShardReport:
        nonlocal is_first
        # What failed may have failed because another worker has done it, and the commit has swept ours away.
        report = None if is_first else folder.report(one.number)
        is_first = False
        if report is not None and folder.is_done(report, plan):
            return report
        if isinstance(pipeline.reader, Foresees):
            pipeline.reader.foresee(foreseen)
        return shard.make(one, plan=plan, pipeline=pipeline, folder=folder, access=access, attempt=attempt, watch=seen)

    return retrying(once, what=f"shard {one.file}", patience=_SHARD_PATIENCE)
