"""`cast`: numbers in another type."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec import Transform
from dataprep_converter.errors import BadSpec
from dataprep_converter.features import find_columns, numbers
from dataprep_converter.readers import Batch
from dataprep_converter.tensors import NUMPY_NAMES, arrow_type, shape_of, to_arrow, value_type
from dataprep_converter.transforms.pixels import with_columns

_OF = "The transform cast"


class CastStep:
    """Numbers and tensors of numbers. Rounding to a narrower float is no fault; everything else must survive."""

    def __init__(self, transform: Transform, schema: pa.Schema) -> None:
        if transform.cast is None:
            raise BadSpec("The transform is no cast.")
        self._dtype = np.dtype(transform.cast.dtype)
        self._columns = find_columns(transform.cast.columns, schema, of=_OF)
        self._schema = schema
        for name in self._columns:
            position = schema.get_field_index(name)
            field = schema.field(position)
            if value_type(field.type) not in NUMPY_NAMES:
                raise BadSpec(f"{_OF} takes numbers, but the column {name!r} is {field.type}.")
            self._schema = self._schema.set(position, field.with_type(arrow_type(transform.cast.dtype, shape_of(field.type))))

    def schema(self) -> pa.Schema:
        """The columns named have the type."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """A value that the type can't hold makes its sample bad."""
        faults: dict[int, str] = {}
        columns: dict[str, Any] = {}
        for name in self._columns:
            values, missing = numbers(batch.records.column(name))
            converted, wrong = _converted(values, self._dtype)
            columns[name] = to_arrow(converted)
            flat = wrong.reshape(len(wrong), -1)
            for row in np.flatnonzero(flat.any(axis=1)).tolist():
                value = values.reshape(len(values), -1)[row, flat[row].argmax()]
                faults.setdefault(row, f"{name} {value} does not fit {self._dtype}")
            faults |= {int(row): f"{name} has no value" for row in missing}
        return with_columns(batch, self._schema, columns, faults)


def _converted(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The values in another type, and which of them it can't hold."""
    if np.can_cast(values.dtype, dtype, "safe"):
        return values.astype(dtype, copy=False), np.zeros(values.shape, np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(dtype)
        if dtype.kind == "f":
            return converted, np.isinf(converted) & np.isfinite(values)
        # Into float64 and back, 2**63 is the largest int64 plus one; so the range is asked for as well.
        back = converted.astype(values.dtype)
    within = np.ones(values.shape, np.bool_)
    if values.dtype.kind == "f" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wide = values.astype(np.float64, copy=False)
        within = (wide >= float(limits.min)) & (wide < float(limits.max) + 1)
    elif values.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        within = (values >= limits.min) & (values <= limits.max)
    return converted, ~(within & (back == values))
