"""`source.sequenceFile`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, Uri


class SequenceFileSource(Model):
    """Hadoop sequence files and map files. Columns: `key` and `value`. For DL4J records, there is one column for each value: `0`, `1`, ….

    The types of the columns follow from the key and value classes.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, map files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
