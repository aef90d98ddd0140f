"""`source.text`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model, Uri


class TextSource(Model):
    """Text files, gzip or not; one line is one record. Column: `text`, the line without its end (LF or CRLF)."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""
    type: Literal["String", "Bytes"] = "String"
    """`String`: a line must be UTF-8, else it is a bad record, and a byte order mark is taken off. `Bytes`: the bytes as they are."""
    skip_blank: bool = False
    """Whether lines of nothing but spaces and tabs are left out. Else they are records too."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Folders named `KEY=VALUE` are columns. `Infer`: those of whole numbers are Int64, others String."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
