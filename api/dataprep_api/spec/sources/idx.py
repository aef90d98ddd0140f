"""`source.idx`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, SplitName, Uri


class IdxSubset(Model):
    """One pair of IDX files."""

    name: SplitName
    """Name of the subset, for `splits`: `train`, `test`."""
    images: Uri
    """The IDX file of the samples, gzip or not. Its first dimension counts the records."""
    labels: Uri | None = None
    """The IDX file of the labels: one integer a record."""


class IdxSource(Model):
    """IDX files, the format of MNIST (u8, i8, i16, i32, f32 or f64, gzip or not).

    Columns: `image` (a tensor of the file's other dimensions), `label` (int64), and `height`, `width`, `depth` (int64).
    """

    subsets: Annotated[list[IdxSubset], Field(min_length=1, max_length=16)]
    """The files, in the order in which their records are numbered."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return [uri for subset in self.subsets for uri in (subset.images, subset.labels) if uri is not None]
