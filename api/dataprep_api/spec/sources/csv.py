"""`source.csv`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, NullDefaults, Uri
from dataprep_api.spec.sources.partition_conditions import PartitionConditions

NullWords = Annotated[list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=16)]


class CsvColumn(Model):
    """One column of a CSV file."""

    name: Column
    """Column name."""
    type: Literal["Int64", "Float32", "Float64", "String", "Bool"]
    """Value type."""
    default: Annotated[str, Field(max_length=1024)] | None = None
    """Value of an empty cell. Write it in the same form as values in the file, or `NaN` in a column of floats. Without a default, an empty cell is an empty string in a String column, and a null in any other column."""
    required: bool = False
    """Refuses empty Strings. The field applies to String columns without a default."""


class CsvSource(Model):
    """CSV files. Columns: the names in the header, or `0`, `1`, … without a header."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    encoding: Literal["Utf8", "Utf16Le", "Utf16Be", "Latin1", "Windows1252"] | None = None
    """Text encoding. A byte order mark at the beginning of a file takes precedence. UTF-16 files aren't divided among workers. Default: Utf8."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Cell separator. The separator is one ASCII character."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """Quote character. Inside a quoted cell, a quote character is doubled."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip. They are skipped in each file. If there is a header, the skipped lines come before it."""
    header: bool = False
    """Whether there is a header. The header names the columns and is the first line of each file after `skipLines`."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=1024)] | None = None
    """Columns, in file order. Each column has a name and a type. Default: planning infers the columns once, and every file must contain these columns."""
    defaults: NullDefaults | None = None
    """Values for empty cells. The keys are columns. With this field, you needn't list `columns` only to set their `default`. Write the values in the same form as values in the files, or `NaN` in a column of floats."""
    null_words: Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=16)] = []
    """Words for empty cells. Example: `NA`. The words apply to every column. Default: no words. If types are inferred, however, the usual words for missing values count as empty cells in columns of numbers."""
    null_words_of: Annotated[dict[Annotated[str, Field(max_length=256)], NullWords], Field(max_length=1024)] | None = None
    """Words for nulls by column. The keys are columns. A cell with one of its column's words is a null, even in a String column. The word `""` matches an empty cell. The words in `nullWords` apply too."""
    select: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read. The columns are returned in the order of this list. Columns are names, positions (`3`, `-1`) or ranges of positions (`0..4`). Cells of other columns are not parsed. Default: all columns."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Type of folder columns. Each folder named `KEY=VALUE` adds a column. `Infer`: Int64 if all values are whole numbers, otherwise String."""
    partitions: PartitionConditions | None = None
    """Folders to read. The keys are folder keys, and the values are conditions, such as `>= 2026-01-01`. Files in other folders are not opened. Needs `hivePartitions`. Default: all folders."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
