"""`source.csv`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Uri


class CsvColumn(Model):
    """One column of a CSV file."""

    name: Column
    """Column name."""
    type: Literal["Int64", "Float32", "Float64", "String", "Bool"]
    """Value type."""
    default: Annotated[str, Field(max_length=1024)] | None = None
    """Value of an empty cell. Written as in the file. Without one, an empty cell makes the record bad, except in a String column, where it is an empty string."""
    required: bool = False
    """Whether empty Strings are bad too. Applies to empty cells of a String column without a default."""


class CsvSource(Model):
    """CSV files. Columns: those of the header, or `0`, `1`, … without one."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs, in order. A folder stands for every file below it whose name doesn't begin with `_` or `.`. Within one entry, files come by name."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Cell separator. One ASCII character."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """Quote character. It is doubled inside a quoted cell."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip in each file. They come before the header, if there is one."""
    header: bool = False
    """Whether a header names the columns. It is the first line of each file after `skipLines`."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=1024)] | None = None
    """Names and types in file order. Default: planning infers them once, and every file must then have them."""
    null_words: Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=16)] = []
    """Words that mean an empty cell: `NA`. They hold in every column. Default: none, but where types are inferred, the usual words in columns of numbers."""
    select: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read, in order. Names, positions (`3`, `-1`) and ranges of positions (`0..4`). Cells of other columns are not parsed. Default: all."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Type of `KEY=VALUE` folders' columns. Each such folder adds a column. `Infer`: Int64 where all values are whole numbers, otherwise String."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
