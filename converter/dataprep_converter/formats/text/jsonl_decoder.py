"""Decoder for `jsonl`. Parses every line. A line's keys must be exactly the features' names."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec.formats.jsonl import JsonlOptions
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.core.tensors import Array
from dataprep_converter.formats.columnar.tables_decoder import features_of
from dataprep_converter.formats.nested.json_texts import json_column
from dataprep_converter.formats.nested.nested_arrays import array_of
from dataprep_converter.formats.text.lines import lines, rounded
from dataprep_converter.formats.text.whole_columns import of_values
from dataprep_converter.records.feature import FeatureSpec


class JsonlDecoder:
    """Decodes each record to a parsed line. Offsets refer to the uncompressed text."""

    def __init__(self, manifest: Manifest) -> None:
        self._compression = manifest.compression
        self._features = {feature.name: feature for feature in features_of(manifest)}
        self._options = JsonlOptions.model_validate(manifest.content["output"].get("jsonl", {}))

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the parsed lines. Raises BrokenRecord for a line that isn't JSON or has other keys."""
        expected = list(self._features)
        for offset, line in lines(pieces, compression=self._compression):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as exc:
                raise BrokenRecord(f"not JSON: {exc}", offset=offset) from exc
            if not isinstance(record, dict) or list(record) != expected:
                keys = ", ".join(map(repr, record)) if isinstance(record, dict) else "no object"
                raise BrokenRecord(f"expected the keys {', '.join(map(repr, expected))}, got {keys}", offset=offset)
            yield offset, record

    def parse(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the line."""
        values: dict[str, Any] = {}
        for name, feature in self._features.items():
            value = record[name]
            if feature.nested is not None:
                values[name] = [] if value is None else [_json_texts([value], feature)[0].as_py().encode()]
            elif feature.sequence:
                values[name] = [self._flat(step, feature) for step in value or []]
            else:
                values[name] = [] if value is None else self._flat(value, feature)
        return values

    def columns(self, records: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch | None:
        """Convert lines to columns of plain values and flat lists. Return None if a column can't be converted."""
        columns: list[Array] = []
        for field in schema:
            feature = self._features[field.name]
            if feature.sequence or (feature.dtype == "bytes" and not feature.text):
                return None
            values = [record[field.name] for record in records]
            column = of_values(values, field.type) if feature.nested is None else _json_texts(values, feature)
            if column is None:
                return None
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _flat(self, value: Any, feature: FeatureSpec) -> list[Any]:
        if isinstance(value, list):
            return [item for inner in value for item in self._flat(inner, feature)]
        if feature.kind == "float":
            # Depending on output.jsonl.nonFinite, NaN and infinities can be strings such as "NaN". Within a list, they can also be null.
            return [rounded(float("nan" if value is None else value), feature.dtype)]
        if not isinstance(value, str):
            return [value]
        if feature.text or self._options.bytes == "Text":
            return [value.encode()]
        try:
            return [base64.b64decode(value, validate=True)]
        except binascii.Error as exc:
            raise BrokenRecord(f"the feature {feature.name!r} isn't valid base64: {exc}", offset=0) from exc


def _json_texts(values: Sequence[Any], feature: FeatureSpec) -> Array:
    """Return the canonical JSON of nested values. Raises BrokenRecord for a value that isn't of the feature's type."""
    try:
        return json_column(array_of(values, feature.nested))
    except ValueError as exc:
        raise BrokenRecord(f"the feature {feature.name!r} isn't {feature.nested}: {exc}", offset=0) from exc
