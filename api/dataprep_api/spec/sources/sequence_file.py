"""`source.sequenceFile`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, Uri


class SequenceFileSource(Model):
    """Hadoop sequence files and map files. Columns: `key` and `value`; for records of DL4J their values, `0`, `1`, ….

    The key and value classes give the types.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, map files, folders or globs. In order; a folder stands for every file below it whose name doesn't begin with `_` or `.`. Within one entry, files come by name."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
