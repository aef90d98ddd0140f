"""`standardize`: mean 0 and deviation 1, of each tensor by itself or by given numbers.

A byte has 256 values, so an image of bytes is counted once and then looked up: exact, and each result is rounded only once.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec import Transform
from dataprep_converter.errors import BadSpec
from dataprep_converter.features import find_columns, numbers
from dataprep_converter.readers import Batch
from dataprep_converter.tensors import NUMPY_NAMES, arrow_type, is_tensor, shape_of, to_arrow, value_type
from dataprep_converter.transforms.pixels import replaced, with_columns

_OF = "The transform standardize"
_LEVELS = np.arange(256)

Wide = npt.NDArray[np.float64]


class StandardizeStep:
    """Tensors of numbers of any shape; with several means, the last dimension is the channels."""

    def __init__(self, transform: Transform, schema: pa.Schema) -> None:
        if transform.standardize is None:
            raise BadSpec("The transform is no standardize.")
        standardize = transform.standardize
        (self._column,) = find_columns([standardize.column], schema, of=_OF)
        kind = schema.field(self._column).type
        if not is_tensor(kind) or value_type(kind) not in NUMPY_NAMES:
            raise BadSpec(f"{_OF} takes tensors of numbers, but the column {self._column!r} is {kind}.")
        self._dtype = np.dtype(standardize.dtype)
        self._given: tuple[Wide, Wide] | None = None
        if standardize.mean is not None and standardize.deviation is not None:
            channels = shape_of(kind)[-1]
            for what, given in (("mean", standardize.mean), ("deviation", standardize.deviation)):
                if len(given) not in (1, channels):
                    raise BadSpec(f"{_OF}: {what} has {len(given)} numbers, but {self._column!r} has {channels} channels.")
            self._given = np.broadcast_to(standardize.mean, channels), np.broadcast_to(standardize.deviation, channels)
        self._schema = replaced(schema, self._column, {self._column: arrow_type(standardize.dtype, shape_of(kind))})

    def schema(self) -> pa.Schema:
        """The column is float32 or float16."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """A sample without a value, or with one that the type can't hold afterwards, is bad."""
        values, missing = numbers(batch.records.column(self._column))
        # What is infinite then is a fault, found below.
        with np.errstate(over="ignore", invalid="ignore"):
            made = self._by_itself(values) if self._given is None else self._by_given(values, *self._given)
        faults: dict[int, str] = {}
        if values.dtype.kind == "f":
            rows = np.flatnonzero(~np.isfinite(made).reshape(len(made), -1).all(axis=1))
            faults = {int(row): f"{self._column} is not finite in {self._dtype} after standardize" for row in rows}
        faults |= {int(row): f"{self._column} has no value" for row in missing}
        return with_columns(batch, self._schema, {self._column: to_arrow(made)}, faults)

    def _by_itself(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        made = np.empty(values.shape, self._dtype)
        for row, tensor in enumerate(values):
            if values.dtype == np.uint8:
                np.take(_table(tensor).astype(self._dtype), tensor, out=made[row], mode="clip")
            else:
                wide = tensor.astype(np.float64)
                made[row] = (wide - wide.mean()) / max(wide.std(), 1 / math.sqrt(wide.size))
        return made

    def _by_given(self, values: npt.NDArray[Any], means: Wide, deviations: Wide) -> npt.NDArray[Any]:
        made = np.empty(values.shape, self._dtype)
        for channel, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
            taken = values[..., channel]
            if values.dtype == np.uint8:
                made[..., channel] = ((_LEVELS - mean) / deviation).astype(self._dtype)[taken]
            else:
                made[..., channel] = (taken.astype(np.float64) - mean) / deviation
        return made


def _table(tensor: npt.NDArray[np.uint8]) -> Wide:
    """What each of the 256 values becomes. Sums are whole numbers of Python, so nothing is lost whatever the size."""
    counts = np.bincount(tensor.reshape(-1), minlength=256)
    total = tensor.size
    first = int((counts * _LEVELS).sum())
    second = int((counts * _LEVELS**2).sum())
    deviation = math.sqrt((total * second - first * first) / (total * total))
    return np.asarray((_LEVELS - first / total) / max(deviation, 1 / math.sqrt(total)), np.float64)
