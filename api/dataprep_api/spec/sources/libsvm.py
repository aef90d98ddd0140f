"""`source.libsvm`."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Model, Uri

_MOST_DENSE = 4096
"""A batch has 8,192 records, so more would be more than 128 MiB."""


class LibsvmSource(Model):
    """Text files of `label index:value …` lines, gzip or not; what follows a `#` is no part of a line.

    Columns: `label` (float32), `keys` (int64) and `values` (float32), both of any length, and `shape` (`[numFeatures]`) when that is given;
    or, dense, `values` as a vector. With query ids also `qid` (int64).
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""
    one_based: bool = True
    """Whether the first feature is 1, as most files have it; keys begin at 0 in any case. False: it is 0."""
    num_features: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Number of features: a larger index makes its record bad. When absent, there is no column `shape`."""
    qid: bool = False
    """Whether every line has `qid:number` behind its label. Without it, such a line is a bad record."""
    dense: bool = False
    """Whether `values` is a vector of `numFeatures` numbers (at most 4,096), 0 where the line has none."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.dense and self.num_features is None:
            raise ValueError("dense needs numFeatures")
        if self.dense and (self.num_features or 0) > _MOST_DENSE:
            raise ValueError(f"dense vectors have at most {_MOST_DENSE:,} features, got {self.num_features:,}")
        return self

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
