"""`source.mds`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Uri


class MdsSource(Model):
    """Data sets that MosaicML Streaming's `MDSWriter` wrote. Columns: those of the writer. The folder of an `index.json` is a subset."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders. A folder has an `index.json`, or folders with an `index.json`, such as `train` and `val`. The entries are read in the order of this list."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read. Default: all columns."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
