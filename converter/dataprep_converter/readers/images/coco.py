"""Reads COCO's JSON files, each of which contains the objects of many images.

The planner reads the file in one pass, and stores each image's part of the file in the image's unit. The complete file is never in memory:
the planner needs about 50 bytes per object, 250 bytes per image, and memory for the longest element of the file's arrays.

    # images: [{id, file_name, width, height}], categories: [{id, name}], annotations: [{image_id, category_id, bbox: [x, y, w, h], iscrowd}]
"""

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.errors import BadData, BadSample
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import MAGIC_BYTES, compression_of
from dataprep_converter.inputs.pinned import ForwardReader, entry_of
from dataprep_converter.readers.images.boxes import Annotation, BoxedObject
from dataprep_converter.readers.text.json_members import elements

_SHOWN = 20


class CocoFile:
    """A COCO file. Raises NotFound if the file doesn't exist. If the file is invalid or inconsistent, raises BadData, which names the
    file."""

    def __init__(self, access: Access, uri: str) -> None:
        self._uri = uri
        self._names: dict[int, str] = {}
        self._rows: dict[str, int] = {}
        self._ids = array("q")
        self._sizes = array("q")
        self._of_image = array("q")
        self._categories = array("q")
        self._boxes = array("d")
        self._crowds = array("b")
        store = access.store(uri)
        entry_of(store, uri)
        with store.open(uri) as source:
            compression = compression_of(source.read_at(0, MAGIC_BYTES))
            arrays: set[str] = set()
            self._add_elements(elements(ForwardReader(source, uri, compression=compression).pieces(), uri=uri, arrays=arrays))
        if "images" not in arrays:
            raise BadData(f"{uri}: no images; a COCO file is an object with images, annotations and categories.", uri=uri)
        self._order, self._starts = self._group_by_image()

    @property
    def categories(self) -> list[str]:
        """The distinct category names, in the order of their ids."""
        return list(dict.fromkeys(name for _, name in sorted(self._names.items())))

    def take(self, path: str) -> dict[str, Any] | None:
        """The size and the objects of the image with this path, for its unit's `extra`. Returns None if the image isn't in the file or has
        been taken already."""
        row = self._rows.pop(path, None)
        if row is None:
            return None
        rows = self._order[self._starts[row] : self._starts[row + 1]]
        return {
            "width": self._sizes[2 * row],
            "height": self._sizes[2 * row + 1],
            "objects": [self._object(number) for number in rows.tolist()],
        }

    def left(self) -> Iterator[str]:
        """The `file_name` of each image that has not been taken."""
        return iter(self._rows)

    def _object(self, row: int) -> list[Any]:
        x, y, width, height = self._boxes[4 * row : 4 * row + 4]
        if math.isnan(x):
            return [self._names[self._categories[row]], None, self._crowds[row]]
        return [self._names[self._categories[row]], [x, y, x + width, y + height], self._crowds[row]]

    def _add_elements(self, members: Iterator[tuple[str, Any]]) -> None:
        kinds = {"images": self._image, "categories": self._category, "annotations": self._annotation}
        counts = dict.fromkeys(kinds, 0)
        for member, element in members:
            if member not in kinds:
                continue
            number = counts[member]
            counts[member] += 1
            try:
                kinds[member](element)
            except (KeyError, TypeError, ValueError, OverflowError) as exc:
                fault = f"it has no {exc}" if isinstance(exc, KeyError) else str(exc)
                raise BadData(f"{self._uri}: {member}[{number}] is invalid: {fault}.", uri=self._uri) from exc

    def _image(self, image: Mapping[str, Any]) -> None:
        name = _text(image, "file_name")
        if name in self._rows:
            raise ValueError(f"file_name {name!r} occurs twice")
        self._rows[name] = len(self._ids)
        self._ids.append(_integer(image, "id"))
        for side in ("width", "height"):
            self._sizes.append(_integer(image, side) if side in image else 0)

    def _category(self, category: Mapping[str, Any]) -> None:
        # Don't refuse a name that two ids share: some tools write an unused category with the name of the first category.
        name, number = _text(category, "name"), _integer(category, "id")
        if number in self._names:
            raise ValueError(f"category {number} occurs twice")
        self._names[number] = name

    def _annotation(self, annotation: Mapping[str, Any]) -> None:
        self._of_image.append(_integer(annotation, "image_id"))
        self._categories.append(_integer(annotation, "category_id"))
        self._boxes.extend(_box(annotation.get("bbox")))
        self._crowds.append(1 if annotation.get("iscrowd") else 0)

    def _group_by_image(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The indexes of the annotations, sorted by image, and the position of each image's first annotation in this sorted array."""
        ids = np.array(self._ids, np.int64)
        by_id = np.argsort(ids, kind="stable")
        if len(np.unique(ids)) < len(ids):
            raise BadData(f"{self._uri}: two images have the same id.", uri=self._uri)
        image_ids = np.array(self._of_image, np.int64)
        places = np.searchsorted(ids, image_ids, sorter=by_id)
        is_known = places < len(ids)
        is_known[is_known] = ids[by_id[places[is_known]]] == image_ids[is_known]
        self._refuse(~is_known, image_ids, "image_id", "images")
        categories = np.array(self._categories, np.int64)
        self._refuse(~np.isin(categories, list(self._names)), categories, "category_id", "categories")
        rows = by_id[places]
        order = np.argsort(rows, kind="stable")
        return order, np.searchsorted(rows[order], np.arange(len(ids) + 1))

    def _refuse(self, wrong: npt.NDArray[np.bool_], values: npt.NDArray[np.int64], name: str, member: str) -> None:
        if wrong.any():
            examples = ", ".join(map(str, np.unique(values[wrong])[:_SHOWN].tolist()))
            count = int(wrong.sum())
            raise BadData(
                f"{self._uri}: {count:,} of the annotations {'has' if count == 1 else 'have'} an unknown {name}, not in {member}: {examples}.",
                uri=self._uri,
            )


def annotation_of(extra: Mapping[str, Any]) -> Annotation:
    """The objects of an image, from its unit's `extra`. Raises BadSample for an object without a box."""
    objects = []
    for number, (name, box, is_crowd) in enumerate(extra["objects"], start=1):
        if box is None:
            raise BadSample(f"object {number} ({name}) has no bbox of four numbers")
        objects.append(BoxedObject(name, tuple(box), is_crowd=is_crowd))
    size = (extra["width"], extra["height"])
    return Annotation(objects, size=size if all(side > 0 for side in size) else None)


def _integer(values: Mapping[str, Any], name: str) -> int:
    value = values[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} {value!r} is not a whole number")
    return value


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values[name]
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} must be a non-empty string, got {value!r}")
    # `encode` raises ValueError for unpaired surrogates: JSON can contain them, but file names and records can't.
    value.encode()
    return value


def _box(box: Any) -> Sequence[float]:  # Any, because it can be any JSON value
    is_box = isinstance(box, list) and len(box) == 4 and all(isinstance(v, (int, float)) and math.isfinite(v) for v in box)
    return box if is_box else [math.nan] * 4
