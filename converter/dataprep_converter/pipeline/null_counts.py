"""Counts a shard's nulls, for the error message of a job that ends at the first null. `nulls.py` decides which nulls end a job."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dataprep_api.dataset.plan import Shard
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.pipeline.nulls import Defaults
from dataprep_converter.records.batch import Batch

_BATCHES: Final = 16
"""The nulls of at most this many batches are counted, so that a large shard doesn't delay the error message for long."""
_SHOWN: Final = 20
"""At most this many columns are named."""


@dataclass(frozen=True)
class NullCounts:
    """The number of nulls in a shard's first records, for each column whose feature can't store nulls."""

    file: str
    records: int
    """The number of records that were counted."""
    is_whole: bool
    """Whether all records of the shard were counted."""
    columns: Mapping[str, int]
    """For each column with nulls, the number of its nulls."""

    def explain(self, defaults: Defaults) -> str:
        """Returns sentences for the job's error message. The text ends with a space."""
        of = f"of the {'' if self.is_whole else 'first '}{self.records:,} records of {self.file}"
        names = list(self.columns)[:_SHOWN]
        counts = [f"{self.columns[name]:,} {'has' if self.columns[name] == 1 else 'have'} no {name}" for name in names]
        number, _, rest = counts[0].partition(" ")
        parts = [f"{number} {of} {rest}", *counts[1:]]
        if len(self.columns) > len(names):
            parts.append(f"{len(self.columns) - len(names):,} more columns have nulls")
        text = f"{', '.join(parts)}. "
        line = defaults.line(names) if len(names) > 1 else None
        return text if line is None else f"{text}For all these columns, {line}. "


def is_of_a_null(reason: str, batch: Batch) -> bool:
    """Whether any record of the batch is bad because it has a null that a feature can't store."""
    return any(f"{name} has no value, and " in reason for name in batch.missing)


def count_nulls(batch: Batch, coming: Iterator[Batch], *, shard: Shard, before: int) -> NullCounts:
    """Counts a shard's nulls. `batch` is the first batch with nulls that can't be stored. The batches before `batch` have `before` records,
    and `coming` yields the batches after `batch`.

    The counts depend only on the plan: the batches always have the same size, and counting stops at the first batch that can't be read.
    """
    columns: Counter[str] = Counter()
    records = before
    with suppress(ConvertError):
        for each in itertools.chain([batch], itertools.islice(coming, _BATCHES - 1)):
            columns.update(each.missing)
            records += each.records_in
    return NullCounts(file=shard.file, records=records, is_whole=records == shard.records, columns=columns)
