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
"""The URI of a table or partition. The CRD has no pattern for this URI, because the API server sees the URI before `${NAME}` is replaced."""


class TableSource(Model):
    """Rows of MaxCompute tables. Columns: the table's columns. A field of a struct is named `a/b`, and arrays are ragged."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("!has(self.selectedCols) || !has(self.excludedCols)", "set selectedCols or excludedCols, not both", path=".selectedCols")
        )
    )

    uris: Annotated[list[TableUri], Field(min_length=1, max_length=64)]
    """URIs of tables or partitions. A table is `odps://project/tables/t` and a partition is `odps://project/tables/t/pt=20260101/region=cn`, for example. All entries must have the same columns."""
    selected_cols: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read. The columns are returned in the order of this list. Only these columns are transferred. Default: all columns."""
    excluded_cols: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to leave out. Use this field instead of `selectedCols`."""
    record_defaults: NullDefaults | None = None
    """Values for NULLs. The keys are columns. Write text for a string column, otherwise JSON (`0`, `true`, `[]`), or `NaN` for a float. Without a default, a NULL stays a null."""
    pin: Literal["Sampled", "Content"] = "Sampled"
    """Change detection. After a download session has expired, the rows of the next session may differ from the planned rows. `Sampled`: the time of the last change, the number of rows, and the first rows of each slice are compared. `Content`: all rows are compared, so planning must read the whole table."""

    @model_validator(mode="after")
    def _check_column_choice(self) -> Self:
        if self.selected_cols is not None and self.excluded_cols is not None:
            raise ValueError("set selectedCols or excludedCols, not both")
        return self

    def inputs(self) -> list[str]:
        """Return the URIs of the tables and partitions."""
        return list(self.uris)
