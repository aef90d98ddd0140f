"""The objects of an image, with their classes and boxes, in a common form for all annotation formats. Checks that boxes fit the image."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.errors import BadSample
from dataprep_converter.images.image_headers import ImageHeader

UNKNOWN_VIEW: Final = "Unspecified"
"""VOC's value for a pose that was not annotated."""
LARGEST_ANNOTATION: Final = 16 << 20
"""The largest accepted size of an image's annotations, in bytes."""
MOST_OBJECTS: Final = 100_000
"""The largest accepted number of objects in an image."""

_TOLERANCE = 0.5


@dataclass(frozen=True, slots=True)
class BoxedObject:
    """An object in an image. The numbers are the edges of the box, so xmin = 0 is the left edge of the first pixel."""

    name: str
    box: tuple[float, float, float, float]
    """The edges xmin, ymin, xmax and ymax, in pixels or as fractions of the image's size."""
    difficult: int = 0
    truncated: int = 0
    view: str = UNKNOWN_VIEW
    is_crowd: int = 0


@dataclass(frozen=True, slots=True)
class Annotation:
    """The objects of an image."""

    objects: Sequence[BoxedObject]
    size: tuple[int, int] | None = None
    """The image's (width, height) according to the annotation."""
    is_relative: bool = False
    """Whether the edges are fractions of the image's size, rather than pixels."""


def finite(text: str, *, what: str) -> float:
    """A number in an annotation. Raises BadSample if the text is not a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # Python accepts underscores in numbers, which these formats don't allow.
    if not math.isfinite(value) or "_" in text:
        raise BadSample(f"{what} is not a number: {text[:40]!r}")
    return value


def check_size(annotation: Annotation, header: ImageHeader) -> None:
    """Raises BadSample if the size in the annotation differs from the size of the image."""
    if annotation.size is not None and annotation.size != (header.width, header.height):
        width, height = annotation.size
        raise BadSample(f"the annotation is for {width:,} x {height:,} pixels, the image has {header.width:,} x {header.height:,}")


def relative_boxes(annotation: Annotation, header: ImageHeader, *, clip: bool) -> npt.NDArray[np.float64]:
    """The boxes as fractions of the image's size, float64[objects, 4]: xmin, ymin, xmax and ymax, all from 0 to 1.

    A box that extends less than half a pixel beyond the image is clipped, because the excess might be a rounding error. A box that extends
    further is clipped if `clip` is set; otherwise, raises BadSample. Always raises BadSample for a box that is completely outside the
    image, inverted or empty. The message gives the box.
    """
    size = np.array([header.width, header.height] * 2, np.float64)
    boxes: npt.NDArray[np.float64] = np.array([obj.box for obj in annotation.objects], np.float64).reshape(-1, 4)
    if not annotation.is_relative:
        boxes = boxes / size
    empty = (boxes[:, 2] <= boxes[:, 0]) | (boxes[:, 3] <= boxes[:, 1])
    _refuse(annotation, empty, header, "is inverted or empty")
    if not clip:
        beyond: npt.NDArray[np.bool_] = np.asarray(((boxes < -_TOLERANCE / size) | (boxes > 1 + _TOLERANCE / size)).any(axis=1))
        _refuse(annotation, beyond, header, "extends beyond the image")
    boxes = boxes.clip(0, 1)
    empty = (boxes[:, 2] <= boxes[:, 0]) | (boxes[:, 3] <= boxes[:, 1])
    _refuse(annotation, empty, header, "is outside the image")
    return boxes


def _refuse(annotation: Annotation, wrong: npt.NDArray[np.bool_], header: ImageHeader, fault: str) -> None:
    if wrong.any():
        first = int(wrong.argmax())
        obj = annotation.objects[first]
        numbers = ", ".join(f"{value:g}" for value in obj.box)
        raise BadSample(
            f"object {first + 1} ({obj.name}): its box {numbers} (xmin, ymin, xmax, ymax) {fault}; the image has"
            f" {header.width:,} x {header.height:,} pixels"
        )
