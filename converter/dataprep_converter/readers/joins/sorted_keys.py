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
        self._sorted_tables = list(pool.map(_SortedTable.of, map(_numbers, keys)))

    def close(self) -> None:
        """Frees the memory."""
        self._rows, self._keys, self._sorted_tables = [], [], []

    def duplicates(self, table: int) -> Count:
        """Counts the keys that occur in several rows of a table."""
        return self._count(table, self._sorted_tables[table].duplicates())

    def missing(self, table: int) -> Count:
        """Counts the keys that are missing from a table but exist in another table.

        As an example, the `Count` has the smallest of these keys, with its rows in the first table that contains it.
        """
        numbers = self._sorted_tables[table].numbers
        lacking = len(self._keys_in_any) - len(numbers)
        if not lacking:
            return Count(0)
        others = (other for other in range(len(self._sorted_tables)) if other != table)
        counts = [self._count(other, np.flatnonzero(_places_in(self._sorted_tables[other].numbers, numbers) < 0)) for other in others]
        return first_of(counts, lacking)

    def keys_in_all(self) -> int:
        """The number of keys that exist in all tables."""
        return len(self._keys_in_all)

    def keys_in_any(self) -> int:
        """The number of distinct keys in all tables together."""
        return len(self._keys_in_any)

    def chosen_rows(self) -> list[Places]:
        """For each table, the rows of the keys that exist in all tables."""
        return [self._chosen_rows(table) for table in range(len(self._tables))]

    def _chosen_rows(self, table: int) -> Places:
        sorted_table = self._sorted_tables[table]
        places = sorted_table.last if self._tables[table].last else sorted_table.first
        if len(sorted_table.numbers) != len(self._keys_in_all):
            places = places[_places_in(self._keys_in_all, sorted_table.numbers)]
        rows: Places = self._rows[table].to_numpy()
        # Bad rows are missing here, so a row's position can be less than its number.
        return rows[places] if len(rows) and rows[-1] != len(rows) - 1 else places

    @cached_property
    def _has_same_keys(self) -> bool:
        first, *others = (each.numbers for each in self._sorted_tables)
        return all(np.array_equal(first, other) for other in others)

    @cached_property
    def _keys_in_any(self) -> Numbers:
        if self._has_same_keys:
            return self._sorted_tables[0].numbers
        merged = np.concatenate([each.numbers for each in self._sorted_tables])
        merged.sort()
        return merged[_is_first(merged)]

    @cached_property
    def _keys_in_all(self) -> Numbers:
        keys, *others = (each.numbers for each in self._sorted_tables)
        if not self._has_same_keys:
            for other in others:
                keys = keys[_places_in(keys, other) >= 0]
        return keys

    def _count(self, table: int, keys: npt.NDArray[np.intp]) -> Count:
        """A `Count` of some keys of a table. `keys` contains the positions of the counted keys among the table's distinct keys."""
        if not len(keys):
            return Count(0)
        sorted_table = self._sorted_tables[table]
        first, last = (places[keys[0]] for places in (sorted_table.first, sorted_table.last))
        rows: Any = self._rows[table]
        column: Any = self._keys[table]
        return Count(len(keys), (column[first].as_py(),), table, (rows[first].as_py(), rows[last].as_py()))


@dataclass(frozen=True)
class _SortedTable:
    """The rows of a table, sorted by key. Rows with the same key stay in their original order."""

    numbers: Numbers
    """The distinct keys in ascending order."""
    order: Places
    """The positions of all rows in the table, in sorted order."""
    starts: npt.NDArray[np.intp] | None
    """The position in `order` at which the rows of each key begin. `starts` is None if every key has only one row."""

    @classmethod
    def of(cls, numbers: Numbers) -> "_SortedTable":
        """Sorts a table's rows, given the key of each row."""
        ascending, order = _sort(numbers)
        is_first = _is_first(ascending)
        if is_first.all():
            return cls(ascending, order, None)
        return cls(ascending[is_first], order, np.flatnonzero(is_first))

    @cached_property
    def first(self) -> Places:
        """The position of each key's first row."""
        return self.order if self.starts is None else self.order[self.starts]

    @cached_property
    def last(self) -> Places:
        """The position of each key's last row."""
        return self.order if self.starts is None else self.order[np.append(self.starts[1:], len(self.order)) - 1]

    def duplicates(self) -> npt.NDArray[np.intp]:
        """The positions of the keys that have several rows."""
        if self.starts is None:
            return np.empty(0, np.intp)
        return np.flatnonzero(np.diff(np.append(self.starts, len(self.order))) > 1)


def _numbers(keys: Any) -> Numbers:
    values: Any = keys.to_numpy()
    # Flipping the highest bit converts unsigned numbers to signed numbers with the same order.
    numbers: Numbers = (values ^ _SIGN).view(np.int64) if values.dtype == np.uint64 else values
    return numbers


def _sort(numbers: Numbers) -> tuple[Numbers, Places]:
    """The sorted numbers, and the original position of each. The positions of equal numbers ascend."""
    bits = len(numbers).bit_length()
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if high - low >= 1 << (_BITS - bits):
        order = np.argsort(numbers, kind="stable")
        return numbers[order], order
    # Store each number and its position in one word. Sorting these words is about six times as fast as sorting the positions by number.
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
    is_first: npt.NDArray[np.bool_] = np.concatenate([np.ones(min(1, len(numbers)), np.bool_), numbers[1:] != numbers[:-1]])
    return is_first


def _places_in(numbers: Numbers, among: Numbers) -> npt.NDArray[np.intp]:
    """For each number, its position in the sorted numbers `among`, or -1 if `among` doesn't contain it."""
    if not len(among):
        return np.full(len(numbers), -1, np.intp)
    places = np.minimum(np.searchsorted(among, numbers), len(among) - 1)
    return np.where(among[places] == numbers, places, -1)
