"""Plain numbers of many features at once: a table of many columns would cost a call of each function for each column of each batch.

A column is plain in a batch when it has one number a record and no null. Those of one type are a matrix, whose rows are the features.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dataprep_converter.summaries import PLAIN, TOGETHER, Summariser
from dataprep_converter.tensors import Array


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
        self._room: npt.NDArray[Any] = np.empty(0, dtype)
        self._waiting: list[npt.NDArray[Any]] = []

    def add(self, columns: Sequence[Array]) -> None:
        """Takes a batch."""
        rows = len(columns[0])
        size = rows * len(columns)
        if size > len(self._room):
            self._room = np.empty(size, self._room.dtype)
        matrix = np.concatenate([column.to_numpy() for column in columns], out=self._room[:size]).reshape(len(columns), rows)
        least, greatest = matrix.min(axis=1), matrix.max(axis=1)
        is_finite = np.isfinite(least) & np.isfinite(greatest)
        if not is_finite.all():
            for place in np.flatnonzero(~is_finite).tolist():
                self.summarisers[place].numbers.bound(matrix[place])
            least, greatest = np.where(is_finite, least, self._least), np.where(is_finite, greatest, self._greatest)
        np.minimum(self._least, least, out=self._least)
        np.maximum(self._greatest, greatest, out=self._greatest)
        first = -(self._before + self._records) % self._every
        self._records += rows
        # A copy: the next batch takes the matrix's place.
        self._waiting.append(matrix[:, first :: self._every].copy())
        if sum(part.shape[1] for part in self._waiting) >= TOGETHER:
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
        self._waiting = []
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
