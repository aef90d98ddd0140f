"""`source.sequenceFile`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, Uri


class SequenceFileSource(Model):
    """Hadoop's sequence files and map files. Columns: `key` and `value`; of DL4J's records the values, `0`, `1`, ….

    The classes of keys and values say the types.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, map files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
