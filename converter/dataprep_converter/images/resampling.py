"""Another size for one image. Bilinear and bicubic are Pillow's arithmetic (fixed-point, the same on every machine), in C of our own where that was built;
nearest is Pillow's. Area is computed here, because Pillow's box filter takes or leaves whole pixels."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dataprep_api.spec.transforms.images import Resize
from dataprep_converter.core import native
from dataprep_converter.images.orientation import Pixels

MODES: Final[Mapping[int, str]] = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's mode by number of channels."""


def size_after(resize: Resize, height: int, width: int) -> tuple[int, int]:
    """(height, width) that an image of this size gets."""
    if resize.height is not None and resize.width is not None:
        return resize.height, resize.width
    shortest = resize.shortest_side or min(height, width)
    if height <= width:
        return shortest, max(1, shortest * width // height)
    return max(1, shortest * height // width), shortest


def resized(image: Pixels, height: int, width: int, method: str) -> Pixels:
    """uint8[height, width, channels]. With four channels, colours are weighted by their alpha."""
    if image.shape[:2] == (height, width):
        return image
    if method == "Area":
        rows = _averaged(image.reshape(len(image), -1), height).reshape(height, *image.shape[1:])
        columns = _averaged(rows.swapaxes(0, 1).reshape(image.shape[1], -1), width)
        averaged = columns.reshape(width, height, image.shape[2]).swapaxes(0, 1)
        # Half to even, and never beyond 255: it is a mean of bytes.
        return np.rint(averaged).astype(np.uint8)
    if method != "Nearest":
        made = native.resample(image, height, width, is_cubic=method == "Bicubic")
        if made is not None:
            return made
    picture = to_picture(image).resize((width, height), _filter(method))
    return np.asarray(picture, np.uint8).reshape(height, width, image.shape[2])


def to_picture(image: Pixels) -> Any:
    """The image as Pillow's."""
    from PIL import Image

    flat = image[:, :, 0] if image.shape[2] == 1 else image
    return Image.fromarray(np.ascontiguousarray(flat))


def _filter(method: str) -> Any:
    from PIL import Image

    return Image.Resampling[method.upper()]


def _averaged(values: npt.NDArray[Any], size: int) -> npt.NDArray[np.float64]:
    """[n, k] → [size, k]: each row the mean of the stretch of rows that it covers, the ones at its ends by their covered part.

    A stretch is its whole rows, less the part of the first that lies before it, plus the part of the row that it ends in.
    """
    edges = np.arange(size + 1) * len(values)
    whole, part = edges // size, (edges % size / size)[:, None]
    # At the very end there is no row to take a part of, and the part is 0.
    at_edges = part * values[np.minimum(whole, len(values) - 1)]
    sums = np.add.reduceat(values, whole[:-1], axis=0, dtype=np.float64)
    sums[whole[:-1] == whole[1:]] = 0
    found: npt.NDArray[np.float64] = (sums - at_edges[:-1] + at_edges[1:]) * (size / len(values))
    return found
