"""Turns the objects of a batch of images into columns: all boxes, the class of the largest box, or the set of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.sources.annotated_images import AnnotatedImagesSource
from dataprep_converter.core.tensors import Array
from dataprep_converter.readers.images.boxes import BoxedObject

LABEL: Final = "image/class/label"
TEXT: Final = "image/class/text"
OBJECT_LABEL: Final = "image/object/class/label"
OBJECT_TEXT: Final = "image/object/class/text"
BACKGROUND: Final = "background"

_EDGES = {"image/object/bbox/xmin": 0, "image/object/bbox/xmax": 2, "image/object/bbox/ymin": 1, "image/object/bbox/ymax": 3}


@dataclass(frozen=True, slots=True)
class ImageObjects:
    """The accepted objects of an image, and their boxes as fractions of the image's size."""

    objects: Sequence[BoxedObject]
    boxes: npt.NDArray[np.float64]
    """An array of shape (objects, 4) with xmin, ymin, xmax and ymax."""


class ObjectColumns:
    """The fields, class names and columns for the kind of label that the source asks for."""

    def __init__(self, source: AnnotatedImagesSource, classes: Sequence[str]) -> None:
        self._label = source.label
        self._format = source.format
        self._classes = list(classes)
        self._first = source.first_label
        self._has_background = source.label == "LargestBox" and source.without_objects == "Background"
        self._numbers = {name: number for number, name in enumerate(classes, start=self._first)}

    def fields(self) -> list["pa.Field[Any]"]:
        """The columns of the label."""
        if self._label == "LargestBox":
            return [pa.field(LABEL, pa.int64()), pa.field(TEXT, pa.string())]
        if self._label == "ClassSet":
            return [pa.field(LABEL, pa.list_(pa.int64())), pa.field(TEXT, pa.list_(pa.string()))]
        numbers = {
            "Voc": ["image/object/difficult", "image/object/truncated"],
            "Coco": ["image/object/is_crowd"],
        }.get(self._format, [])
        return [
            *(pa.field(name, pa.list_(pa.float32())) for name in _EDGES),
            pa.field(OBJECT_LABEL, pa.list_(pa.int64())),
            pa.field(OBJECT_TEXT, pa.list_(pa.string())),
            *(pa.field(name, pa.list_(pa.int64())) for name in numbers),
            *([pa.field("image/object/view", pa.list_(pa.string()))] if self._format == "Voc" else []),
        ]

    def class_names(self) -> dict[str, list[str]]:
        """The class names, in the order of the class numbers. A number without a class represents the background."""
        names = [*([BACKGROUND] * self._first), *self._classes]
        if self._has_background and not self._first:
            names.append(BACKGROUND)
        return {OBJECT_LABEL if self._label == "AllBoxes" else LABEL: names}

    def arrays(self, images: Sequence[ImageObjects]) -> dict[str, Array]:
        """The columns of `fields()`. The result can contain additional columns."""
        if self._label == "LargestBox":
            return self._largest(images)
        if self._label == "ClassSet":
            sets = [sorted({(self._numbers[obj.name], obj.name) for obj in image.objects}) for image in images]
            return {
                LABEL: _lists([[number for number, _ in class_set] for class_set in sets], pa.int64()),
                TEXT: _lists([[name for _, name in class_set] for class_set in sets], pa.string()),
            }
        return self._all(images)

    def _largest(self, images: Sequence[ImageObjects]) -> dict[str, Array]:
        names = [image.objects[_largest(image.boxes)].name if image.objects else BACKGROUND for image in images]
        # If class numbers don't begin at 0, the background is 0. Otherwise, it is the number after the last class.
        background = 0 if self._first else len(self._classes)
        numbers = [self._numbers[name] if image.objects else background for name, image in zip(names, images, strict=True)]
        return {LABEL: pa.array(numbers, pa.int64()), TEXT: pa.array(names, pa.string())}

    def _all(self, images: Sequence[ImageObjects]) -> dict[str, Array]:
        offsets = _offsets([len(image.objects) for image in images])
        boxes = np.concatenate([image.boxes for image in images] or [np.empty((0, 4))]).astype(np.float32)
        objects = [obj for image in images for obj in image.objects]

        def column(values: list[Any], kind: pa.DataType) -> Array:
            return _list_array(offsets, pa.array(values, kind))

        columns = {name: _list_array(offsets, pa.array(boxes[:, edge].copy(), pa.float32())) for name, edge in _EDGES.items()}
        return columns | {
            OBJECT_LABEL: column([self._numbers[obj.name] for obj in objects], pa.int64()),
            OBJECT_TEXT: column([obj.name for obj in objects], pa.string()),
            "image/object/difficult": column([obj.difficult for obj in objects], pa.int64()),
            "image/object/truncated": column([obj.truncated for obj in objects], pa.int64()),
            "image/object/view": column([obj.view for obj in objects], pa.string()),
            "image/object/is_crowd": column([obj.is_crowd for obj in objects], pa.int64()),
        }


def _largest(boxes: npt.NDArray[np.float64]) -> int:
    """The index of the first box with the largest area."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    # Because of rounding, boxes with equal areas in pixels can have slightly different areas as fractions. So allow a tolerance. It is less
    # than a pixel, because images have at most 2^29 pixels.
    return int((areas >= areas.max() * (1 - 1e-9)).argmax())


def _lists(rows: Sequence[Sequence[Any]], kind: pa.DataType) -> Array:
    return _list_array(_offsets([len(row) for row in rows]), pa.array([value for row in rows for value in row], kind))


def _offsets(lengths: Sequence[int]) -> Array:
    return pa.array([0, *accumulate(lengths)], pa.int32())


def _list_array(offsets: Any, values: Any) -> Array:  # Any, because the type stubs require the exact array types
    lists: Array = pa.ListArray.from_arrays(offsets, values)
    return lists
