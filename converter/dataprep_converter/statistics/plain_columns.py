"""Plain numbers of many features at once: a table of many columns would cost a call of each function for each column of each batch.

A column is plain in a batch when it has one number a record and no null. Those of one type are a matrix, whose rows are the features.
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
"""Of all features that are described at once, at most: the more, the fewer calls."""


class PlainColumns:
    """Looks at the batches of some summarisers, and tells each what it found of its own feature."""

    def __init__(self, summarisers: Sequence[Summariser], *, dtype: np.dtype[Any], every: int) -> None:
        """One record of `every` is looked at for all but the bounds. The summarisers have seen as many records, one as the other."""
        self.summarisers = summarisers
        self._every = every
        self._before = summarisers[0].summary.records
        self._records = 0
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        self._least = np.full(len(summarisers), limits.max, dtype)
        self._greatest = np.full(len(summarisers), limits.min, dtype)
        self._together = max(TOGETHER, min(_ROWS, _VALUES // len(summarisers)))
        self._waiting: list[npt.NDArray[Any]] = []
        self._held = 0

    def add(self, columns: Sequence[Array]) -> None:
        """Takes a batch."""
        values = [column.to_numpy() for column in columns]
        found = bounds(values, first=-(self._before + self._records) % self._every, every=self._every)
        is_finite = np.isfinite(found.least) & np.isfinite(found.greatest)
        for place in np.flatnonzero(~is_finite).tolist():
            self.summarisers[place].numbers.bound(values[place])
        np.minimum(self._least, found.least, out=self._least, where=is_finite)
        np.maximum(self._greatest, found.greatest, out=self._greatest, where=is_finite)
        self._records += len(values[0])
        self._waiting.append(found.looked_at)
        self._held += found.looked_at.shape[1]
        if self._held >= self._together:
            self._describe()

    def end(self) -> None:
        """Tells the summarisers what they don't know yet."""
        self._describe()
        for summariser, least, greatest in zip(self.summarisers, self._least.tolist(), self._greatest.tolist(), strict=True):
            summariser.take_plain(self._records, least, greatest)

    def _describe(self) -> None:
        if not self._waiting:
            return
        whole = np.concatenate(self._waiting, axis=1)
        self._waiting, self._held = [], 0
        for summariser, values in zip(self.summarisers, whole, strict=True):
            summariser.describe_plain(values)


class Columns:
    """All features of a shard: plain columns side by side, each other one by itself."""

    def __init__(self) -> None:
        self._plain: dict[tuple[int, int], PlainColumns] = {}

    def add(self, columns: Iterable[tuple[Summariser, Array]]) -> None:
        """Takes a batch, with every column that there is."""
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
            # Others than before, because a column has a null now, or none any more.
            if self._plain[key].summarisers != [summariser for summariser, _ in alike.get(key, [])]:
                self._plain.pop(key).end()
        for summariser, column in alone:
            summariser.add(column)
        for key, found in alike.items():
            if key not in self._plain:
                dtype = found[0][1].to_numpy().dtype
                self._plain[key] = PlainColumns([summariser for summariser, _ in found], dtype=dtype, every=key[1])
            self._plain[key].add([column for _, column in found])

    def end(self) -> None:
        """Once all batches were added."""
        for plain in self._plain.values():
            plain.end()
        self._plain = {}
