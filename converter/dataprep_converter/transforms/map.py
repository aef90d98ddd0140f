"""`map`: calls a user's function on each record. The function returns one record, several or none."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from dataprep_api.spec.transforms.map import Map
from dataprep_converter.core.errors import BadSample
from dataprep_converter.records.batch import SAMPLE, Batch, RejectedSample
from dataprep_converter.records.columns import mark_numbers
from dataprep_converter.runtime import plugins


class MapStep:
    """Calls the user's function. A sample is bad if the function raises an exception or returns a result that doesn't fit.

    Records made from one sample stay together, in the function's order.
    """

    def __init__(self, options: Map, schema: pa.Schema) -> None:
        self._name = options.callable
        self._function = plugins.load(self._name, of="The transform map")
        self._options = options.options.values()
        self._schema = pa.schema([mark_numbers(field) for field in schema if field.name != SAMPLE])
        for field in plugins.schema_of(options.columns or []):
            position = self._schema.get_field_index(field.name)
            self._schema = self._schema.append(field) if position < 0 else self._schema.set(position, field)

    @property
    def moves_steps(self) -> bool:
        """Always true, because a function can change lists."""
        return True

    def schema(self) -> pa.Schema:
        """Returns the input columns and the declared columns.

        Declared columns replace input columns of the same name or are added at the end.
        """
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Calls the function for each record, then converts all results to columns in one step."""
        results: list[tuple[int, list[Any]]] = []
        bad: list[RejectedSample] = []
        rows = plugins.rows_of(batch.records.drop_columns([SAMPLE]))
        numbers: Any = batch.records.column(SAMPLE).to_pylist()
        for sample, row in zip(numbers, rows, strict=True):
            try:
                results.append((sample, self._call(row)))
            except BadSample as exc:
                bad.append(RejectedSample(sample, str(exc)))
        try:
            records = self._table([record for _, new_records in results for record in new_records])
        except BadSample:
            results, rejected = self._separate_bad(results)
            bad += rejected
            records = self._table([record for _, new_records in results for record in new_records])
        filtered = sum(not new_records for _, new_records in results)
        added = sum(max(0, len(new_records) - 1) for _, new_records in results)
        samples = pa.array([sample for sample, new_records in results for _ in new_records], pa.int64())
        records = records.append_column(pa.field(SAMPLE, pa.int64()), samples)
        return replace(batch, records=records, bad=[*batch.bad, *bad], filtered=batch.filtered + filtered, added=batch.added + added)

    def _separate_bad(self, results: list[tuple[int, list[Any]]]) -> tuple[list[tuple[int, list[Any]]], list[RejectedSample]]:
        """Returns the results that fit, and the samples whose results don't fit."""
        good: list[tuple[int, list[Any]]] = []
        bad: list[RejectedSample] = []
        for sample, new_records in results:
            try:
                self._table(new_records)
            except BadSample as exc:
                bad.append(RejectedSample(sample, str(exc)))
            else:
                good.append((sample, new_records))
        return good, bad

    def _call(self, row: dict[str, Any]) -> list[Any]:
        try:
            result = self._function(row, **self._options)
        except Exception as exc:  # the user's code may raise anything
            raise BadSample(f"the plug-in {self._name!r} failed: {plugins.describe(exc, self._function)}") from exc
        return [] if result is None else result if isinstance(result, list) else [result]

    def _table(self, records: list[Any]) -> pa.RecordBatch:
        try:
            return plugins.table(records, self._schema)
        except BadSample as exc:
            raise BadSample(f"the plug-in {self._name!r} returned a value that doesn't fit: {exc}") from exc
