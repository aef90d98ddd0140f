"""`source.parquet`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, NullDefaults, Uri


class ParquetSource(Model):
    """Parquet files. Columns: those of the files; a field of a struct is named `a/b`, and lists are ragged."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs, in order. A folder stands for every file below it whose name doesn't begin with `_` or `.`. Within one entry, files come by name."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read, in order. Only their bytes are read. `a` stands for all fields of a struct `a`. Default: all."""
    defaults: NullDefaults | None = None
    """Values for nulls, by column. Text for a string, otherwise JSON (`0`, `true`, `[]`). Without one, a null makes its record bad."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Type of `KEY=VALUE` folders' columns. Each such folder adds a column. `Infer`: Int64 where all values are whole numbers, otherwise String."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
