"""`source.wholeFile`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, Uri


class WholeFileSource(Model):
    """Files of any kind, one per record.

    Columns: `content` (the file's bytes), plus `path` (relative to the folder) and `size` (int64) if used by a feature.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    extensions: (
        Annotated[list[Annotated[str, Field(pattern=r"^[a-z0-9]{1,16}$", max_length=16)]], Field(min_length=1, max_length=64)] | None
    ) = None
    """File extensions to read. Write them in lower case. The case of files' extensions is ignored. Files with other extensions are ignored and counted. Default: all files."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
