"""Values that are held in memory until their file ends.

This module is for formats that write complete arrays: one file for each minibatch or shard.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.lists import flatten_lists
from dataprep_converter.core.tensors import Array, to_numpy
from dataprep_converter.records.feature import FeatureSpec

Values = npt.NDArray[Any]


class NumberBuffer:
    """Collects the numbers of one feature from all batches. Raises BadSpec for bytes, text and ragged lists."""

    def __init__(self, feature: FeatureSpec, *, format_: str) -> None:
        if feature.dtype == "bytes":
            raise BadSpec(
                f"The feature {feature.name!r} holds bytes or text, but {format_} holds only arrays of numbers:"
                " decode images, turn text into numbers, or remove the feature."
            )
        self.step_shape = feature.shape[1:] if feature.sequence else feature.shape
        if -1 in self.step_shape:
            unit = "steps" if feature.sequence else "rows"
            raise BadSpec(f"The feature {feature.name!r} has {unit} of different lengths, and {format_} holds arrays of one shape.")
        self.feature = feature
        self._format = format_
        self._parts: list[Values] = []
        self._counts: list[npt.NDArray[np.int64]] = []

    def add(self, column: Array) -> None:
        """Add the column of one batch. Raises BadData for a null."""
        if column.null_count:
            raise BadData(f"The feature {self.feature.name!r} has no value in some records, and {self._format} can't store missing values.")
        if self.feature.sequence:
            lists = flatten_lists(column)
            self._counts.append(lists.counts)
            column = lists.items
        values = to_numpy(column)
        self._parts.append(values.reshape(values.size // max(1, math.prod(self.step_shape)), *self.step_shape))

    @property
    def parts(self) -> list[Values]:
        """The values, in pieces of any size. A piece's first dimension counts records or, for a sequence feature, steps."""
        return self._parts

    def values(self) -> Values:
        """Return all values. The first dimension counts records or, for a sequence feature, the steps of all records."""
        return np.concatenate(self._parts) if self._parts else np.empty((0, *self.step_shape), self.feature.dtype)

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of steps in each record, if the feature is a sequence."""
        return np.concatenate(self._counts) if self._counts else np.empty(0, np.int64)
