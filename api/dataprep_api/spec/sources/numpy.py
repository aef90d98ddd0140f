"""`source.numpy`."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri


class NumpySource(Model):
    """NumPy's .npy and .npz files. The first dimension counts the records.

    Columns: `values` of .npy files, the arrays' names of .npz files, or those given in `arrays`.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)] | None = None
    """.npy or .npz files, in order. Files, folders or globs; a folder stands for every file below it whose name doesn't begin with `_` or `.`. Within one entry, files come by name."""
    members: Annotated[dict[Annotated[str, Field(max_length=256)], Column], Field(min_length=1, max_length=256)] | None = None
    """Columns from arrays of .npz files: `{image: x_train, label: y_train}`. Default: every array, by its name."""
    arrays: Annotated[dict[Annotated[str, Field(max_length=256)], Uri], Field(min_length=1, max_length=64)] | None = None
    """Columns from separate .npy files: `{image: x.npy, label: y.npy}`. Files of globs and folders are paired in order of name."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.uris is None) == (self.arrays is None):
            raise ValueError("either uris or arrays")
        if self.members is not None and self.uris is None:
            raise ValueError("members choose arrays of the .npz files in uris")
        return self

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris or (self.arrays or {}).values())
