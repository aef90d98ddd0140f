"""`source.libsvm`."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Model, Uri

_MOST_DENSE = 4096
"""A batch has 8,192 records, so more would be more than 128 MiB."""


class LibsvmSource(Model):
    """Text lines of `label index:value …`. Files may be gzipped; text after a `#` is a comment.

    Columns: `label` (float32), `keys` (int64) and `values` (float32), both of any length, and `shape` (`[numFeatures]`) when that is given;
    or, dense, `values` as a vector. With query ids also `qid` (int64).
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs, in order. A folder stands for every file below it whose name doesn't begin with `_` or `.`. Within one entry, files come by name."""
    one_based: bool = True
    """Whether indexes start at 1. Most files do; with false they start at 0. Keys start at 0 either way."""
    num_features: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Number of features. A larger index makes its record bad. Default: unknown, and there is no column `shape`."""
    qid: bool = False
    """Whether lines have `qid:number`. It follows the label. If false, a line with one is a bad record."""
    dense: bool = False
    """Whether `values` is a dense vector. It has `numFeatures` numbers (at most 4,096), with 0 where the line has none."""

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
