"""`source.text`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Model, Uri
from dataprep_api.spec.sources.partition_conditions import PartitionConditions

_ENCODING = "encoding applies to type: String; Bytes are kept unchanged"


class TextSource(Model):
    """Text files: one record per line. Files may be compressed. Column: `text`, the line without its end (LF or CRLF)."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    type: Literal["String", "Bytes"] = "String"
    """Type of the column. `String`: UTF-8. A line that isn't UTF-8 is a bad record, and a byte order mark is removed. `Bytes`: lines are kept unchanged."""
    encoding: Literal["Utf8", "Utf16Le", "Utf16Be", "Latin1", "Windows1252"] | None = None
    """Text encoding. The field applies to `type: String`. A byte order mark at the beginning of a file takes precedence. UTF-16 files aren't divided among workers. Default: Utf8."""
    skip_blank: bool = False
    """Whether to skip blank lines. A blank line is empty or contains only spaces and tabs."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Type of folder columns. Each folder named `KEY=VALUE` adds a column. `Infer`: Int64 if all values are whole numbers, otherwise String."""
    partitions: PartitionConditions | None = None
    """Folders to read. The keys are folder keys, and the values are conditions, such as `>= 2026-01-01`. Files in other folders are not opened. Needs `hivePartitions`. Default: all folders."""

    @model_validator(mode="after")
    def _check_encoding(self) -> Self:
        if self.type == "Bytes" and self.encoding is not None:
            raise ValueError(_ENCODING)
        return self

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
