"""Freezes the common columns of a source's files, and converts the files' batches into blocks. Used by `parquet`, `arrow`, `avro` and
`orc`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dataprep_api.dataset.run_id import StructRule
from dataprep_api.spec.sources.table_files import TableFiles
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import Array
from dataprep_converter.formats.nested.descriptions import description, parse_description
from dataprep_converter.formats.nested.json_texts import json_column
from dataprep_converter.readers.base.blocks import Block, lost_name
from dataprep_converter.readers.columnar.aligned import Alignment, converted, values_of
from dataprep_converter.readers.columnar.columns import Column, digits, lost, settled, taken
from dataprep_converter.readers.columnar.defaults import check_digits, column_default
from dataprep_converter.readers.columnar.unified import CommonColumns
from dataprep_converter.records.batch import INT96, STRUCTS
from dataprep_converter.records.lossy import SAFE_DIGITS
from dataprep_converter.records.schemas import parse_schema, schema_text


class CommonSchema:
    """Collects the schemas of the files, and freezes columns that can hold the values of all files."""

    def __init__(self, source: TableFiles, *, of: str, structs: StructRule, rounds_defaults: bool = False) -> None:
        """`rounds_defaults` is `Access.rounds_defaults`."""
        self._source = source
        self._rounds_defaults = rounds_defaults
        self._structs = structs
        self._source_path = of
        self.int96: dict[str, None] = {}
        """The columns of Parquet files that contain INT96 times, which are read in microseconds."""
        self._common = CommonColumns(source.columns, of=of, structs=structs, asked=source.nested or ())
        self.selection = self._common.selection

    def settle(self, schema: pa.Schema, uri: str) -> None:
        """Adds the columns of a file. Raises BadSpec for a column that can't be read, or that can't be unified with the same column of an
        earlier file. If columns can't be unified, the message names both files."""
        self._common.add(schema, uri)

    def state(self) -> dict[str, Any]:
        """The columns for the workers, as JSON values. Raises BadSpec for a selected column that no file has, and for an invalid default."""
        columns = self._common.columns()
        Table(self._source, columns, of=self._source_path, keep_nulls=False)
        if not self._rounds_defaults:
            check_digits(self._source.defaults, columns, of=f"{self._source_path}.defaults")
        schema = pa.schema([(column.name, column.type) for column in columns])
        state = {"schema": schema_text(schema), "paths": [list(column.path) for column in columns]}
        were = pa.schema([(column.name, column.was) for column in columns if column.was is not None])
        nested = {column.name: description(column.nested) for column in columns if column.nested is not None}
        common = {column.name: description(column.common) for column in columns if column.common is not None}
        hidden = [column.name for column in columns if not column.by_default]
        is_kept = self._structs.keeps and any(isinstance(column.nested, pa.StructType) for column in columns)
        optional = {
            "were": schema_text(were) if len(were) else "",
            "units": self._common.units(),
            "warnings": [*self._common.warnings(), *self._warnings_of_int96()],
            "nested": nested,
            "common": common,
            "hidden": hidden,
            STRUCTS: is_kept,
            INT96: bool(self.int96),
        }
        return state | {name: value for name, value in optional.items() if value}

    def _warnings_of_int96(self) -> Iterator[str]:
        if self.int96:
            first, *others = self.int96
            more = f" and {len(others):,} more column{'s' * (len(others) > 1)}" if others else ""
            have = "have" if others else "has"
            yield (
                f"{self._source_path}: the column {first!r}{more} {have} times of the old type INT96, which are read in microseconds; "
                "digits below a microsecond are cut off"
            )


def columns_from(state: Mapping[str, Any]) -> list[Column]:
    """The columns in a state that `CommonSchema.state` returned."""
    if "schema" not in state:
        return []
    schema = parse_schema(state["schema"])
    were = {field.name: field.type for field in parse_schema(state["were"])} if "were" in state else {}
    nested = {name: parse_description(described) for name, described in state.get("nested", {}).items()}
    common = {name: parse_description(described) for name, described in state.get("common", {}).items()}
    hidden = set(state.get("hidden", []))
    return [
        Column(
            field.name,
            tuple(path),
            field.type,
            were.get(field.name),
            nested.get(field.name),
            field.name not in hidden,
            common.get(field.name),
        )
        for field, path in zip(schema, state["paths"], strict=True)
    ]


class Table:
    """Converts the batches of files into blocks. Raises BadSpec for a default whose column doesn't exist or has another type."""

    def __init__(self, source: TableFiles, columns: Sequence[Column], *, of: str, keep_nulls: bool) -> None:
        self.columns = list(columns)
        self._source_path = of
        self._alignment = Alignment(self.columns)
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

    def block(self, records: pa.RecordBatch, bad: Mapping[int, str] | None = None) -> Block:
        """The batch as a block. `settled` describes the bad rows; `bad` contains the reasons for additional bad rows."""
        aligned = self._alignment.apply(records)
        return block_of(
            aligned.records,
            self.columns,
            self._defaults,
            keep_nulls=self._keep_nulls,
            of=self._source_path,
            nested=aligned.nested,
            bad=aligned.wrong | dict(bad or {}),
        )


def lost_of(columns: Sequence[Column]) -> list[str]:
    """The names of the decimal columns whose values can lose digits."""
    return [column.name for column in columns if digits(column.was) > SAFE_DIGITS]


def block_of(
    records: pa.RecordBatch,
    columns: Sequence[Column],
    defaults: Mapping[str, Any],
    *,
    keep_nulls: bool,
    of: str = "",
    nested: Mapping[str, Array] | None = None,
    bad: Mapping[int, str] | None = None,
) -> Block:
    """The records as a block. `settled` and `converted` describe the bad rows; `bad` contains the reasons for additional bad rows. Nested
    columns come from `nested` if it contains them, and otherwise from the records."""
    others = nested or {}
    refused: dict[int, str] = {}

    def array_of(column: Column) -> Array:
        if column.nested is None:
            return taken(records, column)
        values = others[column.name] if column.name in others else values_of(records, column)
        return converted(values, column, json_column, refused)

    arrays = [array_of(column) for column in columns]
    values, wrong = settled(arrays, columns, defaults, keep_nulls=keep_nulls, of=of)
    fields = [column.field() for column in columns]
    for name in lost_of(columns):
        place = next(place for place, column in enumerate(columns) if column.name == name)
        texts = lost(records, columns[place], arrays[place])
        values.append(pa.nulls(records.num_rows, pa.string()) if texts is None else texts)
        fields.append(pa.field(lost_name(name), pa.string()))
    return Block.of(pa.RecordBatch.from_arrays(values, schema=pa.schema(fields)), wrong | refused | dict(bad or {}))
