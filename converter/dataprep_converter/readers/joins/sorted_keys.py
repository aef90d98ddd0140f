"""Keys that are whole numbers, matched by sorting: numpy sorts and compares them by the million."""

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
    """Whether keys can be matched here."""
    return len(keys) == 1 and pa.types.is_integer(keys.types[0])


class SortedKeys:
    """See `Keys`."""

    def __init__(self, tables: Sequence[Columns], rows: Sequence[Array], keys: Sequence[Array], pool: Executor) -> None:
        self._tables = tables
        self._rows = rows
        self._keys = keys
        self._sorted = list(pool.map(_Sorted.of, map(_numbers, keys)))

    def close(self) -> None:
        """Frees memory."""
        self._rows, self._keys, self._sorted = [], [], []

    def doubled(self, table: int) -> Count:
        """Keys that several rows of a table have."""
        return self._count(table, self._sorted[table].doubled())

    def missing(self, table: int) -> Count:
        """Keys that a table lacks and another one has; the example is in the first that has it."""
        here = self._sorted[table].numbers
        lacking = len(self._any) - len(here)
        if not lacking:
            return Count(0)
        others = (other for other in range(len(self._sorted)) if other != table)
        counts = [self._count(other, np.flatnonzero(_places_in(self._sorted[other].numbers, here) < 0)) for other in others]
        return first_of(counts, lacking)

    def kept(self) -> int:
        """Keys that all tables have."""
        return len(self._kept)

    def keys_in_any(self) -> int:
        """Keys of all tables together."""
        return len(self._any)

    def chosen(self) -> list[Places]:
        """Rows of the kept keys."""
        return [self._chosen(table) for table in range(len(self._tables))]

    def _chosen(self, table: int) -> Places:
        found = self._sorted[table]
        places = found.last if self._tables[table].last else found.first
        if len(found.numbers) != len(self._kept):
            places = places[_places_in(self._kept, found.numbers)]
        rows: Places = self._rows[table].to_numpy()
        # Rows that can't be read aren't there.
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
        """Of keys of a table, by their places among them."""
        if not len(keys):
            return Count(0)
        found = self._sorted[table]
        first, last = (places[keys[0]] for places in (found.first, found.last))
        rows: Any = self._rows[table]
        column: Any = self._keys[table]
        return Count(len(keys), (column[first].as_py(),), table, (rows[first].as_py(), rows[last].as_py()))


@dataclass(frozen=True)
class _Sorted:
    """The rows of a table in the order of their keys, and rows with one key in their own."""

    numbers: Numbers
    """Of each key once."""
    order: Places
    """Places of all rows in the table."""
    starts: npt.NDArray[np.intp] | None
    """Where in `order` the rows of each key begin; None where no key has more than one."""

    @classmethod
    def of(cls, numbers: Numbers) -> "_Sorted":
        """Of the keys of a table's rows."""
        found, order = _in_order(numbers)
        is_first = _is_first(found)
        if is_first.all():
            return cls(found, order, None)
        return cls(found[is_first], order, np.flatnonzero(is_first))

    @cached_property
    def first(self) -> Places:
        """The place of each key's first row."""
        return self.order if self.starts is None else self.order[self.starts]

    @cached_property
    def last(self) -> Places:
        """The place of each key's last row."""
        return self.order if self.starts is None else self.order[np.append(self.starts[1:], len(self.order)) - 1]

    def doubled(self) -> npt.NDArray[np.intp]:
        """The keys that have several rows."""
        if self.starts is None:
            return np.empty(0, np.intp)
        return np.flatnonzero(np.diff(np.append(self.starts, len(self.order))) > 1)


def _numbers(keys: Any) -> Numbers:
    values: Any = keys.to_numpy()
    # Flipping the first bit makes numbers without a sign ones with a sign, in the same order.
    found: Numbers = (values ^ _SIGN).view(np.int64) if values.dtype == np.uint64 else values
    return found


def _in_order(numbers: Numbers) -> tuple[Numbers, Places]:
    """The numbers in order, and the place of each; those of equal ones in order."""
    bits = len(numbers).bit_length()
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if high - low >= 1 << (_BITS - bits):
        order = np.argsort(numbers, kind="stable")
        return numbers[order], order
    # Number and place in one word: to sort words takes a sixth of the time that it takes to sort places by number.
    words = numbers - low
    words <<= bits
    words |= np.arange(len(words))
    words.sort()
    order = words & ((1 << bits) - 1)
    words >>= bits
    words += low
    return words, order


def _is_first(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Of numbers in order, whether each is another than the one before."""
    found: npt.NDArray[np.bool_] = np.concatenate([np.ones(min(1, len(numbers)), np.bool_), numbers[1:] != numbers[:-1]])
    return found


def _places_in(numbers: Numbers, among: Numbers) -> npt.NDArray[np.intp]:
    """The place of each number among others in order, or -1."""
    if not len(among):
        return np.full(len(numbers), -1, np.intp)
    places = np.minimum(np.searchsorted(among, numbers), len(among) - 1)
    return np.where(among[places] == numbers, places, -1)
