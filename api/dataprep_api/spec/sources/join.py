"""`source.join`."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Column, Model, OneOf
from dataprep_api.spec.sources.arrow import ArrowSource
from dataprep_api.spec.sources.avro import AvroSource
from dataprep_api.spec.sources.csv import CsvSource
from dataprep_api.spec.sources.csv_sequences import CsvSequencesSource
from dataprep_api.spec.sources.jsonl import JsonlSource
from dataprep_api.spec.sources.orc import OrcSource
from dataprep_api.spec.sources.parquet import ParquetSource
from dataprep_api.spec.sources.sql import SqlSource
from dataprep_api.spec.sources.table import TableSource as MaxComputeSource

Columns = Annotated[list[Column], Field(min_length=1, max_length=16)]


class TableSource(OneOf):
    """Source of a table's rows: set exactly one member. Members have the same fields as in `spec.source`."""

    what: ClassVar[str] = "source of the table"

    csv: CsvSource | None = None
    csv_sequences: CsvSequencesSource | None = None
    jsonl: JsonlSource | None = None
    parquet: ParquetSource | None = None
    arrow: ArrowSource | None = None
    avro: AvroSource | None = None
    orc: OrcSource | None = None
    sql: SqlSource | None = None
    table: MaxComputeSource | None = None

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        uris: list[str] = getattr(self, self.kind).inputs()
        return uris


class JoinTable(Model):
    """One of the joined tables."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$")]
    """Name of the table, for messages."""
    source: TableSource
    """Source of its rows."""
    keys: Columns | None = None
    """Key columns of this table. List the names or positions of the columns in the order of `join.keys`, one for each key. Default: `join.keys`."""
    prefix: Annotated[str, Field(max_length=63)] = ""
    """Prefix for the other columns of this table. The prefix distinguishes these columns from columns of other tables with the same names."""
    duplicates: Literal["Refuse", "First", "Last"] = "Refuse"
    """What happens to rows with the same key. `Refuse`: the job fails and names two such rows. `First`: the first such row in the source is used. `Last`: the last such row is used."""
    order_by: Columns | None = None
    """Columns to sort a sequence by. All rows with the same key, sorted by these columns, form one sequence. The columns become lists."""

    @model_validator(mode="after")
    def _check_duplicates(self) -> Self:
        if self.order_by is not None and self.duplicates != "Refuse":
            raise ValueError(f"the table {self.name!r} has orderBy, so all rows with the same key are used; remove the field 'duplicates'")
        return self


class JoinSource(Model):
    """Tables, joined by key. The result has one record for each key that all tables have, sorted by key.

    Columns: the keys, then the other columns of each table. The keys are written only if a feature names them. The names of the other
    columns begin with the table's `prefix`.
    """

    keys: Columns
    """Key columns. The values are whole numbers, text, bytes, booleans, dates or times."""
    tables: Annotated[list[JoinTable], Field(min_length=2, max_length=8)]
    """Tables to join. The columns of the result have the same order as the tables."""
    missing: Literal["Refuse", "Drop"] = "Refuse"
    """What happens to keys that a table lacks. `Refuse`: the job fails and names the key and the table. `Drop`: the key is left out and counted."""

    @model_validator(mode="after")
    def _check_tables(self) -> Self:
        names = [table.name for table in self.tables]
        for table in self.tables:
            if names.count(table.name) > 1:
                raise ValueError(f"two tables have the name {table.name!r}")
            if table.keys is not None and len(table.keys) != len(self.keys):
                raise ValueError(
                    f"the table {table.name!r} has {len(table.keys)} key columns ({', '.join(table.keys)}), but join.keys has {len(self.keys)} ({', '.join(self.keys)})"
                )
        for key in self.keys:
            if self.keys.count(key) > 1:
                raise ValueError(f"the key {key!r} is listed twice")
        return self

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return [uri for table in self.tables for uri in table.source.inputs()]
