"""Code that `parquet`, `arrow`, `avro` and `orc` share. This code freezes the columns of the first file, and converts batches of files into blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa

from dataprep_api.dataset.run_id import StructRule
from dataprep_api.spec.sources.arrow import ArrowSource
from dataprep_api.spec.sources.avro import AvroSource
from dataprep_api.spec.sources.orc import OrcSource
from dataprep_api.spec.sources.parquet import ParquetSource
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.nested.descriptions import description, parse_description
from dataprep_converter.readers.base.blocks import Block, lost_name
from dataprep_converter.readers.columnar.columns import Column, columns_of, digits, lost, settled, taken
from dataprep_converter.readers.columnar.defaults import column_default
from dataprep_converter.records.batch import STRUCTS
from dataprep_converter.records.lossy import SAFE_DIGITS
from dataprep_converter.records.schemas import parse_schema, schema_text

TableSource: TypeAlias = ParquetSource | ArrowSource | AvroSource | OrcSource


class CommonSchema:
    """Takes the columns from the first file, and checks that every other file has the same columns."""

    def __init__(self, source: TableSource, *, of: str, structs: StructRule) -> None:
        self._source = source
        self._structs = structs
        self._source_path = of
        self._uri = ""
        self.columns: list[Column] | None = None

    def settle(self, schema: pa.Schema, uri: str) -> list[Column]:
        """The columns of a file. Raises BadSpec for a column that can't be read, or that differs from the same column in the first file. If
        a column differs, the message names both files."""
        columns = columns_of(
            schema, self._source.columns, of=self._source_path, uri=uri, structs=self._structs, asked=self._source.nested or ()
        )
        if self.columns is None:
            if not columns:
                raise BadSpec(f"{uri} has no columns.")
            Table(self._source, columns, of=self._source_path, keep_nulls=False)
            self.columns, self._uri = columns, uri
            return columns
        types = {column.name: column.nested or column.type for column in columns}
        self._widen(columns, uri)
        expected = {column.name: column.nested or column.type for column in self.columns}
        for name, kind in expected.items():
            if name not in types:
                raise BadSpec(f"{uri} has no column {name!r}, which {self._uri} has; every file needs the same columns.")
            if types[name] != kind:
                raise BadSpec(f"{uri}: the column {name!r} is {types[name]}, but {kind} in {self._uri}; every file needs the same types.")
        for name in types:
            if name not in expected:
                raise BadSpec(
                    f"{uri} has the column {name!r}, which {self._uri} doesn't have; every file needs the same columns, or give {self._source_path}.columns."
                )
        return columns

    def _widen(self, columns: Sequence[Column], uri: str) -> None:
        """Updates the types of decimals if this file's decimals have more digits than those of the earlier files. Raises BadSpec for times
        whose unit or zone differs from the first file's."""
        assert self.columns is not None  # noqa: S101 - the first file was settled
        others = {column.name: column for column in columns}
        for place, column in enumerate(self.columns):
            was = others[column.name].was if column.name in others else column.was
            if was == column.was or _is_same_moment(was, column.was):
                continue
            if any(kind is not None and pa.types.is_temporal(kind) for kind in (was, column.was)):
                raise BadSpec(
                    f"{uri}: the column {column.name!r} is {was or others[column.name].type}, but {column.was or column.type} in {self._uri}; "
                    "every file needs the same types."
                )
            if digits(was) > digits(column.was):
                self.columns[place] = replace(column, was=was)

    def state(self) -> dict[str, Any]:
        """The columns for the workers, as JSON values."""
        columns = self.columns or []
        schema = pa.schema([(column.name, column.type) for column in columns])
        state = {"schema": schema_text(schema), "paths": [list(column.path) for column in columns]}
        were = pa.schema([(column.name, column.was) for column in columns if column.was is not None])
        nested = {column.name: description(column.nested) for column in columns if column.nested is not None}
        hidden = [column.name for column in columns if not column.by_default]
        is_kept = self._structs.keeps and any(isinstance(column.nested, pa.StructType) for column in columns)
        added = {"were": schema_text(were) if len(were) else None, "nested": nested, "hidden": hidden, STRUCTS: is_kept}
        return state | {name: value for name, value in added.items() if value}


def columns_from(state: Mapping[str, Any]) -> list[Column]:
    """The columns in a state that `CommonSchema.state` returned."""
    if "schema" not in state:
        return []
    schema = parse_schema(state["schema"])
    were = {field.name: field.type for field in parse_schema(state["were"])} if "were" in state else {}
    nested = {name: parse_description(described) for name, described in state.get("nested", {}).items()}
    hidden = set(state.get("hidden", []))
    return [
        Column(field.name, tuple(path), field.type, were.get(field.name), nested.get(field.name), field.name not in hidden)
        for field, path in zip(schema, state["paths"], strict=True)
    ]


class Table:
    """Converts the batches of files into blocks. Raises BadSpec for a default whose column doesn't exist or has another type."""

    def __init__(self, source: TableSource, columns: Sequence[Column], *, of: str, keep_nulls: bool) -> None:
        self.columns = list(columns)
        self._source_path = of
        self._keep_nulls = keep_nulls
        self.schema: pa.Schema = pa.schema([column.field() for column in columns])
        self.lost_of = lost_of(columns)
        """The columns for which blocks report lost digits."""
        by_name = {column.name: column for column in columns}
        self._defaults: dict[str, Any] = {}
        for name, text in (source.defaults or {}).items() if columns else ():
            if name not in by_name:
                raise BadSpec(f"{of}.defaults: there is no column {name!r}; the columns are {', '.join(by_name)}.")
            self._defaults[name] = column_default(text, by_name[name], of=f"{of}.defaults")

    def block(self, records: pa.RecordBatch) -> Block:
        """The batch as a block. `settled` describes the bad rows."""
        return block_of(records, self.columns, self._defaults, keep_nulls=self._keep_nulls, of=self._source_path)


def _is_same_moment(one: Any, other: Any) -> bool:
    """Whether both types represent the same time by the same number. Times with any time zone are counted from 1970 in UTC."""
    if not all(kind is not None and pa.types.is_timestamp(kind) and kind.tz is not None for kind in (one, other)):
        return False
    return bool(one.unit == other.unit)


def lost_of(columns: Sequence[Column]) -> list[str]:
    """The names of the columns of decimals that may lose digits."""
    return [column.name for column in columns if digits(column.was) > SAFE_DIGITS]


def block_of(records: pa.RecordBatch, columns: Sequence[Column], defaults: Mapping[str, Any], *, keep_nulls: bool, of: str = "") -> Block:
    """The records as a block. `settled` describes the bad rows."""
    arrays = [taken(records, column) for column in columns]
    values, wrong = settled(arrays, columns, defaults, keep_nulls=keep_nulls, of=of)
    fields = [column.field() for column in columns]
    for name in lost_of(columns):
        place = next(place for place, column in enumerate(columns) if column.name == name)
        texts = lost(records, columns[place], arrays[place])
        values.append(pa.nulls(records.num_rows, pa.string()) if texts is None else texts)
        fields.append(pa.field(lost_name(name), pa.string()))
    return Block.of(pa.RecordBatch.from_arrays(values, schema=pa.schema(fields)), wrong)
