"""`source.idx`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, SplitName, Uri


class IdxSubset(Model):
    """One pair of IDX files."""

    name: SplitName
    """Subset name. Example: `train`. Splits can choose samples by subset."""
    images: Uri
    """IDX file of the samples. The file may be gzipped. Its first dimension is the number of records."""
    labels: Uri | None = None
    """IDX file of the labels. The file contains one integer per record."""


class IdxSource(Model):
    """IDX files. MNIST, for example, consists of such files. Types: u8, i8, i16, i32, f32, f64. Files may be gzipped.

    Columns: `image` (a tensor of the file's other dimensions), `label` (int64), and `height`, `width`, `depth` (int64).
    """

    subsets: Annotated[list[IdxSubset], Field(min_length=1, max_length=16)]
    """IDX files, read in this order."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return [uri for subset in self.subsets for uri in (subset.images, subset.labels) if uri is not None]
