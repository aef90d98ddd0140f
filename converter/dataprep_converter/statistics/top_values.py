"""The most frequent values of a column, in bounded memory: exact as long as there are few different ones, with a stated error beyond."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from dataprep_converter.core.tensors import Array, pc

Value: TypeAlias = int | bytes

_KEPT: Final = 1024
"""Different values that are counted at the same time."""
_ENOUGH: Final = 1024
"""Values after which a column whose values are mostly different is no longer counted."""
LONGEST: Final = 64
"""Longer byte strings are no categories; they aren't given to be counted."""


@dataclass
class TopValues:
    """Counts by value. Changed by `add` and `merge`.

    Whenever there are more than the limit, the rarest go, and `error` rises by the largest count that went. So a value's true count is between
    its own and that plus `error`, and a value that isn't here has at most `error`.
    """

    limit: int = _KEPT
    counts: dict[Value, int] = field(default_factory=dict)
    error: int = 0
    seen: int = 0
    """Values that were counted or left out."""
    mostly_different: bool = False
    """The values are names of single records rather than categories: counting has ended, and `counts` is empty."""

    def add(self, values: Array) -> None:
        """Counts a column of integers or byte strings without nulls."""
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
            # Without an object for each of many values that won't be kept.
            most = np.partition(counts, len(counts) - self.limit - 1)[len(counts) - self.limit - 1]
            kept = counts > most
            found, counts = found.filter(pa.array(kept)), counts[kept]
            self.error += int(most)
        self._take(zip(found.to_pylist(), counts.tolist(), strict=True))

    def merge(self, other: "TopValues") -> None:
        """Adds another's counts and error."""
        self.seen += other.seen
        if self.mostly_different or other.mostly_different:
            self._give_up()
            return
        self.error += other.error
        self._take(other.counts.items())

    def most(self, count: int) -> list[tuple[Value, int]]:
        """The most frequent values and their counts, equal ones in the order of the values."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:count]

    def cut_to(self, limit: int) -> "TopValues":
        """The same in at most this many values."""
        made = TopValues(limit=limit, error=self.error, seen=self.seen, mostly_different=self.mostly_different)
        made._take(self.counts.items())
        return made

    def to_json(self) -> list[Any]:
        """Compact; byte strings as text of one character a byte."""
        items = self.most(len(self.counts))
        texts = [value.decode("latin-1") if isinstance(value, bytes) else value for value, _ in items]
        return [texts, [count for _, count in items], self.error, self.seen, self.mostly_different]

    @classmethod
    def from_json(cls, found: Sequence[Any]) -> "TopValues":
        """The inverse of `to_json`."""
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
