"""Count the records of each class, for the features that are labels. Classes are always counted in all records, never in a sample."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_text
from dataprep_converter.core.lists import is_list, item_type, storage
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, pc, to_numpy
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.statistics.top_values import LONGEST

Class: TypeAlias = int | bytes

MOST_CLASSES: Final = 65_536
"""A label with more distinct values than this is a number to predict, rather than a class."""
_LARGEST: Final = 2.0**53


@dataclass
class ClassCounts:
    """The counts of one label's classes. A class is a number, the index of a 1 in a vector, or a string.

    If the label is a sequence, every step is counted.
    """

    counts: Counter[Class] = field(default_factory=Counter)
    is_class: bool = True
    """Becomes False if a value such as 0.5 can't be a class, or if there are too many different values. The counts are then empty."""

    def add(self, column: Array, feature: FeatureSpec) -> None:
        """Count the column of a batch."""
        if not self.is_class:
            return
        if isinstance(column.type, pa.DictionaryType):
            encoded: Any = column
            column = encoded.dictionary_decode()
        column = column.drop_null() if column.null_count else column
        if len(feature.shape) == 1 and feature.shape[0] > 1 and NUMPY_NAMES.get(item_type(column.type)) is not None:
            self._add_places(to_numpy(column))
            return
        while is_tensor(column.type) or is_list(column.type):
            lists: Any = storage(column)
            column = lists.flatten()
        self._add_values(column.drop_null() if column.null_count else column)

    def merge(self, other: "ClassCounts") -> None:
        """Add the counts of another shard."""
        self.counts.update(other.counts)
        self._judge(is_class=other.is_class)

    def to_json(self) -> list[Any]:
        """Return a compact form for JSON. Byte strings become strings with one character per byte."""
        items = sorted(self.counts.items())
        return [[name.decode("latin-1") if isinstance(name, bytes) else name for name, _ in items], [n for _, n in items], self.is_class]

    @classmethod
    def from_json(cls, document: list[Any]) -> "ClassCounts":
        """Rebuild the counts from the form that `to_json` returns."""
        classes, counts, is_class = document
        names = (name.encode("latin-1") if isinstance(name, str) else name for name in classes)
        return cls(Counter(dict(zip(names, counts, strict=True))), is_class)

    def _add_values(self, values: Array) -> None:
        if pa.types.is_floating(values.type):
            numbers = values.to_numpy().astype(np.float64)
            is_whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < _LARGEST)
            values = pa.array(np.where(is_whole, numbers, 0).astype(np.int64))
            self._judge(is_class=bool(is_whole.all()))
        elif not pa.types.is_integer(values.type) and not pa.types.is_boolean(values.type):
            self._judge(is_class=not len(values) or pc.max(pc.binary_length(values)).as_py() <= LONGEST)
        if not self.is_class:
            return
        value_counts: Any = pc.value_counts(values)
        texts = is_text(values.type)
        for value, count in zip(value_counts.field(0).to_pylist(), value_counts.field(1).to_pylist(), strict=True):
            self.counts[value.encode() if texts else value if isinstance(value, bytes) else int(value)] += count
        self._judge(is_class=True)

    def _add_places(self, vectors: npt.NDArray[Any]) -> None:
        """Count the classes in vectors of zeros and ones.

        A vector of zeros and ones comes from `oneHot`, or contains several labels of a record.
        """
        self._judge(is_class=bool(((vectors == 0) | (vectors == 1)).all()))
        if self.is_class:
            sums = vectors.astype(np.bool_).sum(axis=0).tolist()
            self.counts.update({place: count for place, count in enumerate(sums) if count})

    def _judge(self, *, is_class: bool) -> None:
        if not is_class or len(self.counts) > MOST_CLASSES:
            self.is_class = False
            self.counts = Counter()


def is_countable(feature: FeatureSpec) -> bool:
    """Return whether a feature is a label whose classes can be counted. Classes aren't counted for masks and boxes."""
    return feature.label and not feature.record and len(feature.shape) <= 1


def as_texts(counts: Mapping[Class, int]) -> dict[str, int]:
    """Return the counts in the manifest's form, keyed by class name. Only classes that are numbers are included."""
    return {str(name): count for name, count in sorted(item for item in counts.items() if isinstance(item[0], int))}
