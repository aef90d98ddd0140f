"""`source.join`."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

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
    """The rows of one table: set exactly one member, with the fields that it has in `spec.source`."""

    what: ClassVar[str] = "source of the table"

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


class JoinTable(Model):
    """One of the tables."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$")]
    """Name in messages."""
    source: TableSource
    """Where its rows are."""
    keys: Columns | None = None
    """Names of its key columns. Names or positions, when they differ from `join.keys`: as many, in the same order."""
    prefix: Annotated[str, Field(max_length=63)] = ""
    """Prefix of its other columns. It keeps them apart from columns of other tables."""
    duplicates: Literal["Refuse", "First", "Last"] = "Refuse"
    """What a repeated key does. `Refuse`: the job fails and names both rows. `First` and `Last`: that row is taken, in the order of the source."""
    order_by: Columns | None = None
    """Sort columns of a sequence table. All rows with the same key, in this order, are one sequence; the columns become lists."""

    @model_validator(mode="after")
    def _rows(self) -> Self:
        if self.order_by is not None and self.duplicates != "Refuse":
            raise ValueError(f"the table {self.name!r} has orderBy, so all rows with the same key are taken; leave duplicates out")
        return self


class JoinSource(Model):
    """Tables, joined by key. There is one record for each key that all tables have, in order of the keys.

    Columns: the keys (written only when the spec names them), then each table's other columns, with its prefix.
    """

    keys: Columns
    """Key columns. Their values are whole numbers, text, bytes, booleans, dates or times."""
    tables: Annotated[list[JoinTable], Field(min_length=2, max_length=8)]
    """Tables, in the order of their columns."""
    missing: Literal["Refuse", "Drop"] = "Refuse"
    """What a key does that a table lacks. `Refuse`: the job fails and names key and table. `Drop`: the key is left out and counted."""

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
