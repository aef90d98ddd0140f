"""A reader that takes the samples of one task from the files of a shuffle. Its batches equal the batches of the source's own reader.

If there are no files, the source's own reader reads the samples.
"""

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import NotFound
from dataprep_converter.readers import AcceptsReadPlan, HasLines, SampleReader
from dataprep_converter.readers.base.windows import MOST_BYTES, SHARE_OF_MEMORY, ShuffleWindows
from dataprep_converter.readers.shuffle.task_records import TaskRecords
from dataprep_converter.records.batch import Batch
from dataprep_converter.runtime import limits
from dataprep_converter.sampling.units import Units

logger = logging.getLogger(__name__)

Samples = npt.NDArray[np.int64]
Gather = Callable[[], TaskRecords]
"""Gathers the records of the task. Raises NotFound if there are no files, NotWhole if files remain damaged, and StoreFull."""


def task_reader(source: SampleReader, gather: Gather) -> "TaskReader":
    """Returns a reader of one task's samples. `source` is the source's own reader, which the returned reader closes."""
    return _TextTaskReader(source, gather) if isinstance(source, HasLines) else TaskReader(source, gather)


class TaskReader(Closeable):
    """Implements `SampleReader`. The records are gathered when the first samples are read."""

    def __init__(self, source: SampleReader, gather: Gather) -> None:
        self._source = source
        self._gather = gather
        self._records: TaskRecords | None = None
        self._is_gathered = False
        self._windows = ShuffleWindows()
        self._unreported_bytes = 0

    def schema(self) -> pa.Schema:
        """Returns the columns of the source's reader."""
        return self._source.schema()

    def classes(self) -> dict[str, list[str]]:
        """Returns the class names of the source's reader."""
        return self._source.classes()

    def read(self, units: Units, samples: Iterator[Samples]) -> Iterator[Batch]:
        """Yields a batch for each array of sample numbers. If the task has more records than fit into memory, many batches are collected in
        one pass over the gathered records."""
        first = next(samples, None)
        if first is None:
            return
        samples = itertools.chain([first], samples)
        records = self._gathered()
        if records is None:
            yield from self._source.read(units, samples)
            return
        rows = (
            map(records.stored, samples)
            if records.nbytes <= min(MOST_BYTES, limits.memory_bytes() // SHARE_OF_MEMORY)
            else self._windows.batches(records.stored, samples, row_bytes=records.row_bytes)
        )
        for batch in rows:
            bytes_in, self._unreported_bytes = self._unreported_bytes, 0
            yield records.form.batch(replace(batch, bytes_in=bytes_in))

    def accept_read_plan(self, coming: Callable[[], Iterator[Iterator[Samples]]]) -> None:
        """Stores the arrays that will be passed to each future call of `read`, starting with the next call."""
        self._windows.coming = coming
        if isinstance(self._source, AcceptsReadPlan):
            self._source.accept_read_plan(coming)

    def close(self) -> None:
        """Closes the source's reader, and removes the gathered records."""
        self._windows.close()
        self._records = None
        self._source.close()

    def _gathered(self) -> TaskRecords | None:
        """Returns the task's records, or None if the source's reader must read them."""
        if not self._is_gathered:
            try:
                self._records = self._gather()
                self._unreported_bytes = self._records.bytes_in
            except NotFound:
                # There are no files of a shuffle. This is usual if a single process does all the work.
                logger.info("there are no files of the first round of the shuffle, so this task reads the source")
            self._is_gathered = True
        return self._records


class _TextTaskReader(TaskReader):
    """Also implements `HasLines`."""

    def __init__(self, source: SampleReader, gather: Gather) -> None:
        super().__init__(source, gather)
        self._text = source

    def lines(self, units: Units, samples: Samples) -> Samples:
        """Returns the number of the line on which each sample begins. The first round has stored these numbers."""
        records = self._gathered()
        if records is not None:
            return records.lines(samples)
        if not isinstance(self._text, HasLines):
            raise TypeError("only readers of text have line numbers")
        return self._text.lines(units, samples)
