"""`source.csvSequences`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri, rule, rules
from dataprep_api.spec.sources.csv import CsvColumn

_PAIRS = "labels.uris must have as many entries as uris"


class CsvSequenceLabels(Model):
    """Labels in files of their own: those of `a/0.csv` below an entry of `source.csvSequences.uris` are in `a/0.csv` below the same entry here."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders, one for each of the sequences' `uris`."""
    per: Literal["Step", "Sequence"] = "Step"
    """Whether a file has a row for each step, or a single row for the whole sequence."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip at the start of every file, before the header if there is one."""
    header: bool = False
    """Whether the first line (after `skipLines`) of every file names the columns."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=64)] | None = None
    """Names and types in file order. When absent they are inferred once, while planning; a single column without a header is then named `label`."""


class CsvSequencesSource(Model):
    """CSV files, each of which is a sequence: a row is a step. Columns: those of the header, or `0`, `1`, … without one, each a sequence of values."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("!has(self.labels) || size(self.labels.uris) == size(self.uris)", _PAIRS, path=".labels.uris")),
    )

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order."""
    order: Literal["Bytes", "Numbers"] = "Bytes"
    """Order of the files of one URI. `Bytes`: by the bytes of their paths, so that `10.csv` comes before `2.csv`. `Numbers`: digits count as numbers, so that it comes after."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Separator of the cells: one ASCII character."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """Quote character; doubled inside a quoted cell."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip at the start of every file, before the header if there is one."""
    header: bool = False
    """Whether the first line (after `skipLines`) of every file names the columns. A file whose first line has other names is a bad record."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=1024)] | None = None
    """Names and types in file order. When absent they are inferred once, while planning, from the first files, and then enforced."""
    null_words: Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=16)] = []
    """Words that mean the same as an empty cell, in every column: `NA`. Default: none; where types are inferred, the usual ones in columns of numbers."""
    select: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read, in this order: names, places (`3`, `-1`) and ranges of places (`0..4`). Default: all."""
    per_sequence: Annotated[list[Column], Field(max_length=64)] = []
    """Columns that have one value for the whole sequence, which every row repeats; a file whose rows differ is a bad record."""
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
