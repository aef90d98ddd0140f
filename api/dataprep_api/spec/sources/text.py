"""`source.text`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model, Uri


class TextSource(Model):
    """Text files: one record per line. Files may be gzipped. Column: `text`, the line without its end (LF or CRLF)."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder stands for every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    type: Literal["String", "Bytes"] = "String"
    """Type of the column. `String`: UTF-8. A line that isn't UTF-8 is a bad record, and a byte order mark is removed. `Bytes`: lines are kept unchanged."""
    skip_blank: bool = False
    """Whether to skip blank lines. A blank line is empty or contains only spaces and tabs."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Type of columns from folders. Each folder named `KEY=VALUE` adds a column. `Infer`: Int64 if all values are whole numbers, otherwise String."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
