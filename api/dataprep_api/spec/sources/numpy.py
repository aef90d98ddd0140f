"""`source.numpy`."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri


class NumpySource(Model):
    """NumPy's .npy and .npz files. The first dimension is the number of records.

    Columns: `values` for .npy files, the arrays' names for .npz files, or the names in `members` or `arrays`.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)] | None = None
    """.npy or .npz files, in order. Entries are files, folders or globs. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    members: Annotated[dict[Annotated[str, Field(max_length=256)], Column], Field(min_length=1, max_length=256)] | None = None
    """Columns from arrays of .npz files. Example: `{image: x_train, label: y_train}`. Default: every array, with its name."""
    arrays: Annotated[dict[Annotated[str, Field(max_length=256)], Uri], Field(min_length=1, max_length=64)] | None = None
    """Columns from .npy files. Example: `{image: x.npy, label: y.npy}`. The files of globs and folders are paired in order of their names."""

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if (self.uris is None) == (self.arrays is None):
            raise ValueError("set exactly one of uris and arrays")
        if self.members is not None and self.uris is None:
            raise ValueError("members needs uris of .npz files")
        return self

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris or (self.arrays or {}).values())
