"""The second round of a shuffle: a convert task gathers its records from the files of the first round (`shuffle.py`).

If a file is missing or damaged, the task that needs it makes the file again. If all files are missing, the task reads the source itself,
with the same result.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from dataprep_api import names
from dataprep_api.dataset.plan import Shard
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import InputChanged, NotFound, NotWhole, OutputLost
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import SampleReader
from dataprep_converter.readers.shuffle import shuffle_file
from dataprep_converter.readers.shuffle.shuffle_file import StoredRange
from dataprep_converter.readers.shuffle.stored_rows import RowForm
from dataprep_converter.readers.shuffle.task_reader import Gather
from dataprep_converter.readers.shuffle.task_records import TaskRecords, gather
from dataprep_converter.runtime.retry import RetryPolicy, retrying
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps.conversion.shuffle import first_shards, identity_of, is_finished, shuffle_task, shuffle_tasks

logger = logging.getLogger(__name__)

_READ_POLICY: Final = RetryPolicy(attempts=5, errors=(InputChanged,))
"""How often to try to read a file. At the same time, a slow worker may be replacing the file with another file of the same records."""


class _LostError(Exception):
    """The file of one slice is missing or damaged."""

    def __init__(self, number: int, fault: NotFound | NotWhole) -> None:
        super().__init__(number, fault)
        self.number = number
        self.fault = fault


def gather_of(
    spec: DataPrepJobSpec, shards: Sequence[Shard], *, plan: Plan, reader: SampleReader, folder: RunFolder, access: Access
) -> Gather | None:
    """Returns the function that gathers the records of the shards of one convert task. Returns None if the plan has no first round, or if
    these shards aren't exactly the shards of one task."""
    task = _task_of(shards, plan)
    if task is None:
        return None
    form = RowForm.of(reader)

    def read(number: int) -> StoredRange:
        uri = folder.at(names.shuffle_file(plan.head.run_id, number))
        with access.store(uri).open(uri) as source:
            return shuffle_file.read_range(source, identity_of(plan, form, number), task, uri=uri)

    def read_slice(number: int) -> StoredRange:
        try:
            return retrying(partial(read, number), what=f"the records of slice {number}", policy=_READ_POLICY)
        except (NotFound, NotWhole) as exc:
            raise _LostError(number, exc) from exc

    gather_records = partial(gather, form, read_slice, range(shuffle_tasks(plan)), samples=sum(shard.records for shard in shards))
    return partial(_gather_or_remake, gather_records, spec, plan, folder, access)


def _gather_or_remake(gather_records: Gather, spec: DataPrepJobSpec, plan: Plan, folder: RunFolder, access: Access) -> TaskRecords:
    """Gathers the records of a task. Each missing or damaged file is made again once.

    Raises NotFound if there are no files at all, and NotWhole if a file that was made again is also damaged. Raises OutputLost if another
    run has taken over the folder, or if this run is finished.
    """
    remade: set[int] = set()
    while True:
        try:
            return gather_records()
        except _LostError as exc:
            number, fault = exc.number, exc.fault
        folder.check_owner()
        if is_finished(folder):
            raise OutputLost(f"{folder.uri}: another process has finished run {folder.run_id} and removed the files of its shuffle.")
        stored = folder.stored_slices()
        if not stored or number in remade:
            raise fault
        logger.warning("%s The missing and damaged files are made again.", fault)
        for lost in sorted({number, *range(shuffle_tasks(plan))} - (stored - {number})):
            shuffle_task(spec, lost, plan=plan, access=access, again=lost in stored)
            remade.add(lost)


def _task_of(shards: Sequence[Shard], plan: Plan) -> int | None:
    """Returns the convert task to which exactly these shards belong, or None."""
    if not shuffle_tasks(plan) or not shards:
        return None
    firsts = first_shards(plan)
    task = int(np.searchsorted(firsts, shards[0].number, side="right")) - 1
    is_one_task = (shards[0].number, shards[-1].number + 1) == (firsts[task], firsts[task + 1]) if task < plan.head.tasks else False
    return task if is_one_task else None
