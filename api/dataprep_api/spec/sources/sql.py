"""`source.sql`."""

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, NullDefaults, rule, rules

SQLITE = "sqlite:///"
_URL: Final = "^(sqlite:///[^?]+|postgres(ql)?://([^:@/]*@)?[^@]*)$"
_HIDDEN: Final = "(?i)[?&][^=&]*(pass|pwd|secret|token|scram|%)[^=&]*="
"""Matches libpq options that contain a secret or name a file with a secret. A name with a percent sign matches too, because it could be the escaped name of such an option."""
_WANTED: Final = "expected postgresql://user@host:5432/database?options, or sqlite:/// and a path; the URL can't contain a password or name a password file, because the password comes from a Secret"


def _a_url(value: str) -> str:
    if re.search(_URL, value) is None or (not value.startswith(SQLITE) and re.search(_HIDDEN, value) is not None):
        raise ValueError(_WANTED)
    return value


class SqlPartitions(Model):
    """How the rows are divided, so that several workers can read them at the same time."""

    column: Column
    """Integer column of the result. The column's range of values is divided into parts of equal width."""
    count: Annotated[int, Field(ge=1, le=1000)]
    """Number of parts. A worker fetches a part as a whole, so each part must fit into `$TMPDIR`."""


class SqlSource(Model):
    """Rows of an SQL query. Columns: the result's columns."""

    # The rule for `url` is on the object and not on the field. If a field broke its own pattern or rule, the API server would print the
    # field's value, which may contain a password.
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(f"self.url.matches('{_URL}') && (self.url.startsWith('sqlite:') || !self.url.matches('{_HIDDEN}'))", _WANTED, path=".url")
        )
    )

    url: Annotated[str, AfterValidator(_a_url), Field(max_length=1024)]
    """PostgreSQL or SQLite URL. The URL must not contain a password. Example for PostgreSQL: `postgresql://user@host:5432/database?sslmode=require`. For SQLite, write `sqlite:///` and the path of a file. The password comes from a Secret."""
    query: Annotated[str, Field(min_length=1, max_length=16_384)]
    """SELECT statement. It becomes a sub-query of the statements that are run."""
    order_by: Annotated[list[Column], Field(min_length=1, max_length=16)]
    """Columns of a unique order. List columns of the query's result. No two rows may have the same values in all of these columns."""
    partition_by: SqlPartitions | None = None
    """Parts to read in parallel. Default: one part."""
    defaults: NullDefaults | None = None
    """Values for NULLs. The keys are columns. Write text for a string column, otherwise JSON (`0`, `true`), or `NaN` for a float. Without a default, a NULL stays a null."""
    pin: Literal["Content", "Count"] = "Content"
    """Change detection. `Content`: planning reads all rows and keeps a digest of each part. `Count`: planning keeps only the number of rows, which is faster but doesn't detect updated rows."""

    @model_validator(mode="after")
    def _check_one_select(self) -> Self:
        if ";" in self.query.rstrip().rstrip(";"):
            raise ValueError(
                "source.sql.query contains a semicolon; write a single SELECT (for a semicolon in a text use chr(59) or char(59))"
            )
        return self

    def inputs(self) -> list[str]:
        """Return the file of an SQLite database.

        For a database server, the list is empty, because its address isn't a file in a store.
        """
        return [self.url.removeprefix(SQLITE)] if self.url.startswith(SQLITE) else []
