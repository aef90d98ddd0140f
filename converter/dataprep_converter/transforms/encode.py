"""`encode`: turns pixels into JPEG or PNG files."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.transforms.images import Encode
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import binary, to_arrow
from dataprep_converter.images import image_files
from dataprep_converter.records.batch import Batch
from dataprep_converter.transforms.pixels import ENCODED, FORMAT, HEIGHT, WIDTH, each, image_column, replaced, with_columns

_OF = "The transform encode"


class EncodeStep:
    """Turns X into `X/encoded`, and adds `X/format`, `X/height` and `X/width`."""

    def __init__(self, options: Encode, schema: pa.Schema) -> None:
        image_files.require_libraries(_OF)
        self._encode = options
        self._images = image_column(schema, options.column, of=_OF)
        name = self._images.name
        if self._encode.format == "Jpeg" and self._images.channels == 4:
            raise BadSpec(f"{_OF}: a Jpeg has no alpha channel, but {name!r} has 4 channels; decode to 3 channels, or set format: Png.")
        if name + ENCODED in schema.names:
            raise BadSpec(f"{_OF} makes the column {name + ENCODED!r}, but that column already exists; drop or rename it first.")
        fields: dict[str, pa.DataType] = {
            name + ENCODED: pa.large_binary(),
            name + FORMAT: pa.string(),
            name + HEIGHT: pa.int64(),
            name + WIDTH: pa.int64(),
        }
        self._schema = replaced(schema, name, fields)

    def schema(self) -> pa.Schema:
        """Returns the output's columns, including the columns for the image files, their formats and their sizes."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Encodes all images. An image that can't be decoded, or is too large for the format, makes its sample bad."""
        name, column = self._images.name, batch.records.column(self._images.name)
        files = [b""] * len(column)
        sizes = np.zeros((len(column), 2), np.int64)

        def make(row: int, image: npt.NDArray[Any]) -> None:
            files[row] = image_files.encoded(image, self._encode)
            sizes[row] = image.shape[:2]

        faults = each(column, make)
        ends = np.concatenate(([0], np.cumsum([len(file) for file in files], dtype=np.int64)))
        columns = {
            name + ENCODED: binary(np.frombuffer(b"".join(files), np.uint8), ends),
            name + FORMAT: pa.array([self._encode.format.lower()] * len(files), pa.string()),
            name + HEIGHT: to_arrow(sizes[:, 0]),
            name + WIDTH: to_arrow(sizes[:, 1]),
        }
        return with_columns(batch, self._schema, columns, faults)
