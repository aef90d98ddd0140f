"""`oneHot`: turns an integer class into a float32 vector with a single 1."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from dataprep_api.spec.transforms.numbers import OneHot
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import arrow_type, to_arrow
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.columns import find_columns, numbers, text_advice, why_text, without


class OneHotStep:
    """Encodes integer columns.

    If `unknownIsBackground` is set, a class out of range becomes the background class; otherwise, it makes its sample bad. A missing class
    becomes the background class if there is a background class; otherwise, it makes its sample bad.
    """

    def __init__(self, options: OneHot, schema: pa.Schema) -> None:
        self._options = options
        self._classes = self._options.num_classes
        self._length = self._classes + self._options.background
        self._columns = find_columns(options.columns, schema, of="The transform oneHot")
        self._schema = schema
        for name in self._columns:
            position = schema.get_field_index(name)
            field = schema.field(position)
            if not pa.types.is_integer(field.type):
                raise BadSpec(
                    f"The transform oneHot takes whole numbers, but the column {name!r} is {field.type}{text_advice(field.type)}.{why_text(field)}"
                )
            self._schema = self._schema.set(position, field.with_type(arrow_type("float32", (self._length,))))

    def schema(self) -> pa.Schema:
        """Returns the columns, with the named ones as vectors of float32."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Replaces each class with its vector."""
        records = batch.records
        faults: dict[int, str] = {}
        for name in self._columns:
            values, missing = numbers(records.column(name))
            outside = (values < 0) | (values >= self._classes)
            if not self._options.unknown_is_background:
                faults |= {int(row): f"{name} {values[row]} is outside 0..{self._classes - 1}" for row in np.flatnonzero(outside)}
            places = np.where(outside, self._length - 1, values)
            if self._options.background:
                places[missing] = self._length - 1
            else:
                faults |= {int(row): f"{name} has no value" for row in missing}
            vectors = np.zeros((len(values), self._length), np.float32)
            vectors[np.arange(len(values)), places] = 1
            position = records.schema.get_field_index(name)
            column = to_arrow(vectors)
            records = records.set_column(position, records.schema.field(position).with_type(column.type), column)
        encoded = replace(batch, records=records)
        return without(encoded, faults, records.column(SAMPLE)) if faults else encoded
