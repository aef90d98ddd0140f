"""`cast`: converts numbers to another type."""

from typing import Any

import pyarrow as pa

from dataprep_api.spec.transforms.numbers import Cast
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, arrow_type, shape_of, to_arrow, value_type
from dataprep_converter.records.batch import Batch
from dataprep_converter.records.columns import as_type, find_columns, first_of_each_row, mark_numbers, numbers, why_text
from dataprep_converter.transforms.pixels import with_columns

_OF = "The transform cast"


class CastStep:
    """Converts columns of numbers or numeric tensors. Rounding to a narrower float is allowed; any other loss is an error."""

    def __init__(self, options: Cast, schema: pa.Schema) -> None:
        self._dtype = options.dtype
        self._columns = find_columns(options.columns, schema, of=_OF)
        self._schema = schema
        for name in self._columns:
            position = schema.get_field_index(name)
            field = schema.field(position)
            if value_type(field.type) not in NUMPY_NAMES:
                raise BadSpec(f"{_OF} takes numbers, but the column {name!r} is {field.type}.{why_text(field)}")
            self._schema = self._schema.set(position, mark_numbers(field.with_type(arrow_type(options.dtype, shape_of(field.type)))))

    def schema(self) -> pa.Schema:
        """Returns the columns, with the named ones in the new type."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Converts the named columns. A value that the type can't represent makes its sample bad."""
        faults: dict[int, str] = {}
        columns: dict[str, Any] = {}
        for name in self._columns:
            values, missing = numbers(batch.records.column(name))
            converted, is_wrong = as_type(values, self._dtype)
            columns[name] = to_arrow(converted)
            for row, value in first_of_each_row(values, is_wrong):
                faults.setdefault(row, f"{name} {value} does not fit {self._dtype}")
            faults |= {int(row): f"{name} has no value" for row in missing}
        return with_columns(batch, self._schema, columns, faults)
