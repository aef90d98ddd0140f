"""`source.numpy`."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri


class NumpySource(Model):
    """numpy's .npy and .npz files; the first dimension counts the records.

    Columns: `values` of .npy files, the arrays' names of .npz files, or those given in `arrays`.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)] | None = None
    """.npy or .npz files: files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""
    members: Annotated[dict[Annotated[str, Field(max_length=256)], Column], Field(min_length=1, max_length=256)] | None = None
    """Of .npz files, the columns and the array that each holds: `{image: x_train, label: y_train}`. When absent, every array by its name."""
    arrays: Annotated[dict[Annotated[str, Field(max_length=256)], Uri], Field(min_length=1, max_length=64)] | None = None
    """Columns from .npy files of their own: `{image: x.npy, label: y.npy}`. Globs and folders go together file by file, in the order of their names."""

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
