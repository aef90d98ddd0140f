"""`source.csv`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Uri


class CsvColumn(Model):
    """One column of a CSV file."""

    name: Column
    """The column's name."""
    type: Literal["Int64", "Float32", "Float64", "String", "Bool"]
    """Type of the values."""
    default: Annotated[str, Field(max_length=1024)] | None = None
    """Value of an empty cell, written as in the file. Without it an empty cell makes the record bad, but a String is then empty."""
    required: bool = False
    """Whether an empty cell without a default makes the record bad in a String column too."""


class CsvSource(Model):
    """CSV files. Columns: those of the header, or `0`, `1`, … without one."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Separator of the cells: one ASCII character."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """Quote character; doubled inside a quoted cell."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip at the start of every file, before the header if there is one."""
    header: bool = False
    """Whether the first line (after `skipLines`) of every file names the columns."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=1024)] | None = None
    """Names and types in file order. When absent they are inferred once, while planning, and then enforced."""
    null_words: Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=16)] = []
    """Words that mean the same as an empty cell, in every column: `NA`. Default: none; where types are inferred, the usual ones in columns of numbers."""
    select: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read, in this order: names, places (`3`, `-1`) and ranges of places (`0..4`). The cells of the others are passed over unseen. Default: all."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Folders named `KEY=VALUE` are columns. `Infer`: those of whole numbers are Int64, others String."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
