"""Helpers that the decoders of `parquet` and `arrow` share: a seekable copy of the file, and the values of rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import IO, Any, TypeAlias

import pyarrow as pa

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.core.tensors import Array, is_tensor
from dataprep_converter.formats.columnar.tables_encoder import ordered
from dataprep_converter.formats.nested.descriptions import parse_description
from dataprep_converter.formats.nested.json_texts import json_column
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.records.kept_types import as_numbers, kept_name
from dataprep_converter.runtime.temporary import TemporaryFile

_arrow: Any = pa  # the type stubs lack arrays of scalars

Row: TypeAlias = tuple[pa.RecordBatch, int]
"""A record: a batch, and the number of a row in it."""


def features_of(manifest: Manifest) -> list[FeatureSpec]:
    """Return the features of the records, in the order of the spec."""
    nested, kept = (
        {name: parse_description(described) for name, described in types.items()} for types in (manifest.nested, manifest.types)
    )
    return ordered(
        [
            FeatureSpec(
                **{**feature, "shape": tuple(feature["shape"]), "nested": nested.get(feature["name"]), "kept": kept.get(feature["name"])}
            )
            for feature in manifest.features
        ]
    )


def as_read(batch: pa.RecordBatch, features: Mapping[str, FeatureSpec]) -> pa.RecordBatch:
    """Return the batch with nested values as JSON, and with times and decimals as numbers.

    The original times and decimals are in additional columns, which `kept_values` reads.
    """
    for name, feature in features.items():
        values = batch.column(name)
        if feature.nested is not None:
            batch = batch.set_column(batch.schema.get_field_index(name), name, json_column(values))
        if feature.kept is not None:
            batch = batch.set_column(batch.schema.get_field_index(name), name, as_numbers(values)).append_column(kept_name(name), values)
    return batch


def kept_values(rows: Sequence[Row], feature: str) -> Array:
    """Return the times or decimals of a feature in these rows."""
    values: Array = _arrow.array([batch.column(kept_name(feature))[number] for batch, number in rows])
    return values


@contextmanager
def spooled_to_file(pieces: Iterable[bytes]) -> Iterator[IO[bytes]]:
    """Copy the pieces to an unnamed temporary file in $TMPDIR, because these formats have their index at the end."""
    with TemporaryFile.of("a shard that is read back", pieces) as file:
        file.file.seek(0)
        yield file.file


@contextmanager
def faults(description: str, *, offset: int) -> Iterator[None]:
    """Turn Arrow's errors into BrokenRecord."""
    try:
        yield
    # Arrow raises ValueError and OSError, among others. If a length is damaged, Arrow might try to allocate more memory than exists.
    except (pa.ArrowException, OSError, ValueError, MemoryError) as exc:
        raise BrokenRecord(f"{description}: {' '.join(str(exc).split())}", offset=offset) from exc


def check_schema(schema: pa.Schema, expected: pa.Schema) -> None:
    """Raise BrokenRecord if the columns differ from the manifest's columns."""
    if not schema.equals(expected):
        pairs = zip_longest(_describe_columns(schema), _describe_columns(expected), fillvalue="nothing")
        differing = "; ".join(f"{column} instead of {expected_column}" for column, expected_column in pairs if column != expected_column)
        raise BrokenRecord(f"the columns are not those of the manifest: {differing}", offset=0)


def _describe_columns(schema: pa.Schema) -> list[str]:
    return [f"{field.name}: {field.type}" for field in schema]


def values_of(row: Row, features: Mapping[str, FeatureSpec]) -> dict[str, Any]:
    """Return the values of a row, keyed by feature."""
    batch, number = row
    values: dict[str, Any] = {}
    for name, feature in features.items():
        column: Any = batch.column(name)
        value = (column.storage if is_tensor(column.type) else column)[number].as_py()
        values[name] = [_flat(step) for step in value or []] if feature.sequence else _flat(value)
    return values


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [item for inner in value for item in _flat(inner)]
    if value is None:
        return []
    return [value.encode() if isinstance(value, str) else value]
