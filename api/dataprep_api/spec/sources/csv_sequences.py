"""`source.csvSequences`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri, rule, rules
from dataprep_api.spec.sources.csv import CsvColumn

_PAIRS = "labels.uris and uris must have the same number of entries"


class CsvSequenceLabels(Model):
    """Labels in separate files. For the file `a/0.csv` below an entry of `source.csvSequences.uris`, the labels are in the file `a/0.csv` below the corresponding entry of `labels.uris`."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders of labels. Each entry of `uris` needs one folder."""
    per: Literal["Step", "Sequence"] = "Step"
    """Labels per step or per sequence. A label file has one row for each step, or a single row for the whole sequence."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip. They are skipped in each file. If there is a header, the skipped lines come before it."""
    header: bool = False
    """Whether there is a header. The header names the columns and is the first line of each file after `skipLines`."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=64)] | None = None
    """Columns, in file order. Each column has a name and a type. Default: planning infers the columns once. A single inferred column without a header is named `label`."""


class CsvSequencesSource(Model):
    """CSV files, each of which is one sequence. A row is one step. Columns: the names in the header, or `0`, `1`, … without a header. Each column's value is a sequence."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("!has(self.labels) || size(self.labels.uris) == size(self.uris)", _PAIRS, path=".labels.uris")),
    )

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`."""
    order: Literal["Bytes", "Numbers"] = "Bytes"
    """Order of the files of a URI. `Bytes`: by the bytes of their paths, so `10.csv` comes before `2.csv`. `Numbers`: digits count as numbers, so `10.csv` comes after `2.csv`."""
    encoding: Literal["Utf8", "Utf16Le", "Utf16Be", "Latin1", "Windows1252"] | None = None
    """Text encoding. It applies to the labels, too. A byte order mark at the beginning of a file takes precedence. Default: Utf8, so a UTF-16 file is a bad record."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Cell separator. The separator is one ASCII character."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """Quote character. Inside a quoted cell, a quote character is doubled."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip. They are skipped in each file. If there is a header, the skipped lines come before it."""
    header: bool = False
    """Whether there is a header. The header names the columns and is the first line of each file after `skipLines`. A file whose header has other names is a bad record."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=1024)] | None = None
    """Columns, in file order. Each column has a name and a type. Default: planning infers the columns once from the first files, and every file must contain these columns."""
    null_words: Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=16)] = []
    """Words for empty cells. Example: `NA`. The words apply to every column. Default: no words. If types are inferred, however, the usual words for missing values count as empty cells in columns of numbers."""
    select: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read. The columns are returned in the order of this list. Columns are names, positions (`3`, `-1`) or ranges of positions (`0..4`). Default: all columns."""
    per_sequence: Annotated[list[Column], Field(max_length=64)] = []
    """Columns with one value per sequence. Every row repeats the value. A file whose rows contain different values in one of these columns is a bad record."""
    labels: CsvSequenceLabels | None = None
    """Labels in separate files. Default: labels are columns of the same files."""

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if self.labels is not None and len(self.labels.uris) != len(self.uris):
            raise ValueError(f"{_PAIRS}, got {len(self.labels.uris)} and {len(self.uris)}")
        return self

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return [*self.uris, *(self.labels.uris if self.labels is not None else [])]
