"""`filter`: keeps the records for which an expression is true, and counts the others as filtered."""

from dataclasses import replace

import pyarrow as pa

from dataprep_api.spec.transforms.columns import Filter
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import pc
from dataprep_converter.records.batch import Batch
from dataprep_converter.records.exact_decimals import with_digits
from dataprep_converter.transforms.expressions import Expression


class FilterStep:
    """Drops records for which the expression is false or null, like SQL's WHERE."""

    def __init__(self, options: Filter, schema: pa.Schema) -> None:
        self._where = Expression(options.where, schema, of="The transform filter")
        if self._where.type != pa.bool_():
            raise BadSpec(f"The transform filter needs an expression that is true or false, but {options.where!r} is {self._where.type}.")
        self._schema = schema

    @property
    def compares_decimals(self) -> bool:
        """Whether the expression compares all digits of decimals."""
        return bool(self._where.exact)

    def schema(self) -> pa.Schema:
        """Returns the columns, which don't change."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Returns the batch with the kept records, in order."""
        is_kept = pc.fill_null(self._where.of(with_digits(batch, self._where.exact)), False)
        records = batch.records.filter(is_kept)
        return replace(batch, records=records, filtered=batch.filtered + batch.records.num_rows - records.num_rows)
