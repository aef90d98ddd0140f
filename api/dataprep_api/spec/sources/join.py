"""`source.join`."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator

from dataprep_api.spec.model import Column, Model, OneOf
from dataprep_api.spec.sources.arrow import ArrowSource
from dataprep_api.spec.sources.csv import CsvSource
from dataprep_api.spec.sources.csv_sequences import CsvSequencesSource
from dataprep_api.spec.sources.jsonl import JsonlSource
from dataprep_api.spec.sources.parquet import ParquetSource
from dataprep_api.spec.sources.sql import SqlSource
from dataprep_api.spec.sources.table import TableSource as MaxComputeSource

Columns = Annotated[list[Column], Field(min_length=1, max_length=16)]


class TableSource(OneOf):
    """The rows of one table: exactly one member, with the fields that it has in `spec.source`."""

    what: ClassVar[str] = "source of the table"
    described_elsewhere: ClassVar[bool] = True

    csv: CsvSource | None = None
    csv_sequences: CsvSequencesSource | None = None
    jsonl: JsonlSource | None = None
    parquet: ParquetSource | None = None
    arrow: ArrowSource | None = None
    sql: SqlSource | None = None
    table: MaxComputeSource | None = None

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        found: list[str] = getattr(self, self.kind).inputs()
        return found

    # Any: pydantic's own type of a schema is not public.
    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Without the descriptions of the members, which stand below `spec.source`: the CRD has to stay small."""
        whole: dict[str, Any] = handler.resolve_ref_schema(super().__get_pydantic_json_schema__(core, handler))
        members = {name: _without_words(member, handler) for name, member in whole["properties"].items()}
        return whole | {"properties": members}


# Any: a JSON Schema or a part of one.
def _without_words(schema: Any, handler: GetJsonSchemaHandler) -> Any:
    if isinstance(schema, list):
        return [_without_words(each, handler) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _without_words(handler.resolve_ref_schema(schema) | {key: value for key, value in schema.items() if key != "$ref"}, handler)
    # A property may be called `description` too.
    return {
        key: {name: _without_words(each, handler) for name, each in value.items()}
        if key == "properties"
        else _without_words(value, handler)
        for key, value in schema.items()
        if key != "description"
    }


class JoinTable(Model):
    """One of the tables."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$")]
    """What messages call it."""
    source: TableSource
    """Where its rows are."""
    keys: Columns | None = None
    """Its key columns, by name or place, where they aren't called as in `join.keys`: as many, in the same order."""
    prefix: Annotated[str, Field(max_length=63)] = ""
    """Put before the names of its other columns, so that they differ from those of the other tables."""
    duplicates: Literal["Refuse", "First", "Last"] = "Refuse"
    """What a second row with the same key does. `Refuse`: the job fails and names both. `First` and `Last`: that row is taken, in the source's order."""
    order_by: Columns | None = None
    """Columns of a table of sequences: all rows with the same key, in this order, are one sequence, and its columns become lists."""

    @model_validator(mode="after")
    def _rows(self) -> Self:
        if self.order_by is not None and self.duplicates != "Refuse":
            raise ValueError(f"the table {self.name!r} has orderBy, so all rows with the same key are taken; leave duplicates out")
        return self


class JoinSource(Model):
    """Tables that belong together by key: one record for each key that all of them have, in the order of the keys.

    Columns: the keys (written only when the spec names them), then each table's other columns, with its prefix.
    """

    keys: Columns
    """The key columns. Their values must be whole numbers, text, bytes, truth values, dates or times."""
    tables: Annotated[list[JoinTable], Field(min_length=2, max_length=8)]
    """The tables, in the order in which their columns follow each other."""
    missing: Literal["Refuse", "Drop"] = "Refuse"
    """What a key does that a table lacks. `Refuse`: the job fails and names key and table. `Drop`: it is left out and counted."""

    @model_validator(mode="after")
    def _tables(self) -> Self:
        names = [table.name for table in self.tables]
        for table in self.tables:
            if names.count(table.name) > 1:
                raise ValueError(f"two tables have the name {table.name!r}")
            if table.keys is not None and len(table.keys) != len(self.keys):
                raise ValueError(
                    f"the table {table.name!r} has {len(table.keys)} key columns ({', '.join(table.keys)}), join.keys has {len(self.keys)} ({', '.join(self.keys)})"
                )
        for key in self.keys:
            if self.keys.count(key) > 1:
                raise ValueError(f"the key {key!r} is named twice")
        return self

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return [uri for table in self.tables for uri in table.source.inputs()]
