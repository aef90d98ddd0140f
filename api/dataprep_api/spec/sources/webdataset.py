"""`source.webdataset`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Uri


class WebdatasetSource(Model):
    """Tar files in WebDataset's layout. They can come from any program. A sample's members are consecutive and have the same name up to the first dot.

    Columns: the members' extensions, such as `jpg`, `cls` and `txt`, and `__key__` if a feature uses it.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Tar files, folders or globs. The entries are read in the order of this list. A folder means all tar files below it, plain or compressed. Other files are ignored and counted. The files of one entry are sorted by name."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Extensions to read. Members with other extensions are skipped. Default: all extensions, in order of first occurrence."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
