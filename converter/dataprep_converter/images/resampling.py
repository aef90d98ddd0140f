"""Resize an image.

Bilinear and bicubic resizing use Pillow's fixed-point arithmetic, which is the same on every machine. The native library does this
arithmetic if the library was built; otherwise Pillow does. Pillow also does the method `Nearest`. The method `Area` is computed here,
because Pillow's box filter includes a pixel either completely or not at all.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dataprep_api.spec.transforms.images import Resize
from dataprep_converter.core import native
from dataprep_converter.images.orientation import Pixels

MODES: Final[Mapping[int, str]] = {1: "L", 3: "RGB", 4: "RGBA"}
"""Maps the number of channels to Pillow's mode."""


def size_after(resize: Resize, height: int, width: int) -> tuple[int, int]:
    """Return the (height, width) that an image of this size has after resizing."""
    if resize.height is not None and resize.width is not None:
        return resize.height, resize.width
    shortest = resize.shortest_side or min(height, width)
    if height <= width:
        return shortest, max(1, shortest * width // height)
    return max(1, shortest * height // width), shortest


def resized(image: Pixels, height: int, width: int, method: str) -> Pixels:
    """Resize an image uint8[height, width, channels]. With four channels, colours are weighted by their alpha."""
    if image.shape[:2] == (height, width):
        return image
    if method == "Area":
        rows = _average(image.reshape(len(image), -1), height).reshape(height, *image.shape[1:])
        columns = _average(rows.swapaxes(0, 1).reshape(image.shape[1], -1), width)
        averaged = columns.reshape(width, height, image.shape[2]).swapaxes(0, 1)
        # Halves are rounded to even. The result never exceeds 255, because the values are means of bytes.
        return np.rint(averaged).astype(np.uint8)
    if method != "Nearest":
        resized_image = native.resample(image, height, width, is_cubic=method == "Bicubic")
        if resized_image is not None:
            return resized_image
    picture = to_picture(image).resize((width, height), _filter(method))
    return np.asarray(picture, np.uint8).reshape(height, width, image.shape[2])


def to_picture(image: Pixels) -> Any:
    """Convert the image to a Pillow image."""
    from PIL import Image

    flat = image[:, :, 0] if image.shape[2] == 1 else image
    return Image.fromarray(np.ascontiguousarray(flat))


def _filter(method: str) -> Any:
    from PIL import Image

    return Image.Resampling[method.upper()]


def _average(values: npt.NDArray[Any], size: int) -> npt.NDArray[np.float64]:
    """Reduce an array [n, k] to [size, k] by averaging rows.

    Each new row is the mean of the old rows that it covers. A partly covered row is weighted by its covered fraction. The sum for the mean
    is computed in two steps. The first step adds up the first covered row and the completely covered rows after it. The second step
    subtracts the uncovered fraction of the first row, and adds the covered fraction of the last row.
    """
    edges = np.arange(size + 1) * len(values)
    edge_rows, part = edges // size, (edges % size / size)[:, None]
    # The last edge is the end of the last row, so no row has its number in `edge_rows`. Use the last row instead. Any row would give the
    # same result, because `part` is 0 at this edge.
    at_edges = part * values[np.minimum(edge_rows, len(values) - 1)]
    sums = np.add.reduceat(values, edge_rows[:-1], axis=0, dtype=np.float64)
    sums[edge_rows[:-1] == edge_rows[1:]] = 0
    averages: npt.NDArray[np.float64] = (sums - at_edges[:-1] + at_edges[1:]) * (size / len(values))
    return averages
