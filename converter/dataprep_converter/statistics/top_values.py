"""Find the most frequent values of a column in bounded memory. The counts are exact for few distinct values, or else have a known error bound."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from dataprep_converter.core.tensors import Array, pc

Value: TypeAlias = int | bytes

_KEPT: Final = 1024
"""The number of distinct values whose counts are kept."""
_ENOUGH: Final = 1024
"""The number of values after which counting stops if the values are mostly distinct."""
LONGEST: Final = 64
"""The largest length of byte strings that are counted. Longer ones aren't categories."""


@dataclass
class TopValues:
    """The counts of the most frequent values. `add` and `merge` change them in place.

    If there are more values than `limit`, the rarest values are dropped, and `error` grows by the largest dropped count. So a value's true count is
    between its stored count and that count plus `error`. The true count of a value that isn't stored is at most `error`.
    """

    limit: int = _KEPT
    counts: dict[Value, int] = field(default_factory=dict)
    error: int = 0
    seen: int = 0
    """The number of values added so far, including dropped values."""
    mostly_different: bool = False
    """Whether the values identify single records rather than categories. Then counting has stopped, and `counts` is empty."""

    def add(self, values: Array) -> None:
        """Count the values of a column of integers or byte strings without nulls."""
        if self.mostly_different or not len(values):
            return
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = values.cast(pa.large_binary())
        self.seen += len(values)
        counted: Any = pc.value_counts(values)
        found, counts = counted.field(0), counted.field(1).to_numpy()
        if self.seen >= _ENOUGH and len(found) + len(self.counts) > self.seen // 2:
            self._give_up()
            return
        if len(found) > self.limit:
            # Values that won't be kept are dropped here, to avoid creating a Python object for each.
            most = np.partition(counts, len(counts) - self.limit - 1)[len(counts) - self.limit - 1]
            kept = counts > most
            found, counts = found.filter(pa.array(kept)), counts[kept]
            self.error += int(most)
        self._take(zip(found.to_pylist(), counts.tolist(), strict=True))

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
        made = TopValues(limit=limit, error=self.error, seen=self.seen, mostly_different=self.mostly_different)
        made._take(self.counts.items())
        return made

    def to_json(self) -> list[Any]:
        """Return a compact form for JSON. Byte strings become texts with one character per byte."""
        items = self.most(len(self.counts))
        texts = [value.decode("latin-1") if isinstance(value, bytes) else value for value, _ in items]
        return [texts, [count for _, count in items], self.error, self.seen, self.mostly_different]

    @classmethod
    def from_json(cls, found: Sequence[Any]) -> "TopValues":
        """Rebuild the counts from the form that `to_json` returns."""
        texts, counts, error, seen, mostly_different = found
        values = [value.encode("latin-1") if isinstance(value, str) else value for value in texts]
        return cls(counts=dict(zip(values, counts, strict=True)), error=error, seen=seen, mostly_different=mostly_different)

    def _take(self, items: Any) -> None:
        for value, count in items:
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > self.limit:
            ordered = self.most(len(self.counts))
            self.counts = dict(ordered[: self.limit])
            self.error += ordered[self.limit][1]

    def _give_up(self) -> None:
        self.mostly_different = True
        self.counts = {}
        self.error = 0
