"""`source.dataset`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, Uri


class DatasetSource(Model):
    """A finished data set of a DataPrepJob. It may have any format. Columns: its features and labels. Its splits are subsets."""

    uri: Uri
    """Folder of the data set. A folder without `_SUCCESS` is refused."""
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", max_length=64)] | None = None
    """Expected digest. The manifest contains this digest of all files, and `dataprep verify` prints it."""

    def inputs(self) -> list[str]:
        """Return the folder of the data set."""
        return [self.uri]
