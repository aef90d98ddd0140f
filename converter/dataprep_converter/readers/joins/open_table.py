"""An open table of a join, and the rows that its reader returns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from dataprep_api.spec.sources.join import JoinTable
from dataprep_converter.readers import Reader
from dataprep_converter.readers.joins.tables import Columns, without_null_keys
from dataprep_converter.records.batch import Batch
from dataprep_converter.sampling.units import Units, UnitTable, samples_of_a_batch

_READ_RECORDS: Final = 65_536
_ROW_BYTES: Final = 1024
"""The assumed size of a row in bytes, if the size of the table is unknown."""
MOST_BAD: Final = 100_000
"""The largest accepted number of bad rows in all tables. The number of bad rows is limited because each bad row is a unit."""


@dataclass(frozen=True)
class OpenTable:
    """An open table of the join."""

    number: int
    spec: JoinTable
    reader: Reader
    units: UnitTable
    keys: list[str]
    others: list[str]
    columns: Columns
    state: Mapping[str, Any]
    """The frozen state of the reader."""
    rules: Mapping[str, Any]
    """The rules that the reader follows; see `Access.rules`."""

    @property
    def name(self) -> str:
        """The name of the table in messages."""
        return self.spec.name

    def place(self, row: int) -> str:
        """The location of a row for messages."""
        uri, record = self.units.origin(row)
        return f"{uri}, record {record}"

    def batch_rows(self) -> int:
        """The number of rows to read in one batch."""
        samples, size = self.units.samples, self.units.size
        return samples_of_a_batch(size if size >= samples else samples * _ROW_BYTES, samples, most=_READ_RECORDS)


@dataclass
class Findings:
    """The findings of a table's reader, except for the rows that can be joined."""

    bad: list[tuple[int, str]] = field(default_factory=list)
    """The bad rows with the reasons, in the order of the table."""
    lost: dict[str, tuple[int, str]] = field(default_factory=dict)
    """For each column, the number of decimals that lost digits, and the first such decimal."""

    def add(self, batch: Batch) -> None:
        """Adds the findings of a batch."""
        self.bad += [(each.sample, each.reason) for each in batch.bad]
        for lost in batch.lost:
            self.add_lost(lost.column, len(lost.texts), lost.texts[0])

    def add_lost(self, column: str, count: int, first: str) -> None:
        """Adds `count` decimals that lost digits in a column. `first` is the original text of the first one."""
        before, text = self.lost.get(column, (0, first))
        self.lost[column] = (before + count, text)


def read_rows(reader: Reader, units: Units, keys: Sequence[str], samples: range, *, batch_rows: int) -> Iterator[Batch]:
    """Yields the rows of a table whose numbers are in `samples`. Rows with a null in a key are bad."""
    numbers = (
        np.arange(first, min(first + batch_rows, samples.stop), dtype=np.int64) for first in range(samples.start, samples.stop, batch_rows)
    )
    for batch in reader.read(units, numbers):
        yield without_null_keys(batch, keys)
