"""Matches keys that are whole numbers by sorting them with NumPy."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.tensors import Array
from dataprep_converter.readers.joins.keys import Places, first_of
from dataprep_converter.readers.joins.tables import Columns, Count

Numbers = npt.NDArray[np.int64]

_SIGN: Final = np.uint64(1 << 63)
_BITS: Final = 63


def are_numbers(keys: pa.Schema) -> bool:
    """Whether the keys are whole numbers, which `SortedKeys` can match."""
    return len(keys) == 1 and pa.types.is_integer(keys.types[0])


class SortedKeys:
    """The matched keys of some tables; see `Keys`."""

    def __init__(self, tables: Sequence[Columns], rows: Sequence[Array], keys: Sequence[Array], pool: Executor) -> None:
        self._tables = tables
        self._rows = rows
        self._keys = keys
        self._sorted = list(pool.map(_Sorted.of, map(_numbers, keys)))

    def close(self) -> None:
        """Frees the memory."""
        self._rows, self._keys, self._sorted = [], [], []

    def doubled(self, table: int) -> Count:
        """Counts the keys that occur in several rows of a table."""
        return self._count(table, self._sorted[table].doubled())

    def missing(self, table: int) -> Count:
        """Counts the keys that are missing in a table but exist in another. The example is taken from the first table that contains this
        key."""
        here = self._sorted[table].numbers
        lacking = len(self._any) - len(here)
        if not lacking:
            return Count(0)
        others = (other for other in range(len(self._sorted)) if other != table)
        counts = [self._count(other, np.flatnonzero(_places_in(self._sorted[other].numbers, here) < 0)) for other in others]
        return first_of(counts, lacking)

    def kept(self) -> int:
        """The number of keys that exist in all tables."""
        return len(self._kept)

    def keys_in_any(self) -> int:
        """The number of distinct keys in all tables together."""
        return len(self._any)

    def chosen(self) -> list[Places]:
        """For each table, the rows of the keys that exist in all tables."""
        return [self._chosen(table) for table in range(len(self._tables))]

    def _chosen(self, table: int) -> Places:
        found = self._sorted[table]
        places = found.last if self._tables[table].last else found.first
        if len(found.numbers) != len(self._kept):
            places = places[_places_in(self._kept, found.numbers)]
        rows: Places = self._rows[table].to_numpy()
        # The position of a row differs from the row's number if bad rows before this row are missing.
        return rows[places] if len(rows) and rows[-1] != len(rows) - 1 else places

    @cached_property
    def _has_same_keys(self) -> bool:
        first, *others = (each.numbers for each in self._sorted)
        return all(np.array_equal(first, other) for other in others)

    @cached_property
    def _any(self) -> Numbers:
        if self._has_same_keys:
            return self._sorted[0].numbers
        together = np.concatenate([each.numbers for each in self._sorted])
        together.sort()
        return together[_is_first(together)]

    @cached_property
    def _kept(self) -> Numbers:
        kept, *others = (each.numbers for each in self._sorted)
        if not self._has_same_keys:
            for other in others:
                kept = kept[_places_in(kept, other) >= 0]
        return kept

    def _count(self, table: int, keys: npt.NDArray[np.intp]) -> Count:
        """A `Count` of some keys of a table. `keys` contains the positions of the counted keys among the table's distinct keys."""
        if not len(keys):
            return Count(0)
        found = self._sorted[table]
        first, last = (places[keys[0]] for places in (found.first, found.last))
        rows: Any = self._rows[table]
        column: Any = self._keys[table]
        return Count(len(keys), (column[first].as_py(),), table, (rows[first].as_py(), rows[last].as_py()))


@dataclass(frozen=True)
class _Sorted:
    """The rows of a table, sorted by key. Rows with the same key stay in their original order."""

    numbers: Numbers
    """The distinct keys in ascending order."""
    order: Places
    """The positions of all rows in the table, in sorted order."""
    starts: npt.NDArray[np.intp] | None
    """The position in `order` at which the rows of each key begin. `starts` is None if every key has only one row."""

    @classmethod
    def of(cls, numbers: Numbers) -> "_Sorted":
        """Sorts a table's rows, given the key of each row."""
        found, order = _in_order(numbers)
        is_first = _is_first(found)
        if is_first.all():
            return cls(found, order, None)
        return cls(found[is_first], order, np.flatnonzero(is_first))

    @cached_property
    def first(self) -> Places:
        """The position of each key's first row."""
        return self.order if self.starts is None else self.order[self.starts]

    @cached_property
    def last(self) -> Places:
        """The position of each key's last row."""
        return self.order if self.starts is None else self.order[np.append(self.starts[1:], len(self.order)) - 1]

    def doubled(self) -> npt.NDArray[np.intp]:
        """The positions of the keys that have several rows."""
        if self.starts is None:
            return np.empty(0, np.intp)
        return np.flatnonzero(np.diff(np.append(self.starts, len(self.order))) > 1)


def _numbers(keys: Any) -> Numbers:
    values: Any = keys.to_numpy()
    # Flipping the highest bit converts unsigned numbers to signed numbers with the same order.
    found: Numbers = (values ^ _SIGN).view(np.int64) if values.dtype == np.uint64 else values
    return found


def _in_order(numbers: Numbers) -> tuple[Numbers, Places]:
    """The sorted numbers, and the original position of each. The positions of equal numbers ascend."""
    bits = len(numbers).bit_length()
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if high - low >= 1 << (_BITS - bits):
        order = np.argsort(numbers, kind="stable")
        return numbers[order], order
    # Store number and position in one word. Sorting the words takes only a sixth of the time needed to sort positions by their numbers.
    words = numbers - low
    words <<= bits
    words |= np.arange(len(words))
    words.sort()
    order = words & ((1 << bits) - 1)
    words >>= bits
    words += low
    return words, order


def _is_first(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """For sorted numbers, whether each differs from the number before it."""
    found: npt.NDArray[np.bool_] = np.concatenate([np.ones(min(1, len(numbers)), np.bool_), numbers[1:] != numbers[:-1]])
    return found


def _places_in(numbers: Numbers, among: Numbers) -> npt.NDArray[np.intp]:
    """For each number, its position in the sorted numbers `among`, or -1 if `among` doesn't contain it."""
    if not len(among):
        return np.full(len(numbers), -1, np.intp)
    places = np.minimum(np.searchsorted(among, numbers), len(among) - 1)
    return np.where(among[places] == numbers, places, -1)
