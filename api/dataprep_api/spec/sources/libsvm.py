"""`source.libsvm`."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Model, Uri

_MOST_DENSE = 4096
"""The limit for dense vectors. A batch has 8,192 records, so longer vectors would need more than 128 MiB."""


class LibsvmSource(Model):
    """Text lines of `label index:value …`. Files may be compressed. Text after a `#` is a comment.

    Columns: `label` (float32), `keys` (int64) and `values` (float32). Lists in `keys` and `values` have any length. If `numFeatures` is
    set, there is also `shape` (`[numFeatures]`). With `dense`, `values` is a vector, and there is no `keys` or `shape`. With `qid`, there
    is also `qid` (int64).
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    one_based: bool = True
    """Whether indexes start at 1. In most files, they do. If false, indexes start at 0. The numbers in the column `keys` always start at 0."""
    num_features: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Number of features. A record with a larger index is bad. Default: unknown, and there is no column `shape`."""
    qid: bool = False
    """Whether lines have `qid:number`. The query id follows the label. If false, a line with a query id is a bad record."""
    dense: bool = False
    """Whether `values` is a dense vector. The vector has `numFeatures` numbers (at most 4,096), with 0 for each index that the line lacks."""

    @model_validator(mode="after")
    def _check_dense(self) -> Self:
        if self.dense and self.num_features is None:
            raise ValueError("dense needs numFeatures")
        if self.dense and (self.num_features or 0) > _MOST_DENSE:
            raise ValueError(f"dense vectors have at most {_MOST_DENSE:,} features, got {self.num_features:,}")
        return self

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
