"""Summarise plain numbers of many features together. If a table has many columns, separate calls for each column and batch would be slow.

A column is plain in a batch if it has one number per record and no null. Plain columns of one type form a matrix, whose rows are the features.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.native import bounds
from dataprep_converter.core.tensors import Array
from dataprep_converter.statistics.summaries import PLAIN, TOGETHER, Summariser

_ROWS: Final = 32_768
_VALUES: Final = 1 << 20
"""The largest number of values, of all features together, that are described in one step. Larger steps need fewer calls."""


class PlainColumns:
    """Computes statistics of plain columns for a group of summarisers, and passes each summariser the results for its feature."""

    def __init__(self, summarisers: Sequence[Summariser], *, dtype: np.dtype[Any], every: int) -> None:
        """Sample one in `every` records. The bounds cover all records. All summarisers must have seen the same number of records."""
        self.summarisers = summarisers
        self._every = every
        self._before = summarisers[0].summary.records
        self._records = 0
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        self._least = np.full(len(summarisers), limits.max, dtype)
        self._greatest = np.full(len(summarisers), limits.min, dtype)
        self._together = max(TOGETHER, min(_ROWS, _VALUES // len(summarisers)))
        self._batches: list[npt.NDArray[Any]] = []
        self._batched_values = 0

    def add(self, columns: Sequence[Array]) -> None:
        """Add the columns of a batch."""
        values = [column.to_numpy() for column in columns]
        column_bounds = bounds(values, first=-(self._before + self._records) % self._every, every=self._every)
        is_finite = np.isfinite(column_bounds.least) & np.isfinite(column_bounds.greatest)
        for place in np.flatnonzero(~is_finite).tolist():
            self.summarisers[place].numbers.bound(values[place])
        np.minimum(self._least, column_bounds.least, out=self._least, where=is_finite)
        np.maximum(self._greatest, column_bounds.greatest, out=self._greatest, where=is_finite)
        self._records += len(values[0])
        self._batches.append(column_bounds.looked_at)
        self._batched_values += column_bounds.looked_at.shape[1]
        if self._batched_values >= self._together:
            self._describe()

    def end(self) -> None:
        """Pass the remaining results to the summarisers, after the last batch."""
        self._describe()
        for summariser, least, greatest in zip(self.summarisers, self._least.tolist(), self._greatest.tolist(), strict=True):
            summariser.take_plain(self._records, least, greatest)

    def _describe(self) -> None:
        if not self._batches:
            return
        matrix = np.concatenate(self._batches, axis=1)
        self._batches, self._batched_values = [], 0
        for summariser, values in zip(self.summarisers, matrix, strict=True):
            summariser.describe_plain(values)


class Columns:
    """Summarises all features of a shard. Plain columns are processed together, and every other column is processed separately."""

    def __init__(self) -> None:
        self._plain: dict[tuple[int, int], PlainColumns] = {}

    def add(self, columns: Iterable[tuple[Summariser, Array]]) -> None:
        """Add a batch, with all of its columns."""
        alone: list[tuple[Summariser, Array]] = []
        alike: dict[tuple[int, int], list[tuple[Summariser, Array]]] = {}
        for summariser, column in columns:
            kind = column.type
            if kind.id in PLAIN and len(column) and not column.null_count:
                every = summariser.settle(kind, rows=len(column), values=len(column))
                alike.setdefault((kind.id, every), []).append((summariser, column))
            else:
                alone.append((summariser, column))
        for key in list(self._plain):
            # The group of plain columns has changed: a column that had no nulls now has some, or vice versa.
            if self._plain[key].summarisers != [summariser for summariser, _ in alike.get(key, [])]:
                self._plain.pop(key).end()
        for summariser, column in alone:
            summariser.add(column)
        for key, group in alike.items():
            if key not in self._plain:
                dtype = group[0][1].to_numpy().dtype
                self._plain[key] = PlainColumns([summariser for summariser, _ in group], dtype=dtype, every=key[1])
            self._plain[key].add([column for _, column in group])

    def end(self) -> None:
        """Pass the remaining results to the summarisers, after all batches."""
        for plain in self._plain.values():
            plain.end()
        self._plain = {}
