"""What `parquet` and `arrow` have in common: columns of the first file that hold for all, and batches of a file as blocks."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from dataprep_api.spec.sources.arrow import ArrowSource
from dataprep_api.spec.sources.parquet import ParquetSource
from dataprep_converter.errors import BadSpec
from dataprep_converter.readers.blocks import Block
from dataprep_converter.readers.columns import Column, columns_of, default_of, settled, taken
from dataprep_converter.readers.schemas import frozen, thawed

TableSource: TypeAlias = ParquetSource | ArrowSource


class Settler:
    """The columns of the first file, and the check that every other one has them."""

    def __init__(self, source: TableSource, *, of: str) -> None:
        self._source = source
        self._of = of
        self._uri = ""
        self.columns: list[Column] | None = None

    def settle(self, schema: pa.Schema, uri: str) -> list[Column]:
        """The file's columns. Raises BadSpec for what can't be read, and, naming both files, for what differs from the first one's."""
        found = columns_of(schema, self._source.columns, of=self._of, uri=uri)
        if self.columns is None:
            if not found:
                raise BadSpec(f"{uri} has no columns.")
            Table(self._source, found, of=self._of)
            self.columns, self._uri = found, uri
            return found
        types = {column.name: column.type for column in found}
        expected = {column.name: column.type for column in self.columns}
        for name, kind in expected.items():
            if name not in types:
                raise BadSpec(f"{uri} has no column {name!r}, which {self._uri} has; every file needs the same columns.")
            if types[name] != kind:
                raise BadSpec(f"{uri}: the column {name!r} is {types[name]}, but {kind} in {self._uri}; every file needs the same types.")
        for name in types:
            if name not in expected:
                raise BadSpec(
                    f"{uri} has the column {name!r}, which {self._uri} has not; every file needs the same columns, or give {self._of}.columns."
                )
        return found

    def state(self) -> dict[str, Any]:
        """What workers need to know of the columns, as JSON."""
        schema = pa.schema([(column.name, column.type) for column in self.columns or []])
        return {"schema": frozen(schema), "paths": [list(column.path) for column in self.columns or []]}


def columns_from(state: Mapping[str, Any]) -> list[Column]:
    """The columns that `Settler.state` told of."""
    if "schema" not in state:
        return []
    schema = thawed(state["schema"])
    return [Column(field.name, tuple(path), field.type) for field, path in zip(schema, state["paths"], strict=True)]


class Table:
    """A file's batches as blocks of the columns. Raises BadSpec for a default that fits no column."""

    def __init__(self, source: TableSource, columns: Sequence[Column], *, of: str) -> None:
        self.columns = list(columns)
        self.schema: pa.Schema = pa.schema([(column.name, column.type) for column in columns])
        types = {column.name: column.type for column in columns}
        self._defaults: dict[str, Any] = {}
        for name, text in (source.defaults or {}).items() if columns else ():
            if name not in types:
                raise BadSpec(f"{of}.defaults: there is no column {name!r}; the columns are {', '.join(types)}.")
            self._defaults[name] = default_of(text, types[name], column=name, of=f"{of}.defaults", called=str(types[name]))

    def block(self, records: pa.RecordBatch) -> Block:
        """Rows with a null that has no default are bad, and those with text that is not UTF-8."""
        values, wrong = settled([taken(records, column) for column in self.columns], self.columns, self._defaults)
        return Block.of(pa.RecordBatch.from_arrays(values, schema=self.schema), wrong)
