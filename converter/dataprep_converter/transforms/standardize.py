"""`standardize`: scales values to mean 0 and standard deviation 1.

The mean and the deviation are given in the spec, computed for each tensor, or computed over all tensors of a split while planning. A byte
has only 256 values, so images of bytes are standardized with exact sums and a lookup table. Each result is therefore rounded only once.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.transforms.images import Standardize
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.native import byte_sums, look_up
from dataprep_converter.core.tensors import NUMPY_NAMES, arrow_type, is_tensor, shape_of, to_arrow, value_type
from dataprep_converter.records.batch import Batch
from dataprep_converter.records.columns import find_columns, numbers, text_advice
from dataprep_converter.transforms.pixels import replaced, with_columns

_OF = "The transform standardize"
_LEVELS = np.arange(256)

Wide = npt.NDArray[np.float64]


class StandardizeStep:
    """Standardizes numeric tensors of any shape.

    If several means are given, there is one for each channel. The last dimension contains the channels.
    """

    def __init__(self, options: Standardize, schema: pa.Schema) -> None:
        standardize = options
        (self._column,) = find_columns([standardize.column], schema, of=_OF)
        kind = schema.field(self._column).type
        if not is_tensor(kind) or value_type(kind) not in NUMPY_NAMES:
            raise BadSpec(f"{_OF} takes numeric tensors, but the column {self._column!r} is {kind}{text_advice(kind)}.")
        self._dtype = np.dtype(standardize.dtype)
        self._shape = shape_of(kind)
        self._split = standardize.split
        self._fixed: tuple[Wide, Wide] | None = None
        if standardize.mean is not None and standardize.deviation is not None:
            channels = shape_of(kind)[-1]
            for what, values in (("mean", standardize.mean), ("deviation", standardize.deviation)):
                if len(values) not in (1, channels):
                    raise BadSpec(f"{_OF}: {what} has {len(values)} numbers, but {self._column!r} has {channels} channels.")
            self._fixed = np.broadcast_to(standardize.mean, channels), np.broadcast_to(standardize.deviation, channels)
        self._schema = replaced(schema, self._column, {self._column: arrow_type(standardize.dtype, shape_of(kind))})

    def schema(self) -> pa.Schema:
        """Returns the columns, with the standardized one as float32 or float16."""
        return self._schema

    # --- fitting, while planning -----------------------------------------------------------------------------------

    @property
    def fitted_split(self) -> str | None:
        """The split whose mean and deviation are collected."""
        return self._split

    def fit(self, batches: Iterator[Batch]) -> dict[str, list[float]]:
        """Returns the mean and deviation of each channel, over all values of all records.

        Raises BadData if there are no values, or if a value is not finite.
        """
        moments = _Moments(self._shape[-1])
        for batch in batches:
            values, missing = numbers(batch.records.column(self._column))
            moments.add(np.delete(values, missing, axis=0) if len(missing) else values)
        if not moments.count:
            raise BadData(f"{_OF}: the split {self._split!r} has no values of {self._column!r} to compute a mean from.")
        deviation = np.maximum(np.sqrt(moments.squares / moments.count), 1 / math.sqrt(moments.count))
        if not (np.isfinite(moments.mean).all() and np.isfinite(deviation).all()):
            raise BadData(f"{_OF}: the column {self._column!r} has a value in the split {self._split!r} that is not finite.")
        return {"mean": moments.mean.tolist(), "deviation": deviation.tolist()}

    def load(self, parameters: Any) -> None:
        """Uses this mean and deviation from now on."""
        self._fixed = np.array(parameters["mean"], np.float64), np.array(parameters["deviation"], np.float64)

    # --- applying --------------------------------------------------------------------------------------------------

    def apply(self, batch: Batch) -> Batch:
        """Standardizes the column. A sample without a value, or with a result that the type can't represent, is bad."""
        values, missing = numbers(batch.records.column(self._column))
        # Ignore overflow here: infinite results are detected below.
        with np.errstate(over="ignore", invalid="ignore"):
            standardized = self._standardize_each(values) if self._fixed is None else self._standardize_by(values, *self._fixed)
        faults: dict[int, str] = {}
        if values.dtype.kind == "f":
            rows = np.flatnonzero(~np.isfinite(standardized).reshape(len(standardized), -1).all(axis=1))
            faults = {int(row): f"{self._column} is not finite in {self._dtype} after standardize" for row in rows}
        faults |= {int(row): f"{self._column} has no value" for row in missing}
        return with_columns(batch, self._schema, {self._column: to_arrow(standardized)}, faults)

    def _standardize_each(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        standardized = np.empty(values.shape, self._dtype)
        for row in range(len(values)):
            tensor = np.ascontiguousarray(values[row : row + 1])
            if values.dtype == np.uint8:
                mean, deviation = _moments(tensor)
                table = ((_LEVELS - mean) / deviation).astype(self._dtype)
                look_up(table, tensor, standardized[row : row + 1], line=(mean, 1 / deviation))
            else:
                wide = tensor.astype(np.float64)
                standardized[row : row + 1] = (wide - wide.mean()) / max(wide.std(), 1 / math.sqrt(wide.size))
        return standardized

    def _standardize_by(self, values: npt.NDArray[Any], means: Wide, deviations: Wide) -> npt.NDArray[Any]:
        standardized = np.empty(values.shape, self._dtype)
        for channel, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
            channel_values = values[..., channel]
            if values.dtype == np.uint8:
                standardized[..., channel] = ((_LEVELS - mean) / deviation).astype(self._dtype)[channel_values]
            else:
                standardized[..., channel] = (channel_values.astype(np.float64) - mean) / deviation
        return standardized


class _Moments:
    """Mean and sum of squared deviations of each channel. Batches are merged with the method of Chan, Golub and LeVeque."""

    def __init__(self, channels: int) -> None:
        self.count = 0
        """Number of values per channel so far."""
        self.mean: Wide = np.zeros(channels)
        self.squares: Wide = np.zeros(channels)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Adds tensors whose last dimension is the channels."""
        flat = values.reshape(-1, values.shape[-1])
        if not len(flat):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            wide = flat.astype(np.float64)
            mean = wide.mean(axis=0)
            squares = np.square(wide - mean).sum(axis=0)
            total = self.count + len(flat)
            apart = mean - self.mean
            self.squares = self.squares + squares + np.square(apart) * (self.count * len(flat) / total)
            self.mean = self.mean + apart * (len(flat) / total)
        self.count = total


def _moments(tensor: npt.NDArray[np.uint8]) -> tuple[float, float]:
    """Returns the mean, and the deviation to divide by. The sums are integers, so they are exact for tensors of any size."""
    total = tensor.size
    first, second = byte_sums(tensor)
    deviation = math.sqrt((total * second - first * first) / (total * total))
    return first / total, max(deviation, 1 / math.sqrt(total))
