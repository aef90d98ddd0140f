"""`spec.source`: one file per member."""

from typing import ClassVar

from dataprep_api.spec.model import OneOf
from dataprep_api.spec.sources.csv import CsvSource
from dataprep_api.spec.sources.idx import IdxSource
from dataprep_api.spec.sources.images import ImagesSource


class Source(OneOf):
    """The raw data: exactly one member."""

    what: ClassVar[str] = "source"

    idx: IdxSource | None = None
    images: ImagesSource | None = None
    csv: CsvSource | None = None

    def inputs(self) -> list[str]:
        """Every URI that the source names: each member lists its own."""
        found: list[str] = getattr(self, self.kind).inputs()
        return found
