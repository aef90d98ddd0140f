"""A shuffle in two rounds, for sources that are decoded in units and have more bytes than a worker keeps in memory.

    first round     each task reads one slice of the input, and writes a file with one range of records for each convert task
    second round    each convert task reads its range from every file of the first round, instead of the source

So each record is decoded once and read again once, for any number of workers. The convert task of each record is computed from the plan.
This module does the first round. `gather.py` gathers the records for the second round.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dataprep_api import names
from dataprep_api.dataset.plan import first_new_shard
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadData, NotFound, Unreachable
from dataprep_converter.core.tensors import to_numpy
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_reports import StoredReports
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.bad_record_advice import advice_for
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.readers import NumbersLines, SampleReader, reader_class
from dataprep_converter.readers.base import windows
from dataprep_converter.readers.shuffle import shuffle_file
from dataprep_converter.readers.shuffle.divider import Divider
from dataprep_converter.readers.shuffle.shuffle_file import Identity
from dataprep_converter.readers.shuffle.stored_rows import RowForm, bad_rows
from dataprep_converter.records.batch import SAMPLE, RejectedSample
from dataprep_converter.runtime import allocator
from dataprep_converter.runtime.retry import RetryPolicy, retrying
from dataprep_converter.runtime.temporary import free_bytes
from dataprep_converter.sampling.destinations import NOWHERE, Destinations
from dataprep_converter.sampling.plan import Plan, check_versions
from dataprep_converter.sampling.selection import Samples
from dataprep_converter.sampling.slices import first_samples
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.steps.conversion.shuffle_batches import FIRST_RECORDS, MOST_RECORDS, BatchSizes

logger = logging.getLogger(__name__)

_RETRY_POLICY = RetryPolicy(attempts=3, total_seconds=300, first_delay_seconds=1)
"""How to retry a task of the first round after its store has failed. Each retry reads the slice again."""

Watch = Callable[[TaskProgress], None]
"""Called after each batch, and once more at the end of the task."""


def shuffle_tasks(plan: Plan) -> int:
    """Returns the number of tasks of the first round, or 0 if the plan has no such round."""
    return plan.head.shuffle_tasks or 0


def is_needed(spec: DataPrepJobSpec, *, plan: Plan, access: Access, works_alone: bool) -> bool:
    """Whether the processes on this machine should do the first round.

    The round isn't needed if this process makes all shards (`works_alone`) and can gather their records in one pass over the source.
    Otherwise, each convert task would need its own pass. The round is then needed if at least one convert task has unfinished shards, or at
    least two if several processes make the shards.
    """
    head = plan.head
    if not shuffle_tasks(plan) or (works_alone and _fit_into_one_pass(spec, plan, access)):
        return False
    reports = StoredReports.of_plan(OutputFolder(spec.output.uri, access).of_run(head.run_id), plan)
    unfinished = [number for number, report in enumerate(reports) if report is None or report.plan_sha256 != plan.sha256]
    tasks = np.unique(np.searchsorted(first_shards(plan), unfinished, side="right"))
    return len(tasks) >= (1 if works_alone else 2)


def _fit_into_one_pass(spec: DataPrepJobSpec, plan: Plan, access: Access) -> bool:
    """Whether one pass over the source can gather all records. If the input is compressed, the records can be much larger than the input,
    so the first records are measured."""
    samples, size = plan.head.samples, plan.head.bytes_in
    if not samples or not windows.fit_into_one_pass(samples, size):
        return samples == 0
    with _open_reader(spec, plan, access) as reader:
        first = np.arange(min(FIRST_RECORDS, samples), dtype=np.int64)
        records = next(iter(reader.read(plan.units, iter([first])))).records
    return windows.fit_into_one_pass(samples, max(size, records.nbytes // max(1, records.num_rows) * samples))


def shuffle_task(
    spec: DataPrepJobSpec, number: int, *, plan: Plan, access: Access, watch: Watch = lambda _: None, again: bool = False
) -> TaskProgress:
    """Runs one task of the first round: reads a slice of the input, and writes the slice's records in one range for each convert task.
    Idempotent.

    Returns the numbers of records and bytes that were read and written. If the file already existed, only its records are counted. `again`
    says that an existing file is damaged and must be replaced. Raises BadData if a record is bad and the policy is `Fail`. Raises
    OutputLost if another run has taken over the folder, StoreFull if the store or $TMPDIR has no space, and the errors of the source.
    """
    check_versions(plan.head, spec, spec.output.uri)
    allocator.tune_allocator()
    folder = OutputFolder(spec.output.uri, access).of_run(plan.head.run_id)
    with _open_reader(spec, plan, access) as reader:
        if isinstance(reader, NumbersLines):
            reader.number_lines()
        task = _Task(number, spec, plan, reader, folder, access, watch, again)
        return retrying(task.run, what=f"the shuffle's task {number}", policy=_RETRY_POLICY)


def _open_reader(spec: DataPrepJobSpec, plan: Plan, access: Access) -> SampleReader:
    """Returns a reader of the source, set up according to the plan."""
    access.follow(spec, plan.head.parts)
    access.commits.update(plan.head.commits)
    return reader_class(spec.data.kind)(access.unsigned(spec.data).member, plan.head.reader_state, access)


@dataclass(frozen=True)
class _Task:
    """One task of the first round, with the objects that the task needs."""

    number: int
    spec: DataPrepJobSpec
    plan: Plan
    reader: SampleReader
    folder: RunFolder
    access: Access
    watch: Watch
    again: bool

    def run(self) -> TaskProgress:
        """Writes the file, unless it already exists and `again` is false."""
        progress = TaskProgress()
        form, tasks = RowForm.of(self.reader), self.plan.head.tasks
        identity = identity_of(self.plan, form, self.number)
        uri = self.folder.at(names.shuffle_file(self.plan.head.run_id, self.number))
        stored = None if self.again else self._stored_samples(uri, identity)
        if stored is not None:
            progress.records_in = stored
            self.watch(progress)
            return progress
        if is_finished(self.folder):
            logger.info("the run is finished, so slice %d isn't needed", self.number)
            return progress
        slice_bytes, free = self.plan.head.bytes_in // shuffle_tasks(self.plan), free_bytes()
        if free < slice_bytes:
            logger.warning("$TMPDIR has %d MiB free; the records of a slice may need %d MiB", free >> 20, slice_bytes >> 20)
        with Divider(form.schema, tasks) as divider:
            self._divide(divider, form, progress)
            progress.bytes_out = self._write(divider, identity, uri)
        self.watch(progress)
        return progress

    def _divide(self, divider: Divider, form: RowForm, progress: TaskProgress) -> None:
        """Reads the slice, and gives each of its samples to the divider."""
        units, destinations = self.plan.units, Destinations(self.plan)
        if not isinstance(units, UnitTable):
            raise TypeError("a shuffle needs the complete table of units")
        first, end = first_samples(units, shuffle_tasks(self.plan))[self.number : self.number + 2].tolist()
        sizes = BatchSizes(self.plan, units, first=first, end=end)
        for batch in self.reader.read(units, _batches(first, end, destinations, sizes)):
            self._check_bad(batch.bad)
            rows = form.rows(batch)
            bad = bad_rows(batch.bad)
            sizes.measure(rows.num_rows + bad.num_rows, rows.nbytes + bad.nbytes)
            divider.add(rows, destinations.tasks(to_numpy(rows.column(SAMPLE))), bad, destinations.tasks(to_numpy(bad.column("sample"))))
            progress.records_in += rows.num_rows + bad.num_rows
            progress.bytes_in += batch.bytes_in
            self.watch(progress)

    def _check_bad(self, bad: Sequence[RejectedSample]) -> None:
        """If there is a bad record and the policy is `Fail`, raises BadData now, because the job would fail later in any case."""
        if bad and self.spec.on_bad_record.policy == "Fail":
            units = self.plan.units
            uri, row = units.origin(bad[0].sample)
            advice = advice_for(bad[0].reason, self.spec, first=units.unit(0).uri)
            raise BadData(f"{uri}, record {row}: {bad[0].reason}. {advice}", uri=uri)

    def _stored_samples(self, uri: str, identity: Identity) -> int | None:
        """Returns the number of samples in the stored file, or None if the file is missing or incomplete."""
        try:
            with self.access.store(uri).open(uri) as source:
                return shuffle_file.count_samples(source, identity) if shuffle_file.is_whole(source, identity) else None
        except NotFound:
            return None

    def _write(self, divider: Divider, identity: Identity, uri: str) -> int:
        """Writes the file, unless another run has taken over the folder or this run is finished. Returns the file's size."""
        upload = self.access.store(uri).create(uri)
        size = 0
        try:
            for piece in divider.pieces(identity):
                upload.write(piece)
                size += len(piece)
            # A process that takes over the folder or finishes this run also discards staged uploads (see `dataset/fencing.py`).
            upload.stage()
            self.folder.check_owner()
            # Another worker may have completed the file in the meantime. Keep that file, because convert tasks may be reading it.
            if is_finished(self.folder) or (not self.again and self._stored_samples(uri, identity) is not None):
                upload.abort()
                return 0
            upload.commit(replace=True)
        except BaseException as exc:
            upload.abort()
            if isinstance(exc, Unreachable):
                self.folder.check_owner()
            raise
        return size


def _batches(first: int, end: int, destinations: Destinations, sizes: BatchSizes) -> Iterator[Samples]:
    """Yields the samples from `first` to `end`, in order, one array for each batch. Samples in no split are left out."""
    for start in range(first, end, MOST_RECORDS):
        samples = np.arange(start, min(start + MOST_RECORDS, end), dtype=np.int64)
        samples = samples[destinations.tasks(samples) != NOWHERE]
        while len(samples):
            count = sizes.next(samples)
            yield samples[:count]
            samples = samples[count:]


def is_finished(folder: RunFolder) -> bool:
    """Whether `_SUCCESS` names the folder's run."""
    success = folder.success()
    return success is not None and success.run_id == folder.run_id


def first_shards(plan: Plan) -> list[int]:
    """Returns the first shard of each convert task, followed by the total number of shards."""
    return [first_new_shard(plan.head, index) for index in range(plan.head.tasks + 1)]


def identity_of(plan: Plan, form: RowForm, number: int) -> Identity:
    """Returns the identity of a slice's file."""
    return Identity.of(plan.sha256, form.schema, number=number, tasks=plan.head.tasks)
