"""`source.csvSequences`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri, rule, rules
from dataprep_api.spec.sources.csv import CsvColumn

_PAIRS = "labels.uris must have as many entries as uris"


class CsvSequenceLabels(Model):
    """Labels in files of their own: those of `a/0.csv` below an entry of `source.csvSequences.uris` are in `a/0.csv` below the same entry here."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders, one per entry of `uris`."""
    per: Literal["Step", "Sequence"] = "Step"
    """Whether rows are per step or sequence. A file has a row for each step, or a single row for the whole sequence."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip in each file. They come before the header, if there is one."""
    header: bool = False
    """Whether a header names the columns. It is the first line of each file after `skipLines`."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=64)] | None = None
    """Names and types in file order. Default: planning infers them once; a single column without a header is then named `label`."""


class CsvSequencesSource(Model):
    """CSV files, each one a sequence. A row is a step. Columns: those of the header, or `0`, `1`, … without one; each is a sequence of values."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("!has(self.labels) || size(self.labels.uris) == size(self.uris)", _PAIRS, path=".labels.uris")),
    )

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs, in order. A folder stands for every file below it whose name doesn't begin with `_` or `.`."""
    order: Literal["Bytes", "Numbers"] = "Bytes"
    """Order of the files of a URI. `Bytes`: by the bytes of their paths, so that `10.csv` comes before `2.csv`. `Numbers`: digits count as numbers, so that it comes after."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Cell separator. One ASCII character."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """Quote character. It is doubled inside a quoted cell."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip in each file. They come before the header, if there is one."""
    header: bool = False
    """Whether a header names the columns. It is the first line of each file after `skipLines`. A file whose header has other names is a bad record."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=1024)] | None = None
    """Names and types in file order. Default: planning infers them once from the first files, and every file must then have them."""
    null_words: Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=16)] = []
    """Words that mean an empty cell: `NA`. They hold in every column. Default: none, but where types are inferred, the usual words in columns of numbers."""
    select: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read, in order. Names, positions (`3`, `-1`) and ranges of positions (`0..4`). Default: all."""
    per_sequence: Annotated[list[Column], Field(max_length=64)] = []
    """Columns with one value per sequence. Every row repeats the value; a file whose rows differ is a bad record."""
    labels: CsvSequenceLabels | None = None
    """Labels in files of their own. Default: a label is a column like any other."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.labels is not None and len(self.labels.uris) != len(self.uris):
            raise ValueError(f"{_PAIRS}, got {len(self.labels.uris)} and {len(self.uris)}")
        return self

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return [*self.uris, *(self.labels.uris if self.labels is not None else [])]
