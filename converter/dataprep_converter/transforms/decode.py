"""`decode`: turns image files into images. It reads the sizes from the files' headers; later steps decode the pixels (`pixels.py`)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.transforms.images import Decode
from dataprep_converter.core.arrow_types import is_bytes
from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.core.tensors import binary_data, null_mask, pc
from dataprep_converter.images import image_files
from dataprep_converter.records.batch import Batch
from dataprep_converter.records.columns import find_columns
from dataprep_converter.transforms.pixels import (
    ENCODED,
    FORMAT,
    ImagesType,
    images_array,
    parts,
    replaced,
    size_columns,
    sizes_of,
    with_columns,
)

_OF = "The transform decode"
MOST_PIXELS: Final = 64 << 20
"""Limit on the total number of pixels in a batch. A larger image gets its own batch. Batches of photographs stay below this limit."""


class DecodeStep:
    """Turns `X/encoded` into X and sets `X/height` and `X/width` to the size in pixels.

    `X/format` is dropped, because pixels have no format.
    """

    def __init__(self, options: Decode, schema: pa.Schema) -> None:
        image_files.require_libraries(_OF)
        self._decode = options
        self._reads_heif = True
        (self._from,) = find_columns([options.column], schema, of=_OF)
        kind = schema.field(self._from).type
        if not is_bytes(kind):
            raise BadSpec(f"{_OF} takes the bytes of files, but the column {self._from!r} is {kind}.")
        self._to = self._from.removesuffix(ENCODED)
        if self._to != self._from and self._to in schema.names:
            raise BadSpec(f"{_OF} turns {self._from!r} into the column {self._to!r}, but that column already exists; rename it first.")
        self._type = ImagesType(options)
        sizes = dict.fromkeys(size_columns(schema, self._to), pa.int64())
        fields = [field for field in schema if field.name != self._to + FORMAT]
        self._schema = replaced(pa.schema(fields), self._from, {self._to: self._type, **sizes})

    def schema(self) -> pa.Schema:
        """Returns the columns. X is a column of images of different sizes."""
        return self._schema

    def follow(self, *, reads_heif: bool) -> None:
        """If `reads_heif` is false, AVIF and HEIC files don't count as images."""
        self._reads_heif = reads_heif

    def apply(self, batch: Batch) -> Batch:
        """Reads the headers of all images.

        A sample is bad if the header shows that its file isn't an image, is truncated or is too large.
        """
        column = batch.records.column(self._from)
        faults = {int(row): f"{self._from} has no value" for row in np.flatnonzero(null_mask(column))}
        files = pc.fill_null(column.cast(pa.large_binary()), b"")
        data, ends = binary_data(files)
        sizes = np.zeros((len(files), 2), np.int64)
        for row in range(len(files)):
            if row not in faults:
                try:
                    sizes[row] = image_files.header(data[ends[row] : ends[row + 1]].tobytes(), self._decode, heif=self._reads_heif).size
                except BadSample as exc:
                    faults[row] = str(exc)
        columns = {self._to: images_array(files, sizes, self._type), **sizes_of(self._schema, self._to, sizes)}
        return with_columns(batch, self._schema, columns, faults)

    def cut(self, batch: Batch) -> Iterator[Batch]:
        """Yields the batch in parts with a limited number of pixels, because a one-kilobyte file can decode to a hundred megabytes."""
        _, sizes = parts(batch.records.column(self._to))
        first = 0
        while (end := first + _count_fitting(sizes[first:])) < len(sizes):
            yield replace(batch, records=batch.records.slice(first, end - first))
            # The first part contains the counts of the whole batch. Later parts must not repeat these counts.
            batch = replace(batch, bad=[], bytes_in=0, filtered=0, added=0)
            first = end
        yield replace(batch, records=batch.records.slice(first))


def _count_fitting(sizes: npt.NDArray[np.int64]) -> int:
    """Returns how many of the images fit in one part without exceeding its pixel limit, but at least 1."""
    return max(1, int(np.searchsorted(np.cumsum(sizes[:, 0] * sizes[:, 1]), MOST_PIXELS, side="right")))
