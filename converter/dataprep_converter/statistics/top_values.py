"""Find the most frequent values of a column in bounded memory.

The counts are exact if there are few distinct values, and have a known error bound if there are many.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_text
from dataprep_converter.core.tensors import Array, pc

Value: TypeAlias = int | bytes

_KEPT: Final = 1024
"""The number of distinct values whose counts are kept."""
_ENOUGH: Final = 1024
"""Counting stops after this many values if the values are mostly distinct."""
LONGEST: Final = 64
"""Byte strings longer than this aren't counted, because they aren't categories."""


@dataclass
class TopValues:
    """The counts of the most frequent values. `add` and `merge` change this object in place.

    If there are more distinct values than `limit`, the rarest are dropped, and `error` grows by the largest dropped count. So a value's
    true count is between its stored count and that count plus `error`. The true count of a value that isn't stored is at most `error`.
    """

    limit: int = _KEPT
    counts: dict[Value, int] = field(default_factory=dict)
    error: int = 0
    seen: int = 0
    """The number of values added so far, including dropped values."""
    mostly_different: bool = False
    """Whether the values identify single records rather than categories.

    If `mostly_different` is True, counting has stopped, and `counts` is empty.
    """

    def add(self, values: Array) -> None:
        """Count the values of a column of integers or byte strings without nulls."""
        if self.mostly_different or not len(values):
            return
        if is_text(values.type):
            values = values.cast(pa.large_binary())
        self.seen += len(values)
        value_counts: Any = pc.value_counts(values)
        distinct, counts = value_counts.field(0), value_counts.field(1).to_numpy()
        if self.seen >= _ENOUGH and len(distinct) + len(self.counts) > self.seen // 2:
            self._give_up()
            return
        if len(distinct) > self.limit:
            # Before creating Python objects, drop the values that won't be kept.
            most = np.partition(counts, len(counts) - self.limit - 1)[len(counts) - self.limit - 1]
            is_frequent = counts > most
            distinct, counts = distinct.filter(pa.array(is_frequent)), counts[is_frequent]
            self.error += int(most)
        self._take(zip(distinct.to_pylist(), counts.tolist(), strict=True))

    def merge(self, other: "TopValues") -> None:
        """Add the counts and the error of another column or shard."""
        self.seen += other.seen
        if self.mostly_different or other.mostly_different:
            self._give_up()
            return
        self.error += other.error
        self._take(other.counts.items())

    def most(self, count: int) -> list[tuple[Value, int]]:
        """Return the most frequent values and their counts. Values with equal counts are in ascending order."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:count]

    def cut_to(self, limit: int) -> "TopValues":
        """Return a copy with at most `limit` values."""
        copy = TopValues(limit=limit, error=self.error, seen=self.seen, mostly_different=self.mostly_different)
        copy._take(self.counts.items())
        return copy

    def to_json(self) -> list[Any]:
        """Return a compact form for JSON. A byte string becomes text with one character per byte."""
        items = self.most(len(self.counts))
        texts = [value.decode("latin-1") if isinstance(value, bytes) else value for value, _ in items]
        return [texts, [count for _, count in items], self.error, self.seen, self.mostly_different]

    @classmethod
    def from_json(cls, document: Sequence[Any]) -> "TopValues":
        """Rebuild the counts from the form that `to_json` returns."""
        texts, counts, error, seen, mostly_different = document
        values = [value.encode("latin-1") if isinstance(value, str) else value for value in texts]
        return cls(counts=dict(zip(values, counts, strict=True)), error=error, seen=seen, mostly_different=mostly_different)

    def _take(self, items: Any) -> None:
        for value, count in items:
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > self.limit:
            by_count = self.most(len(self.counts))
            self.counts = dict(by_count[: self.limit])
            self.error += by_count[self.limit][1]

    def _give_up(self) -> None:
        self.mostly_different = True
        self.counts = {}
        self.error = 0
