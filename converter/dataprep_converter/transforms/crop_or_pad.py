"""`cropOrPad`: crops images centrally or pads them with zeros, like `tf.image.resize_with_crop_or_pad`."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.transforms.images import CropOrPad
from dataprep_converter.core.tensors import arrow_type, to_arrow
from dataprep_converter.images.image_files import require_libraries
from dataprep_converter.records.batch import Batch
from dataprep_converter.transforms.pixels import each, image_column, replaced, size_columns, sizes_of, with_columns

_OF = "The transform cropOrPad"


class CropOrPadStep:
    """Crops or pads images of equal or different sizes, and tensors of any numeric type. A complete batch is written to one buffer."""

    def __init__(self, options: CropOrPad, schema: pa.Schema) -> None:
        self._images = image_column(schema, options.column, of=_OF, only_bytes=False)
        if self._images.size is None:
            require_libraries(_OF)
        self._size = (options.height, options.width)
        new = arrow_type(self._images.dtype, self._images.shape(*self._size))
        sizes = dict.fromkeys(size_columns(schema, self._images.name), pa.int64())
        self._schema = replaced(schema, self._images.name, {self._images.name: new, **sizes})

    def schema(self) -> pa.Schema:
        """Returns the columns. The images become tensors of one size, which `X/height` and `X/width` contain."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Crops or pads all images. An image that can't be decoded makes its sample bad."""
        name, column = self._images.name, batch.records.column(self._images.name)
        height, width = self._size
        images = np.zeros((len(column), height, width, self._images.channels), self._images.dtype)

        def make(row: int, image: npt.NDArray[Any]) -> None:
            from_y, to_y, rows = overlap(image.shape[0], height)
            from_x, to_x, columns = overlap(image.shape[1], width)
            images[row, to_y : to_y + rows, to_x : to_x + columns] = image[from_y : from_y + rows, from_x : from_x + columns]

        faults = each(column, make)
        tensors = to_arrow(images.reshape(len(images), *self._images.shape(height, width)))
        sizes = np.full((len(images), 2), self._size, np.int64)
        return with_columns(batch, self._schema, {name: tensors, **sizes_of(self._schema, name, sizes)}, faults)


def overlap(size: int, target: int) -> tuple[int, int, int]:
    """Returns (first source pixel, first target pixel, number of pixels) along one side.

    If the difference is odd, the extra pixel is added or removed at the far end.
    """
    return max(0, (size - target) // 2), max(0, (target - size) // 2), min(size, target)
