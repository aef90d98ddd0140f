"""`scale`: maps one range of values linearly onto another, as float32."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.transforms.numbers import Scale
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, arrow_type, shape_of, to_arrow, value_type
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.columns import find_columns, numbers, why_text, without


class ScaleStep:
    """Scales numbers and tensors of numbers. Computes in float64 and stores float32."""

    def __init__(self, options: Scale, schema: pa.Schema) -> None:
        self._scale = options
        self._columns = find_columns(options.columns, schema, of="The transform scale")
        self._schema = schema
        for name in self._columns:
            position = schema.get_field_index(name)
            field = schema.field(position)
            if value_type(field.type) not in NUMPY_NAMES:
                raise BadSpec(f"The transform scale takes numbers, but the column {name!r} is {field.type}.{why_text(field)}")
            self._schema = self._schema.set(position, field.with_type(arrow_type("float32", shape_of(field.type))))
        # A byte has only 256 values, so the result for each value is computed once.
        self._bytes = self._scaled(np.arange(256, dtype=np.uint8))

    def schema(self) -> pa.Schema:
        """Returns the columns, with the named ones as float32."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Scales the named columns. A result that float32 can't represent makes its sample bad."""
        records = batch.records
        faults: dict[int, str] = {}
        for name in self._columns:
            values, missing = numbers(records.column(name))
            scaled = self._bytes[values] if values.dtype == np.uint8 else self._scaled(values)
            if values.dtype.kind == "f":
                too_large = (np.isinf(scaled) & np.isfinite(values)).reshape(len(values), -1).any(axis=1)
                faults |= {int(row): f"{name} does not fit float32 after scale" for row in np.flatnonzero(too_large)}
            faults |= {int(row): f"{name} has no value" for row in missing}
            position = records.schema.get_field_index(name)
            field = records.schema.field(position)
            column = to_arrow(scaled)
            records = records.set_column(position, field.with_type(column.type), column)
        scaled_batch = replace(batch, records=records)
        return without(scaled_batch, faults, records.column(SAMPLE)) if faults else scaled_batch

    def _scaled(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
        s = self._scale
        wide = values.astype(np.float64)
        with np.errstate(over="ignore"):
            return ((wide - s.from_min) / (s.from_max - s.from_min) * (s.to_max - s.to_min) + s.to_min).astype(np.float32)
