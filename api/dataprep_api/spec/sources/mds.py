"""`source.mds`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Uri


class MdsSource(Model):
    """MosaicML Streaming data sets. `MDSWriter` writes these data sets. Columns: the writer's `columns`. A folder with an `index.json` is a subset."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders. The `index.json` is in the folder itself, or in its sub-folders, such as `train` and `val`. The entries are read in the order of this list."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read. Default: all columns."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
