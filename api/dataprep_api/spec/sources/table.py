"""`source.table`."""

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, NullDefaults, Uri, rule, rules

_TABLE: Final = re.compile(r"odps://[^/]+/tables/[^/=]+(/[^/=]+=[^/]+)*/?")


def _a_table(uri: str) -> str:
    if _TABLE.fullmatch(uri) is None:
        raise ValueError(f"expected odps://project/tables/table, or a partition of it, odps://project/tables/table/pt=1, got {uri!r}")
    return uri


TableUri = Annotated[Uri, AfterValidator(_a_table)]
"""Without a pattern in the CRD: the API server sees `${NAME}`."""


class TableSource(Model):
    """Rows of MaxCompute tables. Columns: those of the table; a field of a struct is named `a/b`, and arrays are ragged."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("!has(self.selectedCols) || !has(self.excludedCols)", "set selectedCols or excludedCols, not both", path=".selectedCols")
        )
    )

    uris: Annotated[list[TableUri], Field(min_length=1, max_length=64)]
    """`odps://project/tables/t`, or partitions. A partition is `odps://project/tables/t/pt=20260101/region=cn`. All of them have the same columns."""
    selected_cols: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read, in order. Only these are transferred. Default: all."""
    excluded_cols: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to leave out. Use it instead of `selectedCols`."""
    record_defaults: NullDefaults | None = None
    """Values for NULLs, by column. Text for a string, otherwise JSON (`0`, `true`, `[]`). Without one, a NULL makes its record bad."""
    pin: Literal["Sampled", "Content"] = "Sampled"
    """How changed data is detected. It matters when a download session expires before the job ends. `Sampled`: by the time of the last change, the number of rows, and the first rows of each slice. `Content`: by all rows, which planning then reads once more."""

    @model_validator(mode="after")
    def _selected_or_excluded(self) -> Self:
        if self.selected_cols is not None and self.excluded_cols is not None:
            raise ValueError("set selectedCols or excludedCols, not both")
        return self

    def inputs(self) -> list[str]:
        """The tables and partitions."""
        return list(self.uris)
