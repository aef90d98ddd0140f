"""Columns of images whose sizes still differ, and helpers for the image steps.

A batch of decoded photographs would take hundreds of megabytes. So images of different sizes stay encoded. A column of encoded images
contains the files, and the sizes that the images will have after decoding and resizing. The column's type lists the operations that are
still to be applied. A step that needs pixels decodes one image at a time.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.transforms.images import Decode, Resize
from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, binary_data, is_tensor, shape_of, to_arrow, to_numpy, value_type
from dataprep_converter.images import image_files, resampling
from dataprep_converter.images.orientation import Pixels
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.columns import find_columns, numbers, without

ENCODED: Final = "/encoded"
FORMAT: Final = "/format"
HEIGHT: Final = "/height"
WIDTH: Final = "/width"
"""Suffixes of the columns that describe a column of images, as in `image/height`. TensorFlow uses the same suffixes."""

_FIELDS: Final[list["pa.Field[Any]"]] = [pa.field("file", pa.large_binary()), pa.field("height", pa.int64()), pa.field("width", pa.int64())]


class ImagesType(pa.ExtensionType):
    """Images of different sizes, uint8[height, width, channels].

    Each image is stored as its encoded file. The type contains the steps that turn a file into pixels: `decode`, then any resizes.
    """

    def __init__(self, decode: Decode, resizes: Sequence[Resize] = ()) -> None:
        self.decode = decode
        self.resizes = tuple(resizes)
        super().__init__(pa.struct(_FIELDS), "dataprep.images")

    def __arrow_ext_serialize__(self) -> bytes:
        steps = {"decode": self.decode, "resizes": self.resizes}
        return json.dumps(steps, default=lambda model: model.model_dump(exclude_defaults=True), sort_keys=True).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> "ImagesType":
        steps = json.loads(serialized)
        return cls(Decode(**steps["decode"]), [Resize(**resize) for resize in steps["resizes"]])

    def __str__(self) -> str:
        # If a feature or a step can't process a column of this type, its error message contains this text.
        return "images of different sizes (after decode, add resize with height and width, cropOrPad, or encode)"

    def __hash__(self) -> int:
        return hash(self.__arrow_ext_serialize__())

    def pixels(self, file: bytes) -> Pixels:
        """Returns the pixels of one image. Raises BadSample with the reason."""
        head = image_files.header(file, self.decode)
        height, width = head.size
        at_least = resampling.size_after(self.resizes[0], height, width) if self.resizes and self.resizes[0].fast else None
        image = image_files.decoded(file, head, self.decode, at_least=at_least)
        for resize in self.resizes:
            height, width = resampling.size_after(resize, height, width)
            image = resampling.resized(image, height, width, resize.method)
        return image


@dataclass(frozen=True)
class ImageColumn:
    """A column of images in a schema: images of different sizes, or tensors."""

    name: str
    type: pa.DataType
    dtype: str
    channels: int
    size: tuple[int, int] | None
    """(height, width) of all images, or None if they differ."""

    def shape(self, height: int, width: int) -> tuple[int, ...]:
        """Returns the shape of a tensor of this size. The shape has two dimensions if the column's tensors have two."""
        return (height, width) if self.size is not None and len(shape_of(self.type)) == 2 else (height, width, self.channels)


def image_column(schema: pa.Schema, column: str, *, of: str, only_bytes: bool = True) -> ImageColumn:
    """Returns the image column that a step names. Raises BadSpec, naming the step, column and type, if the column contains no images."""
    (name,) = find_columns([column], schema, of=of)
    kind = schema.field(name).type
    if isinstance(kind, ImagesType):
        return ImageColumn(name, kind, "uint8", kind.decode.channels, None)
    shape = shape_of(kind)
    dtype = NUMPY_NAMES.get(value_type(kind), "") if is_tensor(kind) else ""
    if len(shape) not in (2, 3) or (only_bytes and (dtype != "uint8" or (*shape, 1)[2] not in resampling.MODES)):
        what = "images of uint8" if only_bytes else "images"
        raise BadSpec(f"{of} takes {what}, but the column {name!r} is {kind}; put this transform right after decode.")
    return ImageColumn(name, kind, dtype, (*shape, 1)[2], (shape[0], shape[1]))


def images_array(files: Array, sizes: npt.NDArray[np.int64], kind: ImagesType) -> Array:
    """Returns a column of images of different sizes. `files` is large_binary; `sizes` is int64[rows, 2] of heights and widths."""
    heights, widths = pa.array(sizes[:, 0].copy()), pa.array(sizes[:, 1].copy())
    storage = pa.StructArray.from_arrays([files, heights, widths], fields=_FIELDS)
    column: Array = pa.ExtensionArray.from_storage(kind, storage)
    return column


def parts(column: Array) -> tuple[Array, npt.NDArray[np.int64]]:
    """Splits a column of images of different sizes into files and sizes. The sizes are int64[rows, 2]: heights and widths."""
    storage: Any = column
    files, heights, widths = storage.storage.flatten()
    return files, np.stack([to_numpy(heights), to_numpy(widths)], axis=1)


def each(column: Array, make: Callable[[int, npt.NDArray[Any]], None]) -> dict[int, str]:
    """Calls `make` with the row and the pixels [height, width, channels] of every image.

    Returns a dict that maps each row without pixels to the reason.
    """
    kind: Any = column.type
    faults: dict[int, str] = {}
    if not isinstance(kind, ImagesType):
        values, missing = numbers(column)
        faults |= {int(row): "the image has no value" for row in missing}
        images = values[..., None] if values.ndim == 3 else values
        pixels: Callable[[int], npt.NDArray[Any]] = images.__getitem__
    else:
        data, ends = binary_data(parts(column)[0])
        pixels = lambda row: kind.pixels(data[ends[row] : ends[row + 1]].tobytes())  # noqa: E731 - one of two functions
    for row in range(len(column)):
        if row in faults:
            continue
        try:
            make(row, pixels(row))
        except BadSample as exc:
            faults[row] = str(exc)
    return faults


def replaced(schema: pa.Schema, old: str, fields: Mapping[str, pa.DataType]) -> pa.Schema:
    """Returns the schema with the column `old` replaced by the first of `fields`.

    The other `fields` are inserted after the first field. Fields that already exist stay where they are, and only their type changes.
    """
    new, *other_names = fields
    position = schema.get_field_index(old)
    schema = schema.set(position, schema.field(position).with_name(new).with_type(fields[new]))
    for other in other_names:
        at = schema.get_field_index(other)
        if at >= 0:
            schema = schema.set(at, schema.field(at).with_type(fields[other]))
        else:
            position += 1
            schema = schema.insert(position, pa.field(other, fields[other]))
    return schema


def with_columns(batch: Batch, schema: pa.Schema, columns: Mapping[str, Array], faults: Mapping[int, str]) -> Batch:
    """Returns the batch in the step's new schema, and moves the rows in `faults` to `bad`.

    `columns` contains the changed columns. All other columns are unchanged.
    """
    records = batch.records
    arrays = [columns[name] if name in columns else records.column(name) for name in [*schema.names, SAMPLE]]
    new_batch = replace(batch, records=pa.RecordBatch.from_arrays(arrays, schema=schema.append(records.schema.field(SAMPLE))))
    return without(new_batch, faults, records.column(SAMPLE)) if faults else new_batch


def size_columns(schema: pa.Schema, name: str) -> list[str]:
    """Returns which of the columns `X/height` and `X/width` exist for the column X."""
    return [name + ending for ending in (HEIGHT, WIDTH) if name + ending in schema.names]


def sizes_of(schema: pa.Schema, name: str, sizes: npt.NDArray[np.int64]) -> dict[str, Array]:
    """Returns the values of the columns `X/height` and `X/width`. A column that doesn't exist is left out."""
    values = {name + HEIGHT: sizes[:, 0], name + WIDTH: sizes[:, 1]}
    return {column: to_arrow(values[column]) for column in size_columns(schema, name)}
