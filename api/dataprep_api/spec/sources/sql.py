"""`source.sql`."""

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, NullDefaults, rule, rules

SQLITE = "sqlite:///"
_URL: Final = "^(sqlite:///[^?]+|postgres(ql)?://([^:@/]*@)?[^@]*)$"
_HIDDEN: Final = "(?i)[?&][^=&]*(pass|pwd|secret|token|scram|%)[^=&]*="
"""An option of libpq that holds a secret, or the file of one; a percent sign in a name could spell any of them."""
_WANTED: Final = "expected postgresql://user@host:5432/database?options or sqlite:/// and a path, without a password or its file: a password comes from a Secret"


def _a_url(value: str) -> str:
    if re.search(_URL, value) is None or (not value.startswith(SQLITE) and re.search(_HIDDEN, value) is not None):
        raise ValueError(_WANTED)
    return value


class SqlPartitions(Model):
    """How the rows are divided, so that several workers can read at the same time."""

    column: Column
    """Integer column of the result. Its range is cut into parts of equal width."""
    count: Annotated[int, Field(ge=1, le=1000)]
    """Number of parts. Each is fetched whole and must fit into `$TMPDIR`."""


class SqlSource(Model):
    """Rows of an SQL query. Columns: those of the result."""

    # A rule of the object: the API server says the value that doesn't match a field's own pattern or rule.
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(f"self.url.matches('{_URL}') && (self.url.startsWith('sqlite:') || !self.url.matches('{_HIDDEN}'))", _WANTED, path=".url")
        )
    )

    url: Annotated[str, AfterValidator(_a_url), Field(max_length=1024)]
    """PostgreSQL or SQLite URL, without password. `postgresql://user@host:5432/database?sslmode=require`, or `sqlite:///` and the path of a file. The password comes from a Secret."""
    query: Annotated[str, Field(min_length=1, max_length=16_384)]
    """A SELECT. It is used as a sub-query in the statements that are run."""
    order_by: Annotated[list[Column], Field(min_length=1, max_length=16)]
    """Result columns that give a unique order. Together they differ in every row."""
    partition_by: SqlPartitions | None = None
    """Parts to read in parallel. Default: one part."""
    defaults: NullDefaults | None = None
    """Values for NULLs, by column. Text for a string, otherwise JSON (`0`, `true`). Without one, a NULL makes its record bad."""
    pin: Literal["Content", "Count"] = "Content"
    """How changed data is detected. `Content`: planning reads all rows and keeps a digest of each part. `Count`: it keeps only the number of rows, which is faster but misses updated rows."""

    @model_validator(mode="after")
    def _is_one_select(self) -> Self:
        if ";" in self.query.rstrip().rstrip(";"):
            raise ValueError(
                "source.sql.query holds a semicolon; give one SELECT (a semicolon in a text can be written as chr(59), or char(59))"
            )
        return self

    def inputs(self) -> list[str]:
        """The file of a database that is a file; a server has no URI that a store could reach."""
        return [self.url.removeprefix(SQLITE)] if self.url.startswith(SQLITE) else []
