"""`resize`: resizes images, either to tensors of an exact size, or by the shortest side while keeping the proportions."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.transforms.images import Resize
from dataprep_converter.core.tensors import arrow_type, to_arrow
from dataprep_converter.images.image_files import require_libraries
from dataprep_converter.images.resampling import resized, size_after
from dataprep_converter.records.batch import Batch
from dataprep_converter.transforms.pixels import (
    ImagesType,
    each,
    image_column,
    images_array,
    parts,
    replaced,
    size_columns,
    sizes_of,
    with_columns,
)

_OF = "The transform resize"


class ResizeStep:
    """Resizes images to tensors, with one exception.

    If images of different sizes are resized by their shortest side, this step only computes the new sizes. A later step resizes the pixels.
    """

    def __init__(self, options: Resize, schema: pa.Schema) -> None:
        require_libraries(_OF)
        self._resize = options
        self._images = image_column(schema, options.column, of=_OF)
        exact = (self._resize.height or 0, self._resize.width or 0) if self._resize.shortest_side is None else None
        self._size = exact if self._images.size is None else size_after(self._resize, *self._images.size)
        kind = self._images.type
        self._later = ImagesType(kind.decode, [*kind.resizes, self._resize]) if isinstance(kind, ImagesType) else None
        new = arrow_type("uint8", self._images.shape(*self._size)) if self._size is not None else (self._later or kind)
        sizes = dict.fromkeys(size_columns(schema, self._images.name), pa.int64())
        self._schema = replaced(schema, self._images.name, {self._images.name: new, **sizes})

    def schema(self) -> pa.Schema:
        """Returns the columns.

        The images become tensors of one size, or stay images of different sizes. If `X/height` and `X/width` exist, they get the new sizes.
        """
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Resizes all images. An image that can't be decoded makes its sample bad."""
        name, column = self._images.name, batch.records.column(self._images.name)
        if self._later is not None:
            files, old_sizes = parts(column)
            sizes = np.array([size_after(self._resize, *size) for size in old_sizes.tolist()], np.int64).reshape(-1, 2)
            column = images_array(files, sizes, self._later)
        if self._size is None:
            return with_columns(batch, self._schema, {name: column, **sizes_of(self._schema, name, sizes)}, {})
        height, width = self._size
        images = np.zeros((len(column), height, width, self._images.channels), np.uint8)

        def make(row: int, image: npt.NDArray[Any]) -> None:
            images[row] = resized(image, height, width, self._resize.method)

        faults = each(column, make)
        tensors = to_arrow(images.reshape(len(images), *self._images.shape(height, width)))
        sizes = np.full((len(images), 2), self._size, np.int64)
        return with_columns(batch, self._schema, {name: tensors, **sizes_of(self._schema, name, sizes)}, faults)
