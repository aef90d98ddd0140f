"""`source.arrow`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, NullDefaults, Uri


class ArrowSource(Model):
    """Arrow IPC files and streams (Feather v2). Columns: those of the files; a field of a struct is named `a/b`, and lists are ragged."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """The columns to take, in this order. `a` has all fields of a struct `a`. When absent, all."""
    defaults: NullDefaults | None = None
    """Value of a null, by column: the text of a string, else JSON (`0`, `true`, `[]`). Without it a null makes its record bad."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Folders named `KEY=VALUE` are columns. `Infer`: those of whole numbers are Int64, others String."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
